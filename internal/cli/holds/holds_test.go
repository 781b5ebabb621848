package holds

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/holds"
	"lazaret/streams"
)

// The list of holds shows the reason that caused the hold: not a reason with the verdict allow, and not
// the level if there is a specific finding.
func TestPromiseA11HoldsAreListedUnderTheStrictestAndMostSpecificReason(t *testing.T) {
	var (
		alert = streams.Reason{Code: streams.CodeRule, Verdict: streams.Allow, Group: "core", Rule: "seen",
			Text: "only an alert"}
		rule = streams.Reason{Code: streams.CodeRule, Verdict: streams.Hold, Group: "core", Rule: "injected",
			Text: "a rule"}
		belief = streams.Reason{Code: streams.CodeBelief, Verdict: streams.Hold, Path: []string{"action:a", "belief:b"},
			Text: "a belief"}
		floor = streams.Reason{Code: streams.CodeFloor, Verdict: streams.Hold, Text: "L4"}
		list  = streams.Reason{Code: streams.CodeFloor, Verdict: streams.Hold, Path: []string{"action:a", "tools"},
			Text: "a list"}
		silent   = streams.Reason{Code: streams.CodeSilent, Verdict: streams.Hold, Group: "core", Text: "silent"}
		unseen   = streams.Reason{Code: streams.CodeUnseen, Verdict: streams.Hold, Text: "rejected observation"}
		denied   = streams.Reason{Code: streams.CodeFloor, Verdict: streams.Deny, Text: "denied"}
		expired  = streams.Reason{Code: streams.CodeExpired, Verdict: streams.Hold, Text: "expired"}
		rejected = streams.Reason{Code: streams.CodeRejected, Verdict: streams.Deny, Text: "rejected by alice"}
	)
	for _, c := range []struct {
		want    string
		reasons []streams.Reason
	}{
		{"L4", []streams.Reason{floor, alert}},
		{"rejected observation", []streams.Reason{floor, unseen, alert}},
		{"a rule", []streams.Reason{floor, rule, unseen, alert}},
		{"a belief", []streams.Reason{floor, unseen, belief}},
		{"silent", []streams.Reason{floor, silent}},
		{"a list", []streams.Reason{floor, list}},
		{"denied", []streams.Reason{denied, rule}},
		{"rejected observation", []streams.Reason{floor, unseen, expired}},
		{"a rule", []streams.Reason{floor, rule, rejected}},
		{"expired", []streams.Reason{expired}},
		{"", nil},
	} {
		if got := holds.TopReason(&streams.VerdictEntry{Reasons: c.reasons}); got.Text != c.want {
			t.Errorf("listed under %q, want %q, of %v", got.Text, c.want, c.reasons)
		}
	}
}

func TestAWithdrawalThatEndsNoHoldIsNegativeAndSaysWhatToDo(t *testing.T) {
	said := make(chan *nats.Msg, 2)
	said <- &nats.Msg{Data: []byte(`{"hold":"h1","id":"another","state":"cancelled"}`)}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var exit *cli.Exit
	if err := cancelled(ctx, io.Discard, said, "nosuch", 7); !errors.As(err, &exit) || exit.Code != cli.ExitNegative ||
		!strings.Contains(exit.Text, "lazaret holds ls") {
		t.Errorf("%v", err)
	}
	said <- &nats.Msg{Data: []byte(`{"hold":"h2","id":"a1","state":"cancelled"}`)}
	var out strings.Builder
	if err := cancelled(t.Context(), &out, said, "a1", 8); err != nil || !strings.Contains(out.String(), "h2") {
		t.Errorf("%q, %v", out.String(), err)
	}
	if err := oneHold(new(cobra.Command), nil); err == nil || !strings.Contains(err.Error(), "lazaret holds ls") {
		t.Errorf("%v", err)
	}
}

func TestTextsThatDifferAreDisplayedDifferently(t *testing.T) {
	for _, c := range [][2]string{
		{"delete \\u202efiles\n", "delete \u202efiles\n"},
		{"one\n", "one\r\n"},
		{"one\\r\n", "one\r\n"},
		{"\\x1b\n", "\x1b\n"},
	} {
		was, now := holds.PromptDiff("p", "", "p", c[0]), holds.PromptDiff("p", "", "p", c[1])
		if was == now {
			t.Errorf("%q and %q are both displayed as\n%s", c[0], c[1], was)
		}
	}
}
