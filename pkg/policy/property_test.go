package policy

import (
	"flag"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// cases is how many cases each property is tried on, in CI too.
const cases = 10_000

func property(t *testing.T, prop func(t *rapid.T)) {
	t.Helper()
	was := flag.Lookup("rapid.checks").Value.String()
	if err := flag.Set("rapid.checks", fmt.Sprint(cases)); err != nil {
		t.Fatal(err)
	}
	defer flag.Set("rapid.checks", was)
	rapid.Check(t, prop)
}
