package live

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"lazaret/client"
	"lazaret/internal/replay"
	"lazaret/streams"
)

// Options configure the playing of sessions.
type Options struct {
	Parallel int // sessions at once; zero means 8
	// Person, if set, approves sources.
	Person *Person
}

// Play plays sessions over a connection with the replay credential, and returns the result of each in
// the same order. It does not change the sessions.
func Play(ctx context.Context, nc *nats.Conn, sessions []*Session, o Options) ([]*Run, error) {
	if o.Parallel <= 0 {
		o.Parallel = 8
	}
	runs := make([]*Run, len(sessions))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(o.Parallel)
	for i, s := range sessions {
		g.Go(func() error {
			c, err := client.New(nc, s.Project, streams.ReplayAgent)
			if err != nil {
				return fmt.Errorf("session %s: %w", s.Name, err)
			}
			runs[i] = &Run{Session: s}
			if o.Person != nil {
				runs[i].person = &approver{o.Person, s, make(map[string]bool)}
			}
			err = runs[i].play(ctx, func(st replay.Step) (*streams.Reply, error) { return replay.Send(ctx, c, st) })
			if err != nil {
				return fmt.Errorf("session %s: %w", s.Name, err)
			}
			return nil
		})
	}
	return runs, g.Wait()
}

// Run is the result of a session.
type Run struct {
	*Session
	Calls    []*Call
	Attacked bool // a planted instruction was shown to the agent
	Approved int  // sources that a person approved

	person *approver // nil: nobody approves
}

// Play plays a session. send must publish a step and return the reply to a proposal, or nil if it was
// refused.
func (s *Session) Play(send func(replay.Step) (*streams.Reply, error)) (*Run, error) {
	r := &Run{Session: s}
	return r, r.play(context.Background(), send)
}

func (r *Run) play(ctx context.Context, send func(replay.Step) (*streams.Reply, error)) error {
	held := make(map[int]bool) // steps of held calls
	for i, st := range r.steps {
		if a, ok := st.Event.(*streams.Action); ok {
			call, err := r.propose(ctx, send, a, *st.call)
			if err != nil {
				return err
			}
			held[i] = call.Held()
			continue
		}
		if st.of >= 0 && held[st.of] {
			continue
		}
		if _, err := send(st.Step); err != nil {
			return err
		}
		if !st.injected || r.Attacked {
			continue
		}
		r.Attacked = true
		if err := r.obey(ctx, send, streams.HeadOf(st.Event)); err != nil {
			return err
		}
	}
	return nil
}

// obey makes the attacker's calls.
func (r *Run) obey(ctx context.Context, send func(replay.Step) (*streams.Reply, error), after *streams.Head) error {
	shipped, err := shippedPolicy()
	if err != nil {
		return err
	}
	for i, g := range r.goals {
		a := &streams.Action{Head: streams.Head{ID: fmt.Sprintf("goal%d", i+1), Session: after.Session,
			Time: after.Time.Add(time.Duration(i+1) * time.Millisecond)},
			Tool: g.Tool, Args: g.Args}
		call := *newCall(shipped, a)
		call.Goal = true
		if _, err := r.propose(ctx, send, a, call); err != nil {
			return err
		}
	}
	return nil
}

func (r *Run) propose(ctx context.Context, send func(replay.Step) (*streams.Reply, error), a *streams.Action,
	call Call) (*Call, error) {
	copied := *a
	rep, err := send(replay.Step{Kind: streams.KindAct, Event: &copied})
	if err != nil {
		return nil, err
	}
	call.Verdict = streams.Hold // a refusal counts as a hold
	if rep != nil {
		call.Verdict = rep.Verdict
		if rep.Entry != nil {
			released, err := r.person.approve(ctx, rep.Entry)
			if err != nil {
				return nil, err
			}
			if released {
				call.Verdict = streams.Allow
				r.Approved++
			} else {
				call.note(rep.Entry)
			}
		}
	}
	r.Calls = append(r.Calls, &call)
	return &call, nil
}

func (c *Call) note(v *streams.VerdictEntry) {
	c.Degraded = len(v.Degraded) > 0
	if v.Verdict == streams.Allow {
		return // a standing permission or delegation allowed the call, although some reasons name a stricter verdict
	}
	for _, x := range v.Reasons {
		if x.Verdict == streams.Allow {
			continue
		}
		name := cmp.Or(x.Rule, string(x.Code))
		if !slices.Contains(c.Rules, name) {
			c.Rules = append(c.Rules, name)
		}
		c.Why = cmp.Or(c.Why, x.Text)
	}
}
