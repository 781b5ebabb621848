package status

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"lazaret/internal/stage"
	"lazaret/streams"
)

// StageAuditor is the auditor's name among the stages: it writes no ledger
// subject.
const StageAuditor = "auditor"

// Process is what one process of a stage says of itself.
type Process struct {
	Stage      string `json:"stage"`
	Process    string `json:"process"`    // its connection's name and number in the server
	Partitions []int  `json:"partitions"` // that it works on
	Active     bool   `json:"active"`     // it publishes in at least one partition; an auditor never does
	Ready      bool   `json:"ready"`      // all that the ledger held at its start is folded
	Folded     uint64 `json:"folded"`     // ledger sequence up to which it has taken in everything
	Entries    uint64 `json:"entries"`    // taken in since its start
	Published  uint64 `json:"published"`  // added to the ledger since its start
	// Waiting is decided and not yet in the ledger; of ingest, messages of the intake that it holds.
	Waiting   int64  `json:"waiting"`
	FenceLost uint64 `json:"fence_lost"`
	TakenOver uint64 `json:"taken_over"`
	Diverged  uint64 `json:"diverged"`
	// Counts are the entries that it added, by type, and verdicts by what they
	// say (verdict.allow) and by the groups that had not answered
	// (verdict.silent.core).
	Counts map[string]uint64 `json:"counts,omitzero"`
	Log    *Log              `json:"log,omitzero"`
	// Owed is for how long it has owed an entry to the ledger, in seconds, and Why
	// what came in its way.
	Owed   float64 `json:"owed_s,omitzero"`
	Why    string  `json:"owed_why,omitzero"`
	Uptime float64 `json:"uptime_s"`

	// Lag is how many ledger entries it has not taken in, and Behind the
	// partitions in which there are such. Collect sets them.
	Lag    uint64 `json:"lag"`
	Behind []int  `json:"behind,omitzero"`
}

// Log is how far an auditor's log has come.
type Log struct {
	Leaves   int64 `json:"leaves"`
	Unsigned int64 `json:"unsigned"` // leaves that no checkpoint covers yet
	Gaps     int64 `json:"gaps"`
	// CheckpointAge is the time since the last checkpoint, in seconds, or -1 if
	// this process has signed none. It grows while nothing comes in.
	CheckpointAge float64 `json:"checkpoint_age_s"`
}

// Word returns the state of a process in a word or two.
func Word(p *Process) string {
	switch {
	case !p.Ready:
		return "folding"
	case p.Stage == StageAuditor:
		return "chains"
	case p.Active:
		return "active"
	}
	return "stands by"
}

// Serve answers for a process of a stage until stop is called. Partitions that
// are empty are all. A credential from before this was asked may not subscribe;
// then the server says so, and nothing else changes.
func Serve(nc *nats.Conn, name string, partitions []int, stats *stage.Stats, log *slog.Logger) (stop func(),
	err error) {
	began := time.Now()
	partitions = stage.PartitionList(partitions)
	sub, err := nc.Subscribe(streams.StatusSubject, func(m *nats.Msg) {
		if !strings.HasPrefix(m.Reply, "_INBOX") {
			log.Warn("question with a foreign reply subject dropped", "subject", m.Subject, "code", streams.CodeBadReply)
			return
		}
		p := of(nc, name, partitions, stats, began)
		body, err := streams.Marshal(p)
		if err == nil {
			err = m.Respond(body)
		}
		if err != nil {
			log.Warn("answer not sent", "subject", m.Subject, "err", err)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("answering how far %s has come: %w", name, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil // the connection may have gone first
}

func of(nc *nats.Conn, name string, partitions []int, s *stage.Stats, began time.Time) *Process {
	p := &Process{Stage: name, Process: connName(nc), Partitions: partitions, Active: s.Active.Load(),
		Ready:  s.Ready.Load(),
		Folded: s.Folded.Load(), Entries: s.Entries.Load(), Published: s.Published.Load(), Waiting: s.Waiting.Load(),
		FenceLost: s.FenceLost.Load(), TakenOver: s.TakenOver.Load(), Diverged: s.Diverged.Load(), Counts: s.Counts(),
		Uptime: time.Since(began).Seconds()}
	owed, why := s.Owes()
	p.Owed, p.Why = owed.Seconds(), why
	if name == StageAuditor {
		p.Log = &Log{Leaves: s.Leaves.Load(), Gaps: s.Gaps.Load(), CheckpointAge: -1}
		p.Log.Unsigned = max(p.Log.Leaves-s.Signed.Load(), 0)
		if at := s.SignedAt.Load(); at != 0 {
			p.Log.CheckpointAge = time.Since(time.Unix(0, at)).Seconds()
		}
	}
	return p
}

func connName(nc *nats.Conn) string {
	id, err := nc.GetClientID()
	if err != nil {
		return nc.Opts.Name
	}
	return fmt.Sprintf("%s #%d", nc.Opts.Name, id)
}

// quiet is how long nothing more may come before all have answered, and most
// how long an answer is waited for at all.
const (
	quiet = 150 * time.Millisecond
	most  = 2 * time.Second
)

// processes asks all and returns those that answer, in the order of their
// stages.
func processes(ctx context.Context, nc *nats.Conn) ([]*Process, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("asking the stages: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := nc.PublishRequest(streams.StatusSubject, inbox, nil); err != nil {
		return nil, fmt.Errorf("asking the stages: %w", err)
	}
	var out []*Process
	for {
		wait := quiet
		if len(out) == 0 {
			wait = most
		}
		next, stop := context.WithTimeout(ctx, wait)
		m, err := sub.NextMsgWithContext(next)
		stop()
		switch {
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrNoResponders):
			slices.SortStableFunc(out, func(a, b *Process) int {
				if c := order(a.Stage) - order(b.Stage); c != 0 {
					return c
				}
				return strings.Compare(a.Stage+a.Process, b.Stage+b.Process)
			})
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("asking the stages: %w", err)
		}
		p := new(Process)
		if err := streams.Unmarshal(m.Data, p); err != nil {
			continue // of a group of somebody else's, say
		}
		out = append(out, p)
	}
}

// order is that of the way of the data.
func order(stage string) int {
	if _, ok := streams.SentinelGroup(stage); ok {
		return 1
	}
	return map[string]int{streams.StageIngest: 0, streams.StageArbiter: 2, StageAuditor: 3}[stage]
}
