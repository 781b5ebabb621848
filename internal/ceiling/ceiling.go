package ceiling

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// minBytes is the minimum length, after normalization, of content that is searched for in
// other texts. Shorter content occurs everywhere.
const minBytes = 5

// fewWords is the number of words below which content is searched for as a whole instead of by phrases.
const fewWords = 6

// A text contains marked content if it shares at least 3 (common) of the content's phrases with it, or at least a
// quarter of them.
const (
	common  = 3
	quarter = 4
)

// Entry has the parts of a ledger entry that determine its label.
type Entry struct {
	Project string
	Seq     uint64
	Src     uint64 // position of the entry from which this one was made; for ingest not used
	Ingest  bool
	Body    []byte
}

// Labels computes the sensitivity of entries and texts from the marks in the ledger. A mark is a stated sensitivity,
// with the ids and the content that it is about. The zero value is ready to use. It is not safe for concurrent use.
// Its size is bounded for each project, unless Whole is set.
type Labels struct {
	// Whole keeps the labels of all entries, for a process that ends when it has read a log. It is set before
	// the first Scan.
	Whole bool

	projects map[string]*marks
	scratch  parsed
}

// Scan labels an entry and stores its marks. Entries must be scanned in ledger order.
func (l *Labels) Scan(e Entry) beliefs.Sensitivity {
	m := l.projects[e.Project]
	if m == nil && !mayMark(e.Body) {
		return beliefs.Internal
	}
	p := l.read(e)
	as := m.of(e, p)
	if above(as) {
		if m == nil {
			m = newMarks(l.Whole)
			if l.projects == nil {
				l.projects = make(map[string]*marks)
			}
			l.projects[e.Project] = m
		}
		m.seqs.put(e.Seq, as)
	}
	for _, d := range p.declared {
		m.mark(d)
	}
	if above(as) {
		// Other entries are searched for the ids of a labeled entry. They are searched for the words of
		// its content only if the labeled entry is a memory write.
		if p.top.as = as; p.memory {
			m.mark(p.top)
		} else {
			for _, id := range p.top.ids {
				m.recent.put(id, as)
			}
		}
	}
	return as
}

// mayMark reports whether a body may contain a mark: it has the field sensitivity, or the raw bytes of a rejected
// message.
func mayMark(body []byte) bool {
	return bytes.Contains(body, []byte(`"sensitivity"`)) || bytes.Contains(body, []byte(`"raw"`)) ||
		!bytes.HasPrefix(body, []byte("{"))
}

// Of returns the label of an entry by the marks so far. It does not store the entry's own marks.
func (l *Labels) Of(e Entry) beliefs.Sensitivity {
	return l.projects[e.Project].of(e, l.read(e))
}

// Text returns the label of a project's text that comes from the entries at the given positions.
func (l *Labels) Text(project, s string, at ...uint64) beliefs.Sensitivity {
	m := l.projects[project]
	as := m.says(s)
	for _, seq := range at {
		if m != nil {
			as = as.Join(m.at(seq))
		}
	}
	return as
}

// declared is a memory with a stated sensitivity.
type declared struct {
	as      beliefs.Sensitivity
	ids     []string
	content string
}

// parsed has the strings of an entry, of any type, and its marks.
type parsed struct {
	strings  []string
	most     beliefs.Sensitivity
	declared []declared
	top      declared // the mark of the entry itself
	memory   bool     // the entry is a memory write
	freeform int      // nesting depth of fields in freeformFields
}

// freeformFields are the fields whose values a sender chooses freely. A sensitivity in them labels the entry, but
// marks nothing else.
var freeformFields = map[string]bool{"args": true, "raw": true, "inputSchema": true, "annotations": true}

// read parses an entry's body independently of its type. Any object with a sensitivity is marked, so
// that entries of a later version are redacted too, except below a field in freeformFields.
func (l *Labels) read(e Entry) *parsed {
	p := &l.scratch
	*p = parsed{strings: p.strings[:0], declared: p.declared[:0]}
	p.body(e.Body, 0)
	return p
}

