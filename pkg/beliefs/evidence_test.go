package beliefs_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lazaret/internal/proptest"
	"lazaret/pkg/beliefs"
)

func ev(q beliefs.Quality, r beliefs.Relation, source string) beliefs.Evidence {
	return beliefs.Evidence{Quality: q, Relation: r, Source: source}
}

func TestAThousandDocumentsCannotOutvoteOneObservation(t *testing.T) {
	for _, strong := range []beliefs.Quality{beliefs.DirectObservation, beliefs.HumanAssertion, beliefs.ToolResult} {
		for _, weak := range []beliefs.Quality{beliefs.ExternalDocument, beliefs.ModelInference, beliefs.SyntheticProbe} {
			set := beliefs.EvidenceSet{ev(strong, beliefs.Supports, "sensor")}
			alone := set.Adopt()
			for i := range 1000 {
				set = append(set, ev(weak, beliefs.Contradicts, fmt.Sprintf("doc%d", i)))
			}
			if set.Net() != beliefs.NetPositive || set.Adopt() != alone || alone.Axes.Truth != beliefs.Supported {
				t.Errorf("1,000 pieces of %v against one %v: %+v", weak, strong, set.Adopt())
			}
			// Documents that confirm each other support nothing.
			var docs beliefs.EvidenceSet
			for i := range 1000 {
				docs = append(docs, ev(weak, beliefs.Supports, fmt.Sprintf("doc%d", i)))
			}
			if a := docs.Adopt(); a.Axes.Truth != beliefs.Unverified || a.Axes.Retrieval == beliefs.Normal ||
				a.Scope == beliefs.ToolActionAllowed {
				t.Errorf("1,000 pieces of %v alone: %+v", weak, a)
			}
		}
	}
}

func TestClaimsStartByTheClassOfTheirEvidence(t *testing.T) {
	for _, c := range []struct {
		quality    beliefs.Quality
		truth      beliefs.Truth
		retrieval  beliefs.Retrieval
		scope      beliefs.Scope
		confidence float64
	}{
		{beliefs.DirectObservation, beliefs.Supported, beliefs.Normal, beliefs.ToolActionAllowed, 0.95},
		{beliefs.HumanAssertion, beliefs.Supported, beliefs.Normal, beliefs.ToolActionAllowed, 0.85},
		{beliefs.ToolResult, beliefs.Supported, beliefs.Normal, beliefs.ToolActionAllowed, 0.70},
		{beliefs.ModelInference, beliefs.Unverified, beliefs.Restricted, beliefs.PlanningAllowed, 0.40},
		{beliefs.ExternalDocument, beliefs.Unverified, beliefs.Restricted, beliefs.ContextOnly, 0.30},
		{beliefs.SyntheticProbe, beliefs.Unverified, beliefs.Restricted, beliefs.ContextOnly, 0.10},
	} {
		a := beliefs.EvidenceSet{ev(c.quality, beliefs.Supports, "s")}.Adopt()
		if a.Axes.Truth != c.truth || a.Axes.Retrieval != c.retrieval || a.Scope != c.scope ||
			a.Confidence < c.confidence-1e-9 || a.Confidence > c.confidence+1e-9 {
			t.Errorf("%v: %+v", c.quality, a)
		}
		for verdict, want := range map[string]beliefs.Axes{
			"allow": {Truth: c.truth, Retrieval: c.retrieval},
			"hold":  {Retrieval: beliefs.Restricted, Security: beliefs.Suspicious},
			"deny":  {Security: beliefs.Quarantined},
			"":      {Security: beliefs.Quarantined},
		} {
			if got := a.Admit(verdict); got != want {
				t.Errorf("%v with verdict %q: %+v, want %+v", c.quality, verdict, got, want)
			}
		}
	}
}

