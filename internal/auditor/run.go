package auditor

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"lazaret/internal/query"
	"lazaret/streams"
)

// AskAudit is the question that the auditor answers, on partition 0.
const AskAudit = "audit"

// Request asks about the log.
type Request struct {
	// Do is head, list or snapshot.
	Do   string `json:"do"`
	From int64  `json:"from,omitzero"` // list: leaf indexes, From <= i < To
	To   int64  `json:"to,omitzero"`
}

// Answer is what the auditor says; which fields are set depends on Do.
type Answer struct {
	Size       int64  `json:"size"`
	Root       string `json:"root,omitzero"` // base64
	LastSeq    uint64 `json:"last_seq"`
	Entries    int64  `json:"entries"`
	Gaps       int64  `json:"gaps"`
	Checkpoint string `json:"checkpoint,omitzero"`
	Leaves     []Leaf `json:"leaves,omitzero"`
	Dir        string `json:"dir,omitzero"` // snapshot
}

// maxList bounds a list.
const maxList = 1000

// Run opens the log, follows the ledger until ctx ends and answers questions
// over svc, which may be nil.
func Run(ctx context.Context, cfg Config, svc *nats.Conn) (err error) {
	a, err := Open(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if svc != nil {
		stop, err := query.Serve(svc, "lazaret-auditor", "The audit log", []int{0}, map[string]query.Handler{AskAudit: a.answer}, a.cfg.Log)
		if err != nil {
			return err
		}
		defer stop()
	}
	return a.Follow(ctx)
}

func (a *Auditor) answer(_ context.Context, _ int, req []byte) (any, error) {
	var q Request
	if err := streams.Unmarshal(req, &q); err != nil {
		return nil, err
	}
	h := a.log.Head()
	ans := &Answer{Size: h.Size, Root: h.Root.String(), LastSeq: h.LastSeq, Entries: h.Entries, Gaps: h.Gaps, Checkpoint: string(h.Checkpoint)}
	switch q.Do {
	case "head":
	case "snapshot":
		dir, err := a.Snapshot()
		if err != nil {
			return nil, err
		}
		ans.Dir = dir
	case "list":
		to := min(q.To, h.Size, q.From+maxList)
		leaves, err := Leaves(a.log, max(q.From, 0), to)
		if err != nil {
			return nil, err
		}
		ans.Leaves = leaves
	default:
		return nil, fmt.Errorf("unknown question %q: use head, list or snapshot", q.Do)
	}
	return ans, nil
}
