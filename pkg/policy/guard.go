package policy

import (
	"fmt"
	"strings"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// maxGuardReasons is how many destinations a verdict names.
const maxGuardReasons = 8

// Guard joins into a class what the policy says of the call's arguments: where
// it reaches and what it touches. It only tightens: the level stays, the floor
// rises. args is as in Classify.
//
// Which arguments are looked at goes by the action's effects. Those that
// reach out (egress, publish, exec, or none known) are judged by every address
// and name in them, those that only read by URLs and arguments that are for
// hosts, all others by whether they name a metadata service. Arguments that are
// content by the policy are left out, unless the action executes.
func (p *Policy) Guard(c Class, args []byte) Class {
	if len(args) == 0 && !p.egress.listed {
		return c
	}
	if c.Level == beliefs.L0 && len(c.Effects) == 0 {
		return c // a thought of a place reaches nowhere
	}
	r := reachOf(&c)
	a := readArguments(args, p.egress.content, c.Has(EffectExec) || c.unknown())
	add := func(code streams.Code, v streams.Verdict, text string) {
		if v == streams.Allow {
			return
		}
		c.Floor = c.Floor.Join(v)
		c.Reasons = append(c.Reasons[:len(c.Reasons):len(c.Reasons)], streams.Reason{Code: code, Verdict: v, Text: text})
	}
	found, worst, seen := 0, streams.Allow, false
	for _, d := range a.destinations {
		seen = seen || d.url || d.addr.IsValid() || strings.Contains(d.host, ".")
		if r == reachURLs && !d.url && !d.addr.IsValid() {
			continue
		}
		if r == reachURLs && !d.url {
			if v, why := p.egress.judge(d, reachMeta); v > streams.Allow {
				add(streams.CodeEgress, v, fmt.Sprintf("destination %s: %s", d, why))
			}
			continue
		}
		v, why := p.egress.judge(d, r)
		if v > streams.Allow {
			if found++; found > maxGuardReasons && v <= worst {
				continue
			}
			worst = worst.Join(v)
			add(streams.CodeEgress, v, fmt.Sprintf("destination %s: %s", d, why))
		}
	}
	if p.egress.listed && !seen && c.Has(EffectEgress) {
		add(streams.CodeEgress, p.egress.unlisted, "it lets data out, and where to cannot be seen in its arguments")
	}
	for i := range p.protected {
		x := &p.protected[i]
		if !x.applies(&c) {
			continue
		}
		if s, ok := x.matches(a.resources, c.Has(EffectDelete)); ok {
			reason := x.reason(s)
			add(reason.Code, reason.Verdict, reason.Text)
		}
	}
	if a.unread && (r == reachAll || len(p.protected) > 0) {
		add(streams.CodeEgress, streams.Hold, "its arguments name more than is looked at, or cannot be taken apart")
	}
	return c
}
