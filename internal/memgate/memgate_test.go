package memgate

import (
	"context"
	"strings"
	"testing"

	"lazaret/client"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// gate admits every text up to a quota in each request, as the pipeline does, and records the requests.
type gate struct {
	quota    int
	requests []*streams.Recall
}

func (g *gate) Remember(context.Context, beliefs.Origin, *streams.Memory) (*client.Reply, error) {
	return nil, context.Canceled
}

func (g *gate) Gate(_ context.Context, r *streams.Recall) (*client.Reply, error) {
	g.requests = append(g.requests, r)
	e := &streams.RecallEntry{MaxExternal: g.quota}
	for _, c := range r.Candidates {
		if len(e.Admitted) == g.quota {
			e.Refused = append(e.Refused, streams.Refusal{Reason: beliefs.ReasonExternal})
			continue
		}
		e.Admitted = append(e.Admitted, streams.RecallItem{Content: c.Content,
			BeliefRef: streams.BeliefRef{Origin: beliefs.OriginWeb}})
	}
	return &client.Reply{Verdict: streams.Allow, Entry: new(streams.VerdictEntry), Recall: e}, nil
}

func TestTheQuotaOfExternalTextsHoldsOverAllBatches(t *testing.T) {
	texts := make([]string, 150)
	for i := range texts {
		texts[i] = strings.Repeat("x", 150-i)
	}
	for _, quota := range []int{2, 120} {
		g := &gate{quota: quota}
		found, err := Read(t.Context(), g, streams.Head{}, "store:x", texts)
		if err != nil {
			t.Fatal(err)
		}
		if len(g.requests) != 2 { // a text beyond the quota is not asked about again
			t.Errorf("quota %d: %d requests for 150 texts", quota, len(g.requests))
		}
		for i, f := range found {
			if admitted := f.Channel == Admitted; admitted != (i < quota) || !admitted && !strings.Contains(f.Why,
				beliefs.ReasonExternal) {
				t.Errorf("quota %d, text %d: %+v", quota, i, f)
			}
		}
	}
}

func TestARequestToTheGateStaysBelowTheSizeOfAnEvent(t *testing.T) {
	const size = 12 << 10
	texts := make([]string, streams.MaxCandidates)
	for i := range texts {
		texts[i] = strings.Repeat("\x01\n", size/2-i) // a control character takes six bytes in JSON
	}
	g := &gate{quota: 1000}
	found, err := Read(t.Context(), g, streams.Head{}, "store:x", texts)
	if err != nil || len(found) != len(texts) {
		t.Fatal(err)
	}
	for i, f := range found {
		if f.Channel != Admitted || f.Text != texts[i] {
			t.Errorf("text %d is %s", i, f.Channel)
		}
	}
	for _, r := range g.requests {
		if b, err := streams.Marshal(r); err != nil || len(b) > streams.DefaultMaxEvent {
			t.Errorf("a request of %d texts has %d bytes, %v", len(r.Candidates), len(b), err)
		}
	}
}
