package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lazaret/streams"
)

// Arbiter counts the arbiter's verdicts.
type Arbiter struct {
	verdicts, silent *prometheus.CounterVec
	seconds          prometheus.Histogram
	holds            prometheus.Gauge
	calibrations     *prometheus.CounterVec
}

// Verdict is the Output.Note of a verdict's entry. The arbiter's metrics are counted from it when the entry is
// published.
type Verdict struct {
	Entry    *streams.VerdictEntry
	Proposed time.Time // ledger time of the proposal; zero if unknown
}

// CountedAs implements stage.Counted. It counts verdicts by result and by groups that did not answer.
// It does not count repeated answers.
func (v *Verdict) CountedAs() []string {
	if v == nil || v.Entry == nil || v.Entry.Again {
		return nil
	}
	as := []string{v.Entry.Verdict.String()}
	for _, g := range v.Entry.Degraded {
		as = append(as, SilentGroup+g)
	}
	return as
}

// SilentGroup is the prefix of a group's name in the count of verdicts without its answer.
const SilentGroup = "silent."

// Arbiter returns the arbiter's counts.
func (p *Process) Arbiter() *Arbiter {
	if p == nil {
		return nil
	}
	a := &Arbiter{
		verdicts: counters(p, "verdicts_total",
			"Verdicts, including later stricter ones, without repeated answers.", "type", "verdict"),
		silent: counters(p, "silent_groups_total",
			"Verdicts for which a required sentinel group had no valid answer.", "group"),
		holds: gauge(p, "open_holds", "Holds that wait for a person."),
		calibrations: counters(p, "calibrations_total", "Comparisons of an agent's confidence with its "+
			"outcomes, by result: calibrated, "+
			"over_confident, or became_over_confident.", "result"),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "lazaret_verdict_seconds",
			Help: "Time from a proposal's ledger timestamp (server's clock) to its verdict in the ledger " +
				"(this process's clock).",
			Buckets: []float64{.0005, .001, .002, .004, .008, .016, .032, .064, .125, .25, .5, 1, 2, 4, 8, 16}}),
	}
	p.reg.MustRegister(a.seconds)
	for _, r := range []string{"calibrated", "over_confident", "became_over_confident"} {
		a.calibrations.WithLabelValues(r)
	}
	for _, t := range []streams.Type{streams.TypeAction, streams.TypeMemory, streams.TypeRecall} {
		for _, v := range []streams.Verdict{streams.Allow, streams.Hold, streams.Deny} {
			a.verdicts.WithLabelValues(string(t), v.String())
		}
	}
	return a
}

// Published implements stage.Config.Published.
func (a *Arbiter) Published(e *streams.Entry, note any) {
	if a == nil || streams.IsSynthetic(e.Project) {
		return
	}
	if e.Type == streams.TypeCalibration {
		a.calibrated(e)
	}
	if e.Type != streams.TypeVerdict {
		return
	}
	n, ok := note.(*Verdict)
	if !ok {
		// The verdict was made before a restart.
		n = &Verdict{Entry: new(streams.VerdictEntry)}
		if err := streams.Unmarshal(e.Body, n.Entry); err != nil {
			return
		}
	}
	v := n.Entry
	if v.Again {
		return
	}
	a.verdicts.WithLabelValues(string(v.Type), v.Verdict.String()).Inc()
	if v.Late || v.Resolved != nil {
		return
	}
	for _, g := range v.Degraded {
		a.silent.WithLabelValues(g).Inc()
	}
	if !n.Proposed.IsZero() {
		a.seconds.Observe(max(time.Since(n.Proposed), 0).Seconds())
	}
}

// Holds adds to the number of open holds.
func (a *Arbiter) Holds(by int) {
	if a != nil && by != 0 {
		a.holds.Add(float64(by))
	}
}

func (a *Arbiter) calibrated(e *streams.Entry) {
	var c streams.CalibrationEntry
	if streams.Unmarshal(e.Body, &c) != nil {
		return
	}
	result := "calibrated"
	switch {
	case c.Over && c.Was:
		result = "over_confident"
	case c.Over:
		result = "became_over_confident"
	}
	a.calibrations.WithLabelValues(result).Inc()
}

