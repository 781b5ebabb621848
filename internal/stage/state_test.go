package stage

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Random sets, deletes, drops, scans, commits, discards and flushes are applied to a state and to a map. At each step,
// both must have the same contents. After the state is closed or its process is killed, it must equal the map as it was
// at some commit.
func TestTheStateIsWhatAMapWouldBe(t *testing.T) {
	defer func(d time.Duration) { learnAfter = d }(learnAfter)
	learnAfter = 0
	runs, steps := 25, 4000
	if testing.Short() {
		runs = 4
	}
	reopened, lost, absent := 0, 0, 0
	for seed := range runs {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		fs := vfs.NewCrashableMem()
		var stateKey []byte
		if seed%2 == 0 {
			stateKey = bytes.Repeat([]byte{byte(seed)}, 32)
		}
		s, err := openStore("state", fs, stateKey)
		if err != nil {
			t.Fatal(err)
		}
		type model map[string]string
		now := model{}             // as the fold sees it
		commits := []model{{}, {}} // possible states after a loss
		var sealed model           // the state after the sealed layers are committed
		kept := func() model { return commits[len(commits)-1] }
		var fresh [][]byte // recently set keys, most of them new
		key := func() []byte {
			if len(fresh) > 0 && r.IntN(6) == 0 {
				return fresh[r.IntN(len(fresh))]
			}
			return []byte(fmt.Sprintf("%c%d", 'a'+rune(r.IntN(4)), r.IntN(60)))
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		same := func() {
			t.Helper()
			for _, p := range []string{"a", "b", "c", "d"} {
				var got, want []string
				must(s.scan([]byte(p), func(k, v []byte) (bool, error) {
					got = append(got, string(k)+"="+string(v))
					return true, nil
				}))
				for _, k := range slices.Sorted(maps.Keys(now)) {
					if strings.HasPrefix(k, p) {
						want = append(want, k+"="+now[k])
					}
				}
				if !slices.Equal(got, want) {
					t.Fatalf("seed %d: a scan of %s gives\n%v, want\n%v", seed, p, got, want)
				}
			}
		}
		// A scan must show the state as it was at the scan's start, whatever its callback changes.
		nested := func() {
			t.Helper()
			var got, want []string
			for _, k := range slices.Sorted(maps.Keys(now)) {
				if strings.HasPrefix(k, "a") {
					want = append(want, k+"="+now[k])
				}
			}
			must(s.scan([]byte("a"), func(k, v []byte) (bool, error) {
				got = append(got, string(k)+"="+string(v))
				if r.IntN(3) == 0 {
					k, v := key(), fmt.Sprint(r.IntN(1000))
					must(s.set(k, []byte(v)))
					now[string(k)] = v
				}
				if r.IntN(16) == 0 {
					same()
				}
				return true, nil
			}))
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: a scan whose callback changes the state gives\n%v, want\n%v", seed, got, want)
			}
		}
		for range steps {
			switch n := r.IntN(100); {
			case n < 45:
				k, v := key(), fmt.Sprint(r.IntN(1000))
				if r.IntN(6) == 0 {
					k = []byte(fmt.Sprintf("%c%d", 'a'+rune(r.IntN(4)), 60+r.IntN(100_000)))
					fresh = append(fresh[max(0, len(fresh)-20):], k)
				}
				must(s.set(k, []byte(v)))
				now[string(k)] = v
			case n < 80:
				k := key()
				if v, ok, _ := s.peek(k); ok != (now[string(k)] != "") || string(v) != now[string(k)] {
					t.Fatalf("seed %d: %s is %q, %v at a glance; want %q", seed, k, v, ok, now[string(k)])
				}
				v, ok, err := s.get(k)
				must(err)
				want, is := now[string(k)]
				if ok != is || string(v) != want {
					t.Fatalf("seed %d: %s is %q, %v; want %q, %v", seed, k, v, ok, want, is)
				}
				if !is {
					absent++
				}
			case n < 87:
				k := key()
				must(s.delete(k))
				delete(now, string(k))
			case n < 89:
				p := key()[:1+r.IntN(2)]
				must(s.deleteRange(p, upperBound(p)))
				maps.DeleteFunc(now, func(k, _ string) bool { return bytes.HasPrefix([]byte(k), p) })
			case n < 90:
				nested()
			case n < 91:
				same()
			case n < 92:
				must(s.commit())
				commits, sealed = append(commits, maps.Clone(now)), nil
			case n < 94:
				s.seal()
				sealed = maps.Clone(now)
			case n < 95:
				must(s.commitSealed())
				if sealed != nil {
					commits, sealed = append(commits, sealed), nil
				}
			case n < 97:
				must(s.discard())
				now, sealed = maps.Clone(kept()), nil
			case n < 98:
				must(s.flush())
				if r.IntN(2) == 0 {
					s.sweep()
				}
			case n < 99:
				must(s.discard())
				must(s.close())
				if s, err = openStore("state", fs, stateKey); err != nil {
					t.Fatal(err)
				}
				now, sealed = maps.Clone(kept()), nil
				if r.IntN(2) == 0 {
					s.keys.wg.Wait() // the filter is built, and is used from the next flush on
				}
				same()
				reopened++
			default:
				// Simulate a kill of the process and, by losing unsynced data, also of the machine.
				fs = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 50, 100}[r.IntN(3)], RNG: r})
				s.keys.close()
				if s, err = openStore("state", fs, stateKey); err != nil {
					t.Fatal(err)
				}
				now = model{}
				for _, p := range []string{"a", "b", "c", "d"} {
					must(s.scan([]byte(p), func(k, v []byte) (bool, error) { now[string(k)] = string(v); return true, nil }))
				}
				if !slices.ContainsFunc(commits, func(m model) bool { return maps.Equal(m, now) }) {
					t.Fatalf("seed %d: after a crash, the state is not that of any commit", seed)
				}
				commits, sealed = append(commits[:0:0], maps.Clone(now)), nil
				lost++
			}
		}
		same()
		must(s.close())
	}
	if reopened == 0 || lost == 0 || absent == 0 {
		t.Fatalf("%d reopened, %d lost, %d absent: the test shows nothing", reopened, lost, absent)
	}
}

