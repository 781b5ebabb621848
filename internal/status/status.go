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

// StageAuditor is the auditor's stage name in a Process. It is not part of a ledger subject, because the auditor writes
// nothing to the ledger.
const StageAuditor = "auditor"

// Process is the status of one process of a stage.
type Process struct {
	Stage      string `json:"stage"`
	Process    string `json:"process"`    // name and server-side id of its connection
	Partitions []int  `json:"partitions"` // partitions that the process works on
	Active     bool   `json:"active"`     // publishes in at least one partition; always false for an auditor
	Ready      bool   `json:"ready"`      // has processed the entries that the ledger had at its start
	Folded     uint64 `json:"folded"`     // has processed all entries up to this ledger sequence
	Entries    uint64 `json:"entries"`    // number of entries processed since its start
	Published  uint64 `json:"published"`  // number of entries added to the ledger since its start
	// Waiting is the number of decided entries that are not yet in the ledger. For ingest, it is the number of
	// intake messages that wait.
	Waiting   int64  `json:"waiting"`
	FenceLost uint64 `json:"fence_lost"`
	TakenOver uint64 `json:"taken_over"`
	Diverged  uint64 `json:"diverged"`
	// Counts are the added entries by type, and verdicts by result (verdict.allow) and by groups
	// without an answer (verdict.silent.core).
	Counts map[string]uint64 `json:"counts,omitzero"`
	Log    *Log              `json:"log,omitzero"`
	// Pending is the age of the oldest entry that the process must still write, in seconds. Why is the reason why
	// it cannot write the entry.
	Pending float64 `json:"owed_s,omitzero"`
	Why     string  `json:"owed_why,omitzero"`
	Uptime  float64 `json:"uptime_s"`

	// Lag is the number of ledger entries that the process has not processed, and Behind the partitions with
	// such entries. Collect sets them.
	Lag    uint64 `json:"lag"`
	Behind []int  `json:"behind,omitzero"`
}

// Log is the state of an auditor's log.
type Log struct {
	Leaves   int64 `json:"leaves"`
	Unsigned int64 `json:"unsigned"` // leaves that no checkpoint covers yet
	Gaps     int64 `json:"gaps"`
	// CheckpointAge is the time since the last checkpoint, in seconds, or -1 if this process has signed
	// none. It grows while there are no new entries.
	CheckpointAge float64 `json:"checkpoint_age_s"`
	// Uncosigned is how long a witness's cosignature of the last checkpoint has been missing, in seconds. It is 0 if
	// none is missing, or if there is no witness.
	Uncosigned float64 `json:"uncosigned_s,omitzero"`
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

// Serve answers status requests for a process of a stage until stop is called. If partitions is empty, the process has
// all. A credential of an older version may lack the permission to subscribe. The server then reports that, and the
// process works without answering status requests.
func Serve(nc *nats.Conn, name string, partitions []int, stats *stage.Stats, log *slog.Logger) (stop func(),
	err error) {
	began := time.Now()
	partitions = stage.PartitionList(partitions)
	sub, err := nc.Subscribe(streams.StatusSubject, func(m *nats.Msg) {
		if !strings.HasPrefix(m.Reply, "_INBOX") {
			log.Warn("request with a reply subject outside of inboxes "+
				"dropped", "subject", m.Subject, "code", streams.CodeBadReply)
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
		return nil, fmt.Errorf("serving the status of %s: %w", name, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil // the connection may already be closed
}

func of(nc *nats.Conn, name string, partitions []int, s *stage.Stats, began time.Time) *Process {
	p := &Process{Stage: name, Process: connName(nc), Partitions: partitions, Active: s.Active.Load(),
		Ready:  s.Ready.Load(),
		Folded: s.Folded.Load(), Entries: s.Entries.Load(), Published: s.Published.Load(), Waiting: s.Waiting.Load(),
		FenceLost: s.FenceLost.Load(), TakenOver: s.TakenOver.Load(), Diverged: s.Diverged.Load(), Counts: s.Counts(),
		Uptime: time.Since(began).Seconds()}
	pending, why := s.Pending()
	p.Pending, p.Why = pending.Seconds(), why
	if name == StageAuditor {
		p.Log = &Log{Leaves: s.Leaves.Load(), Gaps: s.Gaps.Load(), CheckpointAge: -1}
		p.Log.Unsigned = max(p.Log.Leaves-s.Signed.Load(), 0)
		if at := s.SignedAt.Load(); at != 0 {
			p.Log.CheckpointAge = time.Since(time.Unix(0, at)).Seconds()
		}
		if since := s.UncosignedSince.Load(); since != 0 {
			p.Log.Uncosigned = time.Since(time.Unix(0, since)).Seconds()
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

// quiet is how long processes waits for the next answer, and most how long it waits in total.
const (
	quiet = 150 * time.Millisecond
	most  = 2 * time.Second
)

// processes queries all processes and returns those that answer, in the order of their stages.
func processes(ctx context.Context, nc *nats.Conn) ([]*Process, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("querying the stages: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := nc.PublishRequest(streams.StatusSubject, inbox, nil); err != nil {
		return nil, fmt.Errorf("querying the stages: %w", err)
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
			return nil, fmt.Errorf("querying the stages: %w", err)
		}
		p := new(Process)
		if err := streams.Unmarshal(m.Data, p); err != nil {
			continue // not an answer of Lazaret, but perhaps of a third-party sentinel group
		}
		out = append(out, p)
	}
}

// order returns the position of a stage in the data flow.
func order(stage string) int {
	if _, ok := streams.SentinelGroup(stage); ok {
		return 1
	}
	return map[string]int{streams.StageIngest: 0, streams.StageArbiter: 2, StageAuditor: 3}[stage]
}