func TestEvidenceCountsByIndependentSourceAndInAnyOrder(t *testing.T) {
	one := beliefs.EvidenceSet{ev(beliefs.ToolResult, beliefs.Supports, "a")}
	copies := append(beliefs.EvidenceSet{}, one...)
	for range 50 {
		copies = append(copies, one[0])
	}
	if one.Strength() != copies.Strength() {
		t.Errorf("fifty copies of one source change strength from %v to %v", one.Strength(), copies.Strength())
	}
	proptest.Check(t, func(t *rapid.T) {
		var set beliefs.EvidenceSet
		for range rapid.IntRange(0, 12).Draw(t, "n") {
			set = append(set, beliefs.Evidence{Quality: rapid.SampledFrom(qualities).Draw(t, "q"),
				Relation:  beliefs.Relation(rapid.IntRange(0, 2).Draw(t, "r")),
				Source:    rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "s"),
				Freshness: beliefs.Freshness(rapid.IntRange(0, 2).Draw(t, "f"))})
		}
		if s := set.Strength(); s < 0 || s > beliefs.MaxConfidence {
			t.Fatalf("strength %v", s)
		}
		shuffled := append(beliefs.EvidenceSet{}, set...)
		seed := rapid.Uint64().Draw(t, "seed")
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(shuffled), func(i, j int) {
			shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
		})
		if set.Strength() != shuffled.Strength() || set.Net() != shuffled.Net() || set.Adopt() != shuffled.Adopt() {
			t.Fatalf("order matters: %+v, %+v", set.Adopt(), shuffled.Adopt())
		}
		if a := set.Adopt(); a.Axes.Truth == beliefs.Supported && !set.Strongest(beliefs.Supports).MaySupport() {
			t.Fatalf("%+v is supported by %v", set, a.Quality)
		}
	})
}

