package console

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"lazaret/internal/arbiter"
	"lazaret/internal/auditor"
	"lazaret/internal/holds"
	"lazaret/internal/query"
	"lazaret/internal/status"
	"lazaret/pkg/chain"
	"lazaret/streams"
)

// looks has the last two snapshots of the state of all processes, was and last. Rates are computed from their
// difference. All pages share them, because a snapshot needs an answer of every stage.
type looks struct {
	mu   sync.Mutex
	last *status.Snapshot
	was  *status.Snapshot
	err  error
	at   time.Time
}

// fresh is the maximum age of a snapshot that is shown.
const fresh = 2 * time.Second

// look returns a snapshot with rates. Its age is at most fresh.
func (c *Console) look(ctx context.Context) (*status.Snapshot, error) {
	l := &c.looks
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.at) < fresh {
		return l.last, l.err
	}
	s, err := status.Collect(ctx, c.cfg.Conn)
	l.at, l.err = time.Now(), err
	if err != nil {
		return l.last, err
	}
	if l.was = l.last; l.was != nil {
		s.Since(l.was)
	}
	l.last = s
	return s, nil
}

// logHead is the head of the audit log: its last checkpoint.
type logHead struct {
	auditor.Answer
	Origin  string
	Signers []string // names of the keys that signed the last checkpoint: first the log's key, then those of witnesses
}

func (c *Console) logHead(ctx context.Context) (*logHead, error) {
	h := new(logHead)
	if err := query.Ask(ctx, c.cfg.Conn, auditor.AskAudit, 0, auditor.Request{Do: "head"}, &h.Answer); err != nil {
		return nil, err
	}
	cp, err := chain.ParseCheckpoint([]byte(h.Checkpoint))
	if err != nil {
		return h, nil // no checkpoint yet
	}
	h.Origin = cp.Origin
	for l := range strings.Lines(h.Checkpoint) {
		if rest, ok := strings.CutPrefix(l, "— "); ok {
			name, _, _ := strings.Cut(rest, " ")
			h.Signers = append(h.Signers, name)
		}
	}
	return h, nil
}

type nowView struct {
	*status.Snapshot
	// Numbers of verdicts, observations and rejected messages since the processes of the stages started.
	Allowed, Held, Denied uint64
	Observed              uint64
	Rejected              uint64
	Log                   *logHead
	LogAge                float64 // age of the last checkpoint in seconds; negative if it is not known
	Groups                []*holds.Group
	Alerts                []alertRow
	Incidents             []incidentRow
	Why                   string // why the stages do not reply
}

func (c *Console) nowPage(r *http.Request, p *page) (string, error) {
	p.Title, p.Nav, p.Live = "Now", "now", true
	v := &nowView{LogAge: -1}
	s, err := c.look(r.Context())
	if v.Snapshot = s; err != nil {
		v.Why = err.Error()
	}
	if s != nil {
		count := func(t streams.Type, word string) uint64 { return s.Counts[string(t)+word] }
		v.Allowed, v.Held, v.Denied = count(streams.TypeVerdict, ".allow"), count(streams.TypeVerdict,
			".hold"), count(streams.TypeVerdict, ".deny")
		v.Observed, v.Rejected = count(streams.TypeObservation, ""), count(streams.TypeRejected, "")
		for _, x := range s.Processes {
			if x.Log != nil {
				v.LogAge = x.Log.CheckpointAge
			}
		}
	}
	if v.Log, err = c.logHead(r.Context()); err != nil {
		v.Log = nil
	}
	open := c.index.openHolds(p.User.May)
	v.Groups = holds.Grouped(open[:min(len(open), 200)])
	v.Groups = v.Groups[:min(len(v.Groups), 6)]
	silenced := silencer(c.index.silencesNow(p.User.May))
	c.index.eachAlert(p.User.May, func(a *alertRow) bool {
		if a.Mode != "shadow" && !silenced(a) {
			v.Alerts = append(v.Alerts, *a)
		}
		return len(v.Alerts) < 6
	})
	v.Incidents = c.index.openIncidents(p.User.May)
	v.Incidents = v.Incidents[:min(len(v.Incidents), 6)]
	p.Data = v
	return "now", nil
}

// State returns the state of a process in one word.
func (v *nowView) State(p *status.Process) string { return status.Word(p) }

// why returns the hold's most important reason, by which lists show the hold.
func why(h *arbiter.Hold) streams.Reason { return holds.TopReason(&h.Verdict) }
