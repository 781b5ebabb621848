package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/auditor"
	"lazaret/internal/backtest"
	"lazaret/internal/embedded"
	"lazaret/internal/query"
	"lazaret/internal/statement"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

// account is what the ledger holds.
type account struct {
	entries   uint64         // as many
	last      uint64         // sequence of the last message
	srcs      map[uint64]int // intake messages → ingest's entries for them
	ids       map[string]int // project and id → entries that are no repeat
	repeats   int
	rejected  int
	verdicts  map[uint64]*streams.VerdictEntry
	projects  map[uint64]string // of verdicts
	cleared   map[uint64]uint64 // proposal → entry in which every group had cleared it
	uncleared []string          // allows without that
	twice     []string          // proposals with two first verdicts
}

// owed are the entries that ingest writes because of no message: those name none.
var owed = map[streams.Type]bool{streams.TypeBelief: true, streams.TypeRevision: true, streams.TypeIncident: true, streams.TypePoint: true}

// read folds the ledger.
func read(ctx context.Context, nc *nats.Conn) (*account, error) {
	a := &account{srcs: make(map[uint64]int), ids: make(map[string]int), verdicts: make(map[uint64]*streams.VerdictEntry), projects: make(map[uint64]string), cleared: make(map[uint64]uint64)}
	first := make(map[uint64]uint64) // proposal → its first verdict
	err := backtest.Ledger(ctx, nc, backtest.Span{}, func(e *streams.Entry) error {
		a.entries, a.last = a.entries+1, e.Seq
		decode := func(v any) error {
			if err := streams.Unmarshal(e.Body, v); err != nil {
				return fmt.Errorf("ledger entry %d: %w", e.Seq, err)
			}
			return nil
		}
		switch {
		case e.Stage == streams.StageIngest:
			var h streams.EntryHead
			if err := decode(&h); err != nil {
				return err
			}
			if h.ID == "" && owed[e.Type] {
				return nil
			}
			a.srcs[e.Src]++
			switch e.Type {
			case streams.TypeRepeat:
				a.repeats++
			case streams.TypeRejected:
				a.rejected++
			case streams.TypeChunk, streams.TypeActivation, streams.TypeResolution:
			default:
				a.ids[e.Project+" "+h.ID]++
			}
		case e.Type == streams.TypeAssessment:
			var b streams.AssessmentEntry
			if err := decode(&b); err != nil {
				return err
			}
			// The shipped policy asks one group.
			if b.Verdict == streams.Allow && b.Digest != "" && a.cleared[e.Src] == 0 {
				a.cleared[e.Src] = e.Seq
			}
		case e.Type == streams.TypeVerdict:
			v := new(streams.VerdictEntry)
			if err := decode(v); err != nil {
				return err
			}
			a.verdicts[e.Seq], a.projects[e.Seq] = v, e.Project
			if at := a.cleared[v.Proposal]; v.Verdict == streams.Allow && (at == 0 || at > e.Src) {
				a.uncleared = append(a.uncleared, fmt.Sprintf("entry %d allows %s %s, which no group had cleared", e.Seq, e.Project, v.ID))
			}
			if !v.Again && !v.Late {
				if first[v.Proposal] != 0 {
					a.twice = append(a.twice, fmt.Sprintf("proposal %d has the verdicts %d and %d", v.Proposal, first[v.Proposal], e.Seq))
				}
				first[v.Proposal] = e.Seq
			}
		}
		return nil
	})
	return a, err
}

// settle waits until intake, ledger and log have nothing left to do.
func settle(ctx context.Context, nc *nats.Conn) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	var last uint64
	why := ""
	for quiet := 0; quiet < 3; {
		in, err1 := js.Stream(ctx, streams.IntakeStream)
		led, err2 := js.Stream(ctx, streams.LedgerStream)
		var head auditor.Answer
		err3 := query.Ask(ctx, nc, auditor.AskAudit, 0, auditor.Request{Do: "head"}, &head)
		switch {
		case err1 != nil || err2 != nil || err3 != nil:
			quiet, why = 0, fmt.Sprint(err1, err2, err3)
		default:
			end := led.CachedInfo().State.LastSeq
			why = fmt.Sprintf("intake %d, ledger %d, log %d", in.CachedInfo().State.Msgs, end, head.LastSeq)
			if quiet++; in.CachedInfo().State.Msgs > 0 || end != last || head.LastSeq != end {
				quiet = 0
			}
			last = end
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the stages do not come to rest: %s", why)
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

// logs verifies the logs of both auditors and compares them.
func (f *fleet) logs(ctx context.Context) (reps [2]chain.Report, err error) {
	for i, name := range []string{"auditor", "auditor/b"} {
		data := f.data(name)
		trust, err := keys.LoadTrust(embedded.TrustFile(data))
		if err != nil {
			return reps, err
		}
		master, err := embedded.ReadMasterKey(data)
		if err != nil {
			return reps, err
		}
		reps[i], err = chain.VerifyDir(ctx, embedded.AuditDir(data), chain.Options{MasterKey: master, ReadOnly: true}, chain.VerifyOptions{Verifiers: trust.Verifiers(keys.RoleAuditor), Lawful: statement.Lawful(trust.Verifiers(keys.RoleOperator))})
		if err != nil {
			return reps, fmt.Errorf("the log of %s: %w", name, err)
		}
	}
	return reps, nil
}
