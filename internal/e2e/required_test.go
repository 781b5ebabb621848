package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/embedded"
	"lazaret/internal/ingest"
	"lazaret/internal/natsconn"
	"lazaret/internal/query"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// TestRequiringAGroupWaitsForItsCursor checks that a policy can require a sentinel group only after the group has
// answered the latest proposals.
func TestRequiringAGroupWaitsForItsCursor(t *testing.T) {
	long(t)
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
	if code != 2 || !strings.Contains(out, "LZ405") || !strings.Contains(out, "judge has read up to ledger entry 0") {
		t.Fatalf("exit %d: %s", code, out)
	}
	if v := p.decide(read("s")); v.Verdict != streams.Allow || len(v.Degraded) > 0 {
		t.Errorf("the last good policy is not in force: %+v", v)
	}
	// Only the partition of the project demo has proposals, so only there the group is behind. The command must publish
	// nothing, so that the other partitions keep the old policy too.
	if !strings.Contains(out, "nothing was published") {
		t.Error(out)
	}
	for n := range streams.Partitions {
		var a ingest.ActiveAnswer
		if err := query.Ask(p.ctx, p.op, ingest.AskActive, n, struct{}{}, &a); err != nil ||
			a.Policy != streams.Digest(policy.Default) {
			t.Errorf("partition %d: %+v, %v", n, a, err)
		}
	}
	refusedInPart(t, p, []byte(text))
	must(t, p.data, "policy", "activate") // the way back that the command names
	j := newJudge(t, p, "judge")
	j.publish("judge", "assessment", last, `{"group":"judge","digest":"external:judge-v1","verdict":"allow"}`)
	must(t, p.data, "policy", "activate", file)
	if v := p.decide(read("s")); v.Verdict != streams.Hold || len(v.Degraded) != 1 || v.Degraded[0] != "judge" {
		t.Errorf("%+v", v)
	}
}

// refusedInPart publishes a policy that the partition of demo refuses. This happens if a group falls behind after the
// command has checked it. The command must then say that the other partitions have the new policy in force.
func refusedInPart(t *testing.T, p *pipeline, bundle []byte) {
	t.Helper()
	a := &verb.App{Conn: natsconn.Flags{Data: p.data, Timeout: 10 * time.Second}}
	o, err := a.OpenOperator("", false)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Nc.Close()
	if err := o.Publish(p.ctx, streams.DoActivatePolicy, bundle); err != nil {
		t.Fatal(err)
	}
	err = o.Await(p.ctx, streams.DoActivatePolicy, bundle, io.Discard)
	demo := strconv.Itoa(streams.PartitionOf("demo"))
	var exit *cli.Exit
	if !errors.As(err, &exit) || exit.Code != cli.ExitIncomplete ||
		!strings.Contains(exit.Text, "and partitions "+demo+" refused it and keep what they had: LZ405") ||
		!strings.Contains(exit.Text, streams.Digest(bundle)) || !strings.Contains(exit.Text, "lazaret policy activate FILE") {
		t.Errorf("a policy that is in force in 15 partitions: %v", err)
	}
}

// TestAKeyThatNothingWasSignedWithIsNamed activates a policy that is in force already. The command must say that the
// key was not used. It must not say that the key was accepted.
func TestAKeyThatNothingWasSignedWithIsNamed(t *testing.T) {
	long(t)
	t.Parallel()
	p := newPipeline(t, embedded.Config{})
	key := filepath.Join(t.TempDir(), "x.key")
	must(t, p.data, "key", "gen", "x", key)
	if out := must(t, p.data, "policy", "activate", "--key", key); !strings.Contains(out,
		"(already; nothing was signed, and the key was not used)") {
		t.Error(out)
	}
	other := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(other, []byte("# other\n"+string(policy.Default)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := command(t, p.data, "policy", "activate", other, "--key", key); code != 2 ||
		!strings.Contains(out, "refused: LZ401") {
		t.Errorf("with a key that is not pinned: exit %d: %s", code, out)
	}
}
