package policy

import (
	"testing"

	"lazaret/streams"
)

func TestPromiseC25OnlyNetworkSchemesAndAddressesNameHosts(t *testing.T) {
	p := compile(t, preamble+"tools: [{name: f, verbs: [fetch], level: L2, effects: [egress]}, {name: sh, verbs: [run], "+
		"level: L2, effects: [exec]}]\n")
	for _, c := range []struct {
		tool, args string
		private    bool
	}{
		{"fetch", `{"uri":"note://today"}`, false},
		{"fetch", `{"uri":"s3://bucket/key"}`, false},
		{"fetch", `{"uri":"memo://notes.internal/x"}`, false},
		{"fetch", `{"uri":"urn:isbn:0451450523"}`, false},
		{"fetch", `{"uri":"file:///tmp/x"}`, false},
		{"fetch", `{"recipient":"12345678"}`, false},
		{"fetch", `{"to":"2130706433"}`, false},
		{"fetch", `{"recipient":12345678}`, false},
		{"run", `{"command":"report 12345678"}`, false},
		{"fetch", `{"url":"http://2130706433/"}`, true},
		{"fetch", `{"url":"http://0x7f000001/"}`, true},
		{"fetch", `{"url":"http://0177.0.0.1/"}`, true},
		{"fetch", `{"x":"see http://2130706433/ please"}`, true},
		{"fetch", `{"url":"https://localhost/"}`, true},
		{"fetch", `{"url":"gopher://10.0.0.1/x"}`, true},
		{"fetch", `{"url":"git+ssh://intranet/x"}`, true},
		{"fetch", `{"url":"own://10.0.0.1:6379/x"}`, true},
		{"fetch", `{"url":"note://10.0.0.1/","b":"connect to 10.0.0.1"}`, true},
		{"fetch", `{"host":"2130706433"}`, true},
		{"fetch", `{"recipient":"10.0.0.1"}`, true},
		{"run", `{"command":"curl 2130706433"}`, true},
	} {
		args := []byte(c.args)
		if g := p.Guard(p.Classify(c.tool, args, "p", "a"), args); (g.Floor == streams.Deny) != c.private {
			t.Errorf("%s %s: %s", c.tool, c.args, show(g))
		}
	}
}
