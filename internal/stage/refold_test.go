package stage_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/natstest"
	"lazaret/internal/stage"
	"lazaret/pkg/files/crashfs"
	"lazaret/streams"
)

// scribe is an ingest that records each message with the number of messages before it, so that a skipped message shows
// in every later one. For a message that begins with "erase", it writes an entry of type erased that lists the
// sequences in the message.
type scribe struct{}

func (*scribe) Reject(st *stage.State, m *stage.Message, why *streams.RejectError) (*stage.Admission, error) {
	return new(echo).Reject(st, m, why)
}

func (*scribe) Reset()                                          {}
func (*scribe) Relevant(e *streams.Entry) bool                  { return e.Type == streams.TypeAlerts }
func (*scribe) FollowUp(*stage.State) (*stage.Admission, error) { return nil, nil }
func (*scribe) Wakes(*streams.Entry) bool                       { return false }

func (*scribe) Shed(_ *stage.Message, reason string) *streams.RejectError {
	return &streams.RejectError{Code: streams.CodeAgentFull, Reason: reason}
}

func (*scribe) Admit(st *stage.State, m *stage.Message) (*stage.Admission, error) {
	if seqs, ok := strings.CutPrefix(string(m.Data), "erase "); ok {
		list, err := streams.ParseSeqs(seqs)
		if err != nil {
			return nil, err
		}
		c := streams.Custody{Do: streams.DoForget, Project: m.Address.Project, DataSubject: "p", ID: fmt.Sprint(m.Seq),
			Issued: m.Time, Entries: list}
		body, err := streams.Marshal(&streams.CustodyEntry{Do: c.Do, Note: c.Text() + "\n— nobody AAAA\n"})
		return &stage.Admission{Output: stage.Output{Type: streams.TypeErased, Project: m.Address.Project, Body: body}}, err
	}
	return &stage.Admission{Output: stage.Output{Type: streams.TypeObservation, Project: m.Address.Project,
		Body: fmt.Appendf(nil, `{"said":%q}`, m.Data)}}, nil
}

func (*scribe) Apply(st *stage.State, e *streams.Entry, _ any) error { return note(st, e) }

func note(st *stage.State, e *streams.Entry) error {
	n := count(st, "n") + 1
	if err := st.Set([]byte("n"), binary.BigEndian.AppendUint64(nil, n)); err != nil {
		return err
	}
	return st.Set(fmt.Appendf(nil, "e%06d", n), fmt.Appendf(nil, "%s %s %d %s", e.Stage, e.Type, e.Src, e.Body))
}

// critic is a sentinel that alerts on ingest's entries whose text contains "quokka". It also alerts on another entry of
// ingest if it has counted an odd number of entries.
type critic struct{}

func (*critic) Reset() {}
func (*critic) Timer(*stage.State) (time.Time, *stage.Output, bool, error) {
	return time.Time{}, nil, false, nil
}

func (*critic) Step(st *stage.State, e *streams.Entry) (*stage.Output, error) {
	if err := note(st, e); err != nil || e.Stage != streams.StageIngest {
		return nil, err
	}
	if e.Type == streams.TypeErased {
		return stage.NewOutput(streams.TypeDropped, e.Project, &streams.DroppedEntry{Statement: fmt.Sprint(e.Seq)})
	}
	if count(st, "n")%2 == 0 && !strings.Contains(string(e.Body), "quokka") {
		return nil, nil
	}
	return &stage.Output{Type: streams.TypeAlerts, Project: e.Project, Body: fmt.Appendf(nil, `{"of":%s}`, e.Body)}, nil
}

