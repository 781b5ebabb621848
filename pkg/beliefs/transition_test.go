package beliefs_test

import (
	"bufio"
	"errors"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lazaret/internal/proptest"
	"lazaret/pkg/beliefs"
)

var values = map[beliefs.Axis][]string{
	beliefs.AxisTruth:     {"unverified", "supported", "contradicted", "superseded"},
	beliefs.AxisRetrieval: {"hidden", "restricted", "normal", "privileged_only", "blocked"},
	beliefs.AxisSecurity:  {"clean", "suspicious", "quarantined", "malicious"},
	beliefs.AxisFreshness: {"fresh", "stale", "expired"},
}

var authorities = []beliefs.Authority{beliefs.ByUser, beliefs.ByPolicy, beliefs.ByProbe, beliefs.BySentinel,
	beliefs.ByReflection,
	beliefs.ByAutoObservation, beliefs.ByAdmission, beliefs.BySystem}

var qualities = []beliefs.Quality{beliefs.NoQuality, beliefs.DirectObservation, beliefs.HumanAssertion,
	beliefs.ToolResult,
	beliefs.ModelInference, beliefs.ExternalDocument, beliefs.SyntheticProbe}

// row is one line of testdata/transitions.txt. That file was written from the table of the reference model, and not
// from this package's code.
type row struct {
	gated, supported, successor bool
}

func reference(t *testing.T) map[string]row {
	t.Helper()
	f, err := os.Open("testdata/transitions.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := make(map[string]row)
	for sc := bufio.NewScanner(f); sc.Scan(); {
		line, _, _ := strings.Cut(sc.Text(), "#")
		fs := strings.Fields(line)
		if len(fs) == 0 {
			continue
		}
		if len(fs) < 5 || fs[2] != "->" {
			t.Fatalf("line %q", line)
		}
		for _, who := range fs[4:] {
			if strings.HasPrefix(who, "(") {
				continue
			}
			name, gated := strings.CutSuffix(who, "*")
			out[strings.Join([]string{fs[0], fs[1], fs[3], name}, " ")] = row{gated: gated,
				supported: strings.Contains(line, "(supported)"), successor: strings.Contains(line, "(successor)")}
		}
	}
	return out
}

func axes(x beliefs.Axis, v string, truth beliefs.Truth) (a beliefs.Axes) {
	a.Truth = truth
	switch x {
	case beliefs.AxisTruth:
		a.Truth.UnmarshalText([]byte(v))
	case beliefs.AxisRetrieval:
		a.Retrieval.UnmarshalText([]byte(v))
	case beliefs.AxisSecurity:
		a.Security.UnmarshalText([]byte(v))
	case beliefs.AxisFreshness:
		a.Freshness.UnmarshalText([]byte(v))
	}
	return a
}

func TestTheTablesAreTheReferenceModels(t *testing.T) {
	ref := reference(t)
	met := 0
	for x, vs := range values {
		for _, from := range vs {
			for _, to := range vs {
				for _, by := range authorities {
					key := strings.Join([]string{x.String(), from, to, by.String()}, " ")
					want, exists := ref[key]
					if exists {
						met++
					}
					for _, q := range qualities {
						for _, truth := range []beliefs.Truth{beliefs.Unverified, beliefs.Supported} {
							for _, successor := range []string{"", "b2"} {
								ok := exists && (!want.gated || q.MaySupport()) && (!want.supported || truth == beliefs.Supported) &&
									(!want.successor || successor != "")
								a := axes(x, from, truth)
								if x == beliefs.AxisTruth && truth == beliefs.Supported {
									continue // from says it
								}
								err := beliefs.Check(a, q, beliefs.Change{Axis: x, To: to, Successor: successor}, by)
								if (err == nil) != ok {
									t.Fatalf("%s with quality %v, truth %v, successor %q: %v, want allowed %v", key, q, truth, successor, err, ok)
								}
								var te *beliefs.TransitionError
								if err != nil && (!errors.As(err, &te) || te.Axis != x || te.From != from || te.To != to || te.By != by) {
									t.Fatalf("%s: the error is %v", key, err)
								}
							}
						}
					}
				}
			}
		}
	}
	if met != len(ref) {
		t.Errorf("only %d of %d rows of the table were tried: the others name values that do not exist", met, len(ref))
	}
}

func TestRefusalsSayWhoMay(t *testing.T) {
	err := beliefs.Check(beliefs.Axes{Security: beliefs.Quarantined}, beliefs.ToolResult,
		beliefs.Change{Axis: beliefs.AxisSecurity, To: "clean"}, beliefs.BySentinel)
	if want := "security cannot go from quarantined to clean by sentinel: it takes user"; err == nil ||
		err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
	if err := beliefs.Check(beliefs.Axes{}, 0, beliefs.Change{Axis: beliefs.AxisTruth, To: "true"},
		beliefs.ByUser); err == nil || !strings.Contains(err.Error(), "unverified, supported") {
		t.Errorf("an unknown value: %v", err)
	}
}

// genStep returns a random change by a random authority.
func genStep(t *rapid.T) (beliefs.Change, beliefs.Authority) {
	x := rapid.SampledFrom([]beliefs.Axis{beliefs.AxisTruth, beliefs.AxisRetrieval, beliefs.AxisSecurity,
		beliefs.AxisFreshness}).Draw(t, "axis")
	c := beliefs.Change{Axis: x, To: rapid.SampledFrom(values[x]).Draw(t, "to")}
	if rapid.Bool().Draw(t, "successor") {
		c.Successor = "b2"
	}
	return c, rapid.SampledFrom(authorities).Draw(t, "by")
}

// strictness orders the values of Retrieval: a higher number is farther from being served.
var strictness = map[beliefs.Retrieval]int{beliefs.Normal: 0, beliefs.Restricted: 1, beliefs.PrivilegedOnly: 1,
	beliefs.Hidden: 2, beliefs.Blocked: 3}

func TestNoSequenceOfChangesBreaksTheModel(t *testing.T) {
	proptest.Check(t, func(t *rapid.T) {
		q := rapid.SampledFrom(qualities).Draw(t, "quality")
		var a beliefs.Axes
		vouched := false
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			c, by := genStep(t)
			next, err := beliefs.Apply(a, q, c, by)
			if err != nil {
				if next != a {
					t.Fatalf("a refused change moved %+v to %+v", a, next)
				}
				continue
			}
			vouched = vouched || c.Axis == beliefs.AxisTruth && (by == beliefs.ByUser || by == beliefs.ByProbe)
			if next.Truth == beliefs.Supported && !q.MaySupport() && !vouched {
				t.Fatalf("%v content became supported by %v", q, by)
			}
			if a.Security == beliefs.Malicious && next.Security != beliefs.Malicious {
				t.Fatalf("malicious became %v by %v", next.Security, by)
			}
			if c.Axis != beliefs.AxisTruth && next.Truth != a.Truth {
				t.Fatalf("a change of %v moved truth to %v", c.Axis, next.Truth)
			}
			if by == beliefs.BySentinel {
				if next.Security < a.Security || strictness[next.Retrieval] < strictness[a.Retrieval] ||
					next.Truth == beliefs.Supported && a.Truth != beliefs.Supported || next.Freshness != a.Freshness {
					t.Fatalf("a sentinel loosened %+v to %+v", a, next)
				}
			}
			if a.Security >= beliefs.Quarantined && next.Security < beliefs.Quarantined && by != beliefs.ByUser ||
				a.Retrieval == beliefs.Blocked && next.Retrieval != beliefs.Blocked && by != beliefs.ByUser {
				t.Fatalf("%v cleared %+v to %+v", by, a, next)
			}
			a = next
		}
	})
}