// Required creates the counter of a group whose answer the policy requires, so that it exists before
// its first count.
func (a *Arbiter) Required(group string) {
	if a != nil {
		a.silent.WithLabelValues(group)
	}
}

// Ingest counts ingest's decisions on the intake.
type Ingest struct {
	admitted, rejected *prometheus.CounterVec
	repeats            prometheus.Counter
}

// Ingest returns ingest's counts.
func (p *Process) Ingest() *Ingest {
	if p == nil {
		return nil
	}
	i := &Ingest{
		admitted: counters(p, "admitted_total", "Messages that ingest accepted, by the type of their entry.", "type"),
		rejected: counters(p, "rejected_total", "Messages that were refused, by the code in docs/errors.md.", "code"),
		repeats: prometheus.NewCounter(prometheus.CounterOpts{Name: "lazaret_repeats_total",
			Help: "Messages whose id had been used before."}),
	}
	p.reg.MustRegister(i.repeats)
	for _, c := range []streams.Code{streams.CodeMalformed, streams.CodeTooLarge, streams.CodeUnknownKind,
		streams.CodeBadSubject, streams.CodeInvalid,
		streams.CodeTimeTravel, streams.CodeNotEvent, streams.CodeSignature, streams.CodeCommand, streams.CodeBundle} {
		i.rejected.WithLabelValues(string(c))
	}
	return i
}

// Published implements stage.Config.Published.
func (i *Ingest) Published(e *streams.Entry, note any) {
	if i == nil || streams.IsSynthetic(e.Project) {
		return
	}
	switch r, _ := note.(*streams.RejectedEntry); {
	case r != nil:
		i.rejected.WithLabelValues(string(r.Code)).Inc()
	case e.Type == streams.TypeRepeat:
		i.repeats.Inc()
	default:
		i.admitted.WithLabelValues(string(e.Type)).Inc()
	}
}

// Auditor holds the progress of the log.
type Auditor struct {
	head, signed, gaps atomic.Int64
	at, uncosigned     atomic.Int64 // Unix nanoseconds
}

// Auditor returns the auditor's metrics.
func (p *Process) Auditor() *Auditor {
	if p == nil {
		return nil
	}
	a := new(Auditor)
	a.at.Store(time.Now().UnixNano())
	of := func(name, help string, f func() float64) {
		p.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "lazaret_audit_" + name, Help: help}, f))
	}
	of("head_index", "Leaves in the log.", func() float64 { return float64(a.head.Load()) })
	of("gaps", "Ledger sequences that were missing and are recorded as gaps.", func() float64 {
		return float64(a.gaps.Load())
	})
	of("unsigned_leaves", "Leaves that no checkpoint covers yet.", func() float64 {
		return float64(max(a.head.Load()-a.signed.Load(), 0))
	})
	of("checkpoint_age_seconds", "Time since the last checkpoint, or since the start; it grows while there "+
		"are no new entries.",
		func() float64 {
			return time.Since(time.Unix(0, a.at.Load())).Seconds()
		})
	of("uncosigned_seconds", "Time for which a witness's cosignature of the last checkpoint has been missing; 0 if none "+
		"is.", func() float64 {
		if since := a.uncosigned.Load(); since != 0 {
			return time.Since(time.Unix(0, since)).Seconds()
		}
		return 0
	})
	return a
}

// Head sets the number of leaves and gaps of the log.
func (a *Auditor) Head(size, gaps int64) {
	if a != nil {
		a.head.Store(size)
		a.gaps.Store(gaps)
	}
}

// Uncosigned sets the time, in Unix nanoseconds, since which a witness's cosignature is missing. 0 means that none is
// missing.
func (a *Auditor) Uncosigned(since int64) {
	if a != nil {
		a.uncosigned.Store(since)
	}
}

// Signed records that a checkpoint of this size was signed now.
func (a *Auditor) Signed(size int64) {
	if a != nil {
		a.signed.Store(size)
		a.at.Store(time.Now().UnixNano())
	}
}
