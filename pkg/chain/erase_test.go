package chain_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"lazaret/pkg/chain"
)

// byList is a Lawful for erasures of single payloads: a payload may be missing if an entry of type "erased" lists it.
var byList = &chain.Lawful{Statements: []string{"erased"}, Judge: func(all iter.Seq[*chain.Statement]) chain.Ruling {
	listed := make(map[string]bool)
	for s := range all {
		for seq := range strings.FieldsSeq(string(s.Payload)) {
			listed[s.Project+" "+seq] = true
		}
	}
	return chain.Ruling{May: func(_ string, erased bool, leaf *chain.Leaf) bool {
		return erased && listed[fmt.Sprintf("%s %d", leaf.Project, leaf.Seq)]
	}}
}}

// An erased payload must be gone from every file, even in encrypted form, because its key still exists. Other payloads
// under that key must stay readable. The verification must report a missing payload as a finding unless an entry of
// type "erased" lists it.
func TestSinglePayloadsAreErasedAndAFindingUnlessAStatementListsThem(t *testing.T) {
	k := newKey(t, "log")
	fs := vfs.NewMem()
	l := open(t, fs, "log", k)
	entry := func(seq uint64, typ, project, payload string) chain.Entry {
		return chain.Entry{Seq: seq, Time: time.Unix(1_700_000_000, int64(seq)).UTC(), Type: typ, Project: project,
			Payload: []byte(payload)}
	}
	say := func(es ...chain.Entry) {
		t.Helper()
		if err := l.Append(es); err != nil {
			t.Fatal(err)
		}
	}
	for seq := uint64(1); seq <= 600; seq++ {
		if seq%50 != 0 { // gaps
			say(entry(seq, "memory", "acme", fmt.Sprintf("said %d %s", seq, strings.Repeat("x", 200))))
		}
	}
	say(entry(601, "memory", "other", "another project's"))
	// The sequences to erase. 50 has no entry, and 601 is of another project. boxes are the encrypted records of the
	// others.
	gone := []uint64{3, 50, 51, 299, 601}
	var boxes [][]byte
	for _, seq := range gone {
		if i, err := l.FindSeq(seq); err == nil && seq != 50 && seq != 601 {
			boxes = append(boxes, l.Box(t, i))
		}
	}
	holds := func() (n int) {
		t.Helper()
		f := readFiles(t, fs, "log")
		for _, b := range boxes {
			for _, content := range f {
				if bytes.Contains(content, b) {
					n++
					break
				}
			}
		}
		return n
	}
	if n := holds(); n != len(boxes) {
		t.Fatalf("%d of %d payloads are found in the files before: the test could not fail", n, len(boxes))
	}
	n, err := l.EraseEntries(context.Background(), gone, "acme", []string{"erased"})
	if err != nil || n != 3 {
		t.Fatalf("%d erased, %v, want 3: 50 is a gap and 601 another project's", n, err)
	}
	if n, err := l.EraseEntries(context.Background(), gone, "acme", []string{"erased"}); err != nil || n != 0 {
		t.Errorf("again: %d, %v", n, err)
	}
	if n := holds(); n != 0 {
		t.Errorf("%d payloads are still in the files, encrypted under a key that still exists", n)
	}
	verify := func() chain.Report {
		t.Helper()
		if _, err := l.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		rep, err := l.Verify(context.Background(), chain.VerifyOptions{Verifiers: k.verifier, Lawful: byList})
		if err != nil {
			t.Fatal(err)
		}
		return rep
	}
	if rep := verify(); rep.Status != chain.Failed || rep.Forgotten != 0 ||
		!strings.Contains(strings.Join(rep.Problems, "\n"), "without a valid statement on forgetting") {
		t.Errorf("no statement orders the erasure, but the report is %+v", rep)
	}
	say(entry(602, "erased", "acme", "3 51"))
	if rep := verify(); rep.Status != chain.Failed || len(rep.Problems) != 1 || !strings.Contains(rep.Problems[0],
		"ledger entry 299") {
		t.Errorf("the statement leaves out one payload, but the report is %+v", rep)
	}
	say(entry(603, "erased", "other", "299"))
	if rep := verify(); rep.Status != chain.Failed {
		t.Errorf("only another project's statement lists the payload, but the report is %+v", rep)
	}
	say(entry(604, "erased", "acme", "299"))
	if rep := verify(); rep.Status != chain.Verified || rep.Forgotten != 3 || rep.Payloads != rep.Entries-3 {
		t.Errorf("statements list each payload, but the report is %+v", rep)
	}
	i, _ := l.FindSeq(51)
	if _, err := l.Payload(i); err == nil || !strings.Contains(err.Error(), "forgotten") {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	rep, err := chain.VerifyDir(context.Background(), "log", chain.Options{FS: fs, MasterKey: master},
		chain.VerifyOptions{Verifiers: k.verifier, Lawful: byList})
	if err != nil || rep.Status != chain.Verified || rep.Forgotten != 3 {
		t.Errorf("opened again: %+v, %v", rep, err)
	}
}
