package chain_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"lazaret/internal/proptest"
	"lazaret/pkg/chain"
)

// attackedSize is the number of leaves of the attacked log. The verifier has the log's checkpoint of size earlierSize.
// Attacks that use the log's own key change a leaf below that size.
const (
	attackedSize = 330
	earlierSize  = 300
)

// files has the contents of a log's folder.
type files map[string][]byte

func readFiles(t *testing.T, fs vfs.FS, dir string) files {
	t.Helper()
	out := make(files)
	var walk func(dir string)
	walk = func(dir string) {
		names, err := fs.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			p := path.Join(dir, n)
			info, err := fs.Stat(p)
			if errors.Is(err, os.ErrNotExist) {
				continue // Pebble was about to remove it
			}
			if err != nil {
				t.Fatal(err)
			}
			if info.IsDir() {
				walk(p)
				continue
			}
			f, err := fs.Open(p)
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(f)
			if err := errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
			out[p] = b
		}
	}
	walk(dir)
	return out
}

func (f files) fs(t *testing.T) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewMem()
	if err := fs.MkdirAll("log/store", 0o700); err != nil {
		t.Fatal(err)
	}
	for p, b := range f {
		w, err := fs.Create(p, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Write(bytes.Clone(b)) // the file system may change the slice
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return fs
}

// attack is one way to tamper with a log. It returns the changed files and a description of the
// change, or nil if the random choice changed nothing.
type attack struct {
	name string
	// silent is set if only a verifier with an earlier checkpoint can detect the attack.
	silent bool
	// idle is set if the attack may change only bytes that carry no data: free space in blocks, or data that Pebble has
	// superseded. If the attack is not detected, every record must be unchanged.
	idle bool
	do   func(t *testing.T, x *attacked, rng *rand.Rand) (files, string)
}

// attacked has the files of the honest log in the states in which the attacks find them.
type attacked struct {
	k      keypair
	honest files // closed properly, with all data in tables
	wal    files // the same log, with most data in the write-ahead log
	old    []files
	keys   [][]byte // of all records
}

func (x *attacked) some(rng *rand.Rand) files {
	if rng.IntN(2) == 0 {
		return x.wal
	}
	return x.honest
}

// record lets do change the records of a log's store directly, as an attacker with the disk can. It returns the changed
// files.
func record(t *testing.T, f files, do func(db *pebble.DB) error) files {
	t.Helper()
	fs := f.fs(t)
	db, err := pebble.Open("log/store", &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatNewest, Logger: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(do(db), db.Close()); err != nil {
		t.Fatal(err)
	}
	return readFiles(t, fs, "log")
}

func get(db *pebble.DB, k []byte) []byte {
	v, c, err := db.Get(k)
	if err != nil {
		return nil
	}
	defer c.Close()
	return bytes.Clone(v)
}

// forge returns the files of a log with other entries that is signed with the attacked log's key and uses its master
// key.
func forge(t *testing.T, x *attacked, es []chain.Entry, every int) files {
	t.Helper()
	fs := vfs.NewMem()
	l := open(t, fs, "log", x.k)
	for batch := range slices.Chunk(es, every) {
		if err := l.Append(batch); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return readFiles(t, fs, "log")
}

// renumber numbers entries again.
func renumber(es []chain.Entry) []chain.Entry {
	for i := range es {
		es[i].Seq = uint64(i) + 1
	}
	return es
}

func attacks() []attack {
	pick := func(x *attacked, rng *rand.Rand) []byte { return x.keys[rng.IntN(len(x.keys))] }
	return []attack{
		{name: "flip a bit of a record", do: func(t *testing.T, x *attacked, rng *rand.Rand) (files, string) {
			k := pick(x, rng)
			var at int
			return record(t, x.some(rng), func(db *pebble.DB) error {
				v := get(db, k)
				at = rng.IntN(len(v))
				v[at] ^= 1 << rng.IntN(8)
				return db.Set(k, v, pebble.Sync)
			}), fmt.Sprintf("record %x", k)
		}},
		{name: "cut a record short", do: func(t *testing.T, x *attacked, rng *rand.Rand) (files, string) {
			k := pick(x, rng)
			return record(t, x.some(rng), func(db *pebble.DB) error {
				v := get(db, k)
				return db.Set(k, v[:1+rng.IntN(len(v)-1)], pebble.Sync)
			}), fmt.Sprintf("record %x", k)
		}},
		{name: "delete records", do: func(t *testing.T, x *attacked, rng *rand.Rand) (files, string) {
			at := rng.IntN(len(x.keys))
			n := 1 + rng.IntN(min(9, len(x.keys)-at))
			return record(t, x.some(rng), func(db *pebble.DB) error {
				for _, k := range x.keys[at : at+n] {
					if err := db.Delete(k, pebble.Sync); err != nil {
						return err
					}
				}
				return nil
			}), fmt.Sprintf("%d records from %x", n, x.keys[at])
		}},
		{name: "swap two records", do: func(t *testing.T, x *attacked, rng *rand.Rand) (files, string) {
			a, b := pick(x, rng), pick(x, rng)
			same := false
			out := record(t, x.some(rng), func(db *pebble.DB) error {
				va, vb := get(db, a), get(db, b)
				same = bytes.Equal(va, vb)
				return errors.Join(db.Set(a, vb, pebble.Sync), db.Set(b, va, pebble.Sync))
			})
			if same {
				return nil, ""
			}
			return out, fmt.Sprintf("records %x and %x", a, b)
		}},
		{name: "insert a record", do: func(t *testing.T, x *attacked, rng *rand.Rand) (files, string) {
			k := bytes.Clone(pick(x, rng))
			k[len(k)-1-rng.IntN(len(k))] ^= 1 << rng.IntN(8)
			if slices.ContainsFunc(x.keys, func(o []byte) bool { return bytes.Equal(o, k) }) {
				return nil, ""
			}
			from := pick(x, rng)
			return record(t, x.some(rng), func(db *pebble.DB) error {
				return db.Set(k, get(db, from), pebble.Sync)
			}), fmt.Sprintf("record %x as %x", from, k)
		}},
		{name: "flip a bit of a file", idle: true, do: func(t *testing.T, x *attacked, rng *rand.Rand) (files, string) {
			f := maps.Clone(x.some(rng))
			p := slices.Sorted(maps.Keys(f))[rng.IntN(len(f))]
			if len(f[p]) == 0 {
				return nil, ""
			}
			b := bytes.Clone(f[p])
			at := rng.IntN(len(b))
			b[at] ^= 1 << rng.IntN(8)
			f[p] = b
			return f, fmt.Sprintf("byte %d of %s", at, p)
		}},
		{name: "truncate a file", idle: true, do: func(t *testing.T, x *attacked, rng *rand.Rand) (files, string) {
			f := maps.Clone(x.some(rng))
			p := slices.Sorted(maps.Keys(f))[rng.IntN(len(f))]
			if len(f[p]) == 0 {
				return nil, ""
			}
			n := rng.IntN(len(f[p]))
			f[p] = f[p][:n:n]
			return f, fmt.Sprintf("%s to %d bytes", p, n)
		}},
		{name: "delete a file", idle: true, do: func(t *testing.T, x *attacked, rng *rand.Rand) (files, string) {
			f := maps.Clone(x.some(rng))
			p := slices.Sorted(maps.Keys(f))[rng.IntN(len(f))]
			delete(f, p)
			return f, p
		}},
		{name: "swap two files", idle: true, do: func(t *testing.T, x *attacked, rng *rand.Rand) (files, string) {
			f := maps.Clone(x.some(rng))
			names := slices.Sorted(maps.Keys(f))
			a, b := names[rng.IntN(len(names))], names[rng.IntN(len(names))]
			if bytes.Equal(f[a], f[b]) {
				return nil, ""
			}
			f[a], f[b] = f[b], f[a]
			return f, a + " and " + b
		}},
		{name: "put an old folder back", silent: true, do: func(_ *testing.T, x *attacked, rng *rand.Rand) (files, string) {
			i := rng.IntN(len(x.old))
			return x.old[i], fmt.Sprintf("state %d", i)
		}},
		{name: "truncate the log, signed anew with its own key", silent: true,
			do: func(t *testing.T, x *attacked, rng *rand.Rand) (files, string) {
				n := 1 + rng.Uint64N(earlierSize-1)
				return forge(t, x, entries(1, n), 1+rng.IntN(100)), fmt.Sprintf("to %d", n)
			}},
		{name: "change an entry, all recomputed and signed with the log's own key", silent: true,
			do: func(t *testing.T, x *attacked, rng *rand.Rand) (files, string) {
				es := entries(1, attackedSize)
				e := &es[rng.IntN(earlierSize)]
				switch rng.IntN(4) {
				case 0:
					e.Payload = append(bytes.Clone(e.Payload), 'x')
				case 1:
					e.Type = "verdict"
				case 2:
					e.Project += "x"
				case 3:
					e.Salt[rng.IntN(16)] ^= 1
				}
				return forge(t, x, es, 1+rng.IntN(100)), fmt.Sprintf("entry %d", e.Seq)
			}},
		{name: "remove, add or swap entries, all recomputed and signed with the log's own key", silent: true,
			do: func(t *testing.T, x *attacked, rng *rand.Rand) (files, string) {
				es := entries(1, attackedSize)
				at := rng.IntN(earlierSize - 1)
				what := rng.IntN(3)
				switch what {
				case 0:
					es = slices.Delete(es, at, at+1)
				case 1:
					es = slices.Insert(es, at, entry(attackedSize+1))
				case 2:
					es[at], es[at+1] = es[at+1], es[at]
				}
				return forge(t, x, renumber(es), 1+rng.IntN(100)), fmt.Sprintf("%d at %d", what, at)
			}},
		{name: "go on from a true beginning, signed with the log's own key", silent: true,
			do: func(t *testing.T, x *attacked, rng *rand.Rand) (files, string) {
				i := rng.IntN(len(x.old))
				fs := x.old[i].fs(t)
				l := open(t, fs, "log", x.k)
				defer l.Close()
				n := l.Head().LastSeq
				es := entries(n+1, attackedSize)
				es[rng.IntN(int(earlierSize-n))].Payload = []byte("something else")
				if err := l.Append(es); err != nil {
					t.Fatal(err)
				}
				if _, err := l.Checkpoint(); err != nil {
					t.Fatal(err)
				}
				return readFiles(t, fs, "log"), fmt.Sprintf("from %d", n)
			}},
	}
}

// contents returns all records of a log as text, or the reason why they cannot be read.
func contents(f files, t *testing.T) (out string) {
	defer func() {
		if r := recover(); r != nil {
			out = fmt.Sprint(r)
		}
	}()
	var b strings.Builder
	db, err := pebble.Open("log/store", &pebble.Options{FS: f.fs(t), FormatMajorVersion: pebble.FormatNewest,
		Logger: silent{}, ReadOnly: true,
		EventListener: &pebble.EventListener{DataCorruption: func(pebble.DataCorruptionInfo) {}}})
	if err != nil {
		return err.Error()
	}
	defer db.Close()
	it, err := db.NewIter(nil)
	if err != nil {
		return err.Error()
	}
	for ok := it.First(); ok; ok = it.Next() {
		fmt.Fprintf(&b, "%x %x\n", it.Key(), it.Value())
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return err.Error()
	}
	return b.String() + string(f["log/"+chain.HeadFile])
}

// TestEveryAttackIsConvicted tampers with a log in every way that is possible for root on the
// auditor's machine with the auditor's keys. A verifier with an earlier checkpoint or a witness
// must detect each attack.
func TestEveryAttackIsConvicted(t *testing.T) {
	n := proptest.Times(t, "LAZARET_ATTACKS", 1000, 200)
	k := newKey(t, "log")
	fs := vfs.NewMem()
	l := open(t, fs, "log", k)
	x := &attacked{k: k}
	var earlierCP []byte
	for at := uint64(0); at < attackedSize; at += 30 {
		if err := l.Append(entries(at+1, at+30)); err != nil {
			t.Fatal(err)
		}
		cp, err := l.Checkpoint()
		if err != nil {
			t.Fatal(err)
		}
		if at+30 == earlierSize {
			earlierCP = cp
		}
		if at+30 < earlierSize {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			x.old = append(x.old, readFiles(t, fs, "log"))
			l = open(t, fs, "log", k)
		}
	}
	x.wal = readFiles(t, fs, "log") // as a killed process leaves it
	if err := errors.Join(l.Flush(), l.CompactAll(), l.Close()); err != nil {
		t.Fatal(err)
	}
	x.honest = readFiles(t, fs, "log")
	record(t, x.honest, func(db *pebble.DB) error {
		it, err := db.NewIter(nil)
		if err != nil {
			return err
		}
		for ok := it.First(); ok; ok = it.Next() {
			x.keys = append(x.keys, bytes.Clone(it.Key()))
		}
		return it.Close()
	})
	want := contents(x.honest, t)
	if contents(x.wal, t) != want {
		t.Fatal("the two honest states differ")
	}
	check := func(f files, v chain.VerifyOptions) chain.Report {
		t.Helper()
		v.Verifiers, v.Lawful = k.verifier, nothing
		rep, err := chain.VerifyDir(context.Background(), "log", chain.Options{FS: f.fs(t), MasterKey: master}, v)
		if err != nil {
			t.Fatal(err)
		}
		return rep
	}
	with := chain.VerifyOptions{Against: [][]byte{earlierCP}}
	// A witness cosigned only the checkpoint of size earlierSize.
	witnessed := quorum(earlierCP)
	for _, f := range []files{x.honest, x.wal} {
		if rep := check(f, with); rep.Status != chain.Verified {
			t.Fatalf("the honest log: %+v", rep)
		}
	}

	all := attacks()
	type tally struct{ done, alone, idle int }
	tallies := make([]tally, len(all))
	var mu sync.Mutex
	const seed = 11
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 12))
	for i := 0; i < n; {
		kind := rng.IntN(len(all))
		a := &all[kind]
		f, how := a.do(t, x, rng)
		if f == nil {
			continue
		}
		i++
		mu.Lock()
		tallies[kind].done++
		mu.Unlock()
		alone := check(f, chain.VerifyOptions{})
		found := alone.Status == chain.Failed
		switch {
		case found && a.silent:
			// Some of these are detected anyway.
			tallies[kind].alone++
		case found:
			tallies[kind].alone++
			if alone.FirstBad < 0 {
				t.Errorf("%s (%s): failed without an index: %+v", a.name, how, alone)
			}
		case a.idle && contents(f, t) == want:
			tallies[kind].idle++
			continue
		case !a.silent:
			t.Errorf("%s (%s): not detected alone: %+v", a.name, how, alone)
		}
		if rep := check(f, with); rep.Status != chain.Failed {
			t.Errorf("%s (%s): held against the earlier checkpoint the log is %+v", a.name, how, rep)
		}
		if a.silent && i%4 == 0 {
			if rep := check(f, chain.VerifyOptions{Quorum: witnessed}); rep.Status == chain.Verified {
				t.Errorf("%s (%s): with a witness the log is %+v", a.name, how, rep)
			}
		}
	}
	for i, a := range all {
		c := tallies[i]
		t.Logf("%5d %s: %d found by the log alone, %d need an earlier checkpoint or a witness, %d hit nothing", c.done,
			a.name, c.alone, c.done-c.alone-c.idle, c.idle)
		if c.done == 0 {
			t.Errorf("no attack was tried of the kind %q", a.name)
		}
		if !a.silent && c.alone == 0 {
			t.Errorf("the attack %q was never found without an earlier checkpoint", a.name)
		}
		if a.silent && c.alone > 0 {
			t.Logf("      (%d of them betrayed themselves)", c.alone)
		}
	}
}

// quorum stands in for witnesses: it is satisfied only by the checkpoint that it holds.
type quorum []byte

func (q quorum) Satisfied(cp []byte) bool { return bytes.Equal(cp, q) }
