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

// lookWindow is the time during which one journal entry covers all views of one kind of page of a project in
// one login session.
const lookWindow = time.Hour

// Limits of the journal.
const (
	maxLooks = 10_000          // recorded views in memory
	lookTime = 3 * time.Second // timeout of recording a view
)

// look identifies a privileged view: the display of texts whose sensitivity is above internal.
type look struct{ login, user, project, page string }

// journal records privileged views in the ledger: one entry for each look and lookWindow.
type journal struct {
	publish func(ctx context.Context, subject string, body []byte) error // returns once the message is stored
	log     *slog.Logger
	now     func() time.Time

	mu   sync.Mutex
	seen map[look]time.Time // when the view was recorded; guarded by mu
}

func newJournal(publish func(ctx context.Context, subject string, body []byte) error, log *slog.Logger) *journal {
	return &journal{publish: publish, log: log, now: time.Now, seen: make(map[look]time.Time)}
}

// record ensures that an entry for the view is stored. An earlier entry within the window suffices.
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
			clear(j.seen) // these views are then recorded a second time
		}
	}
	j.seen[k] = now
	return nil
}

// sees reports whether the user may read a text of a project with this sensitivity. It first records
// the view if the sensitivity is above internal. If that fails, it returns false.
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

// searched returns the highest sensitivity of texts that a search in a project covers. A search in all
// projects covers texts up to internal only.
func (p *page) searched(project string) beliefs.Sensitivity {
	if project == "" && !p.User.Ceiling.Within(beliefs.Internal) || !p.sees(project, p.User.Ceiling) {
		return beliefs.Internal
	}
	return p.User.Ceiling
}
