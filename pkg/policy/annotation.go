package policy

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"lazaret/pkg/beliefs"
)

// annotations are the hints that a Model Context Protocol tool gives about itself. The tool itself
// states them, so only hints that say that the tool may do harm are used.
type annotations struct {
	ReadOnly    *bool `json:"readOnlyHint"`
	Destructive *bool `json:"destructiveHint"`
	OpenWorld   *bool `json:"openWorldHint"`
}

// RaiseByAnnotations raises the class by a tool's own annotations. raw is the annotations object of
// the tool's catalogue entry, or empty.
//
//	destructiveHint: true   at least L4, with the effect delete
//	readOnlyHint: false     at least L3, with the effect write
//	openWorldHint: true     at least L2, with the effect egress; L4 if it also
//	                        changes something (without this hint, its level is L3 or more)
//
// The opposite hints change nothing here; lazaret mcp review uses them to propose levels.
// Annotations that cannot be read count as destructive. Annotations do not raise the level if a
// signed entry names the tool or a person accepted the tool at a level.
func (c Class) RaiseByAnnotations(raw []byte) Class {
	if len(raw) == 0 || c.explicit {
		return c
	}
	var a annotations
	if err := json.Unmarshal(raw, &a); err != nil {
		return c.with(EffectDelete).raise(beliefs.L4, "the tool's annotations cannot be read")
	}
	said := func(hint *bool, value bool) bool { return hint != nil && *hint == value }
	if said(a.ReadOnly, false) {
		c = c.with(EffectWrite).raise(beliefs.L3, because("readOnlyHint", false))
	}
	if said(a.Destructive, true) {
		c = c.with(EffectDelete).raise(beliefs.L4, because("destructiveHint", true))
	}
	if said(a.OpenWorld, true) {
		least := beliefs.L2
		if c.Level >= beliefs.L3 {
			least = beliefs.L4
		}
		c = c.with(EffectEgress).raise(least, because("openWorldHint", true))
	}
	return c
}

// Hints are the annotations of a tool that can raise its level.
type Hints uint8

// The hints.
const (
	HintWrites      Hints = 1 << iota // readOnlyHint: false
	HintDestructive                   // destructiveHint: true, or annotations that cannot be read
	HintOpenWorld                     // openWorldHint: true
)

// ReadHints reads the hints in the annotations object of a catalogue entry.
func ReadHints(raw []byte) (h Hints) {
	if len(raw) == 0 {
		return 0
	}
	var a annotations
	if json.Unmarshal(raw, &a) != nil {
		return HintDestructive
	}
	if a.ReadOnly != nil && !*a.ReadOnly {
		h |= HintWrites
	}
	if a.Destructive != nil && *a.Destructive {
		h |= HintDestructive
	}
	if a.OpenWorld != nil && *a.OpenWorld {
		h |= HintOpenWorld
	}
	return h
}

// Annotations returns an annotations object with exactly these hints. It returns nil if there are
// none.
func (h Hints) Annotations() []byte {
	var parts []string
	for i, s := range []string{`"readOnlyHint":false`, `"destructiveHint":true`, `"openWorldHint":true`} {
		if h>>i&1 == 1 {
			parts = append(parts, s)
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return []byte("{" + strings.Join(parts, ",") + "}")
}

// ToolNames returns the normalized names under which a catalogue may list a tool: the name itself,
// and the name without the namespaces that hosts put in front. mcp__github__create_issue calls
// create_issue.
func ToolNames(tool string) []string {
	if len(tool) > MaxTool {
		tool = tool[:MaxTool]
	}
	n := parseName(tool, nil, nil)
	var names []string
	for i, w := range n.words {
		if i == 0 || w.head {
			names = append(names, string(n.norm[w.from:]))
		}
	}
	return names
}

func because(hint string, value bool) string {
	return fmt.Sprintf("the tool's annotations say %s: %t", hint, value)
}

// with returns the class with one more effect.
func (c Class) with(effect string) Class {
	var set effectSet
	for i, name := range Effects {
		if name == effect || c.Has(name) {
			set |= 1 << i
		}
	}
	c.Effects = set.names()
	return c
}
