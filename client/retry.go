package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"lazaret/streams"
)

// Retry says how a call is tried again. Every try sends the same id, so that the pipeline counts
// the event once and gives a proposal the same answer.
type Retry struct {
	// Tries is the maximum number of tries. Values below 2 mean one try. Answers that a verdict is
	// pending (LZ206) do not count; the call then goes on until its context ends.
	Tries int
	// First is the pause after the first try. The pause doubles after each try, up to Most. The actual pause is a random
	// one between half of this value and the whole, so that many clients do not try again at the same time.
	First, Most time.Duration
	// Each is the time limit of one try, so that a lost answer leaves time for another try. Zero
	// means that only the context's deadline applies.
	Each time.Duration
}

// DefaultRetry gives each try more time than the front's own time-out (15 s).
var DefaultRetry = Retry{Tries: 4, First: 50 * time.Millisecond, Most: 2 * time.Second, Each: 16 * time.Second}

// do calls f until it succeeds, fails permanently, or ctx ends. It then returns the last
// informative error.
func (r Retry) do(ctx context.Context, f func(context.Context) error) error {
	pause := r.First
	for try := 1; ; try++ {
		err := r.once(ctx, f)
		var e *Error
		if err == nil || !errors.As(err, &e) || !e.again() || try >= r.Tries || ctx.Err() != nil {
			return err
		}
		if e.Code == streams.CodePending && r.Tries > 1 {
			try-- // pending verdicts do not count as tries
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
