package ingest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/fuzztest"
	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// expirer is a house (ingest's fold with a state) that accepts signed orders, with the key that signs them.
type expirer struct {
	*house
	signer note.Signer
	orders int
}

func newExpirer(t testing.TB) (*expirer, *stage.Offline) {
	t.Helper()
	o, err := stage.OpenOffline()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.Close() })
	signer, v := fuzztest.Signer(t, "op")
	h := newHouse(t, o.State(streams.PartitionOf("demo")))
	h.f = New(Config{Pinned: note.VerifierList(v)})
	return &expirer{house: h, signer: signer}, o
}

// order enters a signed statement.
func (x *expirer) order(c streams.Custody) *streams.CustodyEntry {
	x.t.Helper()
	x.orders++
	c.ID, c.Reason, c.Issued = fmt.Sprintf("c%d", x.orders), "r", x.now.Add(time.Second).Truncate(time.Second)
	signed, err := c.Sign(x.signer)
	if err != nil {
		x.t.Fatal(err)
	}
	body, err := streams.Marshal(streams.Control{ID: c.ID, Custody: string(signed)})
	if err != nil {
		x.t.Fatal(err)
	}
	e, ok := x.put(&stage.Message{Address: streams.Address{Partition: x.st.Partition(), Kind: streams.KindCtl},
		Data: body}).(*streams.CustodyEntry)
	if !ok {
		x.t.Fatalf("the order %+v was refused", c)
	}
	return e
}

// expire enters a signed order to expire all beliefs that were last read before a time.
func (x *expirer) expire(before time.Time) *streams.CustodyEntry {
	x.t.Helper()
	return x.order(streams.Custody{Do: streams.DoExpire, Project: streams.SystemProject, UpTo: 1,
		Before: before.Truncate(time.Second)})
}

// sentence returns a text of n random words after a word with the number. So texts with different numbers differ.
func sentence(r *rand.Rand, n, number int) string {
	words := []string{fmt.Sprintf("number%d", number)}
	for range n {
		u := r.Float64()
		words = append(words, fmt.Sprintf("word%cx%d", 'a'+int(u*u*26), int(u*u*2300)))
	}
	return strings.Join(words, " ")
}

// step folds the next follow-up entry of ingest, and reports whether there was one.
func (x *expirer) step() bool {
	x.t.Helper()
	a, err := x.f.FollowUp(x.st)
	if err != nil {
		x.t.Fatal(err)
	}
	if a != nil {
		x.own(a, x.seq)
	}
	return a != nil
}

// readMany lets the agent read the texts number from, from+1, …, to-1 from the web. Then an hour passes.
func (x *expirer) readMany(from, to int) {
	x.t.Helper()
	r := rand.New(rand.NewPCG(1, uint64(from)))
	for i := from; i < to; i++ {
		x.read(beliefs.OriginWeb, fmt.Sprint("o", i), sentence(r, 12, i))
	}
	x.now = x.now.Add(time.Hour)
}

// beliefs returns the number of beliefs about read texts.
func (x *expirer) beliefs() (n int) {
	x.t.Helper()
	if err := x.st.Scan([]byte{keyBelief}, func(k, v []byte) (bool, error) {
		r := new(record)
		if err := readRecord("", v, r); err != nil {
			return false, err
		}
		if r.Ref.Kind == beliefs.Content {
			n++
		}
		return true, nil
	}); err != nil {
		x.t.Fatal(err)
	}
	return n
}

// recalls returns the results of some recalls.
func (x *expirer) recalls() (out []string) {
	x.t.Helper()
	r := rand.New(rand.NewPCG(7, 7))
	for i := range 40 {
		x.seq++
		e, ok := x.say(streams.KindRecall, "", &streams.Recall{Head: streams.Head{ID: fmt.Sprint("r", x.seq), Session: "s"},
			Query: sentence(r, 4, i*97), Limit: 20}).(*streams.RecallEntry)
		if !ok {
			x.t.Fatal("a recall was not admitted")
		}
		for _, it := range e.ContextOnly {
			out = append(out, fmt.Sprint(i, " ", it.ID, " ", it.Score))
		}
		out = append(out, fmt.Sprint(e.Omitted))
	}
	return out
}

// swept checks that recalls give the results of an index that is built anew.
func (x *expirer) swept() {
	x.t.Helper()
	got := x.recalls()
	if err := reindex(x.st); err != nil {
		x.t.Fatal(err)
	}
	if want := x.recalls(); !slices.Equal(got, want) {
		x.t.Errorf("recalls differ from those of an index that is built anew:\n got %v\nwant %v", got[:8], want[:8])
	}
	for _, key := range [][]byte{{keySwept}, expiryKey, lostKey} {
		if found, err := hasKey(x.st, key); found || err != nil {
			x.t.Errorf("key %q is left: %v, %v", key, found, err)
		}
	}
}

