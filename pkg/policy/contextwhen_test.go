package policy

import (
	"strings"
	"testing"
	"time"

	"lazaret/pkg/beliefs"
)

func TestContextConditionsOnlyTighten(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	p := compile(t, preamble+`
context:
  default:
    conditions:
      - {name: no-drafts, require: "belief.category != 'draft'"}
  decision:
    conditions:
      - {name: own-agent, require: "belief.agent == recall.agent || belief.quality == 'human_assertion'", otherwise: context_only}
      - {name: recent, require: "belief.age < duration('24h') && belief.confidence >= 0.5"}
      - {name: costly, require: "belief.key.split('').exists(x, belief.key.split('').exists(y, belief.key.split('').exists(z, x + y + z == 'zzz')))  || true"}
`)
	good := beliefs.Candidate{Axes: beliefs.Axes{Truth: beliefs.Supported, Retrieval: beliefs.Normal}, Origin: "user",
		At:    now.Add(-time.Hour),
		Agent: "a1", Quality: beliefs.HumanAssertion, Confidence: 0.85}
	vary := func(f func(*beliefs.Candidate)) beliefs.Candidate { c := good; f(&c); return c }
	for _, c := range []struct {
		name, purpose string
		cand          beliefs.Candidate
		channel       beliefs.Channel
		reason        string
	}{
		{"what fits", "decision", good, beliefs.Admitted, ""},
		{"another purpose", "planning", vary(func(c *beliefs.Candidate) { c.At = now.Add(-48 * time.Hour) }),
			beliefs.Admitted, ""},
		{"the default's", "planning", vary(func(c *beliefs.Candidate) { c.Category = "draft" }), beliefs.Refused,
			"condition:no-drafts"},
		{"the default's, for all", "decision", vary(func(c *beliefs.Candidate) { c.Category = "draft" }), beliefs.Refused,
			"condition:no-drafts"},
		{"read and no more", "decision", vary(func(c *beliefs.Candidate) { c.Agent, c.Quality = "a2", beliefs.ToolResult }),
			beliefs.AsContext, "condition:own-agent"},
		{"a ledger day old", "decision", vary(func(c *beliefs.Candidate) { c.At = now.Add(-24 * time.Hour) }),
			beliefs.Refused, "condition:recent"},
		{"beyond what it may cost", "decision", vary(func(c *beliefs.Candidate) { c.Key = strings.Repeat("k", 400) }),
			beliefs.Refused, "condition:costly"},
		{"what was refused anyway", "decision", vary(func(c *beliefs.Candidate) { c.Axes.Security = beliefs.Quarantined }),
			beliefs.Refused, beliefs.ReasonSecurity},
	} {
		got := p.Context(c.purpose).Judge(now, beliefs.Asker{Agent: "a1", Session: "s"}, []beliefs.Candidate{c.cand})[0]
		if got.Channel != c.channel || got.Reason != c.reason {
			t.Errorf("%s: %+v, want channel %d and reason %q", c.name, got, c.channel, c.reason)
		}
	}
}

func TestFaultsInContextConditionsHaveAPlace(t *testing.T) {
	for src, want := range map[string]string{
		`{name: x, require: "belief.orign == 'user'"}`:              "undeclared reference",
		`{name: x, require: "belief.origin"}`:                       "want bool",
		`{name: x, require: "true", otherwise: admit}`:              "use refuse or context_only",
		`{name: "x y", require: "true"}`:                            "condition",
		`{name: x, require: "true"}, {name: x, require: "true"}`:    "is listed twice",
		`{name: x, require: "belief.confidence > 'a'"}`:             "no matching overload",
		`{name: x, require: "true", whatever: 1}`:                   "whatever",
		`{name: x, require: "recall.purpose == purpose"}`:           "undeclared reference",
		`{name: x, require: "belief.age > 24"}`:                     "no matching overload",
		`{name: x, require: "belief.key.matches(belief.category)"}`: "",
	} {
		_, err := Compile("p", []byte(preamble+"context: {decision: {conditions: ["+src+"]}}\n"))
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", src, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "p:4:") {
			t.Errorf("%s: %v, want one about %q in line 4", src, err, want)
		}
	}
}
