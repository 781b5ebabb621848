package beliefs_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lazaret/internal/proptest"
	"lazaret/pkg/beliefs"
)

var morning = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)

// stand returns the initial state of a belief that has one supporting piece of evidence, of class q.
func stand(q beliefs.Quality, source string) beliefs.Standing {
	set := beliefs.EvidenceSet{ev(q, beliefs.Supports, source)}
	a := set.Adopt()
	return beliefs.Standing{Axes: a.Axes, Evidence: set, Scope: a.Scope}
}

func genEvidence(t *rapid.T, r beliefs.Relation) beliefs.Evidence {
	return beliefs.Evidence{Relation: r, Quality: rapid.SampledFrom(qualities).Draw(t, "class"),
		Source: fmt.Sprint("s", rapid.IntRange(0, 30).Draw(t, "source")),
		At:     morning.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "minute")) * time.Minute)}
}

func rank(q beliefs.Quality) int {
	if q == beliefs.NoQuality || q == beliefs.SyntheticProbe {
		return 9
	}
	return int(q)
}

// TestNoHistoryOfABeliefBreaksTheModel makes random histories: evidence of any class for and against a belief, in any
// order and number, and allowed and forbidden moves of every authority. After each step, the guarantees of the package
// must hold.
func TestNoHistoryOfABeliefBreaksTheModel(t *testing.T) {
	proptest.Check(t, func(t *rapid.T) {
		s := stand(rapid.SampledFrom(qualities).Draw(t, "first"), "s0")
		strong := s.Quality().MaySupport() // there was evidence that may support it
		vouched := false
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			was := s
			var moves []beliefs.Move
			var err error
			by := rapid.SampledFrom(authorities).Draw(t, "by")
			op := rapid.SampledFrom([]string{"support", "against", "confirm", "supersede", "quarantine", "clear",
				"set"}).Draw(t, "op")
			switch op {
			case "support":
				e := genEvidence(t, beliefs.Supports)
				s, moves = s.Corroborate(e, rapid.IntRange(1, 3).Draw(t, "sources"))
				strong = strong || e.Quality.MaySupport()
				by = beliefs.ByAutoObservation
			case "against":
				s, moves = s.Contradict(genEvidence(t, beliefs.Contradicts))
				by = beliefs.BySentinel
				if was.Axes.Truth != beliefs.Contradicted && s.Axes.Truth == beliefs.Contradicted &&
					rank(s.Evidence.Strongest(beliefs.Contradicts)) > rank(s.Quality()) {
					t.Fatalf("%v demoted %v", s.Evidence.Strongest(beliefs.Contradicts), s.Quality())
				}
			case "confirm":
				e := beliefs.Evidence{Quality: beliefs.HumanAssertion, Source: "key:alice"}
				if s, moves, err = s.Confirm(e, by); err == nil {
					vouched, strong = true, true
					if by != beliefs.ByUser && by != beliefs.ByProbe {
						t.Fatalf("authority %v confirmed a belief", by)
					}
				}
			case "supersede":
				to := rapid.SampledFrom([]string{"", "b2"}).Draw(t, "successor")
				if s, moves, err = s.Supersede(to, by); err == nil && len(moves) > 0 && to == "" {
					t.Fatal("a belief was superseded without a successor")
				}
			case "quarantine":
				s, moves, err = s.Quarantine(by)
			case "clear":
				s, moves, err = s.Clear(by)
			case "set":
				c, _ := genStep(t)
				s, moves, err = s.Set(c, by)
				vouched = vouched || err == nil && len(moves) > 0 && c.To == "supported" && (by == beliefs.ByUser ||
					by == beliefs.ByProbe)
			}
			if err != nil && (s.Axes != was.Axes || s.Scope != was.Scope || len(moves) > 0) {
				t.Fatalf("a refused %s by %v changed %+v to %+v: %v", op, by, was.Axes, s.Axes, err)
			}
			check(t, was, s, moves, op, by)
			if s.Axes.Truth == beliefs.Supported && !strong && !vouched {
				t.Fatalf("supported by %v alone, after %s by %v", s.Quality(), op, by)
			}
		}
	})
}