func TestTheContextPolicyRulesOnEveryCandidate(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	good := beliefs.Candidate{Axes: beliefs.Axes{Truth: beliefs.Supported, Retrieval: beliefs.Normal},
		Origin: beliefs.OriginUser, At: now}
	with := func(f func(c *beliefs.Candidate)) beliefs.Candidate { c := good; f(&c); return c }
	p := beliefs.DefaultContext("planning")
	for _, c := range []struct {
		name    string
		cand    beliefs.Candidate
		channel beliefs.Channel
		reason  string
	}{
		{"good", good, beliefs.Admitted, ""},
		{"unverified", with(func(c *beliefs.Candidate) { c.Axes.Truth = beliefs.Unverified }), beliefs.AsContext,
			beliefs.ReasonUnverified},
		{"restricted", with(func(c *beliefs.Candidate) { c.Axes.Retrieval = beliefs.Restricted }), beliefs.AsContext,
			beliefs.ReasonRestricted},
		{"stale", with(func(c *beliefs.Candidate) { c.Axes.Freshness = beliefs.Stale }), beliefs.AsContext,
			beliefs.ReasonFreshness},
		{"expired", with(func(c *beliefs.Candidate) { c.Axes.Freshness = beliefs.Expired }), beliefs.Refused,
			beliefs.ReasonFreshness},
		{"contradicted", with(func(c *beliefs.Candidate) { c.Axes.Truth = beliefs.Contradicted }), beliefs.Contradiction,
			beliefs.ReasonContradict},
		{"superseded", with(func(c *beliefs.Candidate) { c.Axes.Truth = beliefs.Superseded }), beliefs.Refused,
			beliefs.ReasonSuperseded},
		{"suspicious", with(func(c *beliefs.Candidate) { c.Axes.Security = beliefs.Suspicious }), beliefs.Refused,
			beliefs.ReasonSecurity},
		{"quarantined", with(func(c *beliefs.Candidate) { c.Axes.Security = beliefs.Quarantined }), beliefs.Refused,
			beliefs.ReasonSecurity},
		{"quarantined and contradicted", with(func(c *beliefs.Candidate) {
			c.Axes.Security, c.Axes.Truth = beliefs.Quarantined, beliefs.Contradicted
		}), beliefs.Refused, beliefs.ReasonSecurity},
		{"hidden", with(func(c *beliefs.Candidate) { c.Axes.Retrieval = beliefs.Hidden }), beliefs.Refused,
			beliefs.ReasonHidden},
		{"blocked", with(func(c *beliefs.Candidate) { c.Axes.Retrieval = beliefs.Blocked }), beliefs.Refused,
			beliefs.ReasonBlocked},
		{"privileged", with(func(c *beliefs.Candidate) { c.Axes.Retrieval = beliefs.PrivilegedOnly }), beliefs.Refused,
			beliefs.ReasonPrivileged},
		{"confidential", with(func(c *beliefs.Candidate) { c.Sensitivity = beliefs.Confidential }), beliefs.Refused,
			beliefs.ReasonSensitivity},
		{"secret", with(func(c *beliefs.Candidate) { c.Sensitivity = beliefs.Secret }), beliefs.Refused,
			beliefs.ReasonSensitivity},
		{"public", with(func(c *beliefs.Candidate) { c.Sensitivity = beliefs.Public }), beliefs.Admitted, ""},
		{"31 days old", with(func(c *beliefs.Candidate) { c.At = now.Add(-31 * 24 * time.Hour) }), beliefs.Refused,
			beliefs.ReasonAge},
		{"not valid yet", with(func(c *beliefs.Candidate) { c.ValidFrom = now.Add(time.Hour) }), beliefs.Refused,
			beliefs.ReasonInvalid},
		{"valid no longer", with(func(c *beliefs.Candidate) { c.ValidTo = now }), beliefs.Refused, beliefs.ReasonInvalid},
	} {
		if r := p.Judge(now, beliefs.Asker{}, []beliefs.Candidate{c.cand})[0]; r.Channel != c.channel ||
			r.Reason != c.reason {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
	external := with(func(c *beliefs.Candidate) { c.Origin = beliefs.OriginWeb })
	rs := p.Judge(now, beliefs.Asker{}, []beliefs.Candidate{external, good, external, external, good})
	for i, want := range []beliefs.Channel{beliefs.Admitted, beliefs.Admitted, beliefs.Admitted, beliefs.Refused,
		beliefs.Admitted} {
		if rs[i].Channel != want {
			t.Errorf("entry %d of a list with three external ones: %+v", i, rs[i])
		}
	}
	if rs[3].Reason != beliefs.ReasonExternal {
		t.Errorf("the third external entry: %+v", rs[3])
	}
}

func TestOriginsInheritTheWeakest(t *testing.T) {
	for _, c := range []struct {
		in   []beliefs.Origin
		want beliefs.Origin
	}{
		{[]beliefs.Origin{"user", "agent"}, "agent"},
		{[]beliefs.Origin{"user", "tool", "agent"}, "tool"},
		{[]beliefs.Origin{"system", "user"}, "user"},
		{[]beliefs.Origin{"document", "web", "user"}, "web"},
		{[]beliefs.Origin{"user", "oracle"}, "oracle"},
		{nil, ""},
	} {
		if got := beliefs.Weakest(c.in...); got != c.want {
			t.Errorf("the weakest of %v is %q, want %q", c.in, got, c.want)
		}
	}
	for _, o := range beliefs.Origins() {
		if o.External() && beliefs.QualityOf(o).MaySupport() {
			t.Errorf("origin %s is external=%v and of class %v", o, o.External(), beliefs.QualityOf(o))
		}
	}
}

func TestOlderEvidenceWeighsLess(t *testing.T) {
	strength := func(f beliefs.Freshness) float64 {
		return beliefs.EvidenceSet{{Source: "a", Quality: beliefs.HumanAssertion, Freshness: f}}.Strength()
	}
	fresh, stale, expired := strength(beliefs.Fresh), strength(beliefs.Stale), strength(beliefs.Expired)
	if fresh <= stale || stale <= expired || expired <= 0 {
		t.Errorf("strength of fresh evidence %v, stale %v, expired %v", fresh, stale, expired)
	}
}
