package imported

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Origin is the origin of every imported memory.
const Origin = beliefs.OriginDocument

// Channel is the channel of every imported memory.
const Channel = "import"

// Item is one memory of an export.
type Item struct {
	Store   string    `json:"store"`
	ID      string    `json:"id"` // the memory's id in the store
	Kind    string    `json:"kind,omitempty"`
	Content string    `json:"content"`
	From    time.Time `json:"valid_from,omitzero"`
	To      time.Time `json:"valid_to,omitzero"`
}

// Memory returns the memory write of an item. The same item gives the same event, so a second import of
// a file is a repeat and changes nothing.
func (i *Item) Memory(session string) *streams.Memory {
	sum := sha256.Sum256([]byte(i.Store + "\x00" + i.Kind + "\x00" + i.ID + "\x00" + i.Content))
	m := &streams.Memory{Head: streams.Head{ID: "imp-" + hex.EncodeToString(sum[:16]), Session: session},
		Content: i.Content, Channel: Channel, Category: streams.Clip(i.Kind, 200),
		Source: streams.Clip(i.Store+":"+i.ID, 1000), ValidFrom: i.From, ValidTo: i.To}
	if !m.ValidTo.IsZero() && m.ValidTo.Before(m.ValidFrom) {
		m.ValidFrom = time.Time{}
	}
	return m
}

// Stores returns the names of the supported stores.
func Stores() []string { return []string{"mem0", "letta", "zep", "langgraph", "mcp"} }

// Read reads an export: a JSON document, or one JSON value per line. empty is the number of records
// that were skipped because they have no text.
func Read(store string, r io.Reader) (items []Item, empty int, err error) {
	read := map[string]func(json.RawMessage) ([]Item, error){"mem0": mem0, "letta": letta, "zep": zep,
		"langgraph": langgraph, "mcp": mcp}[store]
	if read == nil {
		return nil, 0, fmt.Errorf("unknown store %q: use one of %v", store, Stores())
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, 0, err
	}
	docs, err := documents(b)
	if err != nil {
		return nil, 0, err
	}
	for n, d := range docs {
		var whole any
		if err := exact(d, &whole); err != nil {
			return nil, 0, fmt.Errorf("JSON value %d of the file: %w", n+1, err)
		}
	}
	for n, d := range docs {
		found, err := read(d)
		if err != nil {
			if len(docs) > 1 {
				err = fmt.Errorf("line %d: %w", n+1, err)
			}
			return nil, 0, err
		}
		items = append(items, found...)
	}
	kept := items[:0]
	for _, i := range items {
		if i.Content = strings.TrimSpace(strings.ToValidUTF8(i.Content, "\uFFFD")); i.Content == "" {
			empty++
			continue
		}
		i.Store = store
		kept = append(kept, i)
	}
	if len(kept) == 0 && empty == 0 {
		return nil, 0, fmt.Errorf("the file has no memories of %s: see docs/stores.md for the formats", store)
	}
	return kept, empty, nil
}

// exact parses JSON strictly: no duplicate names, and names only in the store's letter case. Invalid
// UTF-8 becomes U+FFFD.
func exact(b []byte, v any) error {
	return streams.UnmarshalExact(b, v, jsontext.AllowInvalidUTF8(true))
}

// documents returns the JSON values of a file: a single one, or one per line.
func documents(b []byte) ([]json.RawMessage, error) {
	var one json.RawMessage
	first := json.Unmarshal(b, &one)
	if first == nil {
		return []json.RawMessage{one}, nil
	}
	var out []json.RawMessage
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, 64<<20)
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if !json.Valid(line) {
			return nil, fmt.Errorf("neither line %d nor the whole file is a JSON value: %w", n, first)
		}
		out = append(out, slices.Clone(json.RawMessage(line)))
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the file is empty")
	}
	return out, nil
}

// list returns the list of records in d: d itself, or a member of d with one of the names.
func list(d json.RawMessage, names ...string) ([]json.RawMessage, bool) {
	var bare []json.RawMessage
	if json.Unmarshal(d, &bare) == nil {
		return bare, true
	}
	var under map[string]json.RawMessage
	if json.Unmarshal(d, &under) != nil {
		return nil, false
	}
	for _, n := range names {
		if v, ok := under[n]; ok && json.Unmarshal(v, &bare) == nil {
			return bare, true
		}
	}
	return nil, false
}

