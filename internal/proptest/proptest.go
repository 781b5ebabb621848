package proptest

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// Cases is the number of cases of a property, with -short too.
const Cases = 10_000

// Check checks a property on Cases cases.
func Check(t *testing.T, prop func(t *rapid.T)) {
	t.Helper()
	CheckN(t, Cases, prop)
}

// CheckLess is Check for a property whose cases are expensive. With -short, it checks a tenth of the cases.
func CheckLess(t *testing.T, prop func(t *rapid.T)) {
	t.Helper()
	n := Cases
	if testing.Short() {
		n /= 10
	}
	CheckN(t, n, prop)
}

// CheckN checks a property on n cases. One call with n cases is not the same as several calls with fewer: if rapid's
// seed is fixed, as in CI, each call draws the same cases.
func CheckN(t *testing.T, n int, prop func(t *rapid.T)) {
	t.Helper()
	if testing.Short() {
		n *= 5 // rapid runs a fifth
	}
	was := flag.Lookup("rapid.checks").Value.String()
	if err := flag.Set("rapid.checks", fmt.Sprint(n)); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = flag.Set("rapid.checks", was) }()
	rapid.Check(t, prop)
}

// Times returns how often a test repeats something: the number in the environment variable env, or else usual, or short
// with -short.
func Times(t *testing.T, env string, usual, short int) int {
	t.Helper()
	if s := os.Getenv(env); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("%s: %v", env, err)
		}
		return n
	}
	if testing.Short() {
		return short
	}
	return usual
}
