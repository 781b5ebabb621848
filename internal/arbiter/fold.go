package arbiter

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/activation"
	"lazaret/internal/metrics"
	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/intent"
	"lazaret/pkg/keys"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// Fold is the arbiter's fold of the ledger. Create it with NewFold.
//
// Only the stage's loop may use it: it is not safe for concurrent use.
type Fold struct {
	// Metrics, if set before the fold is used, counts verdicts and holds.
	Metrics *metrics.Arbiter

	log      *slog.Logger
	pinned   note.Verifiers
	policies *activation.Cache[*policy.Policy]
	trust    *activation.Cache[*keys.Trust]
	timers   [streams.Partitions]timers
	pruned   [streams.Partitions]pruning
	counted  [streams.Partitions]bool // Metrics has the number of open holds from the state
	holds    [streams.Partitions]int  // number of open holds in Metrics
	// recalled, if not nil, is called with each recall that is read from the ledger. The front uses these recalls for
	// replies. No decision depends on this call.
	recalled func(project string, seq uint64, r *streams.RecallEntry)
	// dropped, if not nil, is called when recalls that were passed to recalled may not be in the ledger after all: the
	// joint decision with them was dropped.
	dropped func()
}

// NewFold returns the arbiter's fold. It accepts policies that one of the keys in pinned signed.
func NewFold(pinned note.Verifiers, log *slog.Logger) *Fold {
	return &Fold{log: log, pinned: pinned, policies: activation.NewCache(func(b []byte) (*policy.Policy, error) {
		return policy.Compile("policy", b)
	}), trust: activation.NewCache(func(b []byte) (*keys.Trust, error) {
		return keys.ParseTrust(keys.TrustFile, b)
	})}
}

// Reset implements stage.LedgerFold.
func (f *Fold) Reset() {
	f.timers, f.pruned = [streams.Partitions]timers{}, [streams.Partitions]pruning{}
	f.counted = [streams.Partitions]bool{} // a joint decision that was dropped may have changed the number
	if f.dropped != nil {
		f.dropped()
	}
}

// proposal is a proposal as the state stores it.
type proposal struct {
	Seq      uint64       `json:"seq"`
	Stamp    time.Time    `json:"stamp,omitzero"` // time stamp of the proposal's entry; used only for metrics
	Type     streams.Type `json:"type"`
	Project  string       `json:"project"`
	ID       string       `json:"id"`
	Reuses   string       `json:"reuses,omitzero"` // the id with which it was sent, if another event had that id
	Agent    string       `json:"agent"`
	Intake   uint64       `json:"intake,omitzero"` // position of its message in the intake
	Also     []uint64     `json:"also,omitzero"`   // positions in the intake of repeats that came before the verdict
	Session  string       `json:"session,omitzero"`
	Tool     string       `json:"tool,omitzero"`
	Summary  string       `json:"summary,omitzero"`
	Level    string       `json:"level,omitzero"`
	Digest   string       `json:"digest,omitzero"`
	Deadline time.Time    `json:"deadline"`
	// Reasons are the reasons that no group gave: from the level's floor, the host, the session, the dependencies and,
	// after the decision, silent groups.
	Reasons []streams.Reason   `json:"reasons,omitzero"`
	Belief  *streams.BeliefRef `json:"belief,omitzero"`
	From    []string           `json:"from,omitzero"`    // for a memory write: the beliefs that it derives from
	Rests   []dependency       `json:"rests,omitzero"`   // the dependencies that it declares
	Weighty bool               `json:"weighty,omitzero"` // above L1: findings on untrusted content may hold it
	Groups  []required         `json:"groups"`
	Policy  string             `json:"policy"`
	Rules   string             `json:"rules"`
	Answers []answer           `json:"answers,omitzero"`
	// Items are the beliefs that a recall found. Texts are the effects (mask, annotate, spotlight) on their texts that
	// groups ask for.
	Items []string      `json:"items,omitzero"`
	Texts []textRequest `json:"texts,omitzero"`
	// Decided is the verdict, or nil before it is given. After the verdict, the record is stored for a while, because a
	// late assessment can make the verdict stricter.
	Decided  *streams.Verdict `json:"decided,omitzero"`
	Revision string           `json:"revision,omitzero"` // digest of the hold and deny reasons, see revision
	Hold     string           `json:"hold,omitzero"`
	Used     bool             `json:"used,omitzero"` // the outcome of the action was reported
	// Body is the whole content that an approver would release: an action's arguments or a memory's content.
	Body string `json:"body,omitzero"`
	// Hints are the annotations of the called tool.
	Hints string `json:"hints,omitzero"`
	// Of is the catalogue, a server's list of tools, from which the host took the tool. Accepted is the level at which
	// a person accepted the tool, or nil.
	Of       string         `json:"of,omitzero"`
	Accepted *beliefs.Level `json:"accepted,omitzero"`
	// Sources are the sources that the user named and whose steps the action carries out.
	Sources []intent.Grounds `json:"sources,omitzero"`
	// Delegated is the ground in the policy (section delegation) that allows the action although its level asks for a
	// hold, or "".
	Delegated string `json:"delegated,omitzero"`
	// Catalogue is the ledger sequence of the tool catalogue that the action asks to accept, or 0.
	Catalogue uint64 `json:"catalogue,omitzero"`
	// Class is the policy entry that determined the action's level. Confidence is the confidence that the agent stated,
	// or nil.
	Class      string   `json:"class,omitzero"`
	Confidence *float64 `json:"confidence,omitzero"`
	// Withheld are recalled beliefs that are left out of the answer, because they do not match their ledger entries or
	// there is a finding on them.
	Withheld []streams.Refusal `json:"withheld,omitzero"`
	// Withdrawn is set when the agent withdrew the proposal before it was decided. Then a verdict hold opens no hold.
	Withdrawn bool `json:"withdrawn,omitzero"`
}

