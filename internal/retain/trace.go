package retain

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/stage"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// trace finds the entries of a partition that concern a data subject.
type trace struct {
	subject Subject
	before  uint64 // only entries before this sequence are searched for the pseudonym; 0: all

	listed map[uint64]bool   // sequences of the ledger messages to erase
	taken  map[uint64]bool   // positions of the entries to erase
	wanted map[uint64]bool   // proposals whose verdicts are to be erased
	names  map[string]int    // ids that listed entries introduced (of events with agent) → the round that found them
	bare   map[string]bareID // ids of events, without their agent
	own    map[string]bool   // events that are not erased (with their agent) but have the same id as one in bare
	others map[string]bool
	also   map[uint64]AlsoForgotten
	direct map[uint64]bool   // entries that name the pseudonym, and entries that other stages made from them
	about  map[uint64]string // positions of the entries to erase that concern another data subject → its id
	owner  map[string]string // ids that entries about other data subjects introduced → the data subject
	end    uint64            // last sequence that was searched
	round  int               // search round; each one but the last ends with a statement
	pass   int               // number of the pass over the partition
}

func newTrace(s Subject) *trace {
	return &trace{subject: s, listed: make(map[uint64]bool), taken: make(map[uint64]bool), wanted: make(map[uint64]bool),
		names: make(map[string]int), bare: make(map[string]bareID),
		own: make(map[string]bool), others: make(map[string]bool), also: make(map[uint64]AlsoForgotten),
		direct: make(map[uint64]bool), about: make(map[uint64]string), owner: make(map[string]string)}
}

// traceHead has the fields that are read of every body.
type traceHead struct {
	ID          string `json:"id"`
	Agent       string `json:"agent"`
	User        string `json:"user"`
	DataSubject string `json:"data_subject"`
	Raw         []byte `json:"raw"`
}

func eventName(agent, id string) string { return agent + "/" + id }

// take reports whether an entry concerns the data subject and was not listed before.
func (t *trace) take(e *streams.Entry) bool {
	t.end = max(t.end, e.Seq)
	if e.Project != t.subject.Project || e.Type.Statement() || t.taken[e.Position()] {
		return false
	}
	var h traceHead
	_ = streams.Unmarshal(e.Body, &h) // a body that is not JSON refers to nothing
	ingest := e.Stage == streams.StageIngest
	event := ingest && e.Type.Event()
	person := streams.Person{DataSubject: h.DataSubject, User: h.User}
	if e.Type == streams.TypeRejected {
		// The raw bytes of a rejected event may also name a data subject.
		var r traceHead
		if streams.Unmarshal(h.Raw, &r) == nil {
			person = streams.Person{DataSubject: r.DataSubject, User: r.User}
		}
	}
	direct := person.Is(t.subject.Person) && (t.before == 0 || e.Seq < t.before)
	if e.Type == streams.TypeRejected && !direct && (t.before == 0 || e.Seq < t.before) {
		direct = bytes.Contains(h.Raw, []byte(`"`+t.subject.Person+`"`))
	}
	why := ""
	switch {
	case direct:
		why = "names the data subject"
	case t.wanted[e.Seq]:
		why = "was answered by a verdict that is erased"
	case !ingest && t.listed[position.Sequence(e.Src)] && e.Type != streams.TypeDue:
		why = fmt.Sprintf("was made from entry %s", position.Text(e.Src))
	case ingest && (event || e.Type == streams.TypeRepeat || e.Type == streams.TypeRejected) && h.ID != "" &&
		t.names[eventName(h.Agent, h.ID)] > 0 && (t.before == 0 || e.Seq < t.before):
		why = "sends event " + h.ID + " again"
	default:
		why = t.refers(e, &h)
	}
	if why == "" && t.listed[e.Seq] {
		why = fmt.Sprintf("is in the same ledger message as an erased entry, %d", e.Seq)
	}
	if why == "" {
		if _, ok := t.bare[h.ID]; ok && event {
			t.own[eventName(h.Agent, h.ID)] = true
		}
		return false
	}
	t.listed[e.Seq], t.taken[e.Position()] = true, true
	if direct || !ingest && t.direct[e.Src] {
		t.direct[e.Position()] = true
	}
	// The person whom an entry concerns is its data subject, or else its user. An entry that another stage made from it
	// concerns the same person.
	name := cmp.Or(person.DataSubject, person.User)
	if name == "" && !ingest {
		name = t.about[e.Src]
	}
	if name == t.subject.Person {
		name = ""
	}
	if name != "" {
		t.about[e.Position()] = name
	}
	if !direct || name != "" {
		t.also[e.Position()] = AlsoForgotten{Seq: e.Position(), Stage: e.Stage, Type: string(e.Type), ID: h.ID,
			Person: name, Why: why}
	}
	for _, o := range []string{person.DataSubject, person.User} {
		if o != "" && o != t.subject.Person {
			t.others[o] = true
		}
	}
	if event {
		t.brought(eventName(h.Agent, h.ID))
		if _, ok := t.bare[h.ID]; !ok {
			t.bare[h.ID] = bareID{t.round, t.pass}
		}
	}
	t.brings(e)
	return true
}

