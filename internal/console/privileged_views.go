package console

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nuid"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// lookWindow is the time for which one ledger entry records all views of the same kind of page, project and login
// session.
const lookWindow = time.Hour

// Limits of the journal.
const (
	maxLooks = 10_000          // recorded views in memory
	lookTime = 3 * time.Second // timeout of recording a view
)

// look identifies a privileged view: a user in a login session saw texts of a project whose sensitivity is above
// internal, on a kind of page.
type look struct{ login, user, project, page string }

// journal records privileged views in the ledger. It writes one entry per look and lookWindow.
type journal struct {
	publish func(ctx context.Context, subject string, body []byte) error // returns once the message is stored
	log     *slog.Logger
	now     func() time.Time

	mu   sync.Mutex
	seen map[look]time.Time // time at which the view was last recorded; guarded by mu
}

func newJournal(publish func(ctx context.Context, subject string, body []byte) error, log *slog.Logger) *journal {
	return &journal{publish: publish, log: log, now: time.Now, seen: make(map[look]time.Time)}
}

// record stores an entry about a privileged view in the ledger. If one was stored within the last lookWindow, it does
// nothing.
func (j *journal) record(ctx context.Context, k look, path string, most beliefs.Sensitivity) error {
	now := j.now()
	j.mu.Lock()
	at, known := j.seen[k]
	j.mu.Unlock()
	if known && now.Sub(at) < lookWindow {
		return nil
	}
	l := &streams.Look{By: k.user, Login: k.login, Page: k.page, Path: streams.Clip(path, streams.MaxLookText-4),
		Ceiling: most, Window: int(lookWindow / time.Second)}
	body, err := streams.Marshal(streams.Control{ID: nuid.Next(), Project: k.project, Look: l})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if err := j.publish(ctx, streams.ControlSubject(streams.PartitionOf(k.project)), body); err != nil {
		j.log.Warn("a privileged view cannot be recorded, so its texts are not shown", "user", k.user, "err", err)
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.seen) >= maxLooks {
		for k, at := range j.seen {
			if now.Sub(at) >= lookWindow {
				delete(j.seen, k)
			}
		}
		if len(j.seen) >= maxLooks {
			clear(j.seen) // because of that, views in seen may be recorded a second time
		}
	}
	j.seen[k] = now
	return nil
}

// sees reports whether the user may read a text of a project with this sensitivity. If the sensitivity is above
// internal, sees first records the view. If the view cannot be recorded, it returns false.
func (p *page) sees(project string, as beliefs.Sensitivity) bool {
	if !as.Within(p.User.Ceiling) {
		return false
	}
	if as.Within(beliefs.Internal) {
		return true
	}
	if p.blind || p.c.journal == nil {
		return false
	}
	k := look{p.login, p.User.Name, project, p.kind}
	ctx := p.c.ctx
	if ctx == nil {
		ctx = context.Background()
	}
	p.blind = p.c.journal.record(ctx, k, p.path, p.User.Ceiling) != nil
	return !p.blind
}

// searched returns the highest sensitivity of the texts in which a search looks. A search in all projects looks only in
// texts up to internal.
func (p *page) searched(project string) beliefs.Sensitivity {
	if project == "" && !p.User.Ceiling.Within(beliefs.Internal) || !p.sees(project, p.User.Ceiling) {
		return beliefs.Internal
	}
	return p.User.Ceiling
}