// required is a group whose assessment the policy requires.
type required struct {
	Group  string    `json:"group"`
	Digest string    `json:"digest"` // the rule set or version under which it must answer
	Until  time.Time `json:"until"`  // the group's deadline; after it, the group counts as silent
}

// hold is a hold as the state stores it, open or settled.
type hold struct {
	ID       string               `json:"id"`
	Revision string               `json:"revision"`
	Proposal uint64               `json:"proposal"`
	Project  string               `json:"project"`
	Agent    string               `json:"agent"`
	State    string               `json:"state"` // see streams.HoldOpen
	Opened   time.Time            `json:"opened"`
	Expires  time.Time            `json:"expires"`
	Entry    streams.VerdictEntry `json:"entry"`
	// Body is the held content, Hints are the tool's annotations, Rests the dependencies. They are removed when the
	// hold is settled.
	Body  string       `json:"body,omitzero"`
	Hints string       `json:"hints,omitzero"`
	Rests []dependency `json:"rests,omitzero"`
	// Of and Accepted are copied from the proposal.
	Of       string         `json:"of,omitzero"`
	Accepted *beliefs.Level `json:"accepted,omitzero"`
	// From are the beliefs that a held memory write derives from.
	From []string `json:"from,omitzero"`
	// Under are the subjects under which the hold is in the index of dependents.go, sorted.
	Under []string `json:"under,omitzero"`
	// Catalogue is the ledger sequence of the tool catalogue that the action asks to accept, or 0.
	Catalogue uint64 `json:"catalogue,omitzero"`
}

