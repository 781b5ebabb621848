package chain_test

import (
	"bytes"
	"context"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"lazaret/pkg/chain"
)

// byProject is a Lawful for erasures of whole projects: a payload may be missing if a later entry of type "forgotten"
// in its project says so.
var byProject = &chain.Lawful{Statements: []string{"forgotten"},
	Judge: func(all iter.Seq[*chain.Statement]) chain.Ruling {
		last := make(map[string]int64)
		for s := range all {
			last[s.Project] = s.Index
		}
		return chain.Ruling{May: func(subject string, erased bool, leaf *chain.Leaf) bool {
			return !erased && subject == leaf.Project && leaf.Index < last[leaf.Project]
		}}
	}}

// nothing allows no forgetting.
var nothing = &chain.Lawful{Judge: func(iter.Seq[*chain.Statement]) chain.Ruling {
	return chain.Ruling{May: func(string, bool, *chain.Leaf) bool { return false }}
}}

func verifyLawful(t *testing.T, f files, k keypair) chain.Report {
	t.Helper()
	rep, err := chain.VerifyDir(context.Background(), "log", chain.Options{FS: f.fs(t), MasterKey: master},
		chain.VerifyOptions{Verifiers: k.verifier, Lawful: byProject})
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// An attacker with the disk can destroy a key, or make a payload seem to be under a destroyed key. Verification must
// accept the missing payload only if an entry of the log orders to forget it.
func TestADestroyedKeyIsAFindingUnlessTheLogSaysThatItIsToBeForgotten(t *testing.T) {
	k := newKey(t, "log")
	fs := vfs.NewMem()
	l := open(t, fs, "log", k)
	say := func(from, to uint64) {
		t.Helper()
		if err := l.Append(entries(from, to)); err != nil {
			t.Fatal(err)
		}
	}
	state := func(seq uint64, project string) {
		t.Helper()
		e := chain.Entry{Seq: seq, Time: time.Unix(1_700_000_000, int64(seq)).UTC(), Type: "forgotten", Project: project,
			Subject: "statements", Payload: []byte("forget it")}
		if err := l.Append([]chain.Entry{e}); err != nil {
			t.Fatal(err)
		}
	}
	closed := func() files {
		t.Helper()
		if _, err := l.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return readFiles(t, fs, "log")
	}
	destroy := func(project string) func(t *testing.T, f files) files {
		return func(t *testing.T, f files) files {
			fs := f.fs(t)
			l := open(t, fs, "log", k)
			if n, err := l.DestroyKeys(project); n == 0 || err != nil {
				t.Fatal(n, err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			return readFiles(t, fs, "log")
		}
	}
	say(1, 299)
	if _, err := l.DestroyKeys("p1"); err != nil {
		t.Fatal(err)
	}
	state(300, "p1")
	say(301, 600)
	honest := closed()
	if rep := verifyLawful(t, honest, k); rep.Status != chain.Verified || rep.Forgotten != 100 {
		t.Fatalf("what the log says is to be forgotten: %+v", rep)
	}

	for _, c := range []struct {
		name  string
		first int64
		do    func(t *testing.T, f files) files
	}{
		{"the keys of a project that nothing is said of", 1, destroy("p2")},
		{"the keys of what came after the statement", 300, destroy("p1")},
		{"the key of the statement", 299, destroy("statements")},
		{"a record said to be under another project's key that was destroyed", 1, func(t *testing.T, f files) files {
			return record(t, f, func(db *pebble.DB) error {
				return relabel(db, "p2", "p1")
			})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rep := verifyLawful(t, c.do(t, honest), k)
			if rep.Status != chain.Failed || rep.FirstBad != c.first || !strings.Contains(rep.Problems[0],
				"without a valid statement on forgetting") {
				t.Errorf("%+v, want leaf %d", rep, c.first)
			}
		})
	}
}

// relabel changes a payload record under one subject's key, so that it claims to be under another subject's key.
func relabel(db *pebble.DB, from, to string) error {
	it, err := db.NewIter(nil)
	if err != nil {
		return err
	}
	defer it.Close()
	prefix := append([]byte{0, byte(len(from))}, from...)
	for ok := it.First(); ok; ok = it.Next() {
		if it.Key()[0] != 'K' && bytes.HasPrefix(it.Value(), prefix) {
			v := bytes.Replace(it.Value(), []byte(from), []byte(to), 1)
			return db.Set(bytes.Clone(it.Key()), v, pebble.Sync)
		}
	}
	return it.Error()
}
