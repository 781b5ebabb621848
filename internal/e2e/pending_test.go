package e2e

import (
	"strings"
	"testing"
	"time"

	"lazaret/client"
	"lazaret/internal/embedded"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// The policy gives a sentinel group more time than the front waits for a verdict. The caller must be told that the
// verdict is pending, and must get it by asking again.
func TestPromiseA2AVerdictThatThePolicyWaitsForIsPendingAlsoOfAReusedId(t *testing.T) {
	long(t)
	t.Parallel()
	text := strings.Replace(string(policy.Default), "groups: [core]",
		`groups: [core, {name: judge, digest: "external:v1", deadline: 3s, for: entries}]`, 1)
	text = strings.Replace(text, "tools:\n",
		"tools:\n  - {name: judged, tools: [ledger.*], level: L3, groups: [judge]}\n", 1)
	p := newPipeline(t, embedded.Config{Policy: []byte(text), AnswerTimeout: time.Second})
	m, err := p.agent.Request("lz.svc.decide.demo.agent",
		[]byte(`{"id":"a1","session":"s","tool":"ledger.update_note"}`), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var rep streams.Reply
	if err := streams.Unmarshal(m.Data, &rep); err != nil {
		t.Fatal(err)
	}
	if rep.Error == nil || rep.Error.Code != streams.CodePending || rep.Verdict != streams.Hold || rep.IntakeSeq == 0 ||
		!rep.Until.After(time.Now()) || rep.Until.After(time.Now().Add(3*time.Second)) {
		t.Fatalf("%s", m.Data)
	}
	// Another proposal with the same id must also be reported as pending. It must not time out.
	if m, err = p.agent.Request("lz.svc.decide.demo.agent",
		[]byte(`{"id":"a1","session":"s","tool":"ledger.update_page"}`), 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if rep = (streams.Reply{}); streams.Unmarshal(m.Data, &rep) != nil || rep.Error == nil ||
		rep.Error.Code != streams.CodePending {
		t.Errorf("of a reused id: %s", m.Data)
	}
	// The Go client repeats the request until there is a verdict.
	c, err := client.New(p.agent, "demo", "agent")
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Decide(p.ctx, &streams.Action{Head: streams.Head{ID: "a2", Session: "s"}, Tool: "ledger.update_note"})
	if err != nil || got.Verdict != streams.Hold || len(got.Entry.Degraded) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	proposals := 0
	for _, e := range p.entries(streams.TypeAction) {
		if e.Stage == streams.StageIngest && strings.Contains(string(e.Body), `"a2"`) {
			proposals++
		}
	}
	if proposals != 1 {
		t.Errorf("the intake stored the proposal %d times", proposals)
	}
}
