package policy

import (
	"flag"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// cases is how many cases each property is tried on, in CI too; -short, which CI
// uses for the race detector, tries a tenth.
const cases = 10_000

func property(t *testing.T, prop func(t *rapid.T)) {
	t.Helper()
	was := flag.Lookup("rapid.checks").Value.String()
	n := cases
	if testing.Short() {
		n /= 10
	}
	if err := flag.Set("rapid.checks", fmt.Sprint(n)); err != nil {
		t.Fatal(err)
	}
	defer flag.Set("rapid.checks", was)
	rapid.Check(t, prop)
}