// No entry of an expiry may drop more beliefs than the limit of a step. Between two entries of the expiry, other events
// must be decided.
func TestAnExpiryGoesOnInBoundedSteps(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make ci runs it")
	}
	x, _ := newExpirer(t)
	x.readMany(0, 1500)
	horizon := x.now
	x.readMany(1500, 1900)
	x.expire(horizon)
	if n := x.beliefs(); n != 1900 {
		t.Errorf("the order itself dropped %d beliefs", 1900-n)
	}
	have, steps := 1900, 0
	for x.step() {
		steps++
		n := x.beliefs()
		if have-n > expiryDrops {
			t.Fatalf("step %d drops %d beliefs", steps, have-n)
		}
		have = n
		if got := x.recalls(); len(got) == 0 {
			t.Fatal("recalls have no results")
		}
	}
	if have != 400 || steps < 6 {
		t.Errorf("%d beliefs are left after %d steps, want 400 and at least 6", have, steps)
	}
	x.swept()
}

// While an expiry goes on, a text that is read again stays, a legal hold applies from its entry on,
// a forgotten project stays forgotten, a later order covers the earlier one, and a text that is read
// anew after its step is found once.
func TestEventsDuringAnExpiry(t *testing.T) {
	if testing.Short() {
		t.Skip("make long runs it: it reads 1,600 texts for each case")
	}
	begin := func(t *testing.T) (x *expirer, horizon time.Time) {
		x, _ = newExpirer(t)
		x.readMany(0, 1500)
		horizon = x.now
		x.readMany(1500, 1600)
		x.expire(horizon)
		if !x.step() {
			t.Fatal("the expiry ended at once")
		}
		return x, horizon
	}
	rest := func(t *testing.T, x *expirer, want int) {
		t.Helper()
		for x.step() {
		}
		if n := x.beliefs(); n != want {
			t.Errorf("%d beliefs are left, want %d", n, want)
		}
		x.swept()
	}
	t.Run("texts are read again", func(t *testing.T) {
		x, _ := begin(t)
		r := rand.New(rand.NewPCG(1, 0))
		for i := range 50 {
			x.read(beliefs.OriginWeb, fmt.Sprint("again", i), sentence(r, 12, i))
		}
		rest(t, x, 150)
	})
	t.Run("a legal hold", func(t *testing.T) {
		x, _ := begin(t)
		have := x.beliefs()
		if have == 1600 {
			t.Fatal("nothing had expired")
		}
		x.order(streams.Custody{Do: streams.DoHold, Project: "demo"})
		rest(t, x, have)
	})
	t.Run("the project is forgotten", func(t *testing.T) {
		x, _ := begin(t)
		x.order(streams.Custody{Do: streams.DoForget, Project: "demo", UpTo: 9, Ranges: []streams.SeqRange{{From: 1, To: 9}}})
		x.readMany(5000, 5010)
		rest(t, x, 10)
	})
	t.Run("another order", func(t *testing.T) {
		x, horizon := begin(t)
		x.expire(horizon.Add(-time.Minute)) // covered
		x.expire(x.now)
		x.readMany(5000, 5010)
		rest(t, x, 10)
	})
	t.Run("an order between the drops and the sweep", func(t *testing.T) {
		x, _ := begin(t)
		for p := new(expiry); len(p.Belief) > 0 || p.Statement == ""; {
			x.step()
			*p = expiry{}
			if ok, err := x.st.Load(expiryKey, p); !ok || err != nil {
				t.Fatalf("the expiry has ended: %v", err)
			}
		}
		x.expire(x.now)
		x.readMany(5000, 5010)
		rest(t, x, 10)
	})
}

// One process writes the entries of an expiry. A second process reads them, and is restarted after each entry. Both
// must have the same state in the end.
func TestAnExpiryIsFoldedAlike(t *testing.T) {
	x, _ := newExpirer(t)
	x.keep = true
	x.readMany(0, 600)
	x.expire(x.now)
	x.readMany(600, 700)
	for x.step() {
	}
	other, _ := newExpirer(t)
	for _, e := range x.ledger {
		if err := other.f.Apply(other.st, e, nil); err != nil {
			t.Fatal(err)
		}
		other.f = New(Config{}) // a new process
	}
	if got, want := dump(t, other.st), dump(t, x.st); got != want {
		t.Error("the states differ")
	}
}

