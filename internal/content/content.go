package content

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/streams"
)

// Limits of one observation. With them, its event stays below the intake's limit of 1 MiB, even if every character
// of its text is escaped.
const (
	maxText = 128 << 10
	// overlap is the length of the text that consecutive parts of a divided text share, so that each
	// sentence is complete in at least one of them.
	overlap = 1 << 10
)

// Divide distributes blocks over as many observations as their sizes require. It returns at least one,
// because an empty result of a tool is an observation too.
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

// Strings returns the strings in a JSON value, and the member names that are not identifiers, duplicates included.
func Strings(v json.RawMessage) []string { return texts(v, spoken, false) }

// All returns the strings, numbers and names in a JSON value.
func All(v json.RawMessage) []string {
	return texts(v, func(string) bool { return true }, true)
}

// texts returns texts in the order of their tokens. It accepts duplicate names, and reads a truncated
// value as far as possible.
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

// spoken reports whether a name is not an identifier.
func spoken(name string) bool { return !Identifier(name) }

// Identifier reports whether s is a single identifier: at most 64 letters, digits, and the characters _
// - . $.
func Identifier(s string) bool {
	return len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return r >= utf8.RuneSelf || r != '_' && r != '-' && r != '.' && r != '$' && (r < '0' || r > '9') &&
			(r|0x20 < 'a' || r|0x20 > 'z')
	})
}
