package arbiter

import (
	"testing"

	"lazaret/pkg/approval"
	"lazaret/streams"
)

// A person approves the hold of a tool catalogue without naming levels. Then acceptedTools returns no levels, so that
// the policy's levels apply. For the hold of another action it returns nil.
func TestAnApprovalOfToolsWithoutLevelsNamesNone(t *testing.T) {
	h := &hold{Body: `{"server":"mail","digest":"d","tools":[{"name":"send"}]}`}
	h.Entry.Tool = streams.ApproveTools
	if a, err := acceptedTools(h, new(approval.Signed)); err != nil || a == nil || len(a.Levels) != 0 {
		t.Errorf("a list of tools: %+v, %v", a, err)
	}
	h.Entry.Tool = "send"
	if a, err := acceptedTools(h, new(approval.Signed)); err != nil || a != nil {
		t.Errorf("another action: %+v, %v", a, err)
	}
}
