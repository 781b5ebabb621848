package arbiter

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

const (
	rulesDigest = "sha256:rules"
	patience    = 2 * time.Second // the deadline of the groups
)

var epoch = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// testPolicy returns the shipped policy with the groups of a test.
func testPolicy(t testing.TB, replace ...string) []byte {
	t.Helper()
	text := strings.Replace(string(policy.Default), "groups: [core]", "groups: [a, b]", 1)
	for i := 0; i+1 < len(replace); i += 2 {
		next := strings.Replace(text, replace[i], replace[i+1], 1)
		if next == text {
			t.Fatalf("the shipped policy does not hold %q", replace[i])
		}
		text = next
	}
	return []byte(text)
}

// emptyState returns the state of a partition in which a policy and rules are in force.
func emptyState(t testing.TB, pol []byte) *stage.State {
	t.Helper()
	st := stage.NewMemState(0)
	fill(t, st, pol)
	return st
}

func fill(t testing.TB, st *stage.State, pol []byte) {
	t.Helper()
	for key, value := range map[string]string{
		"\xa0a" + streams.DoActivatePolicy: streams.Digest(pol),
		"\xa0b" + streams.DoActivatePolicy: string(pol),
		"\xa0a" + streams.DoActivateRules:  rulesDigest,
	} {
		if err := st.Set([]byte(key), []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
}

// foldLike returns a new fold with the compiled policies of f.
func foldLike(f *Fold) *Fold {
	g := NewFold(note.VerifierList(), slog.New(slog.DiscardHandler))
	g.policies = f.policies
	return g
}

func entry(t testing.TB, seq uint64, at time.Time, stg string, typ streams.Type, src uint64, body any) *streams.Entry {
	t.Helper()
	b, err := streams.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return &streams.Entry{Seq: seq, Time: at, Stage: stg, Type: typ, Project: "demo", Src: src, Body: b}
}

func action(id, tool string, level beliefs.Level) *streams.ActionEntry {
	return &streams.ActionEntry{EntryHead: streams.EntryHead{ID: id, Agent: "agent", Session: "s"},
		Action: beliefs.Action{Tool: tool, Contract: beliefs.Contract{Level: level}}}
}

// desk is an arbiter with a ledger. Its decisions are published at once.
type desk struct {
	t       testing.TB
	f       *Fold
	st      *stage.State
	ledger  []*streams.Entry
	project string // of added entries; empty: demo
	base    uint64 // sequence of the entry before ledger[0]
	now     time.Time
}

// newArbiter returns an empty fold.
func newArbiter(testing.TB) *Fold {
	return NewFold(note.VerifierList(), slog.New(slog.DiscardHandler))
}

func (d *desk) tail() uint64 { return d.base + uint64(len(d.ledger)) }

func newDesk(t testing.TB, like *Fold, pol []byte) *desk {
	return &desk{t: t, f: foldLike(like), st: emptyState(t, pol), now: epoch}
}

// add appends an entry and the arbiter's output for it, and returns the entry's sequence.
func (d *desk) add(stg string, typ streams.Type, src uint64, body any) uint64 {
	d.t.Helper()
	d.now = d.now.Add(time.Millisecond)
	e := entry(d.t, d.tail()+1, d.now, stg, typ, src, body)
	if d.project != "" {
		e.Project = d.project
	}
	d.ledger = append(d.ledger, e)
	d.step(e)
	return e.Seq
}

func (d *desk) step(e *streams.Entry) {
	d.t.Helper()
	out, err := d.f.Step(d.st, e)
	if err != nil {
		d.t.Fatal(err)
	}
	if out == nil {
		return
	}
	own := &streams.Entry{Seq: d.tail() + 1, Time: d.now, Stage: streams.StageArbiter, Type: out.Type,
		Project: out.Project, Src: e.Seq, Body: out.Body}
	d.ledger = append(d.ledger, own)
	d.step(own)
}

// wait lets time pass and writes the due entries of all timers that passed.
func (d *desk) wait(by time.Duration) {
	d.t.Helper()
	d.now = d.now.Add(by)
	for {
		at, due, ok, err := d.f.Timer(d.st)
		if err != nil {
			d.t.Fatal(err)
		}
		if !ok || at.After(d.now) {
			return
		}
		e := &streams.Entry{Seq: d.tail() + 1, Time: d.now, Stage: streams.StageArbiter, Type: due.Type,
			Project: due.Project, Src: d.tail(), Body: due.Body}
		d.ledger = append(d.ledger, e)
		d.step(e)
	}
}

func (d *desk) assess(group string, src uint64, a *streams.AssessmentEntry) {
	d.t.Helper()
	a.Group = group
	if a.Digest == "" {
		a.Digest = rulesDigest
	}
	d.add(streams.SentinelStage(group), streams.TypeAssessment, src, a)
}

// verdicts returns the verdicts on a proposal, in order.
func (d *desk) verdicts(seq uint64) []*streams.VerdictEntry {
	d.t.Helper()
	var out []*streams.VerdictEntry
	for _, e := range d.ledger {
		if e.Type != streams.TypeVerdict || e.Stage != streams.StageArbiter {
			continue
		}
		v := new(streams.VerdictEntry)
		if err := streams.Unmarshal(e.Body, v); err != nil {
			d.t.Fatal(err)
		}
		if v.Proposal == seq {
			out = append(out, v)
		}
	}
	return out
}

func (d *desk) last(seq uint64) *streams.VerdictEntry {
	d.t.Helper()
	vs := d.verdicts(seq)
	if len(vs) == 0 {
		d.t.Fatalf("no verdict on entry %d", seq)
	}
	return vs[len(vs)-1]
}
