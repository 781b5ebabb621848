package ingest

import (
	"encoding/binary"
	"fmt"
	"strings"

	"lazaret/internal/stage"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// A policy may require a sentinel group only if the group keeps up. Otherwise every later proposal would wait for a
// group that still reads old entries, and would be held when the wait ends. A group has answered all entries up to the
// input of its own last entry. If that input comes before the latest maxBehind proposals with a verdict, the group is
// behind.

// maxBehind is the maximum number of decided proposals of a partition that a group may be behind when a policy begins
// to require it.
const maxBehind = 16

// noteCursor stores how far a sentinel group has come: the input of its entry e.
func noteCursor(st *stage.State, group string, e *streams.Entry) error {
	key := stage.Key(keyCursor, group)
	v, ok, err := st.GetHot(key)
	if err != nil || ok && len(v) == 8 && binary.BigEndian.Uint64(v) >= e.Src {
		return err
	}
	return st.Set(key, binary.BigEndian.AppendUint64(nil, e.Src))
}

// noteDecided records that a proposal has a verdict. The latest maxBehind proposals of the partition are stored, in
// ledger order.
func noteDecided(st *stage.State, proposal uint64) error {
	v, _, err := st.GetHot([]byte{keyDecided})
	if err != nil {
		return err
	}
	if n := len(v); n >= 8 && binary.BigEndian.Uint64(v[n-8:]) >= proposal {
		return nil // an earlier proposal, or another verdict on the same one
	}
	if len(v) >= 8*maxBehind {
		v = v[8:]
	}
	return st.Set([]byte{keyDecided}, binary.BigEndian.AppendUint64(append([]byte(nil), v...), proposal))
}

// behind returns a rejection if a policy cannot be put in force yet, because groups that it requires are behind, or
// nil.
func (f *Fold) behind(st *stage.State, digest string, bundle []byte) (*streams.RejectError, error) {
	next, err := f.policies.Compiled(digest, bundle)
	if err != nil {
		return nil, err
	}
	groups := make([]string, len(next.Groups))
	for i, g := range next.Groups {
		groups[i] = g.Name
	}
	_, late, err := f.late(st, groups)
	if err != nil || late == "" {
		return nil, err
	}
	return &streams.RejectError{Code: streams.CodeBehind, Reason: late}, nil
}

// late returns those of the given groups that the policy in force does not require. why says why the partition refuses
// a policy that requires the given groups; it is "" if the partition accepts the policy.
func (f *Fold) late(st *stage.State, groups []string) (added []string, why string, err error) {
	now, _, err := f.policies.Active(st, streams.DoActivatePolicy)
	if err != nil {
		return nil, "", err
	}
	for _, g := range groups {
		if now == nil || !requires(now, g) {
			added = append(added, g)
		}
	}
	decided, _, err := st.GetHot([]byte{keyDecided})
	if err != nil || len(decided) < 8*maxBehind {
		return added, "", err
	}
	oldest := binary.BigEndian.Uint64(decided)
	var late []string
	for _, g := range added {
		v, _, err := st.GetHot(stage.Key(keyCursor, g))
		if err != nil {
			return nil, "", err
		}
		cursor := uint64(0)
		if len(v) == 8 {
			cursor = binary.BigEndian.Uint64(v)
		}
		if cursor < oldest {
			late = append(late, fmt.Sprintf("%s has read up to ledger entry %d", g, cursor))
		}
	}
	if late == nil {
		return added, "", nil
	}
	return added, fmt.Sprintf(
		"the policy requires groups that do not keep up in partition %d: %s; the %d proposals decided last begin at entry "+
			"%d; start the group, wait until it has caught up, and activate the policy again; if the group has nothing left to "+
			"read, it catches up with the next proposal in this partition",
		st.Partition(), strings.Join(late, ", "), maxBehind, oldest), nil
}

func requires(p *policy.Policy, group string) bool {
	for _, g := range p.Groups {
		if g.Name == group {
			return true
		}
	}
	return false
}