// check checks the invariants of every step.
func check(t *rapid.T, was, s beliefs.Standing, moves []beliefs.Move, op string, by beliefs.Authority) {
	if was.Axes.Security == beliefs.Malicious && s.Axes.Security != beliefs.Malicious {
		t.Fatalf("malicious became %v by %s", s.Axes.Security, op)
	}
	if (op == "quarantine" || op == "clear") && s.Axes.Truth != was.Axes.Truth {
		t.Fatalf("%s moved truth to %v", op, s.Axes.Truth)
	}
	if by == beliefs.BySentinel || by == beliefs.ByReflection && !s.Quality().MaySupport() {
		if s.Axes.Truth == beliefs.Supported && was.Axes.Truth != beliefs.Supported {
			t.Fatalf("authority %v promoted a belief", by)
		}
	}
	if by == beliefs.BySentinel && (s.Axes.Security < was.Axes.Security ||
		strictness[s.Axes.Retrieval] < strictness[was.Axes.Retrieval] || s.Axes.Freshness < was.Axes.Freshness) {
		t.Fatalf("a sentinel loosened %+v to %+v by %s", was.Axes, s.Axes, op)
	}
	if by == beliefs.ByAutoObservation && strictness[s.Axes.Retrieval] < strictness[was.Axes.Retrieval] {
		t.Fatalf("evidence made it more available: %+v to %+v", was.Axes, s.Axes)
	}
	n := map[beliefs.Relation]int{}
	for _, e := range s.Evidence {
		n[e.Relation]++
	}
	for r, k := range n {
		if k > beliefs.MaxEvidence {
			t.Fatalf("%d pieces of evidence with relation %v are kept", k, r)
		}
	}
	// The moves describe the whole difference.
	a := was.Axes
	for _, m := range moves {
		next, err := beliefs.Apply(a, s.Quality(), beliefs.Change{Axis: m.Axis, To: m.To, Successor: m.Successor}, by)
		if err != nil {
			t.Fatalf("%s by %v made a move that the tables do not have: %v", op, by, err)
		}
		a = next
	}
	if a != s.Axes {
		t.Fatalf("%s by %v: the moves %+v lead to %+v, but the belief is in state %+v", op, by, moves, a, s.Axes)
	}
}

// A thousand weak documents contradict a belief of a stronger class. They must neither demote the belief, nor keep it
// from being adopted, nor become supported by agreeing with each other. In the reference system, one planted document
// demotes a later true observation, and four keep it from being adopted.
func TestAThousandDocumentsDemoteBlockAndOutvoteNothingStronger(t *testing.T) {
	for _, strong := range []beliefs.Quality{beliefs.DirectObservation, beliefs.HumanAssertion, beliefs.ToolResult} {
		for _, weak := range []beliefs.Quality{beliefs.ExternalDocument, beliefs.ModelInference, beliefs.SyntheticProbe} {
			// The documents come after it.
			s := stand(strong, "sensor")
			for i := range 1000 {
				var moves []beliefs.Move
				if s, moves = s.Contradict(ev(weak, beliefs.Contradicts, fmt.Sprint("doc", i))); moves != nil {
					t.Fatalf("%v no. %d moved %v: %+v", weak, i, strong, moves)
				}
			}
			if s.Axes != stand(strong, "sensor").Axes || s.Confidence() != stand(strong, "sensor").Confidence() {
				t.Errorf("1,000 of %v against %v: %+v", weak, strong, s.Axes)
			}
			// The documents came first and contradict the belief. With the stronger evidence, the belief must still be
			// adopted, as supported.
			planted := beliefs.EvidenceSet{}
			for i := range 1000 {
				planted = planted.With(ev(weak, beliefs.Contradicts, fmt.Sprint("doc", i)))
			}
			if a := planted.With(ev(strong, beliefs.Supports, "sensor")).Adopt(); !a.Adopted ||
				a.Axes.Truth != beliefs.Supported || a.Axes.Retrieval != beliefs.Normal {
				t.Errorf("%v after 1,000 of %v: %+v", strong, weak, a)
			}
			// The documents agree with each other. That must not make their claim supported. Evidence of a stronger
			// class must make it supported, and later documents must not displace this evidence.
			d := stand(weak, "doc")
			for i := range 1000 {
				d, _ = d.Corroborate(ev(weak, beliefs.Supports, fmt.Sprint("doc", i)), 1)
			}
			if d.Axes.Truth != beliefs.Unverified {
				t.Errorf("1,000 pieces of %v that agree with each other give %+v", weak, d.Axes)
			}
			if d, _ = d.Corroborate(ev(strong, beliefs.Supports, "sensor"), 1); d.Axes.Truth != beliefs.Supported ||
				d.Axes.Retrieval == beliefs.Normal || d.Quality() != strong {
				t.Errorf("one piece of %v after 1,000 of %v gives %+v", strong, weak, d.Axes)
			}
			for i := range 1000 {
				d, _ = d.Corroborate(ev(weak, beliefs.Supports, fmt.Sprint("more", i)), 1)
			}
			if d.Quality() != strong {
				t.Errorf("many pieces of %v displaced the one of %v", weak, strong)
			}
		}
	}
}

