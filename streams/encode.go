package streams

import (
	"bytes"
	"encoding"
	"math"
	"reflect"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
)

// appender is a body that has its own encoder. If that encoder cannot encode the body, ok is false. The codec then
// encodes the body, or returns an error.
type appender interface {
	appendJSON(w *writer) (ok bool)
}

// writer appends JSON to a buffer. Its output equals that of the codec, byte for byte.
//
// The writer exists because the codec, which uses reflection, is slow: it takes three times as long for the body of an
// observation, which has about eighty fields. It leaves fields that are rarely set and are not scalars to the codec.
type writer struct {
	b   []byte
	bad bool // a value could not be encoded
}

var writers = sync.Pool{New: func() any { return new(writer) }}

// maxWriter is the largest buffer that is kept for reuse, in bytes.
const maxWriter = 64 << 10

// encode returns the encoding of a body, or nil if the body's own encoder cannot encode it.
func encode(a appender) []byte { return withWriter(a.appendJSON) }

// withWriter returns what write wrote, or nil if write returned false.
func withWriter(write func(w *writer) bool) []byte {
	w := writers.Get().(*writer)
	w.b, w.bad = w.b[:0], false
	var out []byte
	if write(w) {
		out = bytes.Clone(w.b)
	}
	if cap(w.b) <= maxWriter {
		writers.Put(w)
	}
	return out
}

// name begins a member of an object.
func (w *writer) name(name string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(append(append(w.b, '"'), name...), '"', ':')
}

func (w *writer) object(write func()) {
	w.b = append(w.b, '{')
	write()
	w.b = append(w.b, '}')
}

// list writes n elements.
func (w *writer) list(n int, write func(i int)) {
	w.b = append(w.b, '[')
	for i := range n {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		write(i)
	}
	w.b = append(w.b, ']')
}

// quote writes a string.
func (w *writer) quote(s string) {
	b, err := jsontext.AppendQuote(w.b, s)
	w.b, w.bad = b, w.bad || err != nil
}

// str writes a member with a string value. It writes nothing if the value is empty.
func (w *writer) str(name, s string) {
	if s != "" {
		w.name(name)
		w.quote(s)
	}
}

// flag writes a member with a boolean value. It writes nothing if the value is false.
func (w *writer) flag(name string, v bool) {
	if v {
		w.name(name)
		w.b = append(w.b, "true"...)
	}
}

// num writes a member with an unsigned number. It writes nothing if the number is zero.
func (w *writer) num(name string, v uint64) {
	if v != 0 {
		w.name(name)
		w.b = strconv.AppendUint(w.b, v, 10)
	}
}

// int writes a member with an integer. It writes nothing if the integer is zero.
func (w *writer) int(name string, v int) {
	if v != 0 {
		w.name(name)
		w.b = strconv.AppendInt(w.b, int64(v), 10)
	}
}

// float writes a member with a number. Unlike num and int, it also writes zero.
func (w *writer) float(name string, v float64) {
	w.name(name)
	if v != 0 && (v < 1e-6 || v >= 1e21) || math.Signbit(v) || math.IsNaN(v) {
		w.other(v) // the codec writes such a number in another format, with an exponent or a sign
		return
	}
	w.b = strconv.AppendFloat(w.b, v, 'f', -1, 64)
}

// plain writes a member with a value that encodes itself as text, such as a time or an address. The text must never
// need JSON escapes.
func (w *writer) plain(name string, v encoding.TextAppender) {
	w.name(name)
	w.b = append(w.b, '"')
	b, err := v.AppendText(w.b)
	b = append(b, '"')
	w.b, w.bad = b, w.bad || err != nil
}

// enum writes a member whose value is an enumeration. The value's text form must never need JSON escapes.
func (w *writer) enum(name string, v encoding.TextMarshaler) {
	w.name(name)
	text, err := v.MarshalText()
	w.b, w.bad = append(append(append(w.b, '"'), text...), '"'), w.bad || err != nil
}

// other writes a value with the codec of codec.go.
func (w *writer) other(v any) {
	b, err := Marshal(v)
	w.b, w.bad = append(w.b, b...), w.bad || err != nil
}

func (e *ObservationEntry) appendJSON(w *writer) bool {
	w.object(func() {
		w.head(&e.EntryHead)
		w.name("origin")
		w.quote(string(e.Origin))
		w.str("tool", e.Tool)
		w.str("call", e.Call)
		w.str("source", e.Source)
		if e.Args != nil {
			w.name("args")
			w.other(e.Args)
		}
		if e.Blocks != nil {
			w.name("blocks")
			w.list(len(e.Blocks), func(i int) { w.block(&e.Blocks[i]) })
		}
		if e.Claims != nil {
			w.name("claims")
			w.list(len(e.Claims), func(i int) { w.claim(&e.Claims[i]) })
		}
		w.flag("user_named", e.UserNamed)
		w.flag("handed", e.Handed)
		w.flag("readings", e.Readings)
		if e.Revisions != nil {
			w.name("revisions")
			w.other(e.Revisions)
		}
	})
	return !w.bad
}