// dump returns a partition's whole state.
func dump(t *testing.T, queries chan stage.Query, p int) (out []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	err := stage.Ask(ctx, queries, p, func(st *stage.State) {
		err := st.Scan(nil, func(k, v []byte) (bool, error) {
			out = append(out, fmt.Sprintf("%q=%q", k, v))
			return true, nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Entries are erased. Three kinds of stages must then have the state of a fold without these entries, and no erased
// text in their files: stages that run, stages that are stopped before the erasure, and stages that start after it,
// before and after the entries are deleted.
func TestAPartitionIsFoldedAnewWithoutWhatAStatementLists(t *testing.T) {
	srv := natstest.Start(t)
	nc := srv.Connect()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p := streams.PartitionOf("acme")
	dir := t.TempDir()
	type run struct {
		*process
		queries chan stage.Query
	}
	ingest := func(name string, standby bool) run {
		q := make(chan stage.Query)
		r := run{start(t, stage.Config{Name: streams.StageIngest, Conn: nc, Dir: filepath.Join(dir, name), Standby: standby,
			Takeover: time.Hour}, func(ctx context.Context, c stage.Config) error {
			return stage.RunIntake(ctx, c, &scribe{}, q)
		}), q}
		r.awaitReady()
		return r
	}
	sentinel := func(name string, standby bool) run {
		q := make(chan stage.Query)
		r := run{start(t, stage.Config{Name: "sentinel-critic", Conn: nc, Dir: filepath.Join(dir, name), Standby: standby,
			Takeover: time.Hour}, func(ctx context.Context, c stage.Config) error {
			return stage.RunLedger(ctx, c, &critic{}, q)
		}), q}
		r.awaitReady()
		return r
	}
	in, in2, se, se2 := ingest("in", false), ingest("in2", true), sentinel("se", false), sentinel("se2", true)
	say := func(what string) {
		t.Helper()
		if _, err := js.Publish(ctx, "lz.in.acme.a.obs.web", []byte(what)); err != nil {
			t.Fatal(err)
		}
	}
	last := func() uint64 {
		t.Helper()
		st, err := js.Stream(ctx, streams.LedgerStream)
		if err != nil {
			t.Fatal(err)
		}
		return st.CachedInfo().State.LastSeq
	}
	// settled waits until no more entries appear and all stages have folded them.
	settled := func(stages ...run) {
		t.Helper()
		for quiet, was := 0, uint64(0); quiet < 5; {
			time.Sleep(20 * time.Millisecond)
			now := last()
			ok := now == was
			for _, s := range stages {
				ok = ok && s.Stats.Folded.Load() >= now
			}
			if quiet++; !ok {
				quiet, was = 0, now
			}
			if ctx.Err() != nil {
				t.Fatal("the stages do not finish in time")
			}
		}
	}
	for i := range 40 {
		word := "kept"
		if i%4 == 1 {
			word = "quokka"
		}
		say(fmt.Sprintf("%s %d", word, i))
	}
	settled(in, in2, se, se2)
	// Its entries and the answers to them.
	list := func() (seqs []uint64) {
		t.Helper()
		st, err := js.Stream(ctx, streams.LedgerStream)
		if err != nil {
			t.Fatal(err)
		}
		for seq := uint64(1); seq <= last(); seq++ {
			m, err := st.GetMsg(ctx, seq)
			if err == nil && strings.Contains(string(m.Data), "quokka") {
				seqs = append(seqs, seq)
			}
		}
		return seqs
	}
	gone := list()
	if len(gone) != 20 {
		t.Fatalf("%d entries contain the text to erase, want 20", len(gone))
	}
	// The second ingest and the second sentinel are stopped before the data is forgotten.
	in2.stop()
	se2.stop()
	// The entries directly after the statement must be decided as if the listed entries did not exist.
	say("erase " + streams.FormatSeqs(gone))
	for i := range 10 {
		say(fmt.Sprintf("later %d", i))
	}
	settled(in, se)
	states := map[string][]string{"ingest": dump(t, in.queries, p), "sentinel": dump(t, se.queries, p)}
	for who, s := range states {
		if text := strings.Join(s, "\n"); strings.Contains(text, "quokka") || !strings.Contains(text, "kept 38") ||
			!strings.Contains(text, "later 9") {
			t.Errorf("%s holds %s", who, text)
		}
	}
	if n := list(); len(n) != len(gone) {
		t.Errorf("%d entries contain the erased text, but %d did before: a later entry contains it", len(n), len(gone))
	}
	files := func() (out []string) {
		t.Helper()
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return nil
			}
			if b, err := os.ReadFile(path); err == nil && strings.Contains(string(b), "quokka") {
				out = append(out, path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	same := func(when string, who string, r run) {
		t.Helper()
		if got := dump(t, r.queries, p); !slices.Equal(got, states[who]) {
			t.Errorf("%s: %s holds\n%s\nnot\n%s", when, who, strings.Join(got, "\n"), strings.Join(states[who], "\n"))
		}
		if r.Stats.Diverged.Load() != 0 {
			t.Errorf("%s: %s would have added other entries", when, who)
		}
	}
	// in2 and se2 were stopped, and find the statement after entries that they have folded. in3 and se3 start without
	// state, while the listed entries are still in the ledger.
	in2, se2 = ingest("in2", true), sentinel("se2", true)
	in3, se3 := ingest("in3", true), sentinel("se3", true)
	settled(in2, se2, in3, se3)
	same("away", "ingest", in2)
	same("away", "sentinel", se2)
	same("anew", "ingest", in3)
	same("anew", "sentinel", se3)
	st, err := js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		t.Fatal(err)
	}
	for _, seq := range gone {
		if err := st.SecureDeleteMsg(ctx, seq); err != nil {
			t.Fatal(err)
		}
	}
	in4, se4 := ingest("in4", true), sentinel("se4", true)
	settled(in4, se4)
	same("of what is left", "ingest", in4)
	same("of what is left", "sentinel", se4)
	for _, r := range []run{in, in2, in3, in4, se, se2, se3, se4} {
		r.stop()
	}
	if f := files(); len(f) > 0 {
		t.Errorf("the erased text is still in %v", f)
	}
	in = ingest("in", false)
	same("restarted", "ingest", in)
}

// The machine loses power at many moments while a partition is folded again. After each restart, the state must be that
// of a fold without the erased entries. The files must not contain the erased texts.
func TestAFoldingAnewSurvivesACrashAtAnyMoment(t *testing.T) {
	srv := natstest.Start(t)
	nc := srv.Connect()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p := streams.PartitionOf("acme")
	fs := map[string]*crashfs.Mem{"ingest": crashfs.New(), "sentinel": crashfs.New()}
	run := func(who string, fs vfs.FS, standby bool) (*process, chan stage.Query) {
		q := make(chan stage.Query)
		cfg := stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: "/state", FS: fs, Standby: standby,
			Takeover: time.Hour}
		f := func(ctx context.Context, c stage.Config) error { return stage.RunIntake(ctx, c, &scribe{}, q) }
		if who == "sentinel" {
			cfg.Name = "sentinel-critic"
			f = func(ctx context.Context, c stage.Config) error { return stage.RunLedger(ctx, c, &critic{}, q) }
		}
		proc := start(t, cfg, f)
		proc.awaitReady()
		return proc, q
	}
	last := func() uint64 {
		st, err := js.Stream(ctx, streams.LedgerStream)
		if err != nil {
			t.Fatal(err)
		}
		return st.CachedInfo().State.LastSeq
	}
	procs, queries := map[string]*process{}, map[string]chan stage.Query{}
	for who, f := range fs {
		procs[who], queries[who] = run(who, f, false)
	}
	folded := func(proc *process, to uint64) {
		t.Helper()
		natstest.Eventually(t, time.Minute, "all is folded", func() bool { return proc.Stats.Folded.Load() >= to })
	}
	for i := range 300 {
		word := "kept"
		if i%3 == 1 {
			word = "quokka"
		}
		if _, err := js.Publish(ctx, "lz.in.acme.a.obs.web", fmt.Appendf(nil, "%s %d", word, i)); err != nil {
			t.Fatal(err)
		}
	}
	var gone []uint64
	natstest.Eventually(t, time.Minute, "all messages have entries and answers", func() bool {
		gone = nil
		l := srv.Ledger()
		for _, e := range l {
			if strings.Contains(string(e.Body), "quokka") {
				gone = append(gone, e.Seq)
			}
		}
		return len(gone) == 200 && procs["sentinel"].Stats.Waiting.Load() == 0
	})
	folded(procs["ingest"], last())
	dump(t, queries["ingest"], p)
	// Clone the disks during the fold. A clone has all, half or none of the unsynced data.
	type disk struct {
		who string
		fs  *crashfs.Mem
	}
	var disks []disk
	r := rand.New(rand.NewPCG(1, 2))
	clone := func() {
		for who, f := range fs {
			disks = append(disks, disk{who, f.Crash(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 50, 100}[r.IntN(3)],
				RNG: r})})
		}
	}
	clone()
	if _, err := js.Publish(ctx, "lz.in.acme.a.obs.web", []byte("erase "+streams.FormatSeqs(gone))); err != nil {
		t.Fatal(err)
	}
	dropped := func() bool {
		l := srv.Ledger()
		return l[len(l)-1].Type == streams.TypeDropped
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !dropped() && ctx.Err() == nil {
		}
	}()
	for over := false; !over; {
		clone()
		select {
		case <-done:
			over = true
		default:
		}
	}
	clone()
	if ctx.Err() != nil {
		t.Fatal("the stage does not report that it dropped the data")
	}
	want := map[string][]string{}
	for who, proc := range procs {
		folded(proc, last())
		want[who] = dump(t, queries[who], p)
		if text := strings.Join(want[who], "\n"); strings.Contains(text, "quokka") || !strings.Contains(text, "kept 297") {
			t.Fatalf("%s holds %s", who, text)
		}
		proc.stop()
	}
	t.Logf("%d disks", len(disks))
	// Test the first disk, the last one, and some of those in between.
	for len(disks) > 24 {
		i := 1 + r.IntN(len(disks)-2)
		disks = slices.Delete(disks, i, i+1)
	}
	for i, d := range disks {
		proc, q := run(d.who, d.fs, true)
		folded(proc, last())
		if got := dump(t, q, p); !slices.Equal(got, want[d.who]) {
			t.Errorf("disk %d: the state of %s differs from a fold without the erased entries; it has %d "+
				"records, want %d", i, d.who, len(got),
				len(want[d.who]))
		}
		if proc.Stats.Diverged.Load() != 0 {
			t.Errorf("disk %d: %s would have added other entries", i, d.who)
		}
		proc.stop()
		if f := held(t, d.fs, "/state", "quokka"); len(f) > 0 {
			t.Errorf("disk %d: the erased text is still in %v of %s", i, f, d.who)
		}
	}
}

// held returns the files below dir that contain needle.
func held(t *testing.T, fs vfs.FS, dir, needle string) (out []string) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		return nil
	}
	for _, n := range names {
		path := filepath.Join(dir, n)
		if st, err := fs.Stat(path); err == nil && st.IsDir() {
			out = append(out, held(t, fs, path, needle)...)
			continue
		}
		f, err := fs.Open(path)
		if err != nil {
			continue
		}
		b, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), needle) {
			out = append(out, path)
		}
	}
	return out
}
