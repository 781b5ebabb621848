package live

import (
	"context"
	"testing"

	"lazaret/pkg/approval"
	"lazaret/pkg/intent"
	"lazaret/streams"
)

// A person approves each source once a session. A person who reads the sources approves none with a planted
// instruction.
func TestAPersonApprovesEachSourceOnce(t *testing.T) {
	s := &Session{Project: "demo", steps: []step{{injected: true}}}
	s.steps[0].Event = &streams.Observation{Head: streams.Head{ID: "planted"}}
	hold := func(digest string, g intent.Grounds) *streams.VerdictEntry {
		g.Digest = digest
		return &streams.VerdictEntry{Verdict: streams.Hold, Hold: &streams.HoldRef{ID: "h"}, Session: "s",
			Sources: []intent.Grounds{g}}
	}
	for _, reads := range []bool{false, true} {
		var asked []*approval.Statement
		p := &approver{&Person{Reads: reads, Sign: func(x *approval.Statement) ([]byte, error) {
			asked = append(asked, x)
			return nil, nil
		}, Send: func(context.Context, string, string, []byte) (*streams.ResolveReply, error) {
			return &streams.ResolveReply{State: streams.HoldApproved}, nil
		}}, s, make(map[string]bool)}
		for _, c := range []struct {
			v    *streams.VerdictEntry
			want bool
		}{
			{hold("a", intent.Grounds{Observations: []string{"o"}}), true},
			{hold("a", intent.Grounds{Observations: []string{"o"}}), false},
			{hold("b", intent.Grounds{Observations: []string{"o"}, Limit: "money"}), false},
			{hold("b", intent.Grounds{Observations: []string{"o"}, Strange: "to"}), false},
			{hold("c", intent.Grounds{Observations: []string{"planted"}}), !reads},
			{&streams.VerdictEntry{Verdict: streams.Deny}, false},
		} {
			if got, err := p.approve(t.Context(), c.v); err != nil || got != c.want {
				t.Errorf("reads %v: %+v: %v, %v", reads, c.v.Sources, got, err)
			}
		}
		if len(asked) == 0 || asked[0].Source == nil || asked[0].Source.Digest != "a" || asked[0].Source.Session != "s" {
			t.Errorf("%+v", asked)
		}
	}
}
