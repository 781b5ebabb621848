package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/streams"
)

// A drill is a fault that comes at the moment at which a stage can lose or double
// something, with events of its own. Its name is KIND:STAGE.
//
//   - overlap: the process at work stands still, its stand-by takes over, and then both
//     are at work.
//   - mute: both processes of a stage hear the server and are not heard. They decide and
//     cannot publish. Then both are stopped.
//   - backlog: both processes stand still until many events wait in the intake. They go
//     on and are killed while they work it off.
var drills = map[string]func(*run, context.Context, string) error{
	"overlap": (*run).overlap,
	"mute":    (*run).mute,
	"backlog": (*run).backlog,
}

// Drills are all drills, in the order in which a run makes them.
var Drills = []string{
	"overlap:ingest", "overlap:sentinels", "overlap:arbiter",
	"mute:ingest", "mute:sentinels", "mute:arbiter", "backlog:ingest",
}

// CheckDrill returns an error for a name that is no drill.
func CheckDrill(name string) error {
	if !slices.Contains(Drills, name) {
		return fmt.Errorf("%q is no drill: the drills are %s", name, strings.Join(Drills, ", "))
	}
	return nil
}

// patient is how long a drill waits for what has to happen on a busy machine.
const patient = time.Minute

// await waits until f reports true. What says for what.
func (r *run) await(ctx context.Context, what string, f func() (bool, error)) error {
	for end := time.Now().Add(patient); ; {
		ok, err := f()
		if ok || err != nil {
			return err
		}
		if time.Now().After(end) {
			r.rep.problem("within %s it did not come to %s", patient, what)
			return nil
		}
		if err := rest(ctx, 2*time.Millisecond); err != nil {
			return err
		}
	}
}

// rest sleeps.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// drill makes one drill, and starts what ended by itself.
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
	backlogEvents = 8000
)

// overlap goes both ways: which of the two is at work is not known before.
func (r *run) overlap(ctx context.Context, stage string) error {
	for _, name := range pair(stage) {
		p := r.f.procs[name].cmd.Process
		pause(p)
		defer resume(p)
		heard := r.heard.Load()
		r.feed(someEvents)
		err := r.await(ctx, "answers while "+name+" stands still", func() (bool, error) { return r.heard.Load() > heard+2, nil })
		if err != nil {
			return err
		}
		r.feed(someEvents)
		resume(p)
		if err := r.acknowledged(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) mute(ctx context.Context, stage string) error {
	both := pair(stage)
	silence := func(on bool) {
		for _, name := range both {
			r.f.ways[name].silence(on)
		}
	}
	silence(true)
	defer silence(false)
	r.feed(someEvents)
	if err := r.acknowledged(ctx); err != nil {
		return err
	}
	// Time to read, to decide, and to wait for the server in vain.
	if err := rest(ctx, time.Second); err != nil {
		return err
	}
	if err := r.f.quit(ctx, 5*time.Second, both...); err != nil {
		return err
	}
	silence(false)
	return r.f.again(ctx, both...)
}

func (r *run) backlog(ctx context.Context, stage string) error {
	both := pair(stage)
	hold := func(f func(name string)) {
		for _, name := range both {
			f(name)
		}
	}
	hold(func(name string) { pause(r.f.procs[name].cmd.Process) })
	goOn := func() { hold(func(name string) { resume(r.f.procs[name].cmd.Process) }) }
	defer goOn()
	r.feed(backlogEvents)
	if err := r.acknowledged(ctx); err != nil {
		return err
	}
	js, err := jetstream.New(r.nc)
	if err != nil {
		return err
	}
	first := func() (uint64, error) {
		st, err := js.Stream(ctx, streams.IntakeStream)
		if err != nil {
			return 0, err
		}
		return st.CachedInfo().State.FirstSeq, nil
	}
	before, err := first()
	if err != nil {
		return err
	}
	goOn()
	err = r.await(ctx, "a purge of the intake", func() (bool, error) {
		now, err := first()
		return now > before+backlogEvents/4, err
	})
	if err != nil {
		return err
	}
	hold(r.f.kill)
	return r.f.again(ctx, both...)
}

// feed has clients send so many events more.
func (r *run) feed(n int) {
	r.rep.Events += n
	for i, c := range r.feeds {
		share := n / len(r.feeds)
		if i < n%len(r.feeds) {
			share++
		}
		c <- share
	}
}

// acknowledged waits until all events that clients were to send are acknowledged.
func (r *run) acknowledged(ctx context.Context) error {
	return r.await(ctx, "all events being acknowledged", func() (bool, error) { return r.l.acked.Load() >= int64(r.rep.Events), nil })
}
