package chaos

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/wire"
	"lazaret/streams"
)

// drills are faults that are timed for the moment at which a stage could lose or duplicate an entry, by kind.
// Each drill sends its own events. The name of a drill is KIND:STAGE.
//
//   - overlap: the active process is paused, its standby takes over, and then both run.
//   - mute: both processes of a stage receive messages from the server, but the messages that they
//     send are dropped. So they decide and cannot publish. Then both are stopped.
//   - backlog: both processes are paused until many events wait in the intake. They
//     resume and are killed while they process them.
//   - late: entries of both processes arrive late: some after the other process has taken over, and some
//     after their process was killed.
//   - stray: a joint frame arrives after its process was killed and the restarted process has decided the
//     same message.
var drills = map[string]func(*run, context.Context, string) error{
	"overlap": (*run).overlap,
	"mute":    (*run).mute,
	"backlog": (*run).backlog,
	"late":    (*run).late,
	"stray":   (*run).stray,
}

// Drills are the names of the drills with daemons, in the order of a run.
var Drills = []string{
	"overlap:ingest", "overlap:sentinels", "overlap:arbiter",
	"mute:ingest", "mute:sentinels", "mute:arbiter", "backlog:ingest",
}

// DrillsOf returns the names of the drills with these processes, or an error for unknown processes.
func DrillsOf(processes string) ([]string, error) {
	l, ok := layouts[processes]
	if !ok {
		return nil, fmt.Errorf("unknown processes %q: use %s, %s or %s", processes, Daemons, Pair, Up)
	}
	return l.drills, nil
}

// patient is how long a drill waits for a condition. It is long because the machine may be busy.
const patient = time.Minute

// await waits until f reports true. what names the condition in the error.
func (r *run) await(ctx context.Context, what string, f func() (bool, error)) error {
	for end := time.Now().Add(patient); ; {
		ok, err := f()
		if ok || err != nil {
			return err
		}
		if time.Now().After(end) {
			r.rep.problem("not within %s: %s", patient, what)
			return nil
		}
		if err := rest(ctx, 2*time.Millisecond); err != nil {
			return err
		}
	}
}

// rest sleeps for d. If ctx ends first, rest returns its error.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// drill runs one drill, and restarts processes that ended by themselves.
func (r *run) drill(ctx context.Context, name string) error {
	kind, stage, _ := strings.Cut(name, ":")
	if !canPause && kind != "mute" {
		r.rep.NotTried = append(r.rep.NotTried, name+": processes cannot be stopped and resumed here")
		return nil
	}
	began := time.Now()
	if err := drills[kind](r, ctx, stage); err != nil {
		return fmt.Errorf("drill %s: %w", name, err)
	}
	r.o.Say("drill  %s took %s", name, time.Since(began).Round(time.Millisecond))
	r.rep.Drills++
	return r.revive(ctx)
}

// The events of a drill.
const (
	someEvents    = 200
	backlogEvents = 24_000
)

