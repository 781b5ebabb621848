// Package content turns what a host is about to show an agent into blocks of
// observations: the words of a JSON value, in events that the intake admits.
package content

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

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

// Strings are the strings in a JSON value, keys left out.
func Strings(v json.RawMessage) []string {
	var x any
	if len(v) == 0 || json.Unmarshal(v, &x) != nil {
		return nil
	}
	return Leaves(x)
}

// Leaves are the strings in a decoded JSON value, in the order of its keys.
func Leaves(x any) []string { return leaves(nil, x) }

func leaves(out []string, x any) []string {
	switch x := x.(type) {
	case string:
		if strings.TrimSpace(x) != "" {
			out = append(out, x)
		}
	case []any:
		for _, e := range x {
			out = leaves(out, e)
		}
	case map[string]any:
		keys := make([]string, 0, len(x))
		for k := range x {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			out = leaves(out, x[k])
		}
	}
	return out
}