// The state of an earlier version has index documents of dropped beliefs, and beliefs without the number of their
// document. An order of an earlier version drops all beliefs that it covers at once. The steps that follow must remove
// the documents of all dropped beliefs from the index.
func TestAnExpiryOfAnEarlierVersionsState(t *testing.T) {
	x, _ := newExpirer(t)
	x.readMany(0, 300)
	horizon := x.now
	x.readMany(300, 500)
	x.write(beliefs.OriginUser, &streams.Memory{Head: streams.Head{ID: "m"}, Content: "The budget is 100 crowns."})
	var all []*record
	if err := x.st.Scan([]byte{keyBelief}, func(k, v []byte) (bool, error) {
		_, id, _ := strings.Cut(string(k[1:]), "\x00")
		r := new(record)
		all = append(all, r)
		return true, readRecord(id, v, r)
	}); err != nil {
		t.Fatal(err)
	}
	lost := uint64(0)
	for i, r := range all {
		r.Doc = 0
		if err := putRecord(x.st, "demo", r); err != nil {
			t.Fatal(err)
		}
		if i%10 == 0 && r.Ref.Kind == beliefs.Content && !r.At.Before(horizon) {
			lost++
			if err := dropRead(x.st, "demo", r); err != nil {
				t.Fatal(err)
			}
		}
	}
	if lost == 0 {
		t.Fatal("no belief was dropped: the test shows nothing")
	}
	if err := x.st.Set(lostKey, binary.BigEndian.AppendUint64(nil, lost)); err != nil {
		t.Fatal(err)
	}
	c := x.expire(horizon)
	if !c.Steps {
		t.Fatal("an order is not carried out in steps")
	}
	// Fold the same order as an entry of an earlier version, which has no steps.
	c.Steps = false
	if err := x.st.Delete(expiryKey); err != nil {
		t.Fatal(err)
	}
	if err := x.f.expire(x.st, c); err != nil {
		t.Fatal(err)
	}
	want := 200 - int(lost)
	if n := x.beliefs(); n != want {
		t.Errorf("%d beliefs are left, want %d", n, want)
	}
	for x.step() {
	}
	if n := x.beliefs(); n != want {
		t.Errorf("%d beliefs are left after the steps, want %d", n, want)
	}
	x.swept()
}

// BenchmarkExpiry reads 1.5 × LAZARET_BENCH_DOCS texts and expires the first two thirds of them. It reports the longest
// time that the stage's loop needs for one entry, during which no verdict is given.
func BenchmarkExpiry(b *testing.B) {
	n := 10_000
	if s := os.Getenv("LAZARET_BENCH_DOCS"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	for b.Loop() {
		x, o := newExpirer(b)
		r := rand.New(rand.NewPCG(1, 1))
		var horizon time.Time
		for i := range n + n/2 {
			if i == n {
				x.now = x.now.Add(time.Hour)
				horizon = x.now
			}
			x.read(beliefs.OriginWeb, fmt.Sprint("o", i), sentence(r, 20, i))
			if i%500 == 0 {
				if err := o.Commit(); err != nil {
					b.Fatal(err)
				}
			}
		}
		if err := o.Commit(); err != nil {
			b.Fatal(err)
		}
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var longest, commit, all time.Duration
		peak := before.HeapAlloc
		timed := func(do func()) {
			began := time.Now()
			do()
			longest = max(longest, time.Since(began))
			if runtime.ReadMemStats(&after); after.HeapAlloc > peak {
				peak = after.HeapAlloc
			}
			began2 := time.Now()
			if err := o.Commit(); err != nil {
				b.Fatal(err)
			}
			commit = max(commit, time.Since(began2))
			all += time.Since(began)
		}
		timed(func() { x.expire(horizon) })
		entries := 1
		for more := true; more; {
			timed(func() {
				a, err := x.f.FollowUp(x.st)
				if err != nil {
					b.Fatal(err)
				}
				if more = a != nil; more {
					entries++
					x.own(a, x.seq)
				}
			})
		}
		left := 0
		if err := x.st.Scan([]byte{keyBelief}, func(_, _ []byte) (bool, error) { left++; return true, nil }); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(longest.Microseconds())/1000, "ms/longest")
		b.ReportMetric(float64(commit.Microseconds())/1000, "ms/commit")
		b.ReportMetric(all.Seconds(), "s/all")
		b.ReportMetric(float64(entries), "entries")
		b.ReportMetric(float64(left), "beliefs-left")
		b.ReportMetric(float64(peak-before.HeapAlloc)/(1<<20), "MiB")
	}
}