// The first bytes of the keys of the state. Each comment lists the parts of the key after the first byte, and then,
// after the arrow, the value.
const (
	keyClock      = 'c' // → ledger time
	keyProposal   = 'p' // seq → proposal
	keyTimer      = 't' // time, kind, what the timer is about → nothing
	keyHold       = 'h' // project, hold → hold
	keyOpen       = 'n' // project, agent → number of open holds; with session and tool → number for these
	keyVerdict    = 'v' // project, agent, id → verdict entry
	keyWaiting    = 'w' // project, agent, id → proposal seq
	keyForget     = 'g' // time, key → nothing: the key is removed at that time
	keyAlerted    = 'A' // project, subject → findings
	keyBinding    = 'B' // no values; the eviction order of subjects with findings that ask for a hold or deny
	keyRecalled   = 'S' // project, agent and session → beliefs
	keyParents    = 'F' // project, belief → beliefs that it derives from
	keyRing       = 'R' // table, project, number → key: the order in which a table was filled
	keyFilled     = 'Q' // table, project → number of keys ever added
	keyNonce      = 'x' // project, nonce → nothing: accepted resolutions
	keyCounter    = 'k' // project, key → the highest accepted counter of a passkey
	keyRefused    = 'f' // project, hold, belief or "-", check → number of refusals
	keyForecast   = 'K' // project, agent, class → calibration.Window
	keyCalib      = 'C' // project, agent, class → the last calibration entry
	keySeal       = 'E' // project, belief → seal of a memory's identity, from its ledger entry
	keyReaudit    = 'r' // → time of the next re-audit
	keyRan        = 'X' // project, agent, id → nothing: the released action was carried out
	keyDependents = 'L' // project, subject, hold → nothing: the open hold depends on the subject
	keyTouched    = 'U' // project, subject → touched: the subject's holds are being rechecked
	keyContent    = 'G' // project, agent and session → sources that the user named
	keyGrant      = 'V' // project, agent, session, digest of a source, hold → grant
	keyCleared    = 'Y' // project, belief → clearances
	keyOffer      = 'T' // project, "s" and ledger sequence, or "d" and a digest of agent, server and catalogue → offer
)

// Step implements stage.LedgerFold.
func (f *Fold) Step(st *stage.State, e *streams.Entry) (*stage.Output, error) {
	now, err := f.clock(st, e.Time)
	if err != nil {
		return nil, err
	}
	if err := f.prune(st, now); err != nil {
		return nil, err
	}
	if g, ok := streams.SentinelGroup(e.Stage); ok {
		return f.fromSentinel(st, e, g, now)
	}
	switch e.Stage {
	case streams.StageArbiter:
		switch e.Type {
		case streams.TypeDue:
			return f.due(st, e, now)
		case streams.TypeCalibration:
			return nil, f.calibrated(st, e)
		}
	case streams.StageIngest:
		out, err := f.fromIngest(st, e, now)
		if err != nil {
			return nil, err
		}
		return f.remarks(e, out, now)
	}
	return nil, nil
}

// fromIngest folds an entry of ingest. It returns the arbiter's output for it, or nil.
func (f *Fold) fromIngest(st *stage.State, e *streams.Entry, now time.Time) (*stage.Output, error) {
	switch e.Type {
	case streams.TypeAction, streams.TypeMemory, streams.TypeRecall:
		return f.propose(st, e, now)
	case streams.TypeTools:
		return nil, f.noteOffer(st, e)
	case streams.TypeObservation:
		return nil, f.noteContent(st, e)
	case streams.TypeSession:
		return nil, f.endSources(st, e)
	case streams.TypeRepeat:
		return f.answerRepeat(st, e, now)
	case streams.TypeForgotten:
		return f.forget(st, e, now)
	case streams.TypeErased:
		return erased(e, now)
	case streams.TypeChunk:
		return nil, activation.Apply(st, e, f.pinned, f.log)
	case streams.TypeResolution:
		return f.resolve(st, e, now)
	case streams.TypeConfirmation:
		if err := f.noteRevisions(st, e, now); err != nil {
			return nil, err
		}
		if err := f.clearConfirmed(st, e); err != nil {
			return nil, err
		}
		return f.attested(st, e, now)
	case streams.TypeIncident, streams.TypeOrder, streams.TypePoint, streams.TypeRestore, streams.TypeDisclosure:
		return f.ordered(st, e, now)
	case streams.TypeDecision, streams.TypeRevision:
		if err := f.noteRevisions(st, e, now); err != nil {
			return nil, err
		}
		return f.decisions(st, e, now)
	case streams.TypeOutcome:
		if err := f.used(st, e); err != nil {
			return nil, err
		}
		return f.outcome(st, e, now)
	case streams.TypeActivation:
		if err := activation.Apply(st, e, f.pinned, f.log); err != nil {
			return nil, err
		}
		return nil, f.scheduleReaudit(st, now)
	}
	return nil, nil
}

