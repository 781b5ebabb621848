package hook

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"lazaret/internal/fuzztest"
	"lazaret/streams"
)

// FuzzEvent checks that, for any input from a coding agent and any data of its tools, ingest admits
// each event made from it. A rejected one would count as shown without a judgment.
func FuzzEvent(f *testing.F) {
	f.Add([]byte(`{"session_id":"s","hook_event_name":"PostToolUse","tool_name":"WebFetch","tool_input":{"url":"https://a.example"},"tool_response":{"a":["x",{"b":"y"}]},"tool_use_id":"toolu_1"}`))
	f.Add([]byte(`{"session_id":"s","hook_event_name":"PreToolUse","cwd":"/p","tool_name":"Bash","tool_input":{"command":"echo x >> CLAUDE.md"},"tool_use_id":"t"}`))
	f.Add([]byte(`{"session_id":"../x","hook_event_name":"PreToolUse","tool_name":"MultiEdit","tool_input":{"file_path":"/p/CLAUDE.md","edits":[{"new_string":"a"}]}}`))
	f.Add([]byte(`{"session_id":"s","hook_event_name":"UserPromptSubmit","prompt":"\ud800 hi"}`))
	f.Add([]byte(`{"session_id":"s","hook_event_name":"PostToolUseFailure","tool_name":"t","error":"e","tool_input":[1],"tool_use_id":"a b"}`))
	root := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		var e Event
		if json.Unmarshal(b, &e) != nil {
			return
		}
		session := identifier(e.Session)
		if session == "" {
			return
		}
		if !streams.ValidID(session) {
			t.Fatalf("session %q became %q", e.Session, session)
		}
		h := &handler{cfg: Config{Project: "p", Agent: "a"}, host: ClaudeCode, st: &state{root}, e: &e, session: session}
		var last []byte
		h.send = func(_ context.Context, subject string, body []byte) error {
			a, err := streams.ParseIntake("lz.in.0" + subject[len("lz.in"):])
			if err == nil {
				_, err = streams.ParseEvent(a, "", body, 0)
			}
			last = body
			return err
		}
		fuzztest.Bounded(t, len(b), func() {
			switch e.Name {
			case PostToolUse, PostToolUseFailure:
				if _, err := h.returned(context.Background()); err != nil {
					t.Fatalf("%v: %q", err, last)
				}
			case PreToolUse:
				m := h.memory(h.memoryWritten())
				if m == nil {
					return
				}
				body, err := streams.Marshal(m)
				if err != nil {
					t.Fatal(err)
				}
				_, err = streams.ParseEvent(streams.Address{Kind: streams.KindMem}, "", body, 0)
				var r *streams.RejectError
				if err != nil && !(errors.As(err, &r) && r.Code == streams.CodeTooLarge) {
					t.Fatalf("%v: %q", err, body)
				}
			}
		})
	})
}
