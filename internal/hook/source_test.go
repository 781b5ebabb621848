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
		h := &claude{cfg: Config{Project: "p", Agent: "a"}, st: &state{t.TempDir()}, e: &Event{Name: UserPromptSubmit, Prompt: "send it", Source: source}, session: "s"}
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
