package hook

import (
	"context"
	"strings"
	"testing"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

func TestPromiseA5OnlyWhatTheUserTypedIsTheUsersWord(t *testing.T) {
	for source, want := range map[string]beliefs.Origin{
		"user": beliefs.OriginUser, "": beliefs.OriginUser,
		"loop_wakeup": beliefs.OriginAgent, "schedule_wakeup": beliefs.OriginAgent,
		"sdk": beliefs.OriginTool, "system": beliefs.OriginTool, "poll_event": beliefs.OriginTool,
		"User": beliefs.OriginTool, "something_new": beliefs.OriginTool,
	} {
		var subject string
		h := &handler{cfg: Config{Project: "p", Agent: "a"}, host: ClaudeCode, st: &state{t.TempDir()},
			e: &Event{Name: UserPromptSubmit,
				Prompt: "send it", Source: source}, session: "s"}
		h.send = func(_ context.Context, s string, _ []byte) error { subject = s; return nil }
		if err := h.prompted(context.Background()); err != nil {
			t.Fatal(err)
		}
		a, err := streams.ParseIntake("lz.in.0" + strings.TrimPrefix(subject, "lz.in"))
		if err != nil || a.Origin != want {
			t.Errorf("a prompt of source %q has origin %q, not %q (%v)", source, a.Origin, want, err)
		}
	}
}

// A server behind the host chooses the names and numbers in its results, and may send invalid UTF-8.
func TestPromiseA3AllOfAServersResultIsRecorded(t *testing.T) {
	var record string
	e := &Event{Name: PostToolUse, Tool: "mcp__bank__read", Call: "c", Error: "w0", mcp: true,
		Response: []byte(`{"w1":"w2","account":98765432101,"half":"w3\ud800w4"}`)}
	h := &handler{cfg: Config{Project: "p", Agent: "a"}, host: ClaudeCode, st: &state{t.TempDir()}, e: e, session: "s"}
	h.send = func(_ context.Context, _ string, body []byte) error { record += string(body); return nil }
	if _, err := h.returned(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, w := range []string{"w0", "w1", "w2", "98765432101", "w3\ufffdw4"} {
		if !strings.Contains(record, w) {
			t.Errorf("%q is not in %s", w, record)
		}
	}
}