// clock returns the ledger time of an entry and stores it: the entry's time stamp, but not before an earlier entry's
// ledger time.
func (f *Fold) clock(st *stage.State, stamp time.Time) (time.Time, error) {
	v, ok, err := st.GetHot([]byte{keyClock})
	if err != nil {
		return stamp, err
	}
	now := stamp.UnixNano()
	if ok && len(v) == 8 {
		now = max(now, int64(binary.BigEndian.Uint64(v)))
	}
	if err := st.Set([]byte{keyClock}, binary.BigEndian.AppendUint64(nil, uint64(now))); err != nil {
		return stamp, err
	}
	return time.Unix(0, now).UTC(), nil
}

// ledgerTime returns the ledger time of the last entry.
func ledgerTime(st *stage.State) (time.Time, error) {
	return timeAt(st, keyClock)
}

// timeAt returns the time under a key of one byte, or the zero time.
func timeAt(st *stage.State, key byte) (time.Time, error) {
	v, ok, err := st.Get([]byte{key})
	if err != nil || !ok || len(v) != 8 {
		return time.Time{}, err
	}
	return time.Unix(0, int64(binary.BigEndian.Uint64(v))).UTC(), nil
}

// propose stores a new proposal. If no group must assess the proposal, propose decides it at once.
func (f *Fold) propose(st *stage.State, e *streams.Entry, now time.Time) (*stage.Output, error) {
	p := &proposal{Seq: e.Seq, Stamp: e.Time, Type: e.Type, Project: e.Project}
	pol, polDigest, err := f.policies.Active(st, streams.DoActivatePolicy)
	if err != nil {
		return nil, err
	}
	if p.Rules, err = activation.Digest(st, streams.DoActivateRules); err != nil {
		return nil, err
	}
	p.Policy = polDigest
	level := beliefs.L0
	var replaced *withdrawal
	var class policy.Class // of an action
	switch e.Type {
	case streams.TypeAction:
		a, err := streams.Read[streams.ActionEntry](e)
		if err != nil {
			return f.unreadable(e, err)
		}
		p.Intake = a.Intake
		if class, err = f.openAction(st, p, a, pol); err != nil {
			return nil, err
		}
		if replaced, err = f.replace(st, p, a, now); err != nil {
			return nil, err
		}
		level = class.Level
	case streams.TypeMemory:
		m, err := streams.Read[streams.MemoryEntry](e)
		if err != nil {
			return f.unreadable(e, err)
		}
		p.Intake = m.Intake
		if err := openMemory(p, m, pol); err != nil {
			return nil, err
		}
		if err := noteSeal(st, p.Project, m); err != nil {
			return nil, err
		}
	case streams.TypeRecall:
		r, err := streams.Read[streams.RecallEntry](e)
		if err != nil {
			return f.unreadable(e, err)
		}
		p.Intake = r.Intake
		openRecall(p, r)
		if err := checkSeals(st, p, r); err != nil {
			return nil, err
		}
		if f.recalled != nil {
			f.recalled(e.Project, e.Seq, r)
		}
	}
	if pol == nil {
		p.reason(streams.CodeNoPolicy, streams.Hold, "no signed policy is in force")
		return replaced.with(f.decide(st, p, nil, now))
	}
	for _, g := range pol.Required(class) {
		f.Metrics.Required(g.Name)
		p.Groups = append(p.Groups, required{g.Name, cmp.Or(g.Digest, p.Rules), now.Add(pol.Wait(g, level))})
	}
	if len(p.Groups) == 0 {
		return replaced.with(f.decide(st, p, pol, now))
	}
	p.Deadline = p.waits()
	if err := st.Set(waitingKey(p), binary.BigEndian.AppendUint64(nil, p.Seq)); err != nil {
		return nil, err
	}
	if err := f.addTimer(st, p.Deadline, timerDeadline, seqKey(p.Seq)); err != nil {
		return nil, err
	}
	if err := st.Put(proposalKey(p.Seq), p); err != nil {
		return nil, err
	}
	return replaced.output()
}

func (f *Fold) unreadable(e *streams.Entry, err error) (*stage.Output, error) {
	// Only ingest writes these entries, so a body that cannot be decoded is a bug. The proposal gets no verdict, so it
	// is never allowed.
	f.log.Error("cannot decode a proposal; its caller gets no verdict", "seq", e.Seq, "type", e.Type, "err", err)
	return nil, nil
}

func (p *proposal) reason(code streams.Code, v streams.Verdict, format string, args ...any) {
	p.Reasons = append(p.Reasons, streams.Reason{Code: code, Verdict: v, Text: fmt.Sprintf(format, args...)})
}