// mem0 reads results of get_all and search, and exports: records with memory, in a list, under results
// or memories, or one per line. https://docs.mem0.ai/api-reference/memory/get-memories
func mem0(d json.RawMessage) ([]Item, error) {
	records, ok := list(d, "results", "memories")
	if !ok {
		records = []json.RawMessage{d}
	}
	var out []Item
	for n, r := range records {
		var m struct {
			ID         string `json:"id"`
			Memory     string `json:"memory"`
			Data       string `json:"data"` // the name in the vector store's payload
			Expiration string `json:"expiration_date"`
			Created    string `json:"created_at"`
		}
		if err := exact(r, &m); err != nil {
			return nil, fmt.Errorf("record %d is not a memory of mem0: %w", n+1, err)
		}
		if m.ID == "" && m.Memory == "" && m.Data == "" {
			return nil, fmt.Errorf("record %d has neither id nor memory", n+1)
		}
		out = append(out, Item{ID: m.ID, Kind: "memory", Content: cmp.Or(m.Memory, m.Data), From: instant(m.Created),
			To: instant(m.Expiration)})
	}
	return out, nil
}

// letta reads agent files (.af), old and new, and exports of archival memory.
// https://docs.letta.com/guides/core-concepts/agent-file
func letta(d json.RawMessage) ([]Item, error) {
	type block struct {
		ID    string `json:"id"`
		Label string `json:"label"`
		Value string `json:"value"`
	}
	type passage struct {
		ID      string `json:"id"`
		Text    string `json:"text"`
		Content string `json:"content"`
		Created string `json:"created_at"`
	}
	var file struct {
		Blocks   []block         `json:"blocks"`
		Core     []block         `json:"core_memory"`
		Agents   json.RawMessage `json:"agents"`
		Passages []passage       `json:"passages"`
		Archival []passage       `json:"archival_memory"`
		passage
	}
	passages, bare := list(d)
	if bare {
		for n, p := range passages {
			var x passage
			if err := exact(p, &x); err != nil || x.ID == "" && x.Text == "" && x.Content == "" {
				return nil, fmt.Errorf("record %d is not a passage of Letta: it needs id and text", n+1)
			}
			file.Passages = append(file.Passages, x)
		}
	} else if err := exact(d, &file); err != nil {
		return nil, fmt.Errorf("it is neither an agent file nor a list of passages: %w", err)
	}
	var out []Item
	for _, b := range slices.Concat(file.Blocks, file.Core) {
		out = append(out, Item{ID: cmp.Or(b.ID, b.Label), Kind: "block " + b.Label, Content: b.Value})
	}
	all := slices.Concat(file.Passages, file.Archival)
	if file.Text != "" {
		all = append(all, file.passage) // one passage per line
	}
	for _, p := range all {
		out = append(out, Item{ID: p.ID, Kind: "passage", Content: cmp.Or(p.Text, p.Content), From: instant(p.Created)})
	}
	if out == nil && file.Agents == nil && !bare {
		return nil, fmt.Errorf("it is neither an agent file nor a list of passages: it has none of blocks, " +
			"core_memory, passages")
	}
	return out, nil
}

