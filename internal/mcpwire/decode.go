package mcpwire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"lazaret/streams"
)

// badMessage is the error about a message that cannot be decoded. It has what is needed to answer the sender.
type badMessage struct {
	id   json.RawMessage // the id of the message, as the sender wrote it; nil if it is not known
	code int64
	text string
	// response is set if no method was found. If outcome is set too, the message is a response, and its sender expects
	// no answer.
	response bool
	outcome  bool // it has a result or an error
}

func (b *badMessage) Error() string { return b.text }

// answer returns the JSON-RPC error that is sent to the sender of the message.
func (b *badMessage) answer() []byte { return errorBody(b.id, b.code, b.text, "") }

// maxDepth is the number of levels of objects and lists that the SDK's decoder accepts. The other JSON decoders accept
// more, so the limit is checked here.
const maxDepth = 1000

const needsID = "its id must be a string or a whole number between -2^53 and 2^53, without fraction and exponent"

// decode decodes a message. If two JSON readers could understand the outermost object of the message differently, the
// message is returned with an error in Extra. If it is a response with several ids, decode returns a message with this
// error for each id.
func decode(raw []byte) ([]jsonrpc.Message, *badMessage) {
	o := readOutermost(raw)
	m, err := jsonrpc.DecodeMessage(raw)
	bad := o.bad(o.id())
	q, isRequest := m.(*jsonrpc.Request)
	invalid, levels := false, 0
	if err != nil {
		outline := outlineOf(raw)
		if invalid, levels = !json.Valid(raw), outline.deepest; invalid {
			o = readOutermost(outline.text) // the message may have an id, and a result or error, in spite of the fault
			bad = o.bad(o.id())
		}
	}
	switch {
	case levels > maxDepth:
		bad.text = fmt.Sprintf("the message is nested too deeply: it has %d levels, the limit is %d", levels, maxDepth)
	case invalid:
		bad.code, bad.text = jsonrpc.CodeParseError, "the message is not JSON"
	case !o.object:
		bad.text = "the message is not a JSON object"
	case o.ambiguous != nil && o.response:
		var out []jsonrpc.Message
		for _, x := range o.ids {
			if id, err := ParseID(x); err == nil && id.IsValid() {
				out = append(out, &jsonrpc.Response{ID: id, Extra: o.ambiguous})
			}
		}
		if len(out) > 0 {
			return out, nil
		}
		bad.text = "the message was refused: " + o.ambiguous.Error()
	case o.ambiguous != nil && (len(o.ids) > 1 || !isRequest):
		bad.text = "the message was refused: " + o.ambiguous.Error()
	case len(o.ids) == 1 && (!validID(o.ids[0], isRequest) || isRequest && !q.ID.IsValid() && !notifies(q)):
		bad.text = "the message was refused: " + needsID
	case err != nil:
		bad.text = "the message is not one of JSON-RPC 2.0: " + streams.Clip(err.Error(), 200)
	default:
		if o.ambiguous != nil {
			q.Extra = o.ambiguous
		}
		return []jsonrpc.Message{m}, nil
	}
	return nil, bad
}

// notifies reports whether the method of a message is that of a notification. Some programs give a notification the id
// null, so the id does not tell.
func notifies(q *jsonrpc.Request) bool { return strings.HasPrefix(q.Method, "notifications/") }

// ParseID decodes an id. Different ids must stay different. So a number that a jsonrpc.ID cannot hold is an error. The
// SDK would cut 23.5 to 23.
func ParseID(raw json.RawMessage) (jsonrpc.ID, error) {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return jsonrpc.ID{}, err
	}
	if f, ok := v.(float64); ok && (f != float64(int64(f)) || f >= 1<<53 || f <= -1<<53) {
		return jsonrpc.ID{}, errors.New(needsID)
	}
	return jsonrpc.MakeID(v)
}

// validID reports whether an id stays the same when it is decoded and written again. If a request has a number as its
// id, the number must also be spelled as it will be written. Otherwise the sender would not recognize the id in the
// answer.
func validID(raw json.RawMessage, request bool) bool {
	id, err := ParseID(raw)
	if err != nil || !utf8.Valid(raw) {
		return false
	}
	switch v := id.Raw().(type) {
	case int64:
		return !request || strconv.FormatInt(v, 10) == string(raw)
	case string:
		_, err := jsontext.AppendUnquote(nil, raw)
		return err == nil
	}
	return true
}