// overlap pauses both processes in turn, because it is not known which one is active.
func (r *run) overlap(ctx context.Context, stage string) error {
	for _, name := range pair(stage) {
		p := r.f.procs[name].cmd.Process
		pause(p)
		defer resume(p)
		heard := r.heard.Load()
		r.feed(someEvents, false)
		err := r.await(ctx, "answers while "+name+" is stopped", func() (bool, error) {
			return r.heard.Load() > heard+2, nil
		})
		if err != nil {
			return err
		}
		r.feed(someEvents, false)
		resume(p)
		if err := r.acknowledged(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) mute(ctx context.Context, stage string) error {
	both := pair(stage)
	if stage == streams.StageIngest {
		// Ingest decides on a proposal once it knows the end of the ledger, for which it asks the
		// server. The requests of a muted process are dropped, so no proposals are sent meanwhile.
		r.ask.Lock()
		defer r.ask.Unlock()
		if err := r.idle(ctx); err != nil {
			return err
		}
	}
	silence := func(on bool) {
		for _, name := range both {
			r.f.ways[name].silence(on)
		}
	}
	before, err := r.stream(ctx, streams.LedgerStream)
	if err != nil {
		return err
	}
	silence(true)
	defer silence(false)
	r.feed(someEvents, stage == streams.StageIngest)
	if err := r.acknowledged(ctx); err != nil {
		return err
	}
	if stage != streams.StageIngest && !r.f.joint {
		if err := r.still(ctx, before.LastSeq); err != nil {
			return err
		}
	}
	// Give the stage time to read, to decide, and to find that the server does not acknowledge.
	if err := rest(ctx, time.Second); err != nil {
		return err
	}
	if err := r.f.quit(ctx, 5*time.Second, both...); err != nil {
		return err
	}
	silence(false)
	return r.f.again(ctx, both...)
}

// stream returns the state of a stream.
func (r *run) stream(ctx context.Context, name string) (jetstream.StreamState, error) {
	st, err := wire.JetStream(r.nc).Stream(ctx, name)
	if err != nil {
		return jetstream.StreamState{}, fmt.Errorf("looking up stream %s: %w", name, err)
	}
	return st.CachedInfo().State, nil
}

// idle waits until the intake is empty.
func (r *run) idle(ctx context.Context) error {
	return r.await(ctx, "an empty intake", func() (bool, error) {
		st, err := r.stream(ctx, streams.IntakeStream)
		return st.Msgs == 0, err
	})
}

// still waits until the stages before a muted stage have written all their entries: the ledger extends beyond
// the sequence before and no longer grows.
func (r *run) still(ctx context.Context, before uint64) error {
	last, since := before, time.Now()
	return r.await(ctx, "entries of other stages", func() (bool, error) {
		st, err := r.stream(ctx, streams.LedgerStream)
		if err == nil && st.LastSeq != last {
			last, since = st.LastSeq, time.Now()
		}
		return last > before && time.Since(since) > 300*time.Millisecond, err
	})
}

// mostDelay is the longest delay of an entry. It is longer than a standby waits before it takes over.
const mostDelay = 1500 * time.Millisecond

// late delays the entries of each process and of both, and kills processes during the delay.
func (r *run) late(ctx context.Context, stage string) error {
	both := r.f.mates(stage)
	defer func() {
		for _, way := range r.f.ways {
			way.delay(0)
		}
	}()
	for turn := range 3 {
		for i, name := range both {
			if way := r.f.ways[name]; way != nil && (turn%3 == i || turn%3 == 2) {
				way.delay(mostDelay)
			} else if way != nil {
				way.delay(0)
			}
		}
		r.rep.Delays++
		heard := r.heard.Load()
		r.feed(someEvents/4, false)
		err := r.await(ctx, "answers while entries are late", func() (bool, error) {
			return r.heard.Load() > heard+3, nil
		})
		if err != nil {
			return err
		}
		names := both[turn%len(both):][:1]
		if names[0] == server {
			names = both
		}
		for _, name := range names {
			r.f.kill(name)
		}
		if err := r.f.again(ctx, names...); err != nil {
			return err
		}
	}
	return nil
}

// stray holds back a joint frame in the proxy until its process was killed and started again. The new process
// decides the same message, and its entry is held back too. Then stray releases the frame before the entry.
func (r *run) stray(ctx context.Context, stage string) error {
	both := r.f.mates(stage)
	way := r.f.ways[both[0]]
	for range 3 {
		for _, name := range both {
			r.f.kill(name)
		}
		if err := r.f.again(ctx, both[0]); err != nil {
			return err
		}
		if err := r.idle(ctx); err != nil {
			return err
		}
		frame := way.hold(" lz.ledger.", ".joint ")
		defer frame.open()
		if err := r.await(ctx, "a joint frame", frame.used); err != nil {
			return err
		}
		r.f.kill(both[0])
		// Send other messages besides the proposal. The new process would decide a lone proposal
		// speculatively, and the server would refuse its entry because the arriving frame changes the ledger's end.
		r.feed(someEvents/4, true)
		if err := r.acknowledged(ctx); err != nil {
			return err
		}
		entry := way.hold(" lz.ledger.", ".ingest ")
		defer entry.open()
		if err := r.f.again(ctx, both[0]); err != nil {
			return err
		}
		if err := r.await(ctx, "an entry of ingest", entry.used); err != nil {
			return err
		}
		before, err := r.stream(ctx, streams.LedgerStream)
		if err != nil {
			return err
		}
		frame.open()
		err = r.await(ctx, "the joint frame in the ledger", func() (bool, error) {
			st, err := r.stream(ctx, streams.LedgerStream)
			return st.LastSeq > before.LastSeq, err
		})
		if err != nil {
			return err
		}
		entry.open()
		r.rep.Strays++
		heard := r.heard.Load()
		err = r.await(ctx, "an answer after a stray frame", func() (bool, error) { return r.heard.Load() > heard, nil })
		if err != nil {
			return err
		}
	}
	return r.f.again(ctx, both[1])
}

func (r *run) backlog(ctx context.Context, stage string) error {
	pace := r.l.rest.Swap(0)
	defer r.l.rest.Store(pace)
	both := pair(stage)
	hold := func(f func(name string)) {
		for _, name := range both {
			f(name)
		}
	}
	hold(func(name string) { pause(r.f.procs[name].cmd.Process) })
	goOn := func() { hold(func(name string) { resume(r.f.procs[name].cmd.Process) }) }
	defer goOn()
	r.feed(backlogEvents, false)
	if err := r.acknowledged(ctx); err != nil {
		return err
	}
	before, err := r.stream(ctx, streams.IntakeStream)
	if err != nil {
		return err
	}
	goOn()
	err = r.await(ctx, "a purge of the intake", func() (bool, error) {
		now, err := r.stream(ctx, streams.IntakeStream)
		return now.FirstSeq > before.FirstSeq+backlogEvents/12, err
	})
	if err != nil {
		return err
	}
	hold(r.f.kill)
	return r.f.again(ctx, both...)
}

// feed makes the clients send n more events. If plain is set, they are only harmless observations.
func (r *run) feed(n int, plain bool) {
	r.rep.Events += n
	for i, c := range r.feeds {
		s := share{n / len(r.feeds), plain}
		if i < n%len(r.feeds) {
			s.n++
		}
		c <- s
	}
}

// acknowledged waits until all events of the clients are acknowledged.
func (r *run) acknowledged(ctx context.Context) error {
	return r.await(ctx, "all events being acknowledged", func() (bool, error) {
		return r.l.acked.Load() >= int64(r.rep.Events), nil
	})
}