func TestCorroborationCountsIndependentSourcesOfAStrongerClass(t *testing.T) {
	for _, c := range []struct {
		name     string
		first    beliefs.Quality
		then     []beliefs.Evidence
		sources  int
		promoted bool
	}{
		{"a person says so too", beliefs.ExternalDocument, []beliefs.Evidence{ev(beliefs.HumanAssertion, beliefs.Supports,
			"user")}, 1, true},
		{"the same source again", beliefs.ExternalDocument, []beliefs.Evidence{ev(beliefs.HumanAssertion, beliefs.Supports,
			"origin")}, 1, false},
		{"another document", beliefs.ExternalDocument, []beliefs.Evidence{ev(beliefs.ExternalDocument, beliefs.Supports,
			"b")}, 1, false},
		{"the model agrees", beliefs.ExternalDocument, []beliefs.Evidence{ev(beliefs.ModelInference, beliefs.Supports,
			"b")}, 1, false},
		{"one where two are wanted", beliefs.ModelInference,
			[]beliefs.Evidence{ev(beliefs.ToolResult, beliefs.Supports, "b")}, 2, false},
		{"one twice where two are wanted", beliefs.ModelInference,
			[]beliefs.Evidence{ev(beliefs.ToolResult, beliefs.Supports, "b"), ev(beliefs.ToolResult, beliefs.Supports, "b")},
			2, false},
		{"two where two are wanted", beliefs.ModelInference,
			[]beliefs.Evidence{ev(beliefs.ToolResult, beliefs.Supports, "b"), ev(beliefs.ToolResult, beliefs.Supports, "c")},
			2, true},
		{"something beside it", beliefs.ExternalDocument,
			[]beliefs.Evidence{ev(beliefs.HumanAssertion, beliefs.Contextualizes, "user")}, 1, false},
	} {
		s := stand(c.first, "origin")
		for _, e := range c.then {
			s, _ = s.Corroborate(e, c.sources)
		}
		if (s.Axes.Truth == beliefs.Supported) != c.promoted || s.Axes.Retrieval != beliefs.Restricted {
			t.Errorf("%s: %+v", c.name, s.Axes)
		}
	}
}

func TestAWordOfAPersonGoesAsFarAsItWasMeant(t *testing.T) {
	word := beliefs.Evidence{Quality: beliefs.HumanAssertion, Source: "key:alice"}
	held := stand(beliefs.ExternalDocument, "web")
	held.Axes.Security = beliefs.Suspicious
	if s, _, err := held.Confirm(word, beliefs.ByUser); err != nil ||
		s.Axes != (beliefs.Axes{Truth: beliefs.Supported, Retrieval: beliefs.Normal}) ||
		s.Quality() != beliefs.HumanAssertion || s.Scope != beliefs.ToolActionAllowed {
		t.Errorf("a held write that a person confirms: %+v, %v", s.Axes, err)
	}
	if _, _, err := held.Confirm(word, beliefs.ByProbe); err == nil {
		t.Error("a probe cleared a suspicion")
	}
	for name, a := range map[string]beliefs.Axes{
		"quarantined": {Security: beliefs.Quarantined}, "malicious": {Security: beliefs.Malicious},
		"blocked": {Retrieval: beliefs.Blocked}, "superseded": {Truth: beliefs.Superseded},
	} {
		s := held
		s.Axes = a
		if next, _, err := s.Confirm(word, beliefs.ByUser); err == nil || next.Axes != a {
			t.Errorf("a confirmation of what is %s: %+v, %v", name, next.Axes, err)
		}
	}
	var te *beliefs.TransitionError
	if _, _, err := held.Confirm(word, beliefs.ByPolicy); !errors.As(err, &te) {
		t.Errorf("a confirmation by policy: %v", err)
	}
	q, _, err := stand(beliefs.HumanAssertion, "user").Quarantine(beliefs.BySentinel)
	if err != nil || q.Axes != (beliefs.Axes{Truth: beliefs.Supported, Retrieval: beliefs.Hidden,
		Security: beliefs.Quarantined}) {
		t.Errorf("quarantined: %+v, %v", q.Axes, err)
	}
	if c, _, err := q.Clear(beliefs.ByUser); err != nil || c.Axes.Security != beliefs.Clean ||
		c.Axes.Retrieval != beliefs.Restricted {
		t.Errorf("cleared: %+v, %v", c.Axes, err)
	}
	if _, _, err := q.Clear(beliefs.ByPolicy); err == nil {
		t.Error("a policy cleared a quarantine")
	}
}

func TestNamespacesAreHierarchical(t *testing.T) {
	ns := func(s string) (n beliefs.Namespace) {
		if err := n.UnmarshalText([]byte(s)); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, c := range []struct {
		in, of string
		sees   bool
	}{
		{"", "", true}, {"user/alice", "", true}, {"user/alice/session/s", "user/alice", true},
		{"user/alice/session/s", "session/s", true},
		{"", "user/alice", false}, {"user/bob", "user/alice", false}, {"session/t", "session/s", false},
		{"user/alice", "user/alice/session/s", false}, {"user/bob/session/s", "user/alice/session/s", false},
	} {
		if got := ns(c.in).Sees(ns(c.of)); got != c.sees {
			t.Errorf("%q sees %q: %v", c.in, c.of, got)
		}
		if ns(c.of).String() != c.of {
			t.Errorf("%q is written as %q", c.of, ns(c.of))
		}
	}
	for _, bad := range []string{"alice", "user/", "user/a/b", "session/s/t", "session/s/user/a", "user/a/session/", "/"} {
		if err := new(beliefs.Namespace).UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
