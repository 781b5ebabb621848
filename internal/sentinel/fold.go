package sentinel

import (
	"bytes"
	"log/slog"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/activation"
	"lazaret/internal/metrics"
	"lazaret/internal/stage"
	"lazaret/pkg/rules"
	"lazaret/streams"
)

// Fold is the fold of one group. Create it with New.
//
// Only the stage's loop uses it.
type Fold struct {
	// Metrics, if set before the fold is used, counts the fold's work.
	Metrics *metrics.Sentinel

	group    string
	log      *slog.Logger
	pinned   note.Verifiers
	sets     *activation.Cache[*rules.Set]
	reported [streams.Partitions]bool // the rule set in force was passed to Metrics
}

// New returns the fold of a group. It accepts rule sets that one of the pinned keys signed.
func New(group string, pinned note.Verifiers, log *slog.Logger) *Fold {
	return &Fold{group: group, log: log.With("group", group), pinned: pinned,
		sets: activation.NewCache(rules.CompileBundle)}
}

// Reset implements stage.LedgerFold. All relevant data is in the state, so Reset does nothing.
func (f *Fold) Reset() {}

// Timer implements stage.LedgerFold. Sentinels have no timers. The first call for each partition passes the rule set in
// force to the metrics, so that they have it even if no entry comes.
func (f *Fold) Timer(st *stage.State) (time.Time, *stage.Output, bool, error) {
	if p := st.Partition(); f.Metrics != nil && !f.reported[p] {
		f.reported[p] = true
		if _, _, err := f.evaluator(st); err != nil {
			return time.Time{}, nil, false, err
		}
	}
	return time.Time{}, nil, false, nil
}

// evaluator returns the evaluator of a partition, and the digest of the rule set in force. The evaluator is nil if no
// rules are in force, or none for this group.
func (f *Fold) evaluator(st *stage.State) (*rules.Evaluator, string, error) {
	set, digest, err := f.sets.Active(st, streams.DoActivateRules)
	if err != nil {
		return nil, "", err
	}
	var ev *rules.Evaluator
	if set != nil {
		ev = set.Group(f.group)
	}
	if ev == nil {
		digest = ""
	}
	f.Metrics.InForce(st.Partition(), digest, ev)
	return ev, digest, nil
}

// Step implements stage.LedgerFold.
func (f *Fold) Step(st *stage.State, e *streams.Entry) (*stage.Output, error) {
	if e.Stage == streams.StageArbiter && e.Type == streams.TypeVerdict {
		return nil, f.foldVerdict(st, e)
	}
	if e.Stage != streams.StageIngest {
		return nil, nil
	}
	switch e.Type {
	case streams.TypeForgotten:
		return f.forget(st, e)
	case streams.TypeErased:
		return erased(e)
	case streams.TypeLegalHold, streams.TypeExpired, streams.TypeDropped, streams.TypeSecured, streams.TypeClaim:
		return nil, nil
	case streams.TypeChunk, streams.TypeActivation:
		f.reported[st.Partition()] = false
		return nil, activation.Apply(st, e, f.pinned, f.log)
	}
	ev, digest, err := f.evaluator(st)
	if err != nil {
		return nil, err
	}
	if ev == nil {
		// No rules are in force, or none for this group.
		if e.Type.Proposal() {
			return f.assess(e, "", rules.Result{})
		}
		return nil, nil
	}
	res, err := ev.Eval(st, e)
	if err == nil {
		res.Alerts, err = limitAlerts(e, f.group, res.Alerts)
	}
	if err != nil {
		return nil, err
	}
	if e.Type.Proposal() {
		return f.assess(e, digest, res)
	}
	if len(res.Alerts) == 0 {
		return nil, nil
	}
	return output(streams.TypeAlerts, e.Project, &streams.AlertsEntry{Group: f.group, Digest: digest,
		Alerts: res.Alerts}, res.Alerts)
}

// foldVerdict folds a verdict that accepts a catalogue of tools, or that holds, denies or releases an action. To save
// time, other verdicts are recognized by their bytes and not decoded.
func (f *Fold) foldVerdict(st *stage.State, e *streams.Entry) error {
	tools := bytes.Contains(e.Body, []byte(streams.ApproveTools))
	if !tools && !bytes.Contains(e.Body, []byte(`"verdict":"hold"`)) && !bytes.Contains(e.Body,
		[]byte(`"verdict":"deny"`)) &&
		!bytes.Contains(e.Body, []byte(`"resolved":`)) {
		return nil
	}
	v := new(streams.VerdictEntry)
	if err := streams.Unmarshal(e.Body, v); err != nil {
		f.log.Error("unreadable verdict", "seq", e.Seq, "err", err)
		return nil
	}
	if v.Type != streams.TypeAction {
		return nil
	}
	ev, _, err := f.evaluator(st)
	if err != nil || ev == nil {
		return err
	}
	if v.Tool != streams.ApproveTools {
		return ev.Heard(st, e.Project, v)
	}
	if v.Verdict != streams.Allow || v.Learn {
		return nil
	}
	return ev.Accept(st, e.Project, v.Agent, v.ID)
}

func (f *Fold) assess(e *streams.Entry, digest string, res rules.Result) (*stage.Output, error) {
	return output(streams.TypeAssessment, e.Project,
		&streams.AssessmentEntry{Group: f.group, Digest: digest, Verdict: res.Verdict, Alerts: res.Alerts,
			Rests: res.Dependencies}, res.Alerts)
}

func output(t streams.Type, project string, body any, alerts []streams.Alert) (*stage.Output, error) {
	out, err := stage.NewOutput(t, project, body)
	if err != nil {
		return nil, err
	}
	for i := range alerts {
		a := &alerts[i]
		out.Live = append(out.Live, stage.LiveCopy(a, project, "alert", a.Severity, a.Rule)...)
	}
	return out, nil
}
