package probe

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"lazaret/streams"
)

// check compares the result of a step with its expectation.
func (p *play) check(ctx context.Context, st *Step) error {
	x, d := st.Expect, p.done[st.ID]
	same := func(what, have, want string) {
		if want != "" && have != want {
			p.fail(st, "%s is %q, want %q", what, have, want)
		}
	}
	if x.Permitted != nil && (d.permitted == nil || *d.permitted != *x.Permitted) {
		p.fail(st, "the server let it through: %t, want %t", d.permitted != nil && *d.permitted, *x.Permitted)
	}
	if x.InForce != nil && (d.inForce == nil || *d.inForce != *x.InForce) {
		p.fail(st, "it is in force: %t, want %t", d.inForce != nil && *d.inForce, *x.InForce)
	}
	var v *streams.VerdictEntry
	if d.rep != nil {
		v = d.rep.Entry
	}
	if x.Verdict != "" {
		same("the verdict", d.verdict.String()+p.because(d, x), x.Verdict)
	}
	if v == nil {
		v = new(streams.VerdictEntry)
	}
	same("the level", v.Level, x.Level)
	same("the verdict's agent", v.Agent, x.Agent)
	same("the verdict's session", v.Session, x.Session)
	codes, rules := map[string]bool{string(d.code): true}, map[string]bool{}
	for _, r := range v.Reasons {
		codes[string(r.Code)] = true
		if r.Rule != "" && r.Verdict > streams.Allow {
			rules[r.Rule] = true
		}
	}
	p.each(st, "code", codes, x.Codes)
	p.each(st, "reason of rule", rules, x.Rules)
	if r := d.resolved; r != nil {
		same("the hold's state", r.State, x.State)
		same("the failed check", r.Check, x.Check)
		if x.State == "" && x.Check != "" && r.State != "" {
			p.fail(st, "the hold is %s", r.State)
		}
	} else if x.State != "" || x.Check != "" {
		p.fail(st, "nothing was resolved")
	}
	if err := p.checkRecall(st, d); err != nil {
		return err
	}
	if err := p.checkSurfaces(st, d); err != nil {
		return err
	}
	b := d.belief
	if st.Belief != "" {
		if err := p.settle(ctx, d.project); err != nil {
			return err
		}
		var err error
		if b, err = p.look(ctx, d.project, st.Belief); err != nil {
			return err
		}
	}
	p.axes(st, "the belief", b, x.Belief)
	p.axes(st, "the envelope", d.envelope, x.Envelope)
	if len(x.Alerts)+len(x.NoAlerts) == 0 {
		return nil
	}
	if err := p.settle(ctx, d.project); err != nil {
		return err
	}
	alerts, err := p.site.ledger.alerts(d.project)
	if err != nil {
		return err
	}
	p.each(st, "alert", alerts, x.Alerts)
	for _, r := range x.NoAlerts {
		if alerts[r] {
			p.fail(st, "there is an alert %s", r)
		}
	}
	return nil
}

// because returns a verdict's reasons in short form. It returns "" if the verdict is the expected one.
func (p *play) because(d *played, x *Expect) string {
	if d.verdict.String() == x.Verdict || d.rep == nil || d.rep.Entry == nil || len(d.rep.Entry.Reasons) == 0 {
		return ""
	}
	s := ""
	for _, r := range d.rep.Entry.Reasons {
		s += " " + string(r.Code)
		if r.Rule != "" {
			s += " " + r.Rule
		}
	}
	return " by" + s
}

func (p *play) each(st *Step, what string, have map[string]bool, want []string) {
	for _, w := range want {
		if !have[w] {
			delete(have, "")
			p.fail(st, "there is no %s %s, only %v", what, w, slices.Sorted(maps.Keys(have)))
		}
	}
}

func (p *play) axes(st *Step, what string, b *streams.BeliefRef, want map[string]string) {
	if len(want) == 0 {
		return
	}
	if b == nil {
		p.fail(st, "%s does not exist", what)
		return
	}
	have := map[string]string{"truth": b.Axes.Truth.String(), "retrieval": b.Axes.Retrieval.String(),
		"security":  b.Axes.Security.String(),
		"freshness": b.Axes.Freshness.String(), "origin": string(b.Origin), "quality": b.Quality.String(),
		"staged": fmt.Sprint(b.Staged)}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if h, ok := have[k]; !ok || h != want[k] {
			p.fail(st, "%s of %s is %q, want %q", k, what, h, want[k])
		}
	}
}

func (p *play) checkRecall(st *Step, d *played) error {
	x := st.Expect
	if x.Admitted == nil && len(x.ContextOnly)+len(x.Contradictions)+len(x.NotServed)+len(x.Refused) == 0 {
		return nil
	}
	if d.rep == nil || d.rep.Recall == nil {
		p.fail(st, "there is no answer to the recall")
		return nil
	}
	r := d.rep.Recall
	in := func(channel string, items []streams.RecallItem, want []string) error {
		for _, w := range want {
			ok, err := p.hasItem(items, w)
			if err != nil {
				return err
			}
			if !ok {
				p.fail(st, "%s is not in %s", w, channel)
			}
		}
		return nil
	}
	if x.Admitted != nil {
		if err := in("admitted", r.Admitted, *x.Admitted); err != nil {
			return err
		}
		if len(r.Admitted) != len(*x.Admitted) {
			p.fail(st, "%d beliefs are admitted, want %d", len(r.Admitted), len(*x.Admitted))
		}
	}
	if err := in("context_only", r.ContextOnly, x.ContextOnly); err != nil {
		return err
	}
	if err := in("contradictions", r.Contradictions, x.Contradictions); err != nil {
		return err
	}
	for _, w := range x.NotServed {
		for channel, items := range map[string][]streams.RecallItem{"admitted": r.Admitted, "context_only": r.ContextOnly,
			"contradictions": r.Contradictions} {
			ok, err := p.hasItem(items, w)
			if err != nil {
				return err
			}
			if ok {
				p.fail(st, "%s is in %s", w, channel)
			}
		}
	}
	for _, ref := range slices.Sorted(maps.Keys(x.Refused)) {
		id, err := p.lookUp(ref)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(r.Refused, func(f streams.Refusal) bool { return f.ID == id })
		switch {
		case i < 0:
			p.fail(st, "%s is not refused", ref)
		case r.Refused[i].Reason != x.Refused[ref]:
			p.fail(st, "%s is refused for %q, want %q", ref, r.Refused[i].Reason, x.Refused[ref])
		}
	}
	return nil
}
