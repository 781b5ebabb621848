package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/internal/embedded"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

func action(session, tool, args string) *streams.Action {
	a := &streams.Action{Head: streams.Head{Session: session}, Tool: tool}
	if args != "" {
		a.Args = jsontext.Value(args)
	}
	return a
}

// withPolicy returns a configuration with the shipped policy and more text at its end.
func withPolicy(more string) embedded.Config {
	return embedded.Config{Policy: []byte(string(policy.Default) + more)}
}

func TestDestinationsAndResourcesAreJudgedByThePolicy(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, withPolicy(`
egress:
  allow: [api.example.com, 203.0.113.0/24]
protected:
  - {name: system, resources: ["/etc/*"]}
`))
	for _, c := range []struct {
		tool, args string
		want       streams.Verdict
		code       streams.Code
	}{
		{"fetch_page", `{"url":"https://api.example.com/v1"}`, streams.Allow, ""},
		{"fetch_page", `{"url":"https://other.example.net/"}`, streams.Hold, streams.CodeEgress},
		{"fetch_page", `{"url":"http://0xa9fea9fe/latest"}`, streams.Deny, streams.CodeEgress},
		{"fetch_page", `{"url":"http://[::ffff:10.0.0.1]/"}`, streams.Deny, streams.CodeEgress},
		{"read_file", `{"path":"notes.txt"}`, streams.Allow, ""},
		{"read_file", `{"path":"/work/../etc/shadow"}`, streams.Deny, streams.CodeProtected},
		// A destination in the list of allowed ones does not lower the level of the tool.
		{"send_email", `{"to":"x@api.example.com"}`, streams.Hold, streams.CodeFloor},
	} {
		if v := p.decide(action("s", c.tool, c.args)); v.Verdict != c.want || c.code != "" && !has(v, c.code) {
			t.Errorf("%s %s: %s %+v, want %s %s", c.tool, c.args, v.Verdict, v.Reasons, c.want, c.code)
		}
	}
}

func TestPrivateAddressesAreDeniedByAPolicyThatSaysNothingOfThem(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, embedded.Config{})
	for _, url := range []string{"http://169.254.169.254/latest/meta-data/", "http://192.168.1.1/",
		"http://localhost:8080/"} {
		if v := p.decide(action("s", "fetch_page", fmt.Sprintf(`{"url":%q}`, url))); v.Verdict != streams.Deny ||
			!has(v, streams.CodeEgress) {
			t.Errorf("%s: %s %+v", url, v.Verdict, v.Reasons)
		}
	}
}

func TestCataloguesRaiseLevelsAndNeverLowerThem(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, embedded.Config{})
	tools := func(annotations string) {
		t.Helper()
		if _, err := p.c.Publish(p.ctx, streams.KindTools, "", &streams.Tools{Server: "crm", Tools: []streams.Tool{
			{Name: "get_user", Annotations: jsontext.Value(annotations)},
			{Name: "send_email", Annotations: jsontext.Value(`{"readOnlyHint":true}`)}}}); err != nil {
			t.Fatal(err)
		}
	}
	if v := p.decide(action("s", "get_user", "")); v.Verdict != streams.Allow || v.Level != "L1" {
		t.Fatalf("before any catalogue: %s %s", v.Verdict, v.Level)
	}
	tools(`{"destructiveHint":true}`)
	for _, tool := range []string{"get_user", "mcp__crm__get_user", "crm.getUser"} {
		if v := p.decide(action("s", tool, "")); v.Verdict != streams.Hold || v.Level != "L4" ||
			!strings.Contains(fmt.Sprint(v.Reasons), "destructiveHint") {
			t.Errorf("%s: %s %s %+v", tool, v.Verdict, v.Level, v.Reasons)
		}
	}
	// The server now says that the tool is not destructive and only reads. The tool must still be held.
	tools(`{"destructiveHint":false,"readOnlyHint":true}`)
	if v := p.decide(action("s", "get_user", "")); v.Verdict != streams.Hold {
		t.Errorf("after the hint was taken back: %s", v.Verdict)
	}
	if v := p.decide(action("s", "send_email", "")); v.Verdict != streams.Hold || v.Level != "L4" {
		t.Errorf("readOnlyHint lowered send_email: %s %s", v.Verdict, v.Level)
	}
}

func TestHoldsInAMinuteAreCounted(t *testing.T) {
	long(t)
	t.Parallel()
	p := newPipeline(t, withPolicy("\nmax_holds_per_minute: 3\n"))
	for i := range 5 {
		v := p.decide(action("s", "send_email", fmt.Sprintf(`{"to":"x%d@example.org"}`, i)))
		want, code := streams.Hold, streams.CodeFloor
		if i >= 3 {
			want, code = streams.Deny, streams.CodeHoldRate
		}
		if v.Verdict != want || !has(v, code) {
			t.Errorf("hold %d: %s %+v", i, v.Verdict, v.Reasons)
		}
	}
	if v := p.decide(read("s")); v.Verdict != streams.Allow {
		t.Errorf("what is allowed is no hold: %s", v.Verdict)
	}
}

func TestAnEntryAsksForAGroupOfItsOwn(t *testing.T) {
	long(t)
	t.Parallel()
	text := strings.Replace(string(policy.Default), "groups: [core]",
		`groups: [core, {name: judge, digest: "external:v1", deadline: 300ms, for: entries}]`, 1)
	text = strings.Replace(text, "tools:\n",
		"tools:\n  - {name: judged, tools: [ledger.*], level: L3, groups: [judge]}\n", 1)
	p := newPipeline(t, embedded.Config{Policy: []byte(text)})
	if v := p.decide(read("s")); v.Verdict != streams.Allow || len(v.Degraded) != 0 {
		t.Errorf("an action that no judge is asked for: %s %v", v.Verdict, v.Degraded)
	}
	v := p.decide(action("s", "ledger.update_note", ""))
	if v.Verdict != streams.Hold || len(v.Degraded) != 1 || v.Degraded[0] != "judge" {
		t.Errorf("with the judge silent: %+v", v)
	}
}
