package stage

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"

	"lazaret/pkg/position"
	"lazaret/streams"
)

type event = queued

// batch returns the stage's next batch, if the data of all queued messages is in memory.
func (s *intakeStage) batch(proposals bool) []*queued {
	batch, _ := s.next(context.Background(), proposals)
	return batch
}

// shedder is an IntakeFold that implements only Shed.
type shedder struct{ IntakeFold }

func (shedder) Shed(_ *Message, reason string) *streams.RejectError {
	return &streams.RejectError{Code: streams.CodeAgentFull, Reason: reason}
}

// Messages are queued and decided in random order, by this process or another one, and processes take over at random.
// At each step, the bytes counted for an agent must be those of its queued messages. Each event must be queued exactly
// as long as it is undecided. Once all events are decided, no bytes may be counted.
func TestABacklogIsWhatIsQueuedOfAnAgent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s *intakeStage
		begin := func(d [streams.Partitions]decided) {
			s = &intakeStage{runtime: &runtime{decided: d}, fold: shedder{}, lines: make(map[lineKey]*line),
				backlog: backlog{most: 3000}}
			for p := range streams.Partitions {
				s.mine[p], s.active[p] = true, true
			}
		}
		begin([streams.Partitions]decided{})
		var intake []*stored
		sheds := 0
		undecided := func() (all []*queued) {
			for _, l := range s.turns {
				all = append(all, l.queue...)
			}
			return all
		}
		// within returns the positions of a queued batch's undecided events.
		within := func(q *queued) (all []uint64) {
			for i := range q.events {
				if at := position.At(q.msg.Seq, i); !s.decided[q.msg.Address.Partition].has(at) {
					all = append(all, at)
				}
			}
			return all
		}
		decide := func(q *queued) { s.decided[q.msg.Address.Partition].add(q.msg.Position()) }
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				want, queued, more := make(map[sender]int64), make(map[uint64]bool), 0
				for _, l := range s.turns {
					if !slices.IsSortedFunc(l.queue, func(a, b *event) int {
						return position.Compare(a.msg.Position(), b.msg.Position())
					}) {
						t.Fatal("a line is not in the order of the intake")
					}
					for _, q := range l.queue {
						if q.why == nil && q.weight > 0 {
							want[senderOf(q.msg)] += int64(q.weight)
						}
						if q.events > 0 {
							undecided := within(q)
							if len(undecided) != q.left || q.left == 0 {
								t.Fatalf("batch %d has %d undecided events and counts %d", q.msg.Seq, len(undecided), q.left)
							}
							for _, at := range undecided {
								queued[at] = true
							}
							more += q.left - 1
							continue
						}
						queued[q.msg.Position()] = true
						if s.decided[l.partition].has(q.msg.Position()) {
							t.Fatalf("input %d is decided but still queued", q.msg.Position())
						}
					}
				}
				if more != s.within {
					t.Fatalf("batches have %d further events, but %d are counted", more, s.within)
				}
				if !maps.Equal(want, s.backlog.bytes) && len(want)+len(s.backlog.bytes) > 0 {
					t.Fatalf("the counted bytes are %v, but the queued ones %v", s.backlog.bytes, want)
				}
				for a, n := range want {
					if n > s.backlog.most+2000 {
						t.Fatalf("%v has %d bytes", a, n)
					}
				}
				for _, m := range intake {
					a, _ := streams.ParseIntake(m.m.Subject)
					for _, e := range eventsOf(&Message{Seq: m.md.Sequence.Stream, Subject: m.m.Subject, Address: a,
						Header: m.m.Header, Data: m.m.Data}) {
						if s.decided[a.Partition].has(e.Position()) == queued[e.Position()] {
							t.Fatalf("%d is queued: %v, decided: %v", e.Position(), queued[e.Position()], !queued[e.Position()])
						}
					}
				}
			},
			"arrives": func(t *rapid.T) {
				agent := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "agent")
				project := rapid.SampledFrom([]string{"p", "q"}).Draw(t, "project")
				m := &nats.Msg{Subject: fmt.Sprintf("lz.in.%d.%s.%s.obs.web", streams.PartitionOf(project), project, agent),
					Data: bytes.Repeat([]byte("x"), rapid.IntRange(1, 2000).Draw(t, "bytes"))}
				if n := rapid.IntRange(0, 5).Draw(t, "events"); n > 1 {
					e := fmt.Sprintf(`{"specversion":"1.0","id":"e","source":"s","type":"t","data":%q}`, m.Data[:len(m.Data)/n])
					m.Header = nats.Header{"content-type": {streams.BatchContentType}}
					m.Data = []byte("[" + strings.TrimSuffix(strings.Repeat(e+",", n), ",") + "]")
				}
				in := &stored{m: m, md: &jetstream.MsgMetadata{Sequence: jetstream.SequencePair{Stream: uint64(len(intake) + 1)},
					Timestamp: time.Unix(0, 0)}}
				intake = append(intake, in)
				if err := s.enqueue(in); err != nil {
					t.Fatal(err)
				}
			},
			"decides": func(t *rapid.T) {
				for _, q := range s.batch(true) {
					decide(q)
					if q.why != nil {
						sheds++
					}
					s.unqueue(q.line, 0)
				}
			},
			"another decides": func(t *rapid.T) {
				all := undecided()
				if len(all) == 0 {
					t.Skip("nothing is queued")
				}
				q := rapid.SampledFrom(all).Draw(t, "event")
				at := q.msg.Position()
				if q.events > 0 {
					at = rapid.SampledFrom(within(q)).Draw(t, "position")
				}
				s.decided[q.msg.Address.Partition].add(at)
				s.prune(q.msg.Address.Partition, at)
			},
			"takes over": func(t *rapid.T) {
				begin(s.decided)
				for _, m := range intake {
					if err := s.enqueue(m); err != nil {
						t.Fatal(err)
					}
				}
			},
		})
		for s.queued > 0 {
			for _, q := range s.batch(true) {
				decide(q)
				s.unqueue(q.line, 0)
			}
		}
		if len(s.backlog.bytes) > 0 || s.held != 0 || s.within != 0 {
			t.Errorf("all inputs are decided, but bytes are still counted: %v, and %d bytes are held",
				s.backlog.bytes, s.held)
		}
		t.Logf("%d messages, %d events turned down", len(intake), sheds)
	})
}
