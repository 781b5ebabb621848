package policy

import (
	"fmt"
	"strings"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// maxGuardReasons is the number of destinations after which a verdict names only those that make it
// stricter.
const maxGuardReasons = 8

// Guard joins the policy's verdict on the call's arguments to a class: its destinations and
// resources. It only tightens: the level stays, the floor may rise. args is as in Classify.
//
// The action's effects determine which arguments are checked. For actions that send data out (egress, publish, exec, or
// unknown effects) every address and name counts. For actions that only read, URLs and arguments for hosts count.
// Everywhere else, only metadata services and destinations that the policy denies count. Arguments that the policy
// names as content are skipped, unless the action executes code or its effects are unknown. For a command line, this
// machine is no destination: the level says whether the line may run. Nor is the name of a task, as in "cargo metadata",
// although some clouds call their metadata service like that.
func (p *Policy) Guard(c Class, args []byte) Class {
	if len(args) == 0 && !p.egress.listed {
		return c
	}
	if c.Level == beliefs.L0 && len(c.Effects) == 0 {
		return c // an action that only observes reaches nothing
	}
	r := reachOf(&c)
	a := readArguments(args, p.egress.content, c.Has(EffectExec) || c.effectsUnknown())
	add := func(code streams.Code, v streams.Verdict, text string) {
		if v == streams.Allow {
			return
		}
		c.Floor = c.Floor.Join(v)
		c.Reasons = append(c.Reasons[:len(c.Reasons):len(c.Reasons)], streams.Reason{Code: code, Verdict: v, Text: text})
	}
	found, worst, seen := 0, streams.Allow, false
	for _, d := range a.destinations {
		if a.line && d.loopback(a.text) && !p.egress.denies(d) {
			continue
		}
		if a.line && d.task(a.command) && !p.egress.denies(d) {
			continue
		}
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
		add(streams.CodeEgress, p.egress.unlisted, "it sends data out, but its arguments do not show where to")
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
		add(streams.CodeEgress, streams.Hold,
			"its arguments are not JSON, or larger or more complex than the policy can check")
	}
	return c
}
