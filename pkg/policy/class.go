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
	// explicit is set where an entry names the tool, or a person accepted it at a
	// level. Then no hint of a server raises it.
	explicit bool
	// insists is set where more than the level asks for a hold.
	insists bool
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

// Call is an action as a policy classifies it.
type Call struct {
	Tool string
	Args []byte // in JSON, empty for none; read when an entry with a condition is reached

	Project, Agent string
	// Of names the catalogue that the host took the tool from. Entries with another
	// of are not for the call.
	Of string
	// Accepted is the level that a person signed for the tool when they accepted its
	// catalogue; nil where nobody did.
	Accepted *beliefs.Level
}

// Classify finds the level of a call of a tool that no catalogue is known of.
func (p *Policy) Classify(tool string, args []byte, project, agent string) Class {
	return p.Class(Call{Tool: tool, Args: args, Project: project, Agent: agent})
}

// AcceptedEntry is what Class.Entry says of a level that a person signed for.
const AcceptedEntry = "accepted"

// Class finds the level of a call. Entries that name the tool are joined, and so
// is the level that a person accepted it at. The words of its name and otherwise
// decide only where neither a person nor an entry of the tool's own catalogue did.
func (p *Policy) Class(k Call) Class {
	if len(k.Tool) > MaxTool {
		return unmatched(fmt.Sprintf("the tool's name has %d bytes, at most %d are looked at", len(k.Tool), MaxTool))
	}
	var (
		norm  [96]byte
		words [16]word
	)
	name := parseName(k.Tool, norm[:], words[:])

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

	class, effects := Class{}, effectSet(0)
	c := call{tool: k.Tool, project: k.Project, agent: k.Agent, raw: k.Args}
	if k.Accepted != nil {
		class.accept(*k.Accepted)
	}
	settled := k.Accepted != nil || p.settles(hits, k.Of, name.plain, &c)
	for i := range p.entries {
		e := &p.entries[i]
		if e.of != "" && e.of != k.Of || !e.matches(hits[i], name.plain) {
			continue
		}
		byName := hits[i]&seenTool != 0
		if settled && !byName && !e.anyTool {
			if k.Accepted != nil && e.when == nil { // they say what it does, not how serious that is
				effects |= e.effects
				class.worse(e)
			}
			continue
		}
		if met, err := e.met(&c); met {
			class.explicit = class.explicit || byName
			class.join(e, err)
			effects |= e.effects
		}
	}
	if class.Entry == "" {
		e := p.otherwise
		if e == nil {
			return unmatched("the policy has no entry for this tool")
		}
		class.join(e, nil)
		effects = e.effects
	}
	class.Effects = effects.names()
	return class
}

// settles reports whether an entry for tools of that catalogue names the tool.
func (p *Policy) settles(hits []seen, of string, plain bool, c *call) bool {
	if of == "" {
		return false
	}
	for i := range p.entries {
		e := &p.entries[i]
		if e.of != of || hits[i]&seenTool == 0 || !plain {
			continue
		}
		if met, _ := e.met(c); met {
			return true
		}
	}
	return false
}

// met reports whether an entry's condition holds. One that fails counts as met.
func (e *entry) met(c *call) (bool, error) {
	if e.when == nil {
		return true, nil
	}
	met, err := c.holds(e.when)
	return met || err != nil, err
}

// accept sets the level that a person signed for.
func (c *Class) accept(l beliefs.Level) {
	c.Level, c.Entry, c.Floor, c.explicit = l, AcceptedEntry, Floor(l), true
	if c.Floor > streams.Allow {
		c.Reasons = append(c.Reasons, streams.Reason{Code: streams.CodeFloor, Verdict: c.Floor,
			Text: fmt.Sprintf("%s, %s: so it was accepted", l, meaning(l))})
	}
}

// join adds an entry that applies. failed is why its condition counts as met.
func (c *Class) join(e *entry, failed error) {
	level, floor, reason := e.level, e.floor, e.reason
	if failed != nil {
		level = max(level, beliefs.L4)
		floor = floor.Join(Floor(level))
		reason = streams.Reason{
			Code: streams.CodeFloor, Verdict: floor,
			Text: fmt.Sprintf("policy entry %s counts as met at %s: its condition failed: %v", e.name, level, failed),
		}
	}
	if c.Entry == "" || level > c.Level || level == c.Level && e.name < c.Entry {
		c.Level, c.Entry = level, e.name
	}
	c.require(e.approver)
	c.groups |= e.groups
	c.insists = c.insists || e.insists || failed != nil
	c.worse(e)
	c.Floor = c.Floor.Join(floor)
	if floor > streams.Allow {
		c.Reasons = append(c.Reasons, reason)
	}
}

// worse takes over what an entry says of reach and of undoing.
func (c *Class) worse(e *entry) {
	c.Blast, c.Reversibility = max(c.Blast, e.blast), max(c.Reversibility, e.reversibility)
}

func unmatched(text string) Class {
	return Class{
		Level: beliefs.L5, Floor: streams.Deny,
		Reasons: []streams.Reason{{Code: streams.CodeUnmatched, Verdict: streams.Deny, Text: text}},
	}
}
