package compiled

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"lazaret/pkg/text"
)

// ShowBytes is the maximum length in bytes of a value when it is shown to people.
const ShowBytes = 120

// Show returns a short form of a value that is safe to print. The texts in events are untrusted and may contain control
// characters.
func Show(v ref.Val) string {
	s := &Printer{Max: ShowBytes}
	s.Val(v)
	return s.String()
}

// Printer formats values as text, up to a maximum length.
type Printer struct {
	b   strings.Builder
	Max int
}

func (s *Printer) full() bool { return s.b.Len() > s.Max }

// String returns the text that was formatted so far, clipped and safe to print.
func (s *Printer) String() string { return ClipInert(s.b.String(), s.Max) }

// ClipInert clips a text to n bytes, between characters, and marks that it was clipped. It makes the text safe to
// print.
func ClipInert(s string, n int) string {
	cut := false
	if len(s) > n {
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s, cut = s[:n], true
	}
	if s = text.Inert(s); cut {
		s += "…"
	}
	return s
}

// Val writes a value.
func (s *Printer) Val(v ref.Val) {
	switch v := v.(type) {
	case nil:
		s.b.WriteString("none")
	case types.String:
		s.quote(string(v))
	case types.Timestamp:
		s.b.WriteString(v.Time.Format(time.RFC3339Nano))
	case *types.Err:
		s.b.WriteString("error: " + v.Error())
	case *types.Unknown:
		s.b.WriteString("unknown")
	case traits.Lister:
		s.list(v.Iterator(), s.Val)
	case traits.Mapper:
		s.b.WriteByte('{')
		for it, sep := v.Iterator(), ""; it.HasNext() == types.True && !s.full(); sep = ", " {
			k := it.Next()
			s.b.WriteString(sep)
			s.Val(k)
			s.b.WriteString(": ")
			s.Val(v.Get(k))
		}
		s.b.WriteByte('}')
	case types.Null:
		s.b.WriteString("null")
	default:
		s.native(reflect.ValueOf(v.Value()))
	}
}

func (s *Printer) list(it traits.Iterator, f func(ref.Val)) {
	s.b.WriteByte('[')
	for sep := ""; it.HasNext() == types.True && !s.full(); sep = ", " {
		s.b.WriteString(sep)
		f(it.Next())
	}
	s.b.WriteByte(']')
}

// native writes a structure with the field names that expressions use. It leaves out empty fields.
func (s *Printer) native(v reflect.Value) {
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() == reflect.String {
		s.quote(v.String())
		return
	}
	if v.Kind() != reflect.Struct {
		if v.IsValid() {
			fmt.Fprint(&s.b, v.Interface())
		}
		return
	}
	s.b.WriteByte('{')
	sep := ""
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Tag.Get("cel")
		if name == "" || f.IsZero() || s.full() {
			continue
		}
		s.b.WriteString(sep + name + ": ")
		s.Val(toVal(f))
		sep = ", "
	}
	s.b.WriteByte('}')
}

// quote is like strconv.Quote, but converts only the part of v that will be shown.
func (s *Printer) quote(v string) {
	if len(v) > s.Max {
		v = v[:min(len(v), s.Max+utf8.UTFMax)]
	}
	s.b.WriteString(strconv.Quote(v))
}