// brought stores an id that a listed entry introduced.
func (t *trace) brought(id string) {
	if t.names[id] == 0 && id != "" {
		t.names[id] = t.round
	}
}

// brings stores the ids that a listed entry introduced and, for a verdict, its proposal.
func (t *trace) brings(e *streams.Entry) {
	broughtIn(e, t.brought)
	switch e.Type {
	case streams.TypeAssessment:
		t.wanted[e.Src] = true
	case streams.TypeVerdict, streams.TypeHoldState:
		var b struct {
			Proposal uint64 `json:"proposal"`
		}
		if streams.Unmarshal(e.Body, &b) == nil {
			t.wanted[b.Proposal] = true
		}
	}
}

// broughtIn calls fn for the ids that an entry introduces, except the entry's own.
func broughtIn(e *streams.Entry, fn func(id string)) {
	switch e.Type {
	case streams.TypeObservation:
		b := new(streams.ObservationEntry)
		if streams.Unmarshal(e.Body, b) == nil {
			for i := range b.Claims {
				fn(b.Claims[i].Belief.ID)
			}
		}
	case streams.TypeMemory:
		b := new(streams.MemoryEntry)
		if streams.Unmarshal(e.Body, b) == nil {
			fn(b.Belief.ID)
		}
	case streams.TypeRevision:
		b := new(streams.RevisionsEntry)
		if streams.Unmarshal(e.Body, b) == nil {
			for i := range b.Revisions {
				if b.Revisions[i].Anew != "" {
					fn(b.Revisions[i].Belief)
				}
			}
		}
	case streams.TypeAlerts, streams.TypeAssessment:
		b := new(streams.AlertsEntry)
		if streams.Unmarshal(e.Body, b) == nil {
			for i := range b.Alerts {
				fn(b.Alerts[i].ID)
			}
		}
	case streams.TypeVerdict, streams.TypeCalibration:
		var b struct {
			Alert *streams.Alert   `json:"alert"`
			Hold  *streams.HoldRef `json:"hold"`
		}
		if streams.Unmarshal(e.Body, &b) == nil {
			if b.Alert != nil {
				fn(b.Alert.ID)
			}
			if b.Hold != nil {
				fn(b.Hold.ID)
			}
		}
	case streams.TypeHoldState:
		b := new(streams.HoldStateEntry)
		if streams.Unmarshal(e.Body, b) == nil {
			fn(b.Hold)
		}
	}
}

// notIDs are fields that never contain the id of an event, belief, finding or hold.
var notIDs = map[string]bool{"agent": true, "session": true, "user": true, "data_subject": true, "project": true,
	"tool": true, "rule": true, "rule_digest": true,
	"group": true, "digest": true, "type": true, "kind": true, "stage": true, "severity": true, "mode": true,
	"origin": true, "event_kind": true, "status": true,
	"verdict": true, "level": true, "code": true, "quality": true, "truth": true, "retrieval": true, "security": true,
	"freshness": true, "sensitivity": true}

