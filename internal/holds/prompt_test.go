package holds

import "testing"

func TestTextsThatDifferAreDisplayedDifferently(t *testing.T) {
	for _, c := range [][2]string{
		{"delete \\u202efiles\n", "delete \u202efiles\n"},
		{"one\n", "one\r\n"},
		{"one\\r\n", "one\r\n"},
		{"\\x1b\n", "\x1b\n"},
	} {
		was, now := PromptDiff("p", "", "p", c[0]), PromptDiff("p", "", "p", c[1])
		if was == now {
			t.Errorf("%q and %q are both displayed as\n%s", c[0], c[1], was)
		}
	}
}
