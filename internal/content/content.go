package content

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/streams"
)

// Limits of one observation, so that its event stays below the intake's limit
// (1 MiB) however its text is escaped.
const (
	maxText = 128 << 10
	// overlap is what the parts of a divided text have in common, so that no
	// sentence is cut for all who read them.
	overlap = 1 << 10
)

// Divide puts blocks into as many observations as their sizes ask for. There is
// at least one: that a tool returned nothing is an observation too.
func Divide(blocks []streams.Block) [][]streams.Block {
	var out [][]streams.Block
	var part []streams.Block
	size := 0
	for _, b := range blocks {
		b.Text = strings.ToValidUTF8(b.Text, "\uFFFD")
		for rest := b.Text; ; {
			piece := rest
			if len(rest) > maxText {
				cut := maxText
				for !utf8.RuneStart(rest[cut]) {
					cut--
				}
				piece = rest[:cut]
			}
			if len(part) > 0 && (size+len(piece) > maxText || len(part) == streams.MaxBlocks) {
				out, part, size = append(out, part), nil, 0
			}
			part, size = append(part, streams.Block{Type: b.Type, Text: piece}), size+len(piece)
			if len(piece) == len(rest) {
				break
			}
			next := len(piece) - overlap
			for !utf8.RuneStart(rest[next]) {
				next--
			}
			rest = rest[next:]
		}
	}
	return append(out, part)
}

// Strings are the strings in a JSON value, and the names that are more than an
// identifier. Of a value in which a name stands twice it has all of them.
func Strings(v json.RawMessage) []string { return texts(v, spoken, false) }

// All are the strings and numbers in a JSON value and all names in it.
func All(v json.RawMessage) []string {
	return texts(v, func(string) bool { return true }, true)
}

// texts reads tokens in their order: a value that readers read differently, or
// that is cut off, is read as far as it goes.
func texts(v json.RawMessage, name func(string) bool, numbers bool) (out []string) {
	d := jsontext.NewDecoder(bytes.NewReader(v), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		t, err := d.ReadToken()
		if err != nil {
			return out
		}
		if t.Kind() == '0' && numbers {
			out = append(out, t.String())
		}
		if t.Kind() != '"' || strings.TrimSpace(t.String()) == "" {
			continue
		}
		if kind, n := d.StackIndex(d.StackDepth()); kind != '{' || n%2 == 0 || name(t.String()) {
			out = append(out, t.String())
		}
	}
}

// spoken reports whether a name is more than an identifier.
func spoken(name string) bool { return !Identifier(name) }

// Identifier reports whether s is one word of code: at most 64 letters, digits
// and what joins them.
func Identifier(s string) bool {
	return len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return r >= utf8.RuneSelf || r != '_' && r != '-' && r != '.' && r != '$' && (r < '0' || r > '9') &&
			(r|0x20 < 'a' || r|0x20 > 'z')
	})
}
