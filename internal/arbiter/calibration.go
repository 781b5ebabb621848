package arbiter

import (
	"fmt"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/calibration"
	"lazaret/streams"
)

// The arbiter compares the confidence that an agent states for its actions with their outcomes, separately for each
// class. A class is an agent and the policy entry that classifies its actions. The agent can choose neither. In a class
// with too high confidence, actions above L1 are held. Calibration never makes a verdict milder.
//
// After every calibrateEvery outcomes of a class, the result is written to the ledger. It takes effect when the
// arbiter reads it back. The number of outcomes, and not the time, decides when a result is written. So a replay gives
// the same result.

const (
	// calibrateEvery is the number of outcomes of a class between two calibrations.
	calibrateEvery = 10
	// maxClasses is the maximum number of classes of a project. Beyond it, the oldest is evicted.
	maxClasses = 4096

	ruleOver = "over-confident"
)

func classKey(agent, class string) string { return agent + "\x00" + class }

// forecast adds the first outcome of a released action to the calibration of its class. Actions of recorded sessions
// that are replayed (in synthetic projects) are not counted.
func (f *Fold) forecast(st *stage.State, e *streams.Entry, o *streams.OutcomeEntry, v *streams.VerdictEntry,
	now time.Time) (*stage.Output, error) {
	if v.Confidence == nil || v.Class == "" || streams.IsSynthetic(e.Project) {
		return nil, nil
	}
	said := calibration.Of(*v.Confidence, o.Status == "ok")
	v.Confidence = nil // only the first outcome counts
	if err := st.Put(stage.Key(keyVerdict, e.Project, v.Agent, v.ID), v); err != nil {
		return nil, err
	}
	var w calibration.Window
	key := classKey(v.Agent, v.Class)
	b, known, err := st.Get(stage.Key(keyForecast, e.Project, key))
	if err != nil {
		return nil, err
	}
	if err := w.UnmarshalBinary(b); err != nil {
		return nil, err
	}
	w.Add(said)
	if b, err = w.MarshalBinary(); err != nil {
		return nil, err
	}
	if err := keepRaw(st, keyForecast, keyForecast, e.Project, key, known, maxClasses, b, nil); err != nil {
		return nil, err
	}
	if w.Total%calibrateEvery != 0 || w.Total < calibration.MinForecasts {
		return nil, nil
	}
	last := new(streams.CalibrationEntry)
	if _, err := st.Load(stage.Key(keyCalib, e.Project, key), last); err != nil {
		return nil, err
	}
	c := &streams.CalibrationEntry{Agent: v.Agent, Class: v.Class, Total: w.Total, Was: last.Over, Time: now,
		Report: calibration.Judge(w.Forecasts)}
	var live []stage.Live
	if c.Over && !c.Was {
		a := newAlert(ruleOver, "medium", e.Project, e.Seq, streams.AlertSubject{Kind: "agent", ID: v.Agent}, now)
		a.RuleDigest, a.Agent, a.Session, a.Events, a.Effect = v.Policy, v.Agent, o.Session, []string{o.ID}, "hold"
		a.Message, a.Detail = overText(c), map[string]any{"code": string(streams.CodeOver), "class": v.Class}
		c.Alert, live = &a, alertLive(&a)
	}
	return stage.NewOutput(streams.TypeCalibration, e.Project, c, live...)
}

func overText(c *streams.CalibrationEntry) string {
	return fmt.Sprintf("of the last %d actions of agent %s under policy entry %q, %.0f%% succeeded, and it had "+
		"said %.0f%%", c.N, c.Agent, c.Class, 100*c.Success, 100*c.Confidence)
}

// calibrated stores a calibration that was read back from the ledger. It then takes effect.
func (f *Fold) calibrated(st *stage.State, e *streams.Entry) error {
	c := new(streams.CalibrationEntry)
	if err := streams.Unmarshal(e.Body, c); err != nil {
		f.log.Error("unreadable calibration", "seq", e.Seq, "err", err)
		return nil
	}
	key := classKey(c.Agent, c.Class)
	_, known, err := st.Get(stage.Key(keyCalib, e.Project, key))
	if err != nil {
		return err
	}
	return keep(st, keyCalib, e.Project, key, known, maxClasses, c)
}

// overConfident adds a reason to p if the last calibration of its class found the agent's confidence too high.
func overConfident(st *stage.State, p *proposal) error {
	if p.Class == "" {
		return nil
	}
	c := new(streams.CalibrationEntry)
	ok, err := st.Load(stage.Key(keyCalib, p.Project, classKey(p.Agent, p.Class)), c)
	if err != nil || !ok || !c.Over {
		return err
	}
	v := streams.Allow // at L0 and L1, the reason is shown, but the action is allowed
	if p.Weighty {
		v = streams.Hold
	}
	p.reason(streams.CodeOver, v, "%s", streams.Clip(overText(c), maxReasonText))
	return nil
}

// CalibrationRequest asks for the calibrations in a partition.
type CalibrationRequest struct {
	Project string `json:"project,omitzero"` // empty: all projects
}

// Calibration is the last calibration of a class.
type Calibration struct {
	Project string `json:"project"`
	streams.CalibrationEntry
}

func listCalibration(st *stage.State, req []byte) (any, error) {
	var q CalibrationRequest
	if err := streams.Unmarshal(req, &q); err != nil {
		return nil, err
	}
	out := []Calibration{}
	prefix := []byte{keyCalib}
	if q.Project != "" {
		prefix = stage.Key(keyCalib, q.Project, "")
	}
	err := st.Scan(prefix, func(k, v []byte) (bool, error) {
		c := Calibration{}
		c.Project, _, _ = cut(k[1:])
		if err := streams.Unmarshal(v, &c.CalibrationEntry); err != nil {
			return false, err
		}
		out = append(out, c)
		return len(out) < maxHolds, nil
	})
	return out, err
}
