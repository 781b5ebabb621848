package policy

import (
	"fmt"
	"slices"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

// Otherwise is the name of the entry that applies when no other does.
const Otherwise = "otherwise"

// Class is what a policy makes of an action.
type Class struct {
	Level beliefs.Level
	// Entry is the entry that gave the level, by name; of several the first in
	// the alphabet. Empty when nothing matched.
	Entry string
	// Effects, Blast and Reversibility are the union and the worst of all
	// entries that matched. Effects is shared: it must not be changed.
	Effects       []string
	Blast         beliefs.BlastRadius
	Reversibility beliefs.Reversibility
	// Floor is the least verdict. Reasons say why it is not allow, strictest
	// entry first.
	Floor   streams.Verdict
	Reasons []streams.Reason
	// Approvers are the roles that whoever releases it from a hold must have,
	// all of them: those that the entries which matched ask for. Empty means
	// Policy.Approver.
	Approvers []keys.Role

	groups uint64 // whose assessment the entries ask for
}

// Unmatched reports whether no entry matched, not even otherwise.
func (c Class) Unmatched() bool { return c.Entry == "" }

// Has reports whether the action has an effect.
func (c Class) Has(effect string) bool { return slices.Contains(c.Effects, effect) }

// Raise lifts the level to at least l, as when the agent declares its action
// more serious than the policy does, and the floor with it. A level that is not
// higher changes nothing.
func (c Class) Raise(l beliefs.Level) Class { return c.raise(l, "declared by the agent") }

func (c Class) raise(l beliefs.Level, why string) Class {
	if l <= c.Level {
		return c
	}
	c.Level = l
	if floor := Floor(l); floor > streams.Allow {
		c.Floor = c.Floor.Join(floor)
		c.Reasons = append(slices.Clip(c.Reasons), streams.Reason{
			Code: streams.CodeFloor, Verdict: floor,
			Text: fmt.Sprintf("%s, %s: %s", l, meaning(l), why),
		})
	}
	return c
}

// Classify finds the level of a call. args is the call's arguments in JSON,
// empty for none; it is only read when an entry with a condition is reached.
func (p *Policy) Classify(tool string, args []byte, project, agent string) Class {
	if len(tool) > MaxTool {
		return unmatched(fmt.Sprintf("the tool's name has %d bytes, at most %d are looked at", len(tool), MaxTool))
	}
	var (
		norm  [96]byte
		words [16]word
	)
	name := parseName(tool, norm[:], words[:])

	var (
		few  [64]seen
		hits []seen
	)
	if n := len(p.entries); n <= len(few) {
		hits = few[:n]
	} else {
		hits = make([]seen, n)
	}
	p.index.mark(&name, hits)

	var (
		class   Class
		effects effectSet
		c       = call{tool: tool, project: project, agent: agent, raw: args}
	)
	for i := range p.entries {
		e := &p.entries[i]
		if !e.matches(hits[i], name.plain) {
			continue
		}
		level, floor := e.level, e.floor
		reason := e.reason
		if e.when != nil {
			met, err := c.holds(e.when)
			if err == nil && !met {
				continue
			}
			if err != nil {
				level = max(level, beliefs.L4)
				floor = floor.Join(Floor(level))
				reason = streams.Reason{
					Code: streams.CodeFloor, Verdict: floor,
					Text: fmt.Sprintf("policy entry %s counts as met at %s: its condition failed: %v", e.name, level, err),
				}
			}
		}
		if class.Entry == "" || level > class.Level || level == class.Level && e.name < class.Entry {
			class.Level, class.Entry = level, e.name
		}
		effects |= e.effects
		class.require(e.approver)
		class.groups |= e.groups
		class.Blast = max(class.Blast, e.blast)
		class.Reversibility = max(class.Reversibility, e.reversibility)
		class.Floor = class.Floor.Join(floor)
		if floor > streams.Allow {
			class.Reasons = append(class.Reasons, reason)
		}
	}
	if class.Entry == "" {
		e := p.otherwise
		if e == nil {
			return unmatched("the policy has no entry for this tool")
		}
		class = Class{Level: e.level, Entry: Otherwise, Blast: e.blast, Reversibility: e.reversibility, Floor: e.floor, Reasons: []streams.Reason{e.reason}}
		effects = e.effects
		class.require(e.approver)
	}
	class.Effects = effects.names()
	return class
}

func unmatched(text string) Class {
	return Class{
		Level: beliefs.L5, Floor: streams.Deny,
		Reasons: []streams.Reason{{Code: streams.CodeUnmatched, Verdict: streams.Deny, Text: text}},
	}
}
