package auditor

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"lazaret/internal/query"
	"lazaret/pkg/chain"
	"lazaret/streams"
)

// AskAudit is the name of the question that the auditor answers, on partition 0.
const AskAudit = "audit"

// Request is a question about the log.
type Request struct {
	// Do is head, list, snapshot, tile, bundle, payload or find.
	Do   string `json:"do"`
	From int64  `json:"from,omitzero"` // list: leaf indexes, From <= i < To; payload: the leaf index
	To   int64  `json:"to,omitzero"`
	// Level, N and Width select a tile or bundle, as in C2SP tlog-tiles.
	Level int   `json:"level,omitzero"`
	N     int64 `json:"n,omitzero"`
	Width int   `json:"width,omitzero"`
	// ID is the id of the event that find looks for. If ID is empty, find looks for the ledger entry at position Seq.
	ID  string `json:"id,omitzero"`
	Seq uint64 `json:"seq,omitzero"`
}

// Answer is the answer to a Request. The request's Do determines which fields are set.
type Answer struct {
	Size       int64  `json:"size"`            // number of leaves
	Root       string `json:"root,omitzero"`   // base64
	LastSeq    uint64 `json:"last_seq"`        // last ledger sequence in the log
	Entries    int64  `json:"entries"`         // number of ledger entries in the log
	Gaps       int64  `json:"gaps"`            // how often the ledger skipped sequences
	Resets     int64  `json:"resets,omitzero"` // how often the ledger was created again
	Checkpoint string `json:"checkpoint,omitzero"`
	Leaves     []Leaf `json:"leaves,omitzero"`
	Dir        string `json:"dir,omitzero"`   // snapshot
	Bytes      []byte `json:"bytes,omitzero"` // tile, bundle, payload (preceded by its salt)
	Leaf       int64  `json:"leaf,omitzero"`  // find
	Range      bool   `json:"range,omitzero"` // the request is beyond the log's end
}

// maxList limits a list.
const maxList = 1000

// Run opens the log, follows the ledger until ctx ends and answers questions over svc, which may be
// nil.
func Run(ctx context.Context, cfg Config, svc *nats.Conn) (err error) {
	a, err := Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if svc != nil {
		stop, err := query.Serve(svc, "lazaret-auditor", "The audit log", []int{0},
			map[string]query.Handler{AskAudit: a.answer}, a.cfg.Log)
		if err != nil {
			return err
		}
		defer stop()
		if stop, err = a.serveProofs(svc); err != nil {
			return err
		}
		defer stop()
	}
	return a.Follow(ctx)
}

func (a *Auditor) answer(ctx context.Context, _ int, req []byte) (any, error) {
	var q Request
	if err := streams.Unmarshal(req, &q); err != nil {
		return nil, err
	}
	h := a.log.Head()
	ans := &Answer{Size: h.Size, Root: h.Root.String(), LastSeq: h.LastSeq, Entries: h.Entries, Gaps: h.Gaps,
		Resets: h.Resets, Checkpoint: string(h.Checkpoint)}
	var err error
	switch q.Do {
	case "head":
	case "snapshot":
		ans.Dir, err = a.Snapshot(ctx)
	case "list":
		to := min(q.To, h.Size, q.From+maxList)
		ans.Leaves, err = Leaves(a.log, max(q.From, 0), to)
	case "tile":
		ans.Bytes, err = a.log.Tile(q.Level, q.N, q.Width)
	case "bundle":
		ans.Bytes, err = a.log.EntryBundle(q.N, q.Width)
	case "payload":
		var salt [16]byte
		if salt, ans.Bytes, err = a.log.Salted(q.From); err == nil {
			ans.Bytes = append(salt[:], ans.Bytes...)
		}
	case "find":
		if q.ID == "" {
			ans.Leaf, err = a.log.FindSeq(q.Seq)
		} else {
			ans.Leaf, err = FindEvent(ctx, a.log, q.ID)
		}
	default:
		return nil, fmt.Errorf("unknown question %q: use head, list, snapshot, tile, bundle, payload or find", q.Do)
	}
	if errors.Is(err, chain.ErrRange) {
		ans.Range, err = true, nil
	}
	return ans, err
}

