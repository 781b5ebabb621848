package arbiter

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"lazaret/internal/proptest"
	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/calibration"
	"lazaret/streams"
)

// says proposes an action with a confidence, lets both groups assess it as allow, and reports its outcome.
func (d *desk) says(id, tool string, level beliefs.Level, confidence float64, status string) *streams.VerdictEntry {
	d.t.Helper()
	a := action(id, tool, level)
	a.Confidence = &confidence
	seq := d.add(streams.StageIngest, streams.TypeAction, 0, a)
	for _, g := range []string{"a", "b"} {
		d.assess(g, seq, &streams.AssessmentEntry{})
	}
	v := d.last(seq)
	if status != "" {
		d.add(streams.StageIngest, streams.TypeOutcome, 0, &streams.OutcomeEntry{EntryHead: streams.EntryHead{ID: "o" + id,
			Agent: "agent", Session: "s"}, Outcome: beliefs.Outcome{Action: id, Status: status}})
	}
	return v
}

func (d *desk) calibrations() (out []streams.CalibrationEntry) {
	d.t.Helper()
	for _, e := range d.ledger {
		if e.Type != streams.TypeCalibration {
			continue
		}
		var c streams.CalibrationEntry
		if err := streams.Unmarshal(e.Body, &c); err != nil {
			d.t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

func TestAnOverConfidentClassIsHeldUntilItIsNot(t *testing.T) {
	pol := testPolicy(t)
	d := newDesk(t, newArbiter(t), pol)
	for i := range calibration.MinForecasts {
		if v := d.says(fmt.Sprint("a", i), "write_file", beliefs.L3, 0.95, "error"); v.Verdict != streams.Allow ||
			v.Class == "" {
			t.Fatalf("action %d: %s %+v", i, v.Verdict, v.Reasons)
		}
	}
	cs := d.calibrations()
	if len(cs) != 1 || !cs[0].Over || cs[0].Was || cs[0].Alert == nil || cs[0].N != calibration.MinForecasts ||
		cs[0].Gap != 0.95 {
		t.Fatalf("%+v", cs)
	}
	if v := d.says("b", "write_file", beliefs.L3, 0.95, ""); v.Verdict != streams.Hold ||
		v.Reasons[0].Code != streams.CodeOver {
		t.Errorf("an action of an over-confident class: %s %+v", v.Verdict, v.Reasons)
	}
	// Omitting the confidence does not avoid the hold.
	seq := d.add(streams.StageIngest, streams.TypeAction, 0, action("c", "write_file", beliefs.L3))
	for _, g := range []string{"a", "b"} {
		d.assess(g, seq, &streams.AssessmentEntry{})
	}
	if v := d.last(seq); v.Verdict != streams.Hold {
		t.Errorf("without a confidence: %s", v.Verdict)
	}
	// Another class of the agent, at L1, is still allowed.
	if v := d.says("d", "read_file", beliefs.L1, 0.9, "ok"); v.Verdict != streams.Allow {
		t.Errorf("another class: %s %+v", v.Verdict, v.Reasons)
	}
	// After many successes at the stated confidence, the class is no longer over-confident. The new calibration says
	// that the class was over-confident before.
	for i := range calibration.Keep {
		id := fmt.Sprint("e", i)
		confidence := 0.9
		v := &streams.VerdictEntry{Type: streams.TypeAction, ID: id, Agent: "agent", Class: cs[0].Class,
			Confidence: &confidence, Verdict: streams.Allow} // for example, approved by a person
		if err := d.st.Put(stage.Key(keyVerdict, "demo", "agent", id), v); err != nil {
			t.Fatal(err)
		}
		d.add(streams.StageIngest, streams.TypeOutcome, 0, &streams.OutcomeEntry{EntryHead: streams.EntryHead{ID: "o" + id,
			Agent: "agent"}, Outcome: beliefs.Outcome{Action: id, Status: "ok"}})
	}
	cs = d.calibrations()
	if last := cs[len(cs)-1]; last.Over || last.N != calibration.Keep {
		t.Fatalf("%+v", last)
	}
	if v := d.says("f", "write_file", beliefs.L3, 0.9, ""); v.Verdict != streams.Allow {
		t.Errorf("calibrated again: %s %+v", v.Verdict, v.Reasons)
	}
}

func TestAnOutcomeCountsOnceAndSyntheticProjectsDoNot(t *testing.T) {
	pol := testPolicy(t)
	d := newDesk(t, newArbiter(t), pol)
	d.says("a", "write_file", beliefs.L3, 0.95, "error")
	for i := range 50 {
		d.add(streams.StageIngest, streams.TypeOutcome, 0,
			&streams.OutcomeEntry{EntryHead: streams.EntryHead{ID: fmt.Sprint("again", i), Agent: "agent"},
				Outcome: beliefs.Outcome{Action: "a", Status: "error"}})
	}
	if cs := d.calibrations(); len(cs) != 0 {
		t.Errorf("50 outcomes of one action made a calibration: %+v", cs)
	}
	d = newDesk(t, newArbiter(t), pol)
	d.project = streams.SyntheticPrefix + "probe"
	for i := range 2 * calibration.MinForecasts {
		d.says(fmt.Sprint("a", i), "write_file", beliefs.L3, 0.95, "error")
	}
	if cs := d.calibrations(); len(cs) != 0 {
		t.Errorf("synthetic outcomes counted: %+v", cs)
	}
}

// TestCalibrationOnlyTightens: neither an agent's confidence nor its outcomes make a verdict
// milder.
func TestCalibrationOnlyTightens(t *testing.T) {
	like := newArbiter(t)
	proptest.Check(t, func(r *rapid.T) {
		p := &proposal{Project: "demo", Agent: "agent", Class: "c", Weighty: rapid.Bool().Draw(r, "weighty")}
		p.Reasons = rapid.SliceOfN(reasonGen, 0, 4).Draw(r, "reasons")
		without, _ := p.judge()
		st := stage.NewMemState(0)
		fs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) calibration.Forecast {
			return calibration.Of(rapid.Float64Range(0, 1).Draw(t, "confidence"), rapid.Bool().Draw(t, "success"))
		}), 0, 40).Draw(r, "forecasts")
		c := &streams.CalibrationEntry{Agent: "agent", Class: "c", Total: uint64(len(fs)), Report: calibration.Judge(fs)}
		if err := like.calibrated(st, entry(t, 1, epoch, streams.StageArbiter, streams.TypeCalibration, 0, c)); err != nil {
			r.Fatal(err)
		}
		if err := overConfident(st, p); err != nil {
			r.Fatal(err)
		}
		with, _ := p.judge()
		if with < without {
			r.Fatalf("%s became %s", without, with)
		}
		if want := without.Join(streams.Hold); c.Over && p.Weighty && with != want {
			r.Fatalf("over-confident: %s, want %s", with, want)
		}
		if !c.Over && with != without {
			r.Fatalf("not over-confident: %s became %s", without, with)
		}
	})
}
