package probe

import (
	"fmt"
	"strings"
)

// Elsewhere is an invariant that no scenario tests. Other tests do, or Nothing says why there is no test.
type Elsewhere struct {
	Name    string   `yaml:"name"`
	Added   bool     `yaml:"added"` // the invariant is not in the reference probe packs (Lodestar 0.5)
	Holds   string   `yaml:"holds"`
	Tests   []string `yaml:"tests"`
	Nothing string   `yaml:"nothing"` // why nothing tests it
}

// ReadElsewhere reads the list of invariants that no scenario tests.
func ReadElsewhere(b []byte) ([]Elsewhere, error) {
	var out []Elsewhere
	if err := decode(b, &out); err != nil {
		return nil, err
	}
	for _, e := range out {
		if e.Name == "" || (len(e.Tests) == 0) == (e.Nothing == "") {
			return nil, fmt.Errorf("invariant %q has neither tests nor a reason", e.Name)
		}
	}
	return out, nil
}

// Tables returns the tables of docs/probes.md: each scenario's assertions and limits, and the tests of
// the other invariants.
func Tables(scenarios []*Scenario, elsewhere []Elsewhere) string {
	var b strings.Builder
	cell := func(s string) string { return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", `\|`) }
	b.WriteString("| probe | the attack | holds | does not claim | fails without | follows |\n|---|---|---|---|---|---|\n")
	for _, s := range scenarios {
		off := "no contrast"
		if s.Contrast != nil {
			off = s.Contrast.Off
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", s.Name, cell(s.Scenario), cell(s.Asserts),
			cell(s.DoesNotClaim), cell(off), cell(s.Follows))
	}
	b.WriteString("\n| invariant | holds | tests |\n|---|---|---|\n")
	for _, e := range elsewhere {
		if e.Nothing != "" {
			fmt.Fprintf(&b, "| `%s` | **nothing holds it** | %s |\n", e.Name, cell(e.Nothing))
			continue
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", e.Name, cell(e.Holds), "`"+strings.Join(e.Tests, "`, `")+"`")
	}
	return b.String()
}
