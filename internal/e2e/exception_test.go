package e2e

import (
	"testing"

	"lazaret/internal/embedded"
	"lazaret/pkg/rules"
	"lazaret/streams"

	shipped "lazaret/rules"
)

// The arbiter must also ignore a rule's effect where an exception applies: within the conditions of the exception, and
// until it expires.
func TestAnExceptionLetsPassWhatItNames(t *testing.T) {
	t.Parallel()
	set, err := rules.PackWith(shipped.FS(), map[string]string{"exceptions.yaml": `exceptions:
  - id: notes-out
    rules: [secret-leaves]
    when: action.tool == 'export_notes'
    owner: ops
    reason: The notes service takes its key as an argument.
    expires: 2099-01-01
  - id: expired
    rules: [secret-leaves]
    when: action.tool == 'export_page'
    owner: ops
    reason: Long over.
    expires: 2020-01-01
`})
	if err != nil {
		t.Fatal(err)
	}
	p := newPipeline(t, embedded.Config{Rules: set})
	ask := func(tool string) *streams.VerdictEntry {
		return p.decide(&streams.Action{Head: streams.Head{Session: "s"}, Tool: tool,
			Args: []byte(`{"text":"ghp_16C7e42F292c6912E7710c838347Ae178B4a"}`)})
	}
	rule := func(v *streams.VerdictEntry) bool {
		for _, r := range v.Reasons {
			if r.Rule == "secret-leaves" && r.Verdict != streams.Allow {
				return true
			}
		}
		return false
	}
	for tool, denied := range map[string]bool{"export_notes": false, "export_page": true, "export_table": true} {
		if v := ask(tool); rule(v) != denied {
			t.Errorf("%s: %s, %+v", tool, v.Verdict, v.Reasons)
		}
	}
}
