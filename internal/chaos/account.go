package chaos

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"lazaret/internal/auditor"
	"lazaret/internal/backtest"
	"lazaret/internal/datafolder"
	"lazaret/internal/query"
	"lazaret/internal/statement"
	"lazaret/internal/wire"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
	"lazaret/pkg/policy"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// place identifies an input that is not a whole intake message: an event of a batch, or an offered proposal. src is the
// position of the input.
type place struct {
	partition int
	src       uint64
}

// account counts the content of the ledger.
type account struct {
	entries   uint64             // number of entries
	last      uint64             // sequence of the last message
	srcs      map[uint64]int     // by intake message: number of ingest's entries for it
	inner     map[place]int      // by event of a batch or offered proposal: number of ingest's entries for it
	ids       map[string]int     // by project and id: number of ingest's entries that accept the event
	contents  map[string]content // by project and id
	repeats   int
	rejected  int
	verdicts  map[uint64]*streams.VerdictEntry // by position
	projects  map[uint64]string                // project of each verdict
	groups    []string                         // groups that must assess each proposal
	proposals map[uint64]*proposed             // by position
	uncleared []string                         // allow verdicts without the required assessments
	joint     int                              // verdicts in joint frames
	twice     []string                         // proposals with two first verdicts, or two assessments of a group
}

// proposed is a proposal with its assessments and verdict.
type proposed struct {
	name    string         // project and id
	cleared map[string]int // number of allowing assessments, by group
	asked   map[string]int // number of assessments, by group
	verdict uint64         // position of the first verdict
}

// clear reports whether each of the groups has allowed the proposal.
func (p *proposed) clear(groups []string) bool {
	return !slices.ContainsFunc(groups, func(g string) bool { return p.cleared[g] == 0 })
}

// unasked are the types of entries that ingest writes without an intake message, for example when a deadline
// passes.
var unasked = map[streams.Type]bool{streams.TypeBelief: true, streams.TypeRevision: true, streams.TypeIncident: true,
	streams.TypePoint: true}

// read reads the ledger into an account.
func read(ctx context.Context, nc *nats.Conn) (*account, error) {
	pol, err := policy.Compile(policy.DefaultName, policy.Default)
	if err != nil {
		return nil, err
	}
	a := &account{srcs: make(map[uint64]int), inner: make(map[place]int), ids: make(map[string]int),
		contents: make(map[string]content), proposals: make(map[uint64]*proposed),
		verdicts: make(map[uint64]*streams.VerdictEntry), projects: make(map[uint64]string)}
	for _, g := range pol.Always() {
		a.groups = append(a.groups, g.Name)
	}
	err = backtest.Ledger(ctx, nc, backtest.Span{}, func(e *streams.Entry) error {
		a.entries, a.last = a.entries+1, e.Seq
		var err error
		switch {
		case e.Stage == streams.StageIngest:
			err = a.ingested(e)
		case e.Type == streams.TypeAssessment:
			err = a.assessed(e)
		case e.Type == streams.TypeVerdict:
			err = a.decided(e)
		}
		if err != nil {
			return fmt.Errorf("ledger entry %s: %w", position.Text(e.Position()), err)
		}
		return nil
	})
	return a, err
}

// ingested counts an entry that ingest wrote.
func (a *account) ingested(e *streams.Entry) error {
	var h struct {
		streams.EntryHead
		Blocks  []streams.BlockEntry `json:"blocks"`
		Content string               `json:"content"`
		Args    jsontext.Value       `json:"args"`
	}
	if err := streams.Unmarshal(e.Body, &h); err != nil {
		return err
	}
	if h.ID == "" && unasked[e.Type] || e.Type == streams.TypeClaim {
		return nil
	}
	if position.Index(e.Src) == 0 {
		a.srcs[e.Src]++
	} else {
		a.inner[place{e.Partition, e.Src}]++
	}
	switch e.Type {
	case streams.TypeRepeat:
		a.repeats++
		return nil
	case streams.TypeRejected:
		a.rejected++
		return nil
	case streams.TypeChunk, streams.TypeActivation, streams.TypeResolution:
		return nil
	}
	name := e.Project + " " + h.ID
	a.ids[name]++
	switch e.Type {
	case streams.TypeObservation:
		for _, b := range h.Blocks {
			h.Content += b.Text
		}
	case streams.TypeAction:
		h.Content = string(h.Args)
	}
	a.contents[name] = contentOf(h.Content)
	if e.Type.Proposal() {
		a.proposals[e.Position()] = &proposed{name: name, cleared: make(map[string]int), asked: make(map[string]int)}
	}
	return nil
}