func TestRestrictNeverLoosens(t *testing.T) {
	proptest.Check(t, func(t *rapid.T) {
		a := beliefs.Axes{Truth: beliefs.Truth(rapid.IntRange(0, 3).Draw(t, "truth")),
			Retrieval: beliefs.Retrieval(rapid.IntRange(0, 4).Draw(t, "retrieval")),
			Security:  beliefs.Security(rapid.IntRange(0, 3).Draw(t, "security")),
			Freshness: beliefs.Freshness(rapid.IntRange(0, 2).Draw(t, "freshness"))}
		effect := rapid.SampledFrom([]string{"alert", "hold", "deny", "restrict", "quarantine", "nonsense"}).Draw(t, "effect")
		b := beliefs.Restrict(a, rapid.SampledFrom(qualities).Draw(t, "quality"), effect)
		if b.Truth != a.Truth || b.Freshness != a.Freshness || b.Security < a.Security ||
			strictness[b.Retrieval] < strictness[a.Retrieval] {
			t.Fatalf("%s moved %+v to %+v", effect, a, b)
		}
		if (effect == "quarantine" || effect == "deny") && (b.Security < beliefs.Quarantined ||
			b.Retrieval == beliefs.Normal || b.Retrieval == beliefs.Restricted) {
			t.Fatalf("%s left %+v in service", effect, b)
		}
	})
}
