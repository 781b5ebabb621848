package chaos

import (
	"context"
	"log/slog"

	"github.com/nats-io/nats.go"

	"lazaret/internal/arbiter"
	"lazaret/internal/backtest"
	"lazaret/internal/datafolder"
	"lazaret/internal/sentinel"
	"lazaret/internal/stage"
	"lazaret/pkg/keys"
	"lazaret/pkg/position"
	"lazaret/streams"

	shipped "lazaret/rules"
)

// replay computes all assessments and verdicts again from the ledger, as the sentinels and the arbiter do, and
// compares them with those in the ledger.
func (rep *Report) replay(ctx context.Context, nc *nats.Conn, data string) error {
	trust, err := keys.LoadTrust(datafolder.TrustFile(data))
	if err != nil {
		return err
	}
	pinned, log := trust.Verifiers(keys.RoleOperator), slog.New(slog.DiscardHandler)
	folds := map[string]stage.LedgerFold{streams.StageArbiter: arbiter.NewFold(pinned, log)}
	for _, g := range shipped.Groups() {
		folds[streams.SentinelStage(g)] = sentinel.New(g, pinned, log)
	}
	type in struct {
		stage     string
		partition int
	}
	type answer struct {
		stage string
		to    uint64 // position of the answered entry
	}
	states := make(map[in]*stage.State)
	for s, f := range folds {
		f.Reset()
		for p := range streams.Partitions {
			states[in{s, p}] = stage.NewMemState(p)
		}
	}
	want, got := make(map[answer]content), make(map[answer]content)
	err = backtest.Ledger(ctx, nc, backtest.Span{}, func(e *streams.Entry) error {
		for s, f := range folds {
			out, err := f.Step(states[in{s, e.Partition}], e)
			if err != nil {
				return err
			}
			if out != nil {
				want[answer{s, e.Position()}] = contentOf(string(out.Type) + string(out.Body))
			}
		}
		if folds[e.Stage] != nil && e.Type != streams.TypeDue {
			got[answer{e.Stage, e.Src}] = contentOf(string(e.Type) + string(e.Body))
		}
		return nil
	})
	if err != nil {
		return err
	}
	for at, w := range want {
		if got[at] != w {
			rep.Unreplayed++
			rep.problem("%s did not write the entry for entry %s that a replay gives", at.stage, position.Text(at.to))
		}
	}
	for at := range got {
		if _, ok := want[at]; !ok {
			rep.Unreplayed++
			rep.problem("%s wrote an entry for entry %s, and a replay gives none", at.stage, position.Text(at.to))
		}
	}
	return nil
}
