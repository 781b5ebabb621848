package stage

import (
	"fmt"

	"lazaret/streams"
)

// sender is an agent of a project.
type sender struct{ project, agent string }

func senderOf(m *Message) sender { return sender{m.Address.Project, m.Address.Agent} }

// backlog has the number of bytes in the queue for each agent. A message counts until its last event is decided.
type backlog struct {
	most  int64 // maximum for one agent
	bytes map[sender]int64
}

// over returns the reason why a message of size bytes does not fit into its agent's share of the intake, or "" if the
// message fits. If the agent has nothing queued, any message fits.
func (b *backlog) over(a sender, size int) string {
	n := b.bytes[a]
	if n == 0 || n+int64(size) <= b.most {
		return ""
	}
	return fmt.Sprintf("%d bytes of agent %s of project %s wait in the intake, and at most %d may: this message of %d "+
		"bytes is not kept, publish it again later", n, a.agent, a.project, b.most, size)
}

func (b *backlog) add(a sender, size int) {
	if b.bytes == nil {
		b.bytes = make(map[sender]int64)
	}
	b.bytes[a] += int64(size)
}

func (b *backlog) remove(a sender, size int) {
	if b.bytes[a] -= int64(size); b.bytes[a] <= 0 {
		delete(b.bytes, a)
	}
}

// shed marks the events of a message for rejection without the message's data. They go to the partition's line of shed
// messages, which is served first.
func (s *intakeStage) shed(events []*queued, reason string) {
	for _, q := range events {
		q.why = s.fold.Shed(q.msg, reason)
		q.line = s.lineFor(lineKey{partition: q.msg.Address.Partition, shed: true})
		q.dropData()
	}
}

// proposal reports whether the event is a proposal that is not shed. Such an event must be decided with the ledger
// folded to its current end.
func (q *queued) proposal() bool { return q.why == nil && q.msg.Address.Kind.Proposal() }

// sheds returns the undecided messages that were shed, up to the size of one batch.
func (s *intakeStage) sheds() (batch []*queued) {
	for p := range streams.Partitions {
		if l := s.lines[lineKey{partition: p, shed: true}]; l != nil && s.active[p] && !s.unsure[p] {
			heads := l.queue[l.inFlight:]
			batch = append(batch, heads[:min(len(heads), intakeBatch-len(batch))]...)
		}
	}
	return batch
}