// Remote reads the log of a running auditor over NATS.
type Remote struct{ Conn *nats.Conn }

// Ask sends a question to the auditor. If the request is beyond the log's end, the error is
// chain.ErrRange.
func (r Remote) Ask(ctx context.Context, q Request) (*Answer, error) {
	ans := new(Answer)
	if err := query.Ask(ctx, r.Conn, AskAudit, 0, q, ans); err != nil {
		return nil, err
	}
	if ans.Range {
		return nil, chain.ErrRange
	}
	return ans, nil
}

// ReadCheckpoint implements chain.Source.
func (r Remote) ReadCheckpoint(ctx context.Context) ([]byte, error) {
	ans, err := r.Ask(ctx, Request{Do: "head"})
	if err != nil {
		return nil, err
	}
	if ans.Checkpoint == "" {
		return nil, chain.ErrNoCheckpoint
	}
	return []byte(ans.Checkpoint), nil
}

// ReadTile implements chain.Source.
func (r Remote) ReadTile(ctx context.Context, level int, n int64, width int) ([]byte, error) {
	ans, err := r.Ask(ctx, Request{Do: "tile", Level: level, N: n, Width: width})
	if err != nil {
		return nil, err
	}
	return ans.Bytes, nil
}

// ReadEntryBundle implements chain.Source.
func (r Remote) ReadEntryBundle(ctx context.Context, n int64, width int) ([]byte, error) {
	ans, err := r.Ask(ctx, Request{Do: "bundle", N: n, Width: width})
	if err != nil {
		return nil, err
	}
	return ans.Bytes, nil
}

// Salted returns the salt and the payload of a leaf.
func (r Remote) Salted(ctx context.Context, i int64) (salt [16]byte, payload []byte, err error) {
	ans, err := r.Ask(ctx, Request{Do: "payload", From: i})
	if err != nil {
		return salt, nil, err
	}
	if len(ans.Bytes) < len(salt) {
		return salt, nil, errors.New("the auditor's answer has no salt")
	}
	copy(salt[:], ans.Bytes)
	return salt, ans.Bytes[len(salt):], nil
}

// ErrNoEvent means that no readable entry has this id.
var ErrNoEvent = errors.New("no entry that can be read has this id")

// FindEvent returns the leaf of the entry that ingest made of the event with this id. If several
// projects have the id, it returns the last. It reads payloads from the log's end backwards.
func FindEvent(ctx context.Context, l *chain.Log, id string) (int64, error) {
	return findEvent(ctx, l, id, func(*chain.Leaf) bool { return true }, "")
}

// findEvent is FindEvent restricted to the leaves for which in returns true and, if agent is not
// empty, to events of that agent.
func findEvent(ctx context.Context, l *chain.Log, id string, in func(*chain.Leaf) bool, agent string) (int64, error) {
	if !streams.ValidID(id) {
		return 0, streams.CheckID("id", id)
	}
	quoted, stage := []byte(`"`+id+`"`), []byte(streams.StageIngest+" ")
	const step = 512
	for to := l.Head().Size; to > 0; to -= step {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		found := int64(-1)
		err := l.Range(max(to-step, 0), to, func(i int64, leaf chain.Leaf) error {
			if leaf.Kind != chain.KindEntry || leaf.Type == string(streams.TypeRepeat) || !in(&leaf) {
				return nil
			}
			p, err := l.Payload(i)
			if errors.Is(err, chain.ErrForgotten) || errors.Is(err, chain.ErrNotHeld) {
				return nil
			}
			if err != nil {
				return err
			}
			if _, body, ok := bytes.Cut(p, []byte("\n")); ok && bytes.HasPrefix(p, stage) && bytes.Contains(body, quoted) {
				if b := aboutOf(body); b.ID == id && (agent == "" || b.Agent == agent) {
					found = i
				}
			}
			return nil
		})
		if err != nil || found >= 0 {
			return found, err
		}
	}
	return 0, fmt.Errorf("event %s: %w", id, ErrNoEvent)
}

// about identifies the event that an entry is about.
type about struct {
	ID    string `json:"id"`
	Agent string `json:"agent"`
}

func aboutOf(body []byte) (b about) {
	if streams.Unmarshal(body, &b) != nil {
		return about{}
	}
	return b
}
