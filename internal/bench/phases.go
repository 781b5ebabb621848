package bench

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/stage"
	"lazaret/streams"
)

// Asked is one request as its client saw it.
type Asked struct {
	Began    time.Time `json:"began"`
	Ended    time.Time `json:"ended"`
	Proposal uint64    `json:"proposal"` // ledger sequence of its entry
	Verdict  uint64    `json:"verdict"`  // ledger sequence of its verdict
}

// Phase is the duration of one phase of requests, in microseconds. The phases of a request add up to
// its duration; their percentiles do not.
type Phase struct {
	Name string `json:"name"`
	P50  int64  `json:"p50_us"`
	P90  int64  `json:"p90_us"`
	P99  int64  `json:"p99_us"`
}

// phaseNames are the events that end the phases of a proposal, in order.
var phaseNames = [...]string{"arrived", "decided by ingest", "first assessment", "last assessment",
	"verdict", "reply"}

// Phases reads from the ledger when requests reached each phase. It uses the server's timestamps and
// the client's clock, which must be on the same machine.
func Phases(ctx context.Context, js jetstream.JetStream, samples []Asked) ([]Phase, error) {
	took := make([][]time.Duration, len(phaseNames))
	for _, s := range samples {
		at := make([]time.Time, 0, len(phaseNames)+1)
		at = append(at, s.Began)
		var first, last, verdict time.Time
		for seq := s.Proposal; seq <= s.Verdict; seq++ {
			e, err := stage.ReadEntry(ctx, js, seq)
			if err != nil {
				return nil, err
			}
			switch {
			case seq == s.Proposal:
				// The body of ingest's entry has the time at which the server stored the event in the intake.
				var head struct {
					Time time.Time `json:"time"`
				}
				if err := streams.Unmarshal(e.Body, &head); err != nil {
					return nil, err
				}
				at = append(at, head.Time, e.Time)
			case seq == s.Verdict:
				verdict = e.Time
			case e.Type == streams.TypeAssessment && e.Src == s.Proposal:
				if first.IsZero() {
					first = e.Time
				}
				last = e.Time
			}
		}
		at = append(at, first, last, verdict, s.Ended)
		for i := range phaseNames {
			took[i] = append(took[i], at[i+1].Sub(at[i]))
		}
	}
	var out []Phase
	for i, name := range phaseNames {
		t := took[i]
		if len(t) == 0 {
			continue
		}
		slices.SortFunc(t, cmp.Compare)
		q := func(q float64) int64 { return t[min(int(q*float64(len(t))), len(t)-1)].Microseconds() }
		out = append(out, Phase{name, q(0.5), q(0.9), q(0.99)})
	}
	return out, nil
}
