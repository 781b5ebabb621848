package policy

import (
	"fmt"
	"slices"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

// Otherwise is the name of the entry `otherwise`, which applies if no other entry matches.
const Otherwise = "otherwise"

// Class is the result of classifying an action.
type Class struct {
	Level beliefs.Level
	// Entry is the name of the entry that set the level. If there are several, it is the first in
	// alphabetical order. It is empty if no entry matched.
	Entry string
	// Effects is the union of the effects of all matching entries. Blast and Reversibility are the
	// worst values among them. Effects is shared and must not be modified.
	Effects       []string
	Blast         beliefs.BlastRadius
	Reversibility beliefs.Reversibility
	// Floor is the least strict verdict that the policy allows. Reasons explain why it is not
	// allow, strictest entry first.
	Floor   streams.Verdict
	Reasons []streams.Reason
	// Approvers are the roles that a person must have to release the action from a hold. All are
	// required. They come from the matching entries. Empty means Policy.Approver.
	Approvers []keys.Role

	groups uint64 // sentinel groups that the entries require, as bits
	// explicit is set if an entry names the tool or a person accepted the tool at a level. Then a
	// server's hints do not raise the level.
	explicit bool
	// insists is set if something other than the level requires a hold.
	insists bool
}

// Unmatched reports whether no entry matched, not even otherwise.
func (c Class) Unmatched() bool { return c.Entry == "" }

// Has reports whether the action has an effect.
func (c Class) Has(effect string) bool { return slices.Contains(c.Effects, effect) }

// Raise raises the level, and the floor with it, to at least l, for example because the agent
// declared a higher level. It does nothing if the level is at least l already.
func (c Class) Raise(l beliefs.Level) Class { return c.raise(l, "declared by the agent") }

func (c Class) raise(l beliefs.Level, why string) Class {
	if l <= c.Level {
		return c
	}
	c.Level = l
	if floor := Floor(l); floor > streams.Allow {
		c.Floor = c.Floor.Join(floor)
		c.Reasons = append(slices.Clip(c.Reasons), streams.Reason{Code: streams.CodeFloor, Verdict: floor,
			Text: fmt.Sprintf("%s, %s: %s", l, meaning(l), why)})
	}
	return c
}

// Call is an action to classify.
type Call struct {
	Tool string
	Args []byte // JSON, or empty; decoded only if an entry has a condition

	Project, Agent string
	// Of is the catalogue that the host took the tool from. An entry whose field `of` names another
	// catalogue does not match.
	Of string
	// Accepted is the level that a person signed for the tool when they accepted its catalogue, or
	// nil.
	Accepted *beliefs.Level
}

// Classify returns the class of a call to a tool from an unknown catalogue.
func (p *Policy) Classify(tool string, args []byte, project, agent string) Class {
	return p.Class(Call{Tool: tool, Args: args, Project: project, Agent: agent})
}

// AcceptedEntry is the value of Class.Entry for a level that a person signed.
const AcceptedEntry = "accepted"

// Class returns the class of a call. It joins the entries that name the tool with the level at which a person accepted
// the tool. Entries that match words of the name count only if neither a person nor an entry for the tool's own
// catalogue set the level. The entry named `otherwise` counts only if nothing else set the level. The values of the
// arguments can raise a level that no person set. If an entry for the tool's own catalogue set the level, only the name
// of a file with secrets raises it.
func (p *Policy) Class(k Call) Class {
	if len(k.Tool) > MaxTool {
		return unmatched(fmt.Sprintf("the tool's name has %d bytes, but the policy reads at most %d", len(k.Tool), MaxTool))
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
	named, fixed := 0, 0 // entries that name the tool, and the fixed ones among them
	settled := k.Accepted != nil || p.settles(hits, k.Of, name.plain, &c)
	for i := range p.entries {
		e := &p.entries[i]
		if e.of != "" && e.of != k.Of || !e.matches(hits[i], name.plain) {
			continue
		}
		byName := hits[i]&seenTool != 0
		if settled && !byName && !e.anyTool {
			// An entry that matches words of the name does not change the accepted level. It still says which effects
			// the tool has.
			if k.Accepted != nil && e.when == nil {
				effects |= e.effects
				class.worse(e)
			}
			continue
		}
		if met, err := e.met(&c); met {
			class.explicit = class.explicit || byName
			if byName {
				named++
			}
			if e.fixed {
				fixed++
			}
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
	switch {
	case k.Accepted != nil, fixed > 0 && fixed == named, k.Tool == streams.ApproveTools, k.Tool == streams.RegisterPrompt:
		// The arguments of these two tools are lists of tools and texts of prompts. A person reads them in the hold.
		return class
	}
	return p.raiseByArguments(class, &c, settled)
}

// settles reports whether an entry for the tool's own catalogue (the parameter of) names the tool. Then this entry
// decides the level, and entries that match words of the name do not.
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

// met reports whether an entry's condition is met. A condition that fails counts as met.
func (e *entry) met(c *call) (bool, error) {
	if e.when == nil {
		return true, nil
	}
	met, err := c.holds(e.when)
	return met || err != nil, err
}

// accept sets the level that a person signed.
func (c *Class) accept(l beliefs.Level) {
	c.Level, c.Entry, c.Floor, c.explicit = l, AcceptedEntry, Floor(l), true
	if c.Floor > streams.Allow {
		c.Reasons = append(c.Reasons, streams.Reason{Code: streams.CodeFloor, Verdict: c.Floor,
			Text: fmt.Sprintf("%s, %s: the level that a person accepted for this tool", l, meaning(l))})
	}
}

// join adds a matching entry. failed is the error of a condition that therefore counts as met, or
// nil.
func (c *Class) join(e *entry, failed error) {
	level, floor, reason := e.level, e.floor, e.reason
	if failed != nil {
		level = max(level, beliefs.L4)
		floor = floor.Join(Floor(level))
		reason = streams.Reason{
			Code: streams.CodeFloor, Verdict: floor,
			Text: fmt.Sprintf("policy entry %s counts as met at %s: its condition cannot be evaluated: %v", e.name, level,
				failed),
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

// worse takes the blast radius and reversibility of an entry if they are worse.
func (c *Class) worse(e *entry) {
	c.Blast, c.Reversibility = max(c.Blast, e.blast), max(c.Reversibility, e.reversibility)
}

func unmatched(text string) Class {
	return Class{Level: beliefs.L5, Floor: streams.Deny,
		Reasons: []streams.Reason{{Code: streams.CodeUnmatched, Verdict: streams.Deny, Text: text}}}
}
