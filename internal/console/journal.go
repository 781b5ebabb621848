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

// lookWindow is the time for which one entry stands for all looks of a session at one kind of
// page of a project.
const lookWindow = time.Hour

// Bounds of the journal.
const (
	maxLooks = 10_000 // looks that are known to be recorded
	lookTime = 3 * time.Second
)

// look identifies a privileged look within its window.
type look struct{ login, user, project, page string }

// journal records privileged looks in the ledger: one entry for each person, session, project,
// kind of page and window.
type journal struct {
	publish func(ctx context.Context, subject string, body []byte) error // returns once it is stored
	log     *slog.Logger
	now     func() time.Time

	mu   sync.Mutex
	seen map[look]time.Time // when it was recorded; guarded by mu
}

func newJournal(publish func(ctx context.Context, subject string, body []byte) error, log *slog.Logger) *journal {
	return &journal{publish: publish, log: log, now: time.Now, seen: make(map[look]time.Time)}
}

// record returns once an entry for the look is stored, which may be one of before.
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
		j.log.Warn("a privileged look cannot be recorded, so texts are not shown", "user", k.user, "err", err)
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
			clear(j.seen) // looks are recorded again
		}
	}
	j.seen[k] = now
	return nil
}

// sees reports whether the user may see a text of a project with this mark. A look at a text
// that is marked above internal is recorded first. If that fails, the text is not shown.
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

// searched is the highest sensitivity of texts that a search in a project looks through. A
// search in all projects looks through no text that is marked above internal.
func (p *page) searched(project string) beliefs.Sensitivity {
	if project == "" && !p.User.Ceiling.Within(beliefs.Internal) || !p.sees(project, p.User.Ceiling) {
		return beliefs.Internal
	}
	return p.User.Ceiling
}
