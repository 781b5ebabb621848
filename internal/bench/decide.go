package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/client"
	"lazaret/streams"
)

// DecideOptions configure the benchmark of verdicts.
type DecideOptions struct {
	Project, Agent string
	Requests       int           // measured requests, sequential
	Warm           int           // unmeasured requests before them
	Fill           int           // unmeasured concurrent actions before Warm
	Rate           float64       // observations per second for Load; AskMany ignores it
	For            time.Duration // how long Load publishes
}

// Latencies are the durations of requests as seen by the client, in microseconds.
type Latencies struct {
	Requests int   `json:"requests"`
	P50      int64 `json:"p50_us"`
	P90      int64 `json:"p90_us"`
	P99      int64 `json:"p99_us"`
	Max      int64 `json:"max_us"`
	Allowed  int   `json:"allowed"` // number of allow verdicts; equals Requests if nothing failed
	// Unanswered is the number of requests that got an error instead of a verdict. Their durations are
	// included.
	Unanswered int `json:"unanswered,omitzero"`
}

// DecideReport is the cost of a verdict.
type DecideReport struct {
	Latencies
	SyncAlways bool `json:"sync_always"`
	// Rate is the number of observations of 1 KiB per second that a separate process was to publish into the
	// same project during the measurement. Achieved is the number per second that was acknowledged.
	Rate     float64 `json:"rate"`
	Achieved float64 `json:"rate_achieved,omitzero"`
	// Floor is the time that the server needs for the messages of a verdict, without the work of deciding. It is nil if
	// Flat is set.
	Floor *Floor `json:"sync_floor_us,omitzero"`
	// Flat is set if the run compared the latency after few actions with the latency after many.
	Flat *Flatness `json:"flat,omitzero"`
}

// Flatness compares the latency after many actions in a project with the latency after few.
type Flatness struct {
	Few   int       `json:"few"`  // actions before the first measurement
	Many  int       `json:"many"` // actions before the last one
	First Latencies `json:"first"`
	Last  Latencies `json:"last"`
	Ratio float64   `json:"p99_ratio"` // Last.P99 divided by First.P99
}

// Lines returns the figures and their budgets.
func (r *DecideReport) Lines() []Line {
	ms := func(what string, us int64, budget float64) Line {
		l := Line{What: what, Value: float64(us) / 1000, Unit: "ms"}
		if budget > 0 && r.SyncAlways {
			l.Budget, l.Pass = fmt.Sprintf("<= %g ms", budget), l.Value <= budget
		}
		return l
	}
	var out []Line
	if r.Rate == 0 {
		out = append(out, ms("decide, idle, p50", r.P50, 0.8), ms("decide, idle, p99", r.P99, 4))
	} else {
		out = append(out, ms(fmt.Sprintf("decide behind %.0f observations/s, p50", r.Rate), r.P50, 0), ms("  p99", r.P99, 15),
			Line{What: "  observations acknowledged", Value: r.Achieved, Unit: "/s"})
	}
	out = append(out, ms("  longest", r.Max, 0))
	if f := r.Floor; f != nil {
		for _, l := range []Line{ms(fmt.Sprintf("  its %d publishes alone, p50", f.Publishes), f.P50, 0),
			ms("  its publishes alone, p99", f.P99, 0),
			ms("  its messages without decisions, p50", f.ShapeP50, 0),
			ms("  its messages without decisions, p99", f.ShapeP99, 0)} {
			l.Limit = true
			out = append(out, l)
		}
	}
	if r.Unanswered > 0 {
		out = append(out, Line{What: "  without a verdict", Value: float64(r.Unanswered), Budget: "0"})
	}
	if f := r.Flat; f != nil {
		out = append(out, ms(fmt.Sprintf("after %d actions, p99", f.Few), f.First.P99, 0),
			ms(fmt.Sprintf("after %d actions, p99", f.Many), f.Last.P99, 0),
			Line{What: "  ratio of many to few", Value: f.Ratio, Unit: "x", Budget: "<= 1.3 x", Pass: f.Ratio <= 1.3})
	}
	return out
}

// question returns proposal i, an action that the shipped policy allows.
func question(i int) *streams.Action {
	return &streams.Action{Head: streams.Head{Session: fmt.Sprintf("b%d", i%64)}, Tool: "read_file",
		Args: jsontext.Value(fmt.Sprintf(`{"path":"notes/%d.txt"}`, i))}
}

// AskMany measures verdicts over a connection, as a client.
func AskMany(ctx context.Context, nc *nats.Conn, o DecideOptions) (*Latencies, error) {
	c, err := client.New(nc, o.Project, o.Agent)
	if err != nil {
		return nil, err
	}
	if err := fill(ctx, c, o.Fill); err != nil {
		return nil, err
	}
	return askInTurn(o.Warm, o.Requests, func(i int) (*streams.Reply, error) { return c.Decide(ctx, question(i)) })
}

// askInTurn measures sequential requests after unmeasured warm-up requests.
func askInTurn(warm, requests int, ask func(i int) (*streams.Reply, error)) (*Latencies, error) {
	l := new(Latencies)
	took := make([]time.Duration, 0, requests)
	for i := range warm + requests {
		began := time.Now()
		rep, err := ask(i)
		d := time.Since(began)
		var le *client.Error
		if err != nil && !errors.As(err, &le) {
			return nil, err
		}
		switch {
		case i < warm:
			continue
		case err != nil:
			l.Unanswered++
		case rep.Verdict == streams.Allow:
			l.Allowed++
		}
		took = append(took, d)
	}
	l.measure(took)
	return l, nil
}

// fill proposes n actions concurrently.
func fill(ctx context.Context, c *client.Client, n int) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, 1)
	for range 128 {
		wg.Go(func() {
			for {
				i := int(next.Add(1))
				if i > n {
					return
				}
				var le *client.Error
				if _, err := c.Decide(ctx, question(i)); err != nil &&
					!(errors.As(err, &le) && le.Code == streams.CodeTimeout) { // the action may be decided later
					select {
					case errs <- err:
					default:
					}
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return fmt.Errorf("filling the project: %w", err)
	default:
		return nil
	}
}

// Load publishes observations of 1 KiB at a rate, for a time or until the context ends. It returns the
// acknowledged rate.
func Load(ctx context.Context, nc *nats.Conn, o DecideOptions) (float64, error) {
	subject, err := streams.IntakeSubject(o.Project, o.Agent, streams.KindObs, "tool")
	if err != nil {
		return 0, err
	}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(4096))
	if err != nil {
		return 0, err
	}
	corpus := newCorpus(77)
	const step = 5 * time.Millisecond
	tick := time.NewTicker(step)
	defer tick.Stop()
	began, sent := time.Now(), 0
	for time.Since(began) < o.For {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-tick.C:
		}
		for due := int(o.Rate * time.Since(began).Seconds()); sent < due; sent++ {
			o := &streams.Observation{Head: streams.Head{ID: client.NewID(), Session: fmt.Sprintf("b%d", sent%64)},
				Tool: "web.search", Content: prose(corpus, eventSize)}
			b, err := streams.Marshal(o)
			if err != nil {
				return 0, err
			}
			if _, err := js.PublishAsync(subject, b, jetstream.WithStallWait(30*time.Second)); err != nil {
				return 0, err
			}
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	return float64(sent) / time.Since(began).Seconds(), nil
}

func prose(c *corpus, n int) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(c.words[c.r.IntN(len(c.words))])
		b.WriteByte(' ')
	}
	return b.String()
}
