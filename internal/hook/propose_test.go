package hook

import (
	"strings"
	"testing"

	"lazaret/client"
	"lazaret/streams"
)

// A person can no longer approve a hold that expired or was withdrawn. So only the refusal of an open hold tells the
// model to make the call again after an approval.
func TestOnlyAnOpenHoldTellsToCallAgainOnceItIsApproved(t *testing.T) {
	for _, c := range []struct {
		hold *streams.HoldRef
		want string
		once bool
	}{
		{&streams.HoldRef{ID: "h1"}, "until a person approves hold h1", true},
		{nil, "ended without an approval", false},
	} {
		got := reason(&client.Reply{Verdict: streams.Hold, Entry: &streams.VerdictEntry{Hold: c.hold}}, "the call")
		if !strings.Contains(got, c.want) || strings.Contains(got, "once it is approved") != c.once {
			t.Errorf("with hold %v: %s", c.hold, got)
		}
	}
}
