package replay_test

import (
	"strings"
	"testing"

	"lazaret/internal/fuzztest"
	"lazaret/internal/replay"
	"lazaret/streams"
)

// FuzzRead checks that everything that is parsed from a file of recorded sessions can be published: the
// project is synthetic, and the intake accepts every event or rejects it with a reason.
func FuzzRead(f *testing.F) {
	f.Add("f.jsonl", `{"session_id":"s","steps":[{"kind":"user","content":"hi"},{"kind":"action","tool":"t","args":{"a":1}},{"kind":"session_break"},{"kind":"memory","key":"k","content":"c","source_class":"agent"}]}`)
	f.Add("f.jsonl", `{"id":"x","content":"c","user_task":"u","tool":"memory.write","followup_action":{"tool":"t","args":[1]}}`+"\n\n{}\n")
	f.Add("é", `{"session_id":"é\u0000/..","steps":[{"kind":"tool_result","call_id":"`+strings.Repeat("x", 2000)+`"}]}`)
	f.Add("f", `{"session_id":"s","steps":null}`)
	f.Fuzz(func(t *testing.T, name, text string) {
		fuzztest.Bounded(t, len(name)+len(text), func() {
			scripts, err := replay.Read(strings.NewReader(text), name)
			if err != nil {
				return
			}
			for _, s := range scripts {
				if !streams.ValidID(s.Project) || !streams.IsSynthetic(s.Project) {
					t.Fatalf("project %q", s.Project)
				}
				for _, step := range s.Steps {
					if _, err := streams.IntakeSubject(s.Project, streams.ReplayAgent, step.Kind, step.Origin); err != nil {
						t.Fatalf("%v", err)
					}
					if _, err := streams.Marshal(step.Event); err != nil {
						t.Fatalf("%T cannot be encoded: %v", step.Event, err)
					}
				}
			}
		})
	})
}
