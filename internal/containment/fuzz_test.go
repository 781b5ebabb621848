package containment

import (
	"testing"

	"lazaret/internal/fuzztest"
)

// FuzzParse parses lines of a labeled corpus, which are untrusted.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"dataset":"d","session_id":"s","attacked":true,"attack_type":"t","steps":[{"kind":"user","content":"u"},{"kind":"tool_result","content":"c","injected":true},{"kind":"action","tool":"t","args":{"a":1},"attacker_goal_match":"exact"}]}`))
	f.Add([]byte(`{"dataset":"d","id":"x","label":"attack","content":"c","user_task":"u","followup_action":{"tool":"t"},"meta":{"injected_text":"c","signal_by":"lexical"}}`))
	f.Add([]byte(`{"dataset":"d","id":"x","content":"c","steps":[],"followup_action":{"tool":"t"}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		fuzztest.Bounded(t, len(line), func() {
			if c, err := parse("f.jsonl", line); (c == nil) == (err == nil) {
				t.Fatalf("%v, %v", c, err)
			}
		})
	})
}
