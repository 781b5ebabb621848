package proptest

import (
	"flag"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// Cases is the number of cases per property, in CI too. With -short, which CI uses with the race
// detector, CheckLess runs a tenth.
const Cases = 10_000

// Check checks a property on Cases cases.
func Check(t *testing.T, prop func(t *rapid.T)) {
	t.Helper()
	check(t, Cases, prop)
}

// CheckLess is Check for a property whose cases are expensive.
func CheckLess(t *testing.T, prop func(t *rapid.T)) {
	t.Helper()
	n := Cases
	if testing.Short() {
		n /= 10
	}
	check(t, n, prop)
}

func check(t *testing.T, n int, prop func(t *rapid.T)) {
	t.Helper()
	was := flag.Lookup("rapid.checks").Value.String()
	if err := flag.Set("rapid.checks", fmt.Sprint(n)); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = flag.Set("rapid.checks", was) }()
	rapid.Check(t, prop)
}