// zep reads results of graph.search and of the lists of a graph, of Zep and Graphiti: edges (facts),
// nodes (summaries) and episodes, together or a list of one kind.
// https://help.getzep.com/sdk-reference/graph/edge/get
func zep(d json.RawMessage) ([]Item, error) {
	type record struct {
		UUID    string `json:"uuid"`
		Fact    string `json:"fact"`
		Summary string `json:"summary"`
		Content string `json:"content"`
		Valid   string `json:"valid_at"`
		Invalid string `json:"invalid_at"`
		Expired string `json:"expired_at"`
	}
	var graph struct {
		Edges    []record `json:"edges"`
		Nodes    []record `json:"nodes"`
		Episodes []record `json:"episodes"`
	}
	// A document with a uuid is a single edge. Its member episodes is a list of ids, not of episodes.
	var ids struct {
		Episodes []string `json:"episodes"`
		UUID     string   `json:"uuid"`
	}
	records, bare := list(d)
	if !bare && exact(d, &ids) == nil && ids.UUID != "" {
		records, bare = []json.RawMessage{d}, true
	}
	var all []record
	if bare {
		for n, r := range records {
			var x record
			if err := exact(r, &x); err != nil || x.UUID == "" {
				return nil, fmt.Errorf("record %d is not an edge, node or episode of Zep: it needs a uuid", n+1)
			}
			all = append(all, x)
		}
	} else {
		if err := exact(d, &graph); err != nil {
			return nil, fmt.Errorf("it has no edges, nodes or episodes: %w", err)
		}
		all = slices.Concat(graph.Edges, graph.Nodes, graph.Episodes)
	}
	var out []Item
	for _, r := range all {
		i := Item{ID: r.UUID, Kind: "episode", Content: r.Content}
		switch {
		case r.Fact != "":
			// An edge that became invalid or was superseded has its end time.
			i.Kind, i.Content, i.From, i.To = "fact", r.Fact, instant(r.Valid), instant(cmp.Or(r.Invalid, r.Expired))
		case r.Summary != "":
			i.Kind, i.Content = "summary", r.Summary
		}
		out = append(out, i)
	}
	return out, nil
}

// langgraph reads items of a LangGraph store: results of search, lists, or one item per line.
// https://langchain-ai.github.io/langgraph/cloud/reference/api/api_ref.html#tag/store
func langgraph(d json.RawMessage) ([]Item, error) {
	records, ok := list(d, "items")
	if !ok {
		records = []json.RawMessage{d}
	}
	var out []Item
	for n, r := range records {
		var item struct {
			Namespace []string        `json:"namespace"`
			Key       string          `json:"key"`
			Value     json.RawMessage `json:"value"`
			Created   string          `json:"created_at"`
			Updated   string          `json:"updated_at"`
		}
		if err := exact(r, &item); err != nil || item.Key == "" || item.Value == nil {
			return nil, fmt.Errorf("record %d is not an item of a LangGraph store: it needs namespace, key and value", n+1)
		}
		out = append(out, Item{ID: strings.Join(append(item.Namespace, item.Key), "/"), Kind: "item",
			Content: textOf(item.Value), From: instant(cmp.Or(item.Updated, item.Created))})
	}
	return out, nil
}

// textOf returns a value as text. Of an object whose only member is a text, it returns that text. Of any other value
// that is not a string, it returns the JSON.
func textOf(v json.RawMessage) string {
	var text string
	if json.Unmarshal(v, &text) == nil {
		return text
	}
	var o map[string]json.RawMessage
	if json.Unmarshal(v, &o) == nil && len(o) == 1 {
		for _, in := range o {
			if json.Unmarshal(in, &text) == nil {
				return text
			}
		}
	}
	return string(v)
}

// mcp reads the file of the MCP memory server: entities and relations of a graph, one per line.
// https://github.com/modelcontextprotocol/servers/tree/main/src/memory
func mcp(d json.RawMessage) ([]Item, error) {
	var r struct {
		Type         string   `json:"type"`
		Name         string   `json:"name"`
		EntityType   string   `json:"entityType"`
		Observations []string `json:"observations"`
		From         string   `json:"from"`
		To           string   `json:"to"`
		RelationType string   `json:"relationType"`
	}
	if err := exact(d, &r); err != nil {
		return nil, fmt.Errorf("it is neither an entity nor a relation: %w", err)
	}
	switch {
	case r.Type == "entity" && r.Name != "":
		var out []Item
		for n, o := range r.Observations {
			out = append(out, Item{ID: fmt.Sprintf("%s/%d", r.Name, n), Kind: "observation",
				Content: r.Name + " (" + r.EntityType + "): " + o})
		}
		return out, nil
	case r.Type == "relation" && r.From != "" && r.To != "":
		text := r.From + " " + r.RelationType + " " + r.To
		return []Item{{ID: text, Kind: "relation", Content: text}}, nil
	}
	return nil, fmt.Errorf("its type is %q: use entity with name, or relation with from and to", streams.Clip(r.Type, 40))
}

// instant parses a time in the formats of the stores. It returns the zero time if that fails.
func instant(s string) time.Time {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999", time.DateTime, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}
