package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"lazaret/streams"
)

// Retry is how a call is tried again. What is sent again has the same id, so
// that the pipeline counts it once and answers a proposal as it did before.
type Retry struct {
	// Tries is how often an event is sent at most; below 2 it is sent once. Answers
	// that a verdict is pending (LZ206) do not count: those go on as long as the
	// call may last.
	Tries int
	// First is the pause after the first try. It doubles, up to Most, and each
	// pause is drawn from the upper half, so that many clients come back spread.
	First, Most time.Duration
	// Each bounds one try, so that a lost answer leaves time for another; zero
	// means the context's deadline alone.
	Each time.Duration
}

// DefaultRetry gives the front's own time-out (15 s) room to be heard.
var DefaultRetry = Retry{Tries: 4, First: 50 * time.Millisecond, Most: 2 * time.Second, Each: 16 * time.Second}

// do calls f until it succeeds, fails for good, or the context ends; then the
// last error that says something is returned.
func (r Retry) do(ctx context.Context, f func(context.Context) error) error {
	pause := r.First
	for try := 1; ; try++ {
		err := r.once(ctx, f)
		var e *Error
		if err == nil || !errors.As(err, &e) || !e.again() || try >= r.Tries || ctx.Err() != nil {
			return err
		}
		if e.Code == streams.CodePending && r.Tries > 1 {
			try-- // the policy takes its time; the call's own deadline ends this
		}
		wait := pause
		if wait > 1 {
			wait = pause/2 + rand.N(pause/2+1)
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return err
		case <-t.C:
		}
		pause = min(2*pause, max(r.Most, r.First))
	}
}

func (r Retry) once(ctx context.Context, f func(context.Context) error) error {
	if r.Each <= 0 {
		return f(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, r.Each)
	defer cancel()
	return f(ctx)
}
