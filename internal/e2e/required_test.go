package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lazaret/internal/embedded"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// TestRequiringAGroupWaitsForItsCursor checks that a group becomes required only after it has answered
// the latest proposals.
func TestRequiringAGroupWaitsForItsCursor(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, embedded.Config{})
	var last uint64
	for i := range 20 {
		v := p.decide(&streams.Action{Head: streams.Head{ID: fmt.Sprint("a", i), Session: "s"}, Tool: "read_file"})
		last = v.Proposal
	}
	file := filepath.Join(t.TempDir(), "policy.yaml")
	text := strings.Replace(string(policy.Default), "groups: [core]",
		`groups: [core, {name: judge, digest: "external:judge-v1", deadline: 300ms}]`, 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, code := command(t, p.data, "policy", "activate", file, "--timeout", "3s")
	if code != 2 || !strings.Contains(out, "LZ405") || !strings.Contains(out, "judge has come to ledger entry 0") {
		t.Fatalf("exit %d: %s", code, out)
	}
	if v := p.decide(read("s")); v.Verdict != streams.Allow || len(v.Degraded) > 0 {
		t.Errorf("the last good policy is not in force: %+v", v)
	}
	j := newJudge(t, p, "judge")
	j.publish("judge", "assessment", last, `{"group":"judge","digest":"external:judge-v1","verdict":"allow"}`)
	must(t, p.data, "policy", "activate", file)
	if v := p.decide(read("s")); v.Verdict != streams.Hold || len(v.Degraded) != 1 || v.Degraded[0] != "judge" {
		t.Errorf("%+v", v)
	}
}
