package ingest

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// stating returns a supported memory that states an object of one predicate.
func stating(id, object string, q beliefs.Quality, at int, sources ...string) Belief {
	when := time.Date(2026, 11, 1, 0, at, 0, 0, time.UTC)
	b := Belief{BeliefRef: streams.BeliefRef{ID: id, Kind: beliefs.MemoryClaim,
		Axes: beliefs.Axes{Truth: beliefs.Supported, Retrieval: beliefs.Normal}, Quality: q, Origin: beliefs.OriginUser},
		Memory: true, Category: "lesson", Content: object, At: when,
		Triples: []beliefs.Triple{{Subject: "release", Predicate: "day", Object: object}}}
	for _, s := range sources {
		b.Evidence = append(b.Evidence, beliefs.Evidence{Quality: q, Source: s, At: when})
	}
	return b
}

func TestReflectionProposesByClassThenSourcesThenTime(t *testing.T) {
	h, tool := beliefs.HumanAssertion, beliefs.ToolResult
	change := func(b Belief, f func(*Belief)) Belief { f(&b); return b }
	for name, c := range map[string]struct {
		items []Belief
		want  string
	}{
		"a stronger class": {[]Belief{stating("a", "Monday", tool, 9, "x", "y"), stating("b", "Friday", h, 1, "z")},
			"[a>b class]"},
		"more sources": {[]Belief{stating("a", "Monday", h, 9, "x"), stating("b", "Friday", h, 1, "y", "z")},
			"[a>b sources]"},
		"later": {[]Belief{stating("a", "Monday", h, 1, "x"), stating("b", "Friday", h, 9, "y")},
			"[a>b later]"},
		"the same in other case": {[]Belief{stating("a", "Monday", h, 1, "x"), stating("b", "MONDAY ", h, 9, "y")}, "[]"},
		"three, the best for each": {[]Belief{stating("a", "Monday", h, 1, "x"), stating("b", "Friday", h, 9, "y"),
			stating("c", "Sunday", h, 3, "z")}, "[a>b later c>b later]"},
		"contradicted already": {[]Belief{stating("a", "Monday", h, 1, "x"), change(stating("b", "Friday", h, 9, "y"),
			func(b *Belief) { b.Axes.Truth = beliefs.Contradicted })}, "[]"},
		"never believed": {[]Belief{stating("a", "Monday", h, 1, "x"), change(stating("b", "Friday", h, 9, "y"),
			func(b *Belief) { b.Axes.Truth = beliefs.Unverified })}, "[]"},
		"suspicious": {[]Belief{stating("a", "Monday", h, 1, "x"), change(stating("b", "Friday", h, 9, "y"),
			func(b *Belief) { b.Axes.Security = beliefs.Suspicious })}, "[]"},
		"of another user": {[]Belief{stating("a", "Monday", h, 1, "x"), change(stating("b", "Friday", h, 9, "y"),
			func(b *Belief) { b.Namespace.User = "ben" })}, "[]"},
		"several at once": {[]Belief{stating("a", "Monday", h, 1, "x"), change(stating("b", "Friday", h, 9, "y"),
			func(b *Belief) { b.Triples[0].Many = true })}, "[]"},
		"only read": {[]Belief{stating("a", "Monday", h, 1, "x"), change(stating("b", "Friday", h, 9, "y"),
			func(b *Belief) { b.Memory = false })}, "[]"},
	} {
		var got []string
		for _, s := range Reflect(c.items) {
			got = append(got, s.Belief+">"+s.Successor+" "+s.Because)
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

func TestReflectionDoesNotDependOnTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var items []Belief
		for i := range rapid.IntRange(0, 8).Draw(t, "n") {
			items = append(items, stating(fmt.Sprint("b", i), rapid.SampledFrom([]string{"Monday", "Friday", "Sunday"}).Draw(t,
				"object"),
				rapid.SampledFrom([]beliefs.Quality{beliefs.HumanAssertion, beliefs.ToolResult}).Draw(t, "class"),
				rapid.IntRange(0, 3).Draw(t, "at"), "x"))
		}
		want := Reflect(items)
		if got := Reflect(rapid.Permutation(items).Draw(t, "order")); !reflect.DeepEqual(got, want) {
			t.Fatalf("%v, in another order %v", want, got)
		}
	})
}

func TestOnlyWhatIsBelievedAndStandsBecomesALesson(t *testing.T) {
	now := time.Date(2026, 11, 3, 0, 0, 0, 0, time.UTC)
	for name, change := range map[string]func(*Belief){
		"":                    func(*Belief) {},
		"unverified":          func(b *Belief) { b.Axes.Truth = beliefs.Unverified },
		"contradicted":        func(b *Belief) { b.Axes.Truth = beliefs.Contradicted },
		"restricted":          func(b *Belief) { b.Axes.Retrieval = beliefs.Restricted },
		"suspicious":          func(b *Belief) { b.Axes.Security = beliefs.Suspicious },
		"quarantined":         func(b *Belief) { b.Axes.Security = beliefs.Quarantined },
		"stale":               func(b *Belief) { b.Axes.Freshness = beliefs.Stale },
		"above the ceiling":   func(b *Belief) { b.Sensitivity = beliefs.Confidential },
		"staged":              func(b *Belief) { b.Staged = true },
		"in conflict":         func(b *Belief) { b.Conflicts = []string{"x"} },
		"flagged":             func(b *Belief) { b.Flag = "look again" },
		"an unsigned routine": func(b *Belief) { b.Procedure = true },
		"one user's":          func(b *Belief) { b.Namespace.User = "ana" },
		"something else":      func(b *Belief) { b.Category = "fact" },
		"only read":           func(b *Belief) { b.Memory = false },
		"without support":     func(b *Belief) { b.Evidence = nil },
		"inferred":            func(b *Belief) { b.Evidence[0].Quality = beliefs.ModelInference },
		"of this morning":     func(b *Belief) { b.Evidence[0].At = now.Add(-time.Hour) },
	} {
		b := stating("a", "test first", beliefs.HumanAssertion, 1, "x")
		change(&b)
		got := Lessons([]Belief{b}, now, Harvest{Age: 24 * time.Hour})
		if (len(got) == 1) != (name == "") {
			t.Errorf("%q: %d lessons", name, len(got))
		}
	}
}
