package position_test

import (
	"testing"

	"pgregory.net/rapid"

	"lazaret/pkg/position"
)

func TestTextIsReadBack(t *testing.T) {
	for p, want := range map[uint64]string{0: "0", 98: "98", position.At(98, 2): "98.2"} {
		if got := position.Text(p); got != want {
			t.Errorf("Text(%d) is %q, want %q", p, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.Uint64().Draw(t, "position")
		if got, err := position.Parse(position.Text(p)); err != nil || got != p {
			t.Fatalf("%q is %d, %v", position.Text(p), got, err)
		}
	})
	for _, s := range []string{"", "x", "98.", ".2", "98.x", "98.-1", "17592186044416.1", "98.1048576", "1.2.3"} {
		if p, err := position.Parse(s); err == nil {
			t.Errorf("Parse(%q) is %d", s, p)
		}
	}
}
