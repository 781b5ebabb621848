package live

import (
	"os"
	"path/filepath"
	"testing"

	"lazaret/internal/fuzztest"
)

// FuzzRead parses recorded sessions, which are untrusted.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"session_id":"s","attacked":true,"goal_calls":[{"tool":"t","args":{"a":1}}],"steps":[{"kind":"action","tool":"t","call_id":"1"},{"kind":"tool_result","tool":"t","call_id":"1","content":"- a: 2001-01-01","injected":true},{"kind":"session_break"}]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		fuzztest.Bounded(t, len(line), func() {
			name := filepath.Join(t.TempDir(), "f.jsonl")
			if err := os.WriteFile(name, line, 0o600); err != nil {
				t.Fatal(err)
			}
			if sessions, err := Read([]string{name}, Filter{JSON: true}); (len(sessions) == 0) == (err == nil) {
				t.Fatalf("%v, %v", sessions, err)
			}
		})
	})
}
