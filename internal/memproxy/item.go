package memproxy

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"lazaret/internal/memgate"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
)

type object = map[string]jsontext.Value

// item is one memory in a body. It has two parts that are judged: a text, and a rest. The rest has all other strings of
// the memory, except plain ids, names and times. Both parts may be empty.
type item struct {
	all   object
	field string // the member with the text
	// member is not empty if the value of field is an object whose only member is the text. Then it is the name of
	// this member.
	member     string
	text, rest string
	bare       string // the whole item, if it is a string
}

// plain matches short strings without spaces, such as ids, names and times.
var plain = regexp.MustCompile(`^[A-Za-z0-9_.:+-]{0,64}$`)

// maxPlainWords is the maximum number of words in all ids, names and times of an item. If there are more, they are
// judged too, because they could form a sentence, even if each is in another member.
const maxPlainWords = 3

// usualNames are names of members that the stores use, and names that are frequent in metadata. They do not count as
// words. The names of all other members do.
var usualNames = text.Set(`id uuid hash key namespace name score scores rank distance similarity version
	created_at updated_at valid_at invalid_at expired_at expires_at expiration_date timestamp time date user user_id
	agent_id app_id run_id
	actor_id session_id group_id group_ids org_id project_id thread_id episodes role role_type event type kind
	source source_description status metadata category categories topic topics tag tags label labels lang language
	title url infer messages limit query filters top_k threshold namespace_prefix results items facts relations
	index ttl success dataset dataset_id dataset_name datasetId datasetName data_id dataId context_profile total
	count page entry_type entry_id previous_memory old_memory new_memory memory_id node_set sessionIds`)

// usualValues are values that the stores put into the members with these names. In these members, they do not count as
// words.
var usualValues = map[string]map[string]bool{
	"role": roles, "role_type": roles,
	"event":           text.Set("ADD UPDATE DELETE NONE"),
	"source":          text.Set("graph session session_context"),
	"kind":            text.Set("graph_completion"),
	"context_profile": text.Set("qa"),
}

var roles = text.Set("user human assistant ai system developer tool function")

// plainWords counts the words of a string. A word is a part of two or more letters that ends at a punctuation mark
// or before a capital letter. A part with a digit is not a word. If plain does not match the string, plainWords
// returns more than maxPlainWords.
func plainWords(s string) (n int) {
	if !plain.MatchString(s) {
		return maxPlainWords + 1
	}
	for part := range strings.FieldsFuncSeq(s, func(r rune) bool { return strings.ContainsRune("_.:+-", r) }) {
		if strings.ContainsAny(part, "0123456789") {
			continue
		}
		start := 0
		for i := 1; i <= len(part); i++ {
			if i == len(part) || part[i] <= 'Z' && part[i-1] > 'Z' {
				if i-start > 1 {
					n++
				}
				start = i
			}
		}
	}
	return n
}

// sole are names. If an object has only one member and its name is one of these, the store has wrapped a text in the
// object: {"text": "…"}.
var sole = []string{"text", "content", "memory", "data", "value"}

// itemOf parses an item. fields are the members that may contain the text. If the text is not a JSON string, it is
// judged as canonical JSON. So it is the same text when it is written and when it is found. The strings in asked, which
// are ids and names of the request, do not count as words.
func itemOf(v jsontext.Value, fields []string, asked map[string]bool) (*item, error) {
	it := new(item)
	if v.Kind() == '"' {
		err := json.Unmarshal(v, &it.bare)
		it.text = it.bare
		return it, err
	}
	if v.Kind() != '{' {
		return nil, errors.New("an item is neither an object nor a text")
	}
	if err := json.Unmarshal(v, &it.all); err != nil {
		return nil, err
	}
	for _, f := range fields {
		if len(it.all[f]) > 0 && it.all[f].Kind() != 'n' {
			it.field = f
			break
		}
	}
	var err error
	if it.field != "" {
		if it.text, it.member, err = words(it.all[it.field]); err != nil {
			return nil, err
		}
	}
	rest := object{}
	for name, v := range it.all {
		if name != it.field {
			rest[name] = v
		}
	}
	it.rest, err = wordsLeft(rest, asked)
	return it, err
}

// saidBy returns the origin of one item in a write. write is the origin of the whole write. If the user or the operator
// stores a conversation, it has messages of others too. The role of a message decides whether it is their own words:
// for the user the role user, for the operator also system. In Graphiti, the member role_type has the role, and the
// member role a name.
func (it *item) saidBy(kind string, write beliefs.Origin) beliefs.Origin {
	names := []string{"role"}
	if kind == "graphiti" {
		names = []string{"role_type", "role"}
	}
	var role string
	for _, name := range names {
		if v := it.all[name]; v.Kind() == '"' && json.Unmarshal(v, &role) == nil && role != "" {
			break
		}
	}
	switch role = strings.ToLower(role); {
	case write != beliefs.OriginUser && write != beliefs.OriginSystem, role == "", role == "user", role == "human",
		write == beliefs.OriginSystem && (role == "system" || role == "developer"):
		return write
	case role == "tool", role == "function":
		return beliefs.OriginTool
	}
	return beliefs.OriginAgent
}

// words returns a value as text. If the value is an object that wraps a text (see sole), words returns this text, and
// the name of the member as member.
func words(v jsontext.Value) (text, member string, err error) {
	switch v.Kind() {
	case 0, 'n':
		return "", "", nil
	case '"':
		err = json.Unmarshal(v, &text)
		return text, "", err
	case '{':
		var o object
		if err := json.Unmarshal(v, &o); err != nil {
			return "", "", err
		}
		for _, name := range sole {
			if in := o[name]; len(o) == 1 && in.Kind() == '"' {
				err := json.Unmarshal(in, &text)
				return text, name, err
			}
		}
	}
	c := v.Clone()
	if err := c.Canonicalize(); err != nil {
		return "", "", err
	}
	return string(c), "", nil
}

