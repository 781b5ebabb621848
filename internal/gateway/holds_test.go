package gateway

import (
	"fmt"
	"strings"
	"testing"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

func TestAGatewayThatStartsLaterKnowsTheHoldsOfItsAgents(t *testing.T) {
	p := newPipe(t)
	project, secret := p.agent(t, beliefs.Origins())
	_, stranger := p.agent(t, beliefs.Origins())
	held := p.verdict(t, secret, "POST", "/v1/decide", fmt.Sprintf(email, "a1"))
	if held.Verdict != streams.Hold || held.Entry.Hold == nil {
		t.Fatalf("sending is %s", held.Verdict)
	}
	g, err := Start(Config{Data: p.data, Listen: "127.0.0.1:0", Dial: p.dial})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	later := &pipe{Pipeline: p.Pipeline, Gateway: g}
	path := "/v1/holds/" + held.Entry.Hold.ID
	if rep := later.verdict(t, secret, "GET", path, ""); rep.Verdict != streams.Hold || rep.Entry.Hold == nil ||
		rep.Entry.Tool != "send_email" {
		t.Errorf("the hold is %s %+v", rep.Verdict, rep.Entry)
	}
	if rep := later.verdict(t, secret, "GET", path+"?wait=50ms", ""); rep.Verdict != streams.Hold {
		t.Errorf("the hold is %s", rep.Verdict)
	}
	for _, wrong := range [][2]string{{stranger, path}, {secret, "/v1/holds/hffffffffffffffff"}, {secret,
		"/v1/holds/*"}} {
		if code, body := later.send(t, wrong[0], "GET", wrong[1], ""); code != 404 {
			t.Errorf("%s: %d %s", wrong[1], code, body)
		}
	}
	answer := make(chan *streams.Reply)
	go func() { answer <- later.verdict(t, secret, "GET", path+"?wait=60s", "") }()
	p.approve(t, project, held.Entry)
	if rep := <-answer; rep.Verdict != streams.Allow {
		t.Errorf("after the approval it is %s", rep.Verdict)
	}
	if rep := later.verdict(t, secret, "GET", path, ""); rep.Verdict != streams.Allow {
		t.Errorf("asked again it is %s", rep.Verdict)
	}
}

// A hold is looked up at the gateway that received the proposal, and at another gateway, which reads the arbiter's
// record. The hold's own agent must see it at both. Another agent of the same project must get "not found".
func TestAHoldIsOfItsAgentOnly(t *testing.T) {
	p := newPipe(t)
	project, secret := p.agent(t, beliefs.Origins())
	other := p.agentIn(t, project, "neighbour", beliefs.Origins())
	held := p.verdict(t, secret, "POST", "/v1/decide", fmt.Sprintf(email, "a1"))
	if held.Verdict != streams.Hold || held.Entry.Hold == nil {
		t.Fatalf("sending is %s", held.Verdict)
	}
	g, err := Start(Config{Data: p.data, Listen: "127.0.0.1:0", Dial: p.dial})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	path := "/v1/holds/" + held.Entry.Hold.ID
	for name, at := range map[string]*pipe{"the gateway": p, "a later gateway": {Pipeline: p.Pipeline, Gateway: g}} {
		if rep := at.verdict(t, secret, "GET", path, ""); rep.Verdict != streams.Hold {
			t.Errorf("%s: to its agent the hold is %s", name, rep.Verdict)
		}
		for _, wait := range []string{"", "?wait=50ms"} {
			if code, body := at.send(t, other, "GET", path+wait, ""); code != 404 || strings.Contains(body, "send_email") {
				t.Errorf("%s%s: to another agent of the project: %d %s", name, wait, code, body)
			}
		}
	}
}