// assessed counts an assessment.
func (a *account) assessed(e *streams.Entry) error {
	b, err := streams.Read[streams.AssessmentEntry](e)
	if err != nil {
		return err
	}
	p := a.proposals[e.Src]
	if p == nil {
		return fmt.Errorf("the assessment of entry %d, which is not a proposal", e.Src)
	}
	if p.asked[b.Group]++; p.asked[b.Group] > 1 {
		a.twice = append(a.twice, fmt.Sprintf("%s has %d assessments of %s", p.name, p.asked[b.Group], b.Group))
	}
	if b.Verdict == streams.Allow && b.Digest != "" {
		p.cleared[b.Group]++
	}
	return nil
}

// decided counts a verdict.
func (a *account) decided(e *streams.Entry) error {
	v, err := streams.Read[streams.VerdictEntry](e)
	if err != nil {
		return err
	}
	a.verdicts[e.Position()], a.projects[e.Position()] = v, e.Project
	if e.Joint {
		a.joint++
	}
	p := a.proposals[v.Proposal]
	if v.Verdict == streams.Allow && (p == nil || !p.clear(a.groups)) {
		why := fmt.Sprintf("entry %d allows %s %s, which was not cleared by each of %v", e.Position(), e.Project, v.ID,
			a.groups)
		a.uncleared = append(a.uncleared, why)
	}
	if p != nil && !v.Again && !v.Late {
		if p.verdict != 0 {
			a.twice = append(a.twice, fmt.Sprintf("%s has the verdicts %d and %d", p.name, p.verdict, e.Position()))
		}
		p.verdict = e.Position()
	}
	return nil
}

// missing returns the proposals without a verdict, and those that a group has not assessed.
func (a *account) missing() (unanswered, unassessed []string) {
	for _, at := range slices.Sorted(maps.Keys(a.proposals)) {
		p := a.proposals[at]
		if p.verdict == 0 {
			unanswered = append(unanswered, fmt.Sprintf("%s, entry %d, has no verdict", p.name, at))
		}
		for _, g := range a.groups {
			if p.asked[g] == 0 {
				unassessed = append(unassessed, fmt.Sprintf("%s, entry %d, was not assessed by %s", p.name, at, g))
			}
		}
	}
	return unanswered, unassessed
}

// patience is how long the ledger must stay unchanged before an expected entry counts as lost.
const patience = 10 * time.Second

// complete waits until the stages are idle and each proposal has its verdict and assessments, or until
// the ledger has not grown for patience.
func complete(ctx context.Context, nc *nats.Conn) error {
	var grown time.Time
	for last := uint64(0); ; {
		if err := settle(ctx, nc); err != nil {
			return err
		}
		a, err := read(ctx, nc)
		if err != nil {
			return err
		}
		if a.last != last {
			last, grown = a.last, time.Now()
		}
		unanswered, unassessed := a.missing()
		if len(unanswered)+len(unassessed) == 0 || time.Since(grown) > patience {
			return nil
		}
	}
}

// stuck is how long intake, ledger and log must stay unchanged before they count as stuck. On a busy machine a
// stage may make no progress for many seconds, so it is long.
const stuck = 30 * time.Second

// settle waits until the intake is empty and the log has the whole ledger. It returns an error if intake,
// ledger and log stay unchanged for the time stuck before that, for example because ingest skips a message.
func settle(ctx context.Context, nc *nats.Conn) error {
	js := wire.JetStream(nc)
	var last uint64
	why, was := "", ""
	since := time.Now()
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
		if why != was {
			was, since = why, time.Now()
		}
		if time.Since(since) > stuck {
			return fmt.Errorf("the stages are stuck for %v: %s", stuck, why)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the stages did not become idle: %s", why)
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

// logs verifies the logs of both auditors and compares them.
func (f *fleet) logs(ctx context.Context) (reps [2]chain.Report, err error) {
	for i, name := range f.audited {
		data := f.data(name)
		trust, err := keys.LoadTrust(datafolder.TrustFile(data))
		if err != nil {
			return reps, err
		}
		master, err := datafolder.ReadMasterKey(data)
		if err != nil {
			return reps, err
		}
		reps[i], err = chain.VerifyDir(ctx, datafolder.AuditDir(data), chain.Options{MasterKey: master, ReadOnly: true},
			chain.VerifyOptions{Verifiers: trust.Verifiers(keys.RoleAuditor),
				Lawful: statement.Lawful(trust.Verifiers(keys.RoleOperator))})
		if err != nil {
			return reps, fmt.Errorf("the log of %s: %w", name, err)
		}
	}
	return reps, nil
}