// idLike is the minimum length of an id that is searched for inside longer text. The pipeline's ids are
// longer.
const idLike = 8

// refers returns a description of the reference from e to something that a listed entry introduced, or
// "".
func (t *trace) refers(e *streams.Entry, h *traceHead) (why string) {
	if len(t.names) == 0 {
		return ""
	}
	mentions(e, func(field, s string) bool {
		if field == "" { // a ledger sequence
			if seq, err := strconv.ParseUint(s, 10, 64); err == nil && t.listed[position.Sequence(seq)] {
				why = "names entry " + s
			}
		} else if t.isName(s, e, h) {
			why = "names " + streams.Clip(s, 80)
		}
		return why == ""
	})
	return why
}

// mentions calls fn for possible ids in an entry's body until fn returns false: strings, words of
// strings that may be ids, member names, and, with an empty field, numbers of ledger entries. It skips
// the entry's own id and the fields in notIDs.
func mentions(e *streams.Entry, fn func(field, s string) bool) {
	d := jsontext.NewDecoder(bytes.NewReader(e.Body))
	var fields []string // member names of the enclosing objects; empty for arrays
	for {
		tok, err := d.ReadToken()
		if err != nil {
			return
		}
		depth := d.StackDepth()
		switch tok.Kind() {
		case '{', '[':
			fields = append(fields[:depth-1], "")
			continue
		case '}', ']':
			fields = fields[:depth]
			continue
		}
		if depth == 0 {
			return // not an object
		}
		if kind, n := d.StackIndex(depth); kind == '{' && n%2 == 1 { // a member name
			fields[depth-1] = tok.String()
			if !fn("name", tok.String()) {
				return
			}
			continue
		}
		name := ""
		for i := depth - 1; i >= 0 && name == ""; i-- {
			name = fields[i]
		}
		switch tok.Kind() {
		case '0':
			if (name == "proposal" || name == "entry") && !fn("", tok.String()) {
				return
			}
		case '"':
			s := tok.String()
			if depth == 1 && name == "id" && e.Stage == streams.StageIngest || notIDs[name] {
				continue
			}
			if !fn(name, s) {
				return
			}
			for word := range strings.FieldsFuncSeq(s, notInID) {
				if len(word) < len(s) && (len(word) >= idLike || name == "path") && !fn(name, word) {
					return
				}
			}
		}
	}
}

func notInID(r rune) bool {
	return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' || r == '-')
}

// isName reports whether s is an id that a listed entry introduced. An event id belongs to its agent: the
// same id of another agent is another event.
//
// Entries after the statement were decided without the listed ones. A name in such an entry does not refer
// to a listed entry, unless the entry was made from an entry before the statement.
func (t *trace) isName(s string, e *streams.Entry, h *traceHead) bool {
	late := t.before > 0 && e.Seq > t.before && (e.Stage == streams.StageIngest || position.Sequence(e.Src) > t.before)
	counts := func(round int) bool { return round > 0 && (!late || round > 1) }
	if counts(t.names[s]) || counts(t.names[eventName(h.Agent, s)]) {
		return true
	}
	// s may be the id of an event without its agent. Such an id counts only after a full pass that began after the id
	// was found. Before that, t.own may lack an event of another agent with the same id.
	b, ok := t.bare[s]
	return ok && counts(b.round) && t.pass >= b.pass+2 && !t.own[eventName(h.Agent, s)]
}

// bareID is the round and the pass in which an event's id was found without its agent.
type bareID struct{ round, pass int }