// answerRepeat answers a proposal that was sent a second time with the verdict on the first one. So a caller that lost
// the reply can ask for it.
func (f *Fold) answerRepeat(st *stage.State, e *streams.Entry, now time.Time) (*stage.Output, error) {
	r := new(streams.RepeatEntry)
	if err := streams.Unmarshal(e.Body, r); err != nil {
		f.log.Error("unreadable repeat", "seq", e.Seq, "err", err)
		return nil, nil
	}
	if !r.Kind.Proposal() {
		return nil, nil
	}
	p, err := waitingFor(st, e.Project, r.Agent, r.ID)
	if err != nil {
		return nil, err
	}
	if p != nil && !r.Differs && p.Intake == r.First {
		return nil, p.alsoAnswer(st, r.Intake)
	}
	v := new(streams.VerdictEntry)
	ok, err := st.Load(stage.Key(keyVerdict, e.Project, r.Agent, r.ID), v)
	if err != nil {
		return nil, err
	}
	switch {
	case ok && !r.Differs && v.Intake == r.First && v.Type == r.Kind.About().Type:
	case ok || p != nil:
		if v, err = f.answerTaken(st, e, r); err != nil {
			return nil, err
		}
	default:
		v = answerForgotten(e, r)
	}
	v.Again, v.Time, v.Intake, v.Also = true, now, r.Intake, nil
	return stage.NewOutput(streams.TypeVerdict, e.Project, v, verdictLive(e.Project, v)...)
}

// maxAlso is the maximum number of repeats of an open proposal that its verdict also answers. Further callers get no
// answer and must send the proposal again.
const maxAlso = 64

// alsoAnswer adds a repeat at a place in the intake, which the verdict on this open proposal will answer too.
func (p *proposal) alsoAnswer(st *stage.State, intake uint64) error {
	if len(p.Also) >= maxAlso {
		return nil
	}
	p.Also = append(p.Also, intake)
	return st.Put(proposalKey(p.Seq), p)
}

// waitingFor returns the open proposal with an id, or nil.
func waitingFor(st *stage.State, project, agent, id string) (*proposal, error) {
	seq, ok, err := st.Get(stage.Key(keyWaiting, project, agent, id))
	if err != nil || !ok {
		return nil, err
	}
	p := new(proposal)
	ok, err = st.Load(append([]byte{keyProposal}, seq...), p)
	if err != nil || !ok || p.Decided != nil {
		return nil, err
	}
	return p, nil
}

// answerTaken answers a proposal whose id another proposal has. The answer says nothing about the other proposal.
func (f *Fold) answerTaken(st *stage.State, e *streams.Entry, r *streams.RepeatEntry) (*streams.VerdictEntry, error) {
	pol, digest, err := f.policies.Active(st, streams.DoActivatePolicy)
	if err != nil {
		return nil, err
	}
	v := &streams.VerdictEntry{Proposal: e.Seq, Type: r.Kind.About().Type, ID: r.ID, Reuses: r.Reuses, Agent: r.Agent,
		Session: r.Session,
		Verdict: streams.Hold, Policy: digest, Reasons: []streams.Reason{{Code: streams.CodeTaken, Verdict: streams.Hold,
			Text: "this id was used before for a different proposal; propose it under a new id"}}}
	if pol != nil && pol.Learn() {
		would := streams.Hold
		v.Would, v.Learn, v.Verdict = &would, true, streams.Allow
	}
	return v, nil
}

// answerForgotten answers a repeat of a proposal whose verdict is no longer stored.
func answerForgotten(e *streams.Entry, r *streams.RepeatEntry) *streams.VerdictEntry {
	v := &streams.VerdictEntry{Proposal: e.Seq, Type: r.Kind.About().Type, ID: r.ID, Reuses: r.Reuses, Agent: r.Agent,
		Session: r.Session, Verdict: streams.Hold}
	v.Reasons = []streams.Reason{{Code: streams.CodeForgotten, Verdict: streams.Hold,
		Text: fmt.Sprintf("a verdict is kept for %d days, and none is kept for this id; propose it again under a new id",
			int(KeepVerdict.Hours()/24))}}
	return v
}