// outermost describes the outermost object of the JSON text of a message.
type outermost struct {
	object    bool              // it begins like an object
	ids       []json.RawMessage // values of id, in any letter case
	response  bool              // the object has no member named method, in any letter case
	outcome   bool              // the object has a member named result or error, in any letter case
	ambiguous error             // why two readers could understand the object differently; nil: they could not
}

// id returns the id as it is written. If the object does not have exactly one id that is a string or a number, it
// returns nil.
func (o *outermost) id() json.RawMessage {
	if len(o.ids) != 1 || !utf8.Valid(o.ids[0]) {
		return nil
	}
	if k := jsontext.Value(o.ids[0]).Kind(); k != '"' && k != '0' {
		return nil
	}
	return o.ids[0]
}

// bad returns an error about a message that cannot be decoded. id is one of the ids in the message, or nil.
func (o *outermost) bad(id json.RawMessage) *badMessage {
	return &badMessage{id: id, code: jsonrpc.CodeInvalidRequest, response: o.response, outcome: o.outcome}
}

// refused returns the errors about a message that is not decoded. If the message is a response with several ids, there
// is an error for each id.
func (o *outermost) refused(text string) (bad []*badMessage) {
	if len(o.ids) > 1 && o.response {
		for _, id := range o.ids {
			bad = append(bad, o.bad(id))
		}
	} else {
		bad = append(bad, o.bad(o.id()))
	}
	for _, b := range bad {
		b.text = text
	}
	return bad
}

func readOutermost(raw []byte) *outermost {
	o := &outermost{object: bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")), response: true}
	if !o.object {
		return o
	}
	o.ambiguous = members(raw, "jsonrpc id method params result error", func(name string, value jsontext.Value) error {
		switch name {
		case "id":
			if value == nil {
				break
			}
			o.ids = append(o.ids, json.RawMessage(value.Clone()))
		case "method":
			o.response = false
		case "result":
			o.outcome = true
		case "error":
			o.outcome = true
			if value.Kind() == '{' {
				return members(value, "code message data", func(string, jsontext.Value) error { return nil })
			}
		}
		return nil
	})
	return o
}

// members calls f for each member of an object. known has names of the protocol, separated by spaces. If a member's
// name differs from one of them only in letter case, f gets the name in known. If a value is not JSON, f gets nil for
// it. members returns an error if two readers could understand the names differently.
func members(object []byte, known string, f func(name string, value jsontext.Value) error) error {
	d := jsontext.NewDecoder(bytes.NewReader(object), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	seen := make(map[string]bool)
	var ambiguous error
	note := func(err error) {
		if ambiguous == nil {
			ambiguous = err
		}
	}
	notJSON := func(err error) error {
		note(fmt.Errorf("its JSON is ambiguous: %s", streams.Clip(err.Error(), 200)))
		return ambiguous
	}
	if _, err := d.ReadToken(); err != nil {
		return notJSON(err)
	}
	for d.PeekKind() == '"' {
		quoted, err := d.ReadValue()
		if err != nil {
			return notJSON(err)
		}
		b, err := jsontext.AppendUnquote(nil, quoted)
		if err != nil {
			note(errors.New("a name in it is not valid UTF-8"))
		}
		name := string(b)
		if seen[name] {
			note(fmt.Errorf("the name %q occurs twice", streams.Clip(name, 60)))
		}
		seen[name] = true
		for k := range strings.FieldsSeq(known) {
			if name != k && Fold(name) == k {
				note(fmt.Errorf("the name %q differs from a name of the protocol only in letter case", streams.Clip(name, 60)))
				name = k
			}
		}
		value, err := d.ReadValue()
		if err != nil {
			_ = f(name, nil)
			return notJSON(err)
		}
		if err := f(name, value); err != nil {
			note(err)
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return notJSON(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		note(errors.New("more text follows its JSON"))
	}
	return ambiguous
}

// Fold returns a name in a form in which two names that differ only in letter case are equal.
func Fold(name string) string { return strings.ToLower(strings.ToUpper(name)) }