// wordsLeft returns those members of an object that must be judged, as canonical JSON. These are the members that are
// not plain ids, names or times. If all plain members together have more than maxPlainWords words, those with words are
// judged too. If no member is to be judged, wordsLeft returns "". The strings in asked do not count as words.
func wordsLeft(o object, asked map[string]bool) (string, error) {
	odd, few, sum := map[string]any{}, map[string]any{}, 0
	for name, v := range o {
		var x any
		if err := json.Unmarshal(v, &x); err != nil {
			return "", err
		}
		switch n := wordsOf(name, x, asked); {
		case n > maxPlainWords:
			odd[name] = x
		case n > 0:
			few[name], sum = x, sum+n
		}
	}
	if sum > maxPlainWords {
		maps.Copy(odd, few)
	}
	if len(odd) == 0 {
		return "", nil
	}
	b, err := json.Marshal(odd, json.Deterministic(true))
	if err != nil {
		return "", err
	}
	c := jsontext.Value(b)
	err = c.Canonicalize()
	return string(c), err
}

// wordsOf counts the words of a member: those of its name, and those of all names and strings in its value.
func wordsOf(name string, x any, asked map[string]bool) (n int) {
	if !usualNames[name] && !asked[name] {
		n = plainWords(name)
	}
	return n + wordsIn(name, x, asked)
}

// wordsIn counts the words in the value of a member.
func wordsIn(name string, x any, asked map[string]bool) (n int) {
	switch x := x.(type) {
	case string:
		if !asked[x] && !usualValues[name][x] {
			return plainWords(x)
		}
	case []any:
		for _, e := range x {
			n += wordsIn(name, e, asked)
		}
	case map[string]any:
		for name, e := range x {
			n += wordsOf(name, e, asked)
		}
	}
	return n
}

// errNoText is the error about a write in which no text was found that could be judged.
var errNoText = errors.New("no text was found in the body")

// itemsIn returns the items in a body. isList is set if the body is a list of items. The strings in asked do not count
// as words.
func itemsIn(body jsontext.Value, list string, fields []string, asked map[string]bool) (items []*item, isList bool,
	err error) {
	values := []jsontext.Value{body}
	switch {
	case body.Kind() == '[':
		isList, err = true, json.Unmarshal(body, &values)
	case list != "":
		var o object
		if err := json.Unmarshal(body, &o); err != nil {
			return nil, false, err
		}
		switch in := o[list]; in.Kind() {
		case '[':
			err = json.Unmarshal(in, &values)
		case '"', '{':
			values = []jsontext.Value{in}
		case 'n':
			values = nil
		default:
			return nil, false, fmt.Errorf("the body has no list %q", list)
		}
	}
	if err != nil {
		return nil, isList, err
	}
	for _, v := range values {
		it, err := itemOf(v, fields, asked)
		if err != nil {
			return nil, isList, err
		}
		items = append(items, it)
	}
	return items, isList, nil
}

// served returns an item in the form that may be shown. It returns nil if the item must not be shown. text and rest are
// the verdicts on the two parts of the item.
func (it *item) served(text, rest memgate.Found) (jsontext.Value, error) {
	if text.Channel == memgate.Refused || rest.Channel == memgate.Refused {
		return nil, nil
	}
	if rest.Text != it.rest { // something in the rest was masked, and the rest cannot be put back into the item
		return nil, nil
	}
	mark := text.Mark()
	if mark == "" {
		mark = rest.Mark()
	}
	if mark != "" {
		mark = "[" + mark + "] "
	}
	switch {
	case it.all == nil:
		return json.Marshal(mark + text.Text)
	case it.field == "":
		if mark != "" {
			it.all["lazaret"], _ = json.Marshal(mark)
		}
	case it.all[it.field].Kind() == '"':
		it.all[it.field], _ = json.Marshal(mark + text.Text)
	case it.member != "":
		it.all[it.field], _ = json.Marshal(map[string]string{it.member: mark + text.Text})
	case text.Text != it.text:
		return nil, nil // a part of it is masked
	case mark != "":
		var v any
		if err := json.Unmarshal(it.all[it.field], &v); err != nil {
			return nil, err
		}
		if o, ok := v.(map[string]any); ok {
			o["lazaret"] = mark
		} else {
			v = map[string]any{"lazaret": mark, "value": v}
		}
		it.all[it.field], _ = json.Marshal(v, json.Deterministic(true))
	}
	return json.Marshal(it.all, json.Deterministic(true))
}

// asked returns the ids and names that are in a request. The response may contain them too. They do not come from the
// store, so they need not be judged.
func (x *exchange) asked() map[string]bool {
	all := make(map[string]bool)
	add := func(s string) {
		if plain.MatchString(s) {
			all[s] = true
		}
	}
	for part := range strings.SplitSeq(x.r.URL.Path, "/") {
		add(part)
	}
	for _, values := range x.r.URL.Query() {
		for _, s := range values {
			add(s)
		}
	}
	for d := jsontext.NewDecoder(bytes.NewReader(x.body)); ; {
		t, err := d.ReadToken()
		if err != nil {
			return all
		}
		if t.Kind() == '"' {
			add(t.String())
		}
	}
}
