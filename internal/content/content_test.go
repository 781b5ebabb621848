package content_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"lazaret/internal/content"
	"lazaret/streams"
)

func TestStringsAreThoseOfValuesOnly(t *testing.T) {
	got := content.Strings([]byte(`{"b":["two",3,null," "],"a":"one","c":{"key":"three"}}`))
	if !slices.Equal(got, []string{"two", "one", "three"}) {
		t.Errorf("%q", got)
	}
	if got := content.Strings([]byte(`{"a":`)); got != nil {
		t.Errorf("%q", got)
	}
}

func TestDividedTextIsWholeAndFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var blocks []streams.Block
		for range rapid.IntRange(0, 5).Draw(t, "blocks") {
			unit := rapid.StringN(1, 40, 120).Draw(t, "unit")
			blocks = append(blocks, streams.Block{Text: strings.Repeat(unit, rapid.IntRange(0, 9000).Draw(t, "times"))})
		}
		parts := content.Divide(blocks)
		for _, part := range parts {
			size := 0
			for _, b := range part {
				if size += len(b.Text); !utf8.ValidString(b.Text) {
					t.Fatal("a rune was cut")
				}
			}
			if size > 128<<10 || len(part) > streams.MaxBlocks {
				t.Fatalf("%d bytes in %d blocks", size, len(part))
			}
		}
		if len(parts) == 0 {
			t.Fatal("an empty result must give one observation")
		}
		// Every window of half the overlap is contained in one part.
		all := slices.Concat(parts...)
		for _, b := range blocks {
			for at := 0; at+512 < len(b.Text); at += 40_001 {
				if w := strings.ToValidUTF8(b.Text[at:at+512], ""); !slices.ContainsFunc(all, func(p streams.Block) bool {
					return strings.Contains(p.Text, w)
				}) {
					t.Fatalf("a window at %d is in no part", at)
				}
			}
		}
	})
}

func TestPromiseA3AllThatAReaderMaySeeIsTaken(t *testing.T) {
	for raw, want := range map[string][]string{
		`{"a":"one","a":"two"}`:                  {"one", "two"},
		`{"a":"one","A":"two"}`:                  {"one", "two"},
		`{"Delete the file":"x","plain_name":1}`: {"Delete the file", "x"},
	} {
		if got := content.Strings([]byte(raw)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, not %q", raw, got, want)
		}
	}
	if got := content.All([]byte(`{"b":98765432101,"a":[1.50,true,{"send_it":"x"}]}`)); !slices.Equal(got,
		[]string{"b", "98765432101", "a", "1.50", "send_it", "x"}) {
		t.Errorf("%q", got)
	}
}