// follow reads the partition repeatedly until it finds no more entries.
func (t *trace) follow(ctx context.Context, js jetstream.JetStream) error {
	filter := streams.LedgerFilter(streams.PartitionOf(t.subject.Project))
	return t.passes(func(fn func(e *streams.Entry)) error {
		return stage.Each(ctx, js, stage.Span{Stream: streams.LedgerStream, Filters: []string{filter}},
			func(m jetstream.Msg, seq uint64, at time.Time) error {
				if entries, err := streams.ParseEntries(m.Subject(), m.Headers(), m.Data(), seq, at); err == nil {
					for i := range entries {
						fn(&entries[i])
					}
				}
				return nil
			})
	})
}

// quoted examines an entry after all entries to erase are listed. The first pass collects the ids that entries about
// others introduced. The second pass finds the listed entries that refer to these ids.
func (t *trace) quoted(e *streams.Entry, first bool) {
	if e.Project != t.subject.Project || e.Type.Statement() {
		return
	}
	var h traceHead
	_ = streams.Unmarshal(e.Body, &h)
	if first {
		who := cmp.Or(h.DataSubject, h.User)
		if who == "" || who == t.subject.Person || t.listed[e.Seq] || e.Stage != streams.StageIngest {
			return
		}
		if e.Type.Event() {
			t.owner[eventName(h.Agent, h.ID)] = who
		}
		broughtIn(e, func(id string) { t.owner[id] = who })
		return
	}
	a, ok := t.also[e.Position()]
	if !ok && !t.listed[e.Seq] {
		return
	}
	found := make(map[string]bool)
	mentions(e, func(_, s string) bool {
		if who := cmp.Or(t.owner[s], t.owner[eventName(h.Agent, s)]); who != "" {
			found[who], t.others[who] = true, true
		}
		return true
	})
	if a.Person != "" {
		found[a.Person] = true
	}
	if !ok {
		if len(found) == 0 {
			return
		}
		a = AlsoForgotten{Seq: e.Position(), Stage: e.Stage, Type: string(e.Type), ID: h.ID, Why: "names the data subject"}
	}
	if a.Persons = slices.Sorted(maps.Keys(found)); len(a.Persons) > 0 || !t.direct[e.Position()] {
		t.also[e.Position()] = a
	} else {
		delete(t.also, e.Position()) // it concerns only the data subject
	}
}

// passes calls all to read the entries, again and again, until three passes in a row find no new entry. Then it makes
// two further passes with quoted. If no entry is listed after a pass, passes returns at once.
func (t *trace) passes(all func(fn func(e *streams.Entry)) error) error {
	t.round++
	for idle := 0; idle < 3; {
		t.pass++
		found := len(t.taken)
		if err := all(func(e *streams.Entry) { t.take(e) }); err != nil || len(t.listed) == 0 {
			return err
		}
		if idle++; len(t.taken) > found {
			idle = 0
		}
	}
	for _, first := range []bool{true, false} {
		if err := all(func(e *streams.Entry) { t.quoted(e, first) }); err != nil {
			return err
		}
	}
	return nil
}

// statement splits the listed sequences that are not in done into parts that fit a statement. It also
// returns the other data subjects that they name.
func (t *trace) statement(done map[uint64]bool) (parts [][]uint64, others []string) {
	var seqs []uint64
	for seq := range t.listed {
		if !done[seq] {
			seqs = append(seqs, seq)
		}
	}
	slices.Sort(seqs)
	for len(seqs) > 0 {
		n := min(len(seqs), streams.MaxListed)
		for len(streams.FormatSeqs(seqs[:n])) > streams.MaxSeqs/2 {
			n /= 2
		}
		parts, seqs = append(parts, seqs[:n]), seqs[n:]
	}
	for o := range t.others {
		others = append(others, o)
	}
	if sort.Strings(others); len(others) > streams.MaxOthers {
		others = []string{streams.AllOthers}
	}
	return parts, others
}

func (t *trace) alsoForgotten() []AlsoForgotten {
	out := make([]AlsoForgotten, 0, len(t.also))
	for _, a := range t.also {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b AlsoForgotten) int {
		return position.Compare(a.Seq, b.Seq)
	})
	return out
}
