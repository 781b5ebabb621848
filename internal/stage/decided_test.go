package stage

import (
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"lazaret/pkg/position"
	"lazaret/streams"
)

// partition is the test's model of a partition: the undecided and decided inputs in the intake, the line of each input,
// and the inputs of the entries in the ledger.
type partition struct {
	line    map[uint64]int // of each input
	intake  []uint64       // inputs that are not purged, in order
	read    int            // how many inputs of intake the process has read
	next    uint64         // sequence
	ledger  []uint64       // inputs, in the order of their entries
	purged  uint64         // sequence
	decided map[uint64]bool
}

// undecided returns the inputs that the process has read and that are not decided, in order.
func (p *partition) undecided() (all []uint64) {
	for _, in := range p.intake[:p.read] {
		if !p.decided[in] {
			all = append(all, in)
		}
	}
	return all
}

// first returns the position that intakeStage.settle passes to decided.settle: that of the first queued input, or the
// one after the last input that was read if none is queued.
func (p *partition) first() uint64 {
	if u := p.undecided(); len(u) > 0 {
		return u[0]
	}
	if p.read > 0 {
		return position.At(position.Sequence(p.intake[p.read-1])+1, 0)
	}
	return position.At(p.purged+1, 0)
}

// The set of decided inputs must be exact for all messages in the intake, and never larger than the intake. That must
// hold in whatever order lines take turns, whenever a process stops, and however old its stored state was.
func TestTheDecidedInputsFollowFromTheLedgerWheneverAProcessStops(t *testing.T) {
	st, err := openStore("state", vfs.NewMem(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer st.close()
	rapid.Check(t, func(t *rapid.T) {
		p := &partition{line: make(map[uint64]int), next: 1, decided: make(map[uint64]bool)}
		var d decided
		saved, at := []byte(nil), 0 // the stored state, and how many entries of the ledger it includes
		check := func(t *rapid.T) {
			for _, in := range p.intake {
				if d.has(in) != p.decided[in] {
					t.Fatalf("input %d (index %d): has says %v; low %d, done %v", position.Sequence(in), position.Index(in),
						d.has(in), d.low, d.done)
				}
			}
			if !slices.IsSortedFunc(d.done, position.Compare) || len(d.done) > len(p.intake) {
				t.Fatalf("%d positions behind %d for an intake of %d: %v", len(d.done), d.low, len(p.intake), d.done)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": check,
			"publish": func(t *rapid.T) {
				line := rapid.IntRange(0, 3).Draw(t, "line")
				for i := range rapid.SampledFrom([]int{1, 1, 1, 4}).Draw(t, "events") {
					in := position.At(p.next, i)
					p.line[in], p.intake = line, append(p.intake, in)
				}
				p.next += uint64(rapid.IntRange(1, 3).Draw(t, "step")) // other partitions' messages are between
			},
			"read": func(t *rapid.T) { p.read += rapid.IntRange(0, len(p.intake)-p.read).Draw(t, "inputs") },
			"decide": func(t *rapid.T) {
				u := p.undecided()
				if len(u) == 0 {
					t.Skip("nothing waits")
				}
				line := p.line[rapid.SampledFrom(u).Draw(t, "of the line of")]
				in := u[slices.IndexFunc(u, func(in uint64) bool { return p.line[in] == line })]
				p.ledger, p.decided[in] = append(p.ledger, in), true
				d.add(in)
			},
			"settle": func(*rapid.T) { d.settle(p.first()) },
			"commit": func(*rapid.T) { saved, at = d.bytes(), len(p.ledger) },
			"purge": func(*rapid.T) {
				end := p.first()
				p.purged = position.Sequence(end) - 1
				n, _ := slices.BinarySearchFunc(p.intake, position.At(p.purged+1, 0), position.Compare)
				p.intake, p.read = p.intake[n:], max(p.read-n, 0)
				d.settle(end)
			},
			"stop": func(t *rapid.T) {
				if rapid.Bool().Draw(t, "and lose the state") {
					saved, at = nil, 0
				}
				if saved == nil {
					err = st.delete(decidedKey(0))
				} else {
					err = st.set(decidedKey(0), saved)
				}
				if err == nil {
					d, err = st.loadDecided(0, 0)
				}
				if err != nil {
					t.Fatal(err)
				}
				p.read = 0
				for _, in := range p.ledger[at:] {
					d.add(in)
				}
				d.settle(p.first()) // before the first input in the intake
			},
		})
	})
}

// A stored state without a set of decided inputs comes from an earlier version, which decided inputs in the order of
// the intake. Every input up to the state's last one must then count as decided. A damaged set must give an error.
func TestTheDecidedInputsOfAnEarlierStateAreThoseUpToItsLastOne(t *testing.T) {
	st, err := openStore("state", vfs.NewMem(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer st.close()
	d, err := st.loadDecided(3, position.At(7, 2))
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[uint64]bool{position.At(6, 9): true, position.At(7, 2): true, position.At(7, 3): false,
		position.At(8, 0): false} {
		if d.has(p) != want {
			t.Errorf("input %d, %d: has says %v", position.Sequence(p), position.Index(p), d.has(p))
		}
	}
	if err := st.set(decidedKey(3), []byte{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	if _, err := st.loadDecided(3, 0); err == nil {
		t.Error("a damaged set of decided inputs is read")
	}
}

// The first line that got no place in a batch must come first in the next batch, even if a batch in between is not
// taken because it contains a proposal.
func TestNoLineWaitsForBatchesThatAreNotTaken(t *testing.T) {
	s := &intakeStage{lines: make(map[lineKey]*line)}
	s.active[0] = true
	put := func(project string, n, size int, kind string) {
		l := s.lineFor(lineKey{project: project})
		for range n {
			m := &Message{Seq: uint64(s.queued + 1)}
			m.Address.Kind = streams.Kind(kind)
			l.queue = append(l.queue, &queued{msg: m, line: l, size: size})
			s.queued++
		}
	}
	put("a", 20, intakeBatchBytes*3/4, "obs")
	put("b", 20, intakeBatchBytes*3/4, "obs")
	put("c", 5000, 10, "act")
	took := make(map[string]int)
	for range 10 {
		if batch := s.batch(false); batch != nil {
			t.Fatalf("a batch with a proposal was taken: %d messages", len(batch))
		}
		for _, q := range s.batch(true) {
			took[q.line.project]++
			s.unqueue(q.line, 0)
		}
	}
	if took["a"] != 5 || took["b"] != 5 || took["c"] == 0 {
		t.Errorf("ten batches took %v, want 5 of a and 5 of b", took)
	}
}

// A message must not be decided before an earlier control message that concerns its whole partition.
func TestMessagesWaitForTheCommandsBeforeThem(t *testing.T) {
	s := &intakeStage{lines: make(map[lineKey]*line)}
	s.active[0] = true
	put := func(project string, size int) {
		l := s.lineFor(lineKey{project: project})
		l.queue = append(l.queue, &queued{msg: &Message{Seq: uint64(s.queued + 1)}, line: l, size: size})
		s.queued++
	}
	put("a", 10)
	put("", intakeBatchBytes*3/4)
	put("a", 10)
	put("", intakeBatchBytes*3/4)
	put("a", 10)
	put("b", 10)
	var order []uint64
	for s.queued > 0 {
		for _, q := range s.batch(true) {
			order = append(order, q.msg.Seq)
			s.unqueue(q.line, 0)
		}
	}
	if want := []uint64{2, 1, 3, 4, 5, 6}; !slices.Equal(order, want) {
		t.Errorf("decided in the order %v, want %v", order, want)
	}
}

// The index of an offer must differ from the index that any event of a batch may have, and from the index of every
// earlier offer after the same message, also after a restart.
func TestTheIndexesOfOffers(t *testing.T) {
	s := &intakeStage{runtime: &runtime{}}
	if i := s.nextIndex(); i != streams.MaxBatch {
		t.Errorf("the first offer before any message has index %d", i)
	}
	if i := s.nextIndex(); i != streams.MaxBatch+1 {
		t.Errorf("the second has index %d", i)
	}
	s.seen = 7
	s.decided[3].add(position.At(7, streams.MaxBatch+4)) // before a restart
	if i := s.nextIndex(); i != streams.MaxBatch+5 {
		t.Errorf("after a restart, an offer has index %d", i)
	}
	s.seen = 8
	if i := s.nextIndex(); i != streams.MaxBatch {
		t.Errorf("after the next message, an offer has index %d", i)
	}
}