// A filter must never report a written key as absent. For at most one in twenty absent keys, it may report that the key
// may be present.
func TestTheFilterKnowsEveryKey(t *testing.T) {
	const n = 50_000
	k := keyFilter{now: newFilter(n)}
	for i := range n {
		k.wrote(hashOf(fmt.Append(nil, "key", i)))
	}
	wrong := 0
	for i := range n {
		if k.absent(hashOf(fmt.Append(nil, "key", i))) {
			t.Fatalf("key%d is said to be absent", i)
		}
		if !k.absent(hashOf(fmt.Append(nil, "other", i))) {
			wrong++
		}
	}
	if wrong > n/20 {
		t.Errorf("of %d absent keys, the filter reports %d as possibly present", n, wrong)
	}
}

// Warm reads values ahead, in several goroutines. Each value must equal the value that Get returns. Warm must cache the
// values that it read from the database, and no others.
func TestWhatIsReadAheadIsWhatIsRead(t *testing.T) {
	s, err := openStore("state", vfs.NewMem(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	st := &State{s: s, partition: 3}
	key := func(i int) []byte { return fmt.Appendf(nil, "k%03d", i) }
	for i := range 300 {
		if err := st.Set(key(i), fmt.Appendf(nil, "v%d", i)); err != nil {
			t.Fatal(err)
		}
		if i == 100 || i == 200 {
			if err := errors.Join(s.commit(), s.flush()); err != nil {
				t.Fatal(err)
			}
		}
	}
	// As after a restart.
	for i := range s.table.records {
		if r := &s.table.records[i]; r.has[slotStored] && !r.dirty {
			s.known -= r.size(r.take(slotStored).v)
		}
	}
	got := make([]string, 310)
	st.Warm(len(got), func(i int, get func([]byte) ([]byte, bool)) {
		if _, ok := get(key(i)); ok {
			v, _ := get(key(i))
			got[i] = string(v)
		}
	})
	n := 0
	for i := range s.table.records {
		if r := &s.table.records[i]; r.has[slotStored] && !r.dirty {
			n++
		}
	}
	if n != 201 || s.known <= 0 {
		t.Errorf("%d values were kept, want those of the database, 201", n)
	}
	for i, g := range got {
		v, ok, err := st.Get(key(i))
		if err != nil || ok != (i < 300) || g != string(v) {
			t.Fatalf("key %d: Warm read %q, but Get returns %q, %v, %v", i, g, v, ok, err)
		}
	}
}

// Set must store a copy of the value. The value passed to Give is not copied, but an append to a result of Get must not
// write into it.
func TestWhatIsSetIsCopied(t *testing.T) {
	s, err := openStore("state", vfs.NewMem(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for name, st := range map[string]*State{"database": {s: s}, "memory": NewMemState(0)} {
		k := []byte("k")
		for range 2 { // the second time it is cached
			mine := []byte("mine")
			if err := st.Set(k, mine); err != nil {
				t.Fatal(err)
			}
			mine[0] = 'x'
			for what, get := range map[string]func([]byte) ([]byte, bool, error){"get": st.Get, "hot": st.GetHot} {
				if v, ok, err := get(k); !ok || err != nil || string(v) != "mine" {
					t.Errorf("%s, %s: after the caller changed its slice, the value is %q, %v, %v",
						name, what, v, ok, err)
				}
			}
			given := append(make([]byte, 0, 16), "given"...)
			if err := st.Give(k, given); err != nil {
				t.Fatal(err)
			}
			for what, get := range map[string]func([]byte) ([]byte, bool, error){"get": st.Get, "hot": st.GetHot} {
				v, ok, err := get(k)
				if !ok || err != nil || string(v) != "given" {
					t.Errorf("%s, %s: the given value is %q, %v, %v", name, what, v, ok, err)
				}
				if _ = append(v, '!'); given[:6][5] != 0 {
					t.Errorf("%s, %s: an append to the result of Get changes the value passed to Give", name, what)
				}
			}
		}
	}
}

// A snapshot copies the manifest. So the manifest must stay small after any number of flushes.
func TestTheManifestStaysSmall(t *testing.T) {
	fs := vfs.NewMem()
	s, err := openStore("state", fs, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for i := range 1500 {
		if err := errors.Join(s.set(fmt.Appendf(nil, "key %d", i%50), []byte("value")), s.commit(), s.flush(),
			s.db.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	names, err := fs.List("state")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "MANIFEST") {
			continue
		}
		if fi, err := fs.Stat(fs.PathJoin("state", name)); err != nil || fi.Size() > 2*manifest {
			t.Errorf("%s: %d bytes, %v", name, fi.Size(), err)
		}
	}
}
