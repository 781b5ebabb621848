package ingest

import (
	"strings"
	"testing"

	"lazaret/internal/activation"
	"lazaret/internal/stage"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

func TestAGroupIsRequiredOnlyOnceItKeepsUp(t *testing.T) {
	h := newHouse(t, offline(t))
	withJudge := []byte(strings.Replace(string(policy.Default), "groups: [core]",
		`groups: [core, {name: judge, digest: "external:v1"}]`, 1))
	decided := func(proposal uint64) {
		t.Helper()
		h.foldOther(streams.StageArbiter, streams.TypeVerdict, &streams.VerdictEntry{Proposal: proposal,
			Type: streams.TypeAction, ID: "a", Agent: "agent"})
	}
	answers := func(group string, src uint64) {
		t.Helper()
		if err := h.f.Apply(h.st, &streams.Entry{Seq: src + 1, Stage: streams.SentinelStage(group),
			Type: streams.TypeAssessment, Project: "demo", Src: src, Body: []byte("{}")}, nil); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(bundle []byte) string {
		t.Helper()
		r, err := h.f.behind(h.st, streams.Digest(bundle), bundle)
		if err != nil {
			t.Fatal(err)
		}
		if r == nil {
			return ""
		}
		if r.Code != streams.CodeBehind {
			t.Fatalf("the policy is refused for another reason: %+v", r)
		}
		return r.Reason
	}
	for i := range uint64(maxBehind - 1) {
		decided(10 * (i + 1))
	}
	if said := refused(withJudge); said != "" {
		t.Errorf("with little to answer: %s", said)
	}
	decided(10 * maxBehind)
	if said := refused(withJudge); !strings.Contains(said, "judge has read up to ledger entry 0") ||
		strings.Contains(said, "core has") {
		t.Errorf("a group that has answered nothing: %q", said)
	}
	if said := refused(policy.Default); said != "" {
		t.Errorf("groups that are required already: %s", said)
	}
	answers("judge", 9)
	if refused(withJudge) == "" {
		t.Error("a group that has not answered the oldest of the latest proposals is accepted")
	}
	answers("judge", 10)
	if said := refused(withJudge); said != "" {
		t.Errorf("a group that has answered the oldest of the latest proposals is refused: %s", said)
	}
	answers("judge", 5) // repeated: earlier answers still count
	if said := refused(withJudge); said != "" {
		t.Error(said)
	}
	decided(10 * maxBehind) // again, and one with an earlier policy
	decided(20)
	if said := refused(withJudge); said != "" {
		t.Error(said)
	}
	decided(1000)
	if refused(withJudge) == "" {
		t.Error("a group that fell behind again is accepted")
	}
	// Without any policy every group is new.
	st := stage.NewMemState(1)
	for i := range uint64(maxBehind) {
		if err := noteDecided(st, i+1); err != nil {
			t.Fatal(err)
		}
	}
	digest := streams.Digest(policy.Default)
	if r, err := h.f.behind(st, digest, policy.Default); err != nil || r == nil || !strings.Contains(r.Reason, "core") {
		t.Errorf("without a policy, the default policy is answered with %v, %v", r, err)
	}
	if err := activation.Put(st, streams.DoActivatePolicy, withJudge); err != nil {
		t.Fatal(err)
	}
	if r, err := h.f.behind(st, digest, policy.Default); err != nil || r != nil {
		t.Errorf("to require fewer: %v, %v", r, err)
	}
}
