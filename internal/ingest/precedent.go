package ingest

import (
	"encoding/binary"
	"slices"

	"lazaret/internal/stage"
	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// This file finds precedents. A precedent of a call is an earlier proposal of the same call by the same agent, on
// which no rule had a finding, in a session whose user used similar words. If there is a precedent, a memory that also
// asks for the call is no reason to hold the call.

// Bounds of precedents.
const (
	keptCalls  = 256 // number of calls that are stored for each agent, the latest ones
	keptSketch = 64  // maximum number of the user's words in a sketch: those with the lowest hashes
)

// Kinds of records under keyCall. Each comment lists the last part of the key and, after the arrow, the value.
const (
	callRecord = "c" // id → digest of the call, sketch of the user's words
	callSlot   = "n" // slot → id; without a slot → number of calls
	callPassed = "p" // digest → id of a call on which no rule had a finding
)

func callKey(project, agent, kind, id string) []byte {
	return stage.Key(keyCall, project, agent, kind, id)
}

// callDigest identifies a call by its tool and arguments. It is empty for arguments that
// have no canonical form.
func callDigest(project, agent, tool string, args []byte) string {
	d, err := approval.ActionDigest(project, agent, "", "", tool, args)
	if err != nil {
		return ""
	}
	return d
}

// sketchOf returns a sketch of the user's words: the keptSketch lowest of their hashes. alike compares two sketches.
// words are the hashes, in ascending order.
func sketchOf(words []uint32) []byte {
	var b []byte
	for _, h := range words[:min(len(words), keptSketch)] { // words are sorted
		b = binary.BigEndian.AppendUint32(b, h)
	}
	return b
}

// alike reports whether two sketches share at least half of their words.
func alike(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	x, y := wordsIn(a), wordsIn(b)
	all := append(slices.Clone(x), y...)
	slices.Sort(all)
	all = slices.Compact(all)
	all = all[:min(len(all), keptSketch)] // the words of both sketches with the lowest hashes
	both := 0
	for _, h := range all {
		if slices.Contains(x, h) && slices.Contains(y, h) {
			both++
		}
	}
	return 2*both >= len(all)
}

func wordsIn(b []byte) []uint32 {
	words := make([]uint32, 0, len(b)/4)
	for ; len(b) >= 4; b = b[4:] {
		words = append(words, binary.BigEndian.Uint32(b))
	}
	return words
}

// precedent returns the id of the earlier proposal that an action repeats, or an empty
// string.
func (f *Fold) precedent(st *stage.State, project string, e *streams.ActionEntry) (string, error) {
	if e.Level < beliefs.L2 || e.Unseen {
		return "", nil // below L2 and after a rejected observation, no rule uses a precedent
	}
	words, err := f.userWords(st, project, e.Agent, e.Session)
	if err != nil || len(words) == 0 {
		return "", err
	}
	digest := callDigest(project, e.Agent, e.Tool, e.Args)
	id, ok, err := st.Get(callKey(project, e.Agent, callPassed, digest))
	if err != nil || !ok || digest == "" {
		return "", err
	}
	r, ok, err := st.Get(callKey(project, e.Agent, callRecord, string(id)))
	if err != nil || !ok || len(r) < len(digest) || !alike(r[len(digest):], sketchOf(words)) {
		return "", err
	}
	return string(id), nil
}

// noteCallOf stores a proposal. Its verdict may make it a precedent.
func (f *Fold) noteCallOf(st *stage.State, project string, e *streams.ActionEntry) error {
	if e.Level < beliefs.L2 || e.Unseen {
		return nil
	}
	words, err := f.userWords(st, project, e.Agent, e.Session)
	if err != nil || len(words) == 0 {
		return err
	}
	digest := callDigest(project, e.Agent, e.Tool, e.Args)
	if digest == "" {
		return nil
	}
	counter := callKey(project, e.Agent, callSlot, "")
	n, err := count(st, counter)
	if err != nil {
		return err
	}
	slot := callKey(project, e.Agent, callSlot, string(binary.BigEndian.AppendUint16([]byte{'#'}, uint16(n%keptCalls))))
	old, ok, err := st.Get(slot)
	if err != nil {
		return err
	}
	if ok {
		if err := f.dropCall(st, project, e.Agent, string(old)); err != nil {
			return err
		}
	}
	if err := st.Set(slot, []byte(e.ID)); err != nil {
		return err
	}
	if err := st.Set(counter, binary.BigEndian.AppendUint64(nil, n+1)); err != nil {
		return err
	}
	return st.Set(callKey(project, e.Agent, callRecord, e.ID), append([]byte(digest), sketchOf(words)...))
}

// dropCall deletes the record of a call. If the call is a precedent, it no longer is.
func (f *Fold) dropCall(st *stage.State, project, agent, id string) error {
	key := callKey(project, agent, callRecord, id)
	r, ok, err := st.Get(key)
	if err != nil || !ok {
		return err
	}
	passed := callKey(project, agent, callPassed, string(r[:min(len(r), digestLen)]))
	if by, ok, err := st.Get(passed); err != nil {
		return err
	} else if ok && string(by) == id {
		if err := st.Delete(passed); err != nil {
			return err
		}
	}
	return st.Delete(key)
}

// digestLen is the length of a digest as text.
const digestLen = len("sha256:") + 64

// judged makes a call a precedent if no rule had a finding on it. A later finding on any proposal
// of the call removes the precedent.
func (f *Fold) judged(st *stage.State, project string, v *streams.VerdictEntry) error {
	if v.Type != streams.TypeAction || v.Again {
		return nil
	}
	r, ok, err := st.Get(callKey(project, v.Agent, callRecord, v.ID))
	if err != nil || !ok || len(r) < digestLen {
		return err
	}
	passed := callKey(project, v.Agent, callPassed, string(r[:digestLen]))
	if faultless(v) {
		return st.Set(passed, []byte(v.ID))
	}
	if _, ok, err := st.Get(passed); err != nil || !ok {
		return err
	}
	return st.Delete(passed)
}

// faultless reports whether the only reason of a verdict is the level of the tool, or a
// person approved the call.
func faultless(v *streams.VerdictEntry) bool {
	if v.Verdict == streams.Deny || len(v.Degraded) > 0 {
		return false
	}
	if v.Resolved != nil {
		return v.Verdict == streams.Allow
	}
	return !slices.ContainsFunc(v.Reasons, func(r streams.Reason) bool {
		return r.Verdict > streams.Allow && (r.Code != streams.CodeFloor || r.Rule != "")
	})
}