func (w *writer) head(h *EntryHead) {
	w.str("id", h.ID)
	w.str("agent", h.Agent)
	w.str("session", h.Session)
	w.str("user", h.User)
	w.str("data_subject", h.DataSubject)
	w.plain("time", &h.Time)
	w.name("intake")
	w.b = strconv.AppendUint(w.b, h.Intake, 10)
	w.num("print", h.Print)
	w.num("print2", h.Print2)
	w.str("traceparent", h.Trace)
	w.str("reuses", h.Reuses)
}

func (w *writer) block(b *BlockEntry) {
	w.object(func() {
		w.str("type", b.Type)
		if b.Encoded != nil {
			if b.Type != "" {
				w.b = append(w.b, ',')
			}
			w.b = append(w.b, b.Encoded...)
		} else {
			w.analyzed(b.Text, &b.Features)
		}
		w.flag("instructs", b.Instructs)
	})
}

// analyzed writes the text of a block and its features.
func (w *writer) analyzed(content string, f *text.Features) {
	w.name("text")
	w.quote(content)
	if f.Version != 0 || !reflect.ValueOf(f).Elem().IsZero() {
		w.name("features")
		w.object(func() { w.features(f) })
	}
}

// EncodeBlock returns the value of BlockEntry.Encoded for a text and its features. It is nil if they have no encoding.
func EncodeBlock(content string, f *text.Features) []byte {
	b := withWriter(func(w *writer) bool {
		w.b = append(w.b, '{')
		w.analyzed(content, f)
		return !w.bad
	})
	if b == nil {
		return nil
	}
	return b[1:]
}

func (w *writer) features(f *text.Features) {
	w.name("v")
	w.b = strconv.AppendInt(w.b, int64(f.Version), 10)
	if f.Hidden.Any() {
		w.name("h")
		w.other(f.Hidden)
	}
	if len(f.Spans) > 0 {
		w.name("s")
		w.other(f.Spans)
	}
	if len(f.Carriers) > 0 {
		w.name("c")
		w.list(len(f.Carriers), func(i int) {
			c := &f.Carriers[i]
			w.object(func() {
				w.name("k")
				w.quote(string(c.Kind))
				w.name("v")
				w.quote(c.Value)
				w.str("w", c.Via)
			})
		})
	}
	if f.Phrases.Window != 0 || f.Phrases.Hashes != nil {
		w.name("p")
		w.object(func() {
			w.int("w", f.Phrases.Window)
			if len(f.Phrases.Hashes) > 0 {
				w.plain("h", &f.Phrases.Hashes)
			}
		})
	}
	if len(f.Prints) > 0 {
		w.name("f")
		w.list(len(f.Prints), func(i int) {
			p := &f.Prints[i]
			w.object(func() {
				w.plain("x", &p.Exact)
				if p.Sketch != (text.Sketch{}) {
					w.plain("k", &p.Sketch)
				}
			})
		})
	}
	w.int("w", f.Words)
	if f.Command.Points != 0 || f.Command.Words != nil {
		w.name("o")
		w.other(f.Command)
	}
	w.flag("x", f.Partial)
}

func (w *writer) claim(c *ClaimEntry) {
	w.object(func() {
		w.enum("kind", c.Kind)
		w.enum("quality", c.Quality)
		w.name("block")
		w.b = strconv.AppendInt(w.b, int64(c.Block), 10)
		w.name("belief")
		w.object(func() { w.belief(&c.Belief) })
		w.num("repeats", c.Repeats)
		if !c.FirstSeen.IsZero() {
			w.plain("first_seen", &c.FirstSeen)
		}
		if c.Parents != nil {
			w.name("parents")
			w.other(c.Parents)
		}
	})
}

func (w *writer) belief(b *BeliefRef) {
	w.name("id")
	w.quote(b.ID)
	w.name("found")
	w.b = strconv.AppendBool(w.b, b.Found)
	if b.Kind != 0 {
		w.enum("kind", b.Kind)
	}
	w.str("key", b.Key)
	w.name("axes")
	w.object(func() {
		w.enum("truth", b.Axes.Truth)
		w.enum("retrieval", b.Axes.Retrieval)
		w.enum("security", b.Axes.Security)
		w.enum("freshness", b.Axes.Freshness)
	})
	if b.Sensitivity != 0 {
		w.enum("sensitivity", b.Sensitivity)
	}
	if b.Scope != 0 {
		w.enum("scope", b.Scope)
	}
	if b.Quality != 0 {
		w.enum("quality", b.Quality)
	}
	w.str("origin", string(b.Origin))
	w.float("confidence", b.Confidence)
	w.str("source", b.Source)
	w.str("observation", b.Observation)
	if b.Namespace != (beliefs.Namespace{}) {
		w.name("namespace")
		w.quote(b.Namespace.String())
	}
	w.flag("staged", b.Staged)
	w.flag("procedure", b.Procedure)
	if b.Grade != 0 {
		w.enum("grade", b.Grade)
	}
	if b.Home != (beliefs.Home{}) {
		w.name("home")
		w.other(b.Home)
	}
	w.str("class", b.Class)
	w.str("agent", b.Agent)
	w.str("via", b.Via)
}
