package mcpproxy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"lazaret/client"
	"lazaret/streams"
)

func TestACallWithAnotherLargeNumberIsAnotherCall(t *testing.T) {
	key := func(args string) string { return callKey("pay", jsontext.Value(args)) }
	for _, pair := range [][2]string{
		{`{"n":9007199254740992}`, `{"n":9007199254740993}`},
		{`{"n":0.1}`, `{"n":0.10000000000000000001}`},
	} {
		if key(pair[0]) == key(pair[1]) {
			t.Errorf("%s and %s are one call", pair[0], pair[1])
		}
	}
	if key(`{"a":1, "b":"é"}`) != key(`{"b":"\u00e9","a":1}`) {
		t.Error("the order of names makes another call")
	}
}

func TestMoreThan4096HeldCallsAreRemembered(t *testing.T) {
	p := &Proxy{pending: make(map[string][]proposed)}
	const n = 10_000
	for i := range n {
		p.put(callKey("t", jsontext.Value(fmt.Sprint(i))), proposed{id: fmt.Sprint(i)})
	}
	for i := range n {
		if got, _ := p.take(callKey("t", jsontext.Value(fmt.Sprint(i))), ""); got.id != fmt.Sprint(i) {
			t.Fatalf("call %d has proposal %q", i, got.id)
		}
	}
}

// The limit of remembered calls is for the memory that they need. So each of several equal calls must count.
func TestTheLimitOfHeldCallsCountsEqualOnes(t *testing.T) {
	p := &Proxy{pending: make(map[string][]proposed)}
	for i := range 2 * maxEqual {
		p.put("a", proposed{id: fmt.Sprint(i)})
	}
	if p.remembered != maxEqual {
		t.Errorf("%d are counted, want %d", p.remembered, maxEqual)
	}
	p.remembered = maxPending
	if p.put("b", proposed{id: "b"}); p.pending["b"] != nil {
		t.Error("another one is remembered at the limit")
	}
	p.take("a", "")
	if p.put("b", proposed{id: "b"}); p.pending["b"] == nil {
		t.Error("none is remembered below the limit")
	}
}

func TestOnlyAnOpenHoldPromisesAnApproval(t *testing.T) {
	const promise, later = "Once it is approved", "the same call again later"
	open := &client.Reply{Verdict: streams.Hold, Entry: &streams.VerdictEntry{Hold: &streams.HoldRef{ID: "h1"}}}
	for _, x := range []struct {
		name    string
		refusal refusal
		want    string
	}{
		{"an open hold", refusal{rep: open}, promise},
		{"arguments that are rejected", refusal{err: &client.Error{Code: streams.CodeInvalid}}, ""},
		{"a full intake", refusal{err: &client.Error{Code: streams.CodeIntakeFull}}, later},
		{"a lost connection", refusal{err: errUnreachable}, later},
		{"an ended hold", refusal{rep: &client.Reply{Verdict: streams.Hold, Entry: new(streams.VerdictEntry)}}, ""},
	} {
		got := string(x.refusal.result(jsonrpc.ID{}, "t").Result)
		for _, s := range []string{promise, later} {
			if strings.Contains(got, s) != (s == x.want) {
				t.Errorf("%s: the model reads %s", x.name, got)
			}
		}
	}
}