func (p *parsed) body(b []byte, depth int) {
	d := jsontext.NewDecoder(bytes.NewReader(b), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	top, err := p.value(d, "", depth)
	if depth == 0 {
		p.top = top
	}
	if err != nil && !errors.Is(err, io.EOF) {
		// The body is not JSON, or incomplete JSON: a rejected message. The sensitivity that its sender
		// stated cannot be read reliably.
		p.strings = append(p.strings, string(b))
		if low := bytes.ToLower(b); bytes.Contains(low, []byte("sensitivity")) {
			switch {
			case bytes.Contains(low, []byte("secret")):
				p.most = p.most.Join(beliefs.Secret)
			case bytes.Contains(low, []byte("confidential")):
				p.most = p.most.Join(beliefs.Confidential)
			}
		}
	}
}

// maxDepth is the maximum nesting depth of messages: the entry of a rejected message contains the message.
const maxDepth = 2

// value reads the value of the member with this name. If it is an object, value returns the object's ids,
// content and sensitivity. If it is a belief, object adds these to the ids, content and sensitivity of the
// object around it.
func (p *parsed) value(d *jsontext.Decoder, name string, depth int) (declared, error) {
	if freeformFields[name] {
		p.freeform++
		defer func() { p.freeform-- }()
	}
	switch d.PeekKind() {
	case '{':
		return p.object(d, depth)
	case '[':
		if _, err := d.ReadToken(); err != nil {
			return declared{}, err
		}
		for d.PeekKind() != ']' {
			if _, err := p.value(d, name, depth); err != nil {
				return declared{}, err
			}
		}
		_, err := d.ReadToken()
		return declared{}, err
	}
	t, err := d.ReadToken()
	if err != nil {
		return declared{}, err
	}
	if t.Kind() != '"' {
		return declared{}, nil
	}
	s := t.String()
	if name == "raw" && depth < maxDepth {
		if raw, err := base64.StdEncoding.DecodeString(s); err == nil {
			p.body(raw, depth+1)
			return declared{}, nil
		}
	}
	p.strings = append(p.strings, s)
	return declared{}, nil
}

// object reads an object. The object's sensitivity marks the object's own ids and content. So does the sensitivity of
// a belief in the object's field `belief`: in a memory write, the write has the content and its belief the sensitivity.
func (p *parsed) object(d *jsontext.Decoder, depth int) (declared, error) {
	if _, err := d.ReadToken(); err != nil {
		return declared{}, err
	}
	var me declared
	said := false
	for d.PeekKind() != '}' {
		t, err := d.ReadToken()
		if err != nil {
			return me, err
		}
		switch name := t.String(); name {
		case "features", "refused":
			// Neither field has text: features has hashes of the content's strings, and refused has ids of
			// beliefs with the reason why each was not served.
			if err := d.SkipValue(); err != nil {
				return me, err
			}
		case "id", "observation", "content", "summary", "sensitivity":
			if d.PeekKind() != '"' {
				if _, err := p.value(d, name, depth); err != nil {
					return me, err
				}
				continue
			}
			t, err := d.ReadToken()
			if err != nil {
				return me, err
			}
			s := t.String()
			switch name {
			case "content":
				me.content = s
			case "id", "observation":
				me.ids = append(me.ids, s)
			case "sensitivity":
				said = true
				if me.as.UnmarshalText([]byte(s)) != nil {
					me.as = beliefs.Secret // a sensitivity of a later version
				}
			}
			if name != "sensitivity" {
				p.strings = append(p.strings, s)
			}
		default:
			child, err := p.value(d, name, depth)
			if err != nil {
				return me, err
			}
			if name == "belief" {
				p.memory = p.memory || len(child.ids) > 0
				me.ids = append(me.ids, child.ids...)
				if above(child.as) {
					said, me.as = true, me.as.Join(child.as)
				}
			}
		}
	}
	if said && above(me.as) {
		p.most = p.most.Join(me.as)
		if p.freeform == 0 {
			p.declared = append(p.declared, me)
		}
	}
	_, err := d.ReadToken()
	return me, err
}

// above reports whether a sensitivity is above internal, the default.
func above(s beliefs.Sensitivity) bool { return !s.Within(beliefs.Internal) }

// FromLedger converts a ledger entry for Labels.
func FromLedger(e *streams.Entry) Entry {
	return Entry{Project: e.Project, Seq: e.Position(), Src: e.Src, Ingest: e.Stage == streams.StageIngest, Body: e.Body}
}
