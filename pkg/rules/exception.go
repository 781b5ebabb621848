package rules

import (
	"maps"
	"slices"
	"time"

	"cel.dev/cel-go/cel"

	"lazaret/pkg/internal/strictyaml"
	"lazaret/pkg/rules/compiled"
	"lazaret/streams"
)

// Exception is a compiled exception.
type Exception struct {
	Id, Owner, reason string
	Rules             []string
	When              *compiled.Expr
	Expires           time.Time
}

// exceptions compiles exceptions.yaml.
func (c *Draft) exceptions(sc *compiled.Scope) {
	if _, ok := c.Source.Files[ExceptionsFile]; !ok {
		return
	}
	var ed ExceptionsDoc
	d := c.Decode(ExceptionsFile, &ed)
	seen := make(map[string]bool)
	for i, e := range ed.Exceptions {
		n := len(c.Problems)
		at := func(path []any, format string, args ...any) {
			c.Problems.note(ExceptionsFile, d.Errorf(append([]any{"exceptions", i}, path...), format, args...))
		}
		if !streams.ValidID(e.ID) {
			at([]any{"id"}, "%v", streams.CheckID("exception id", e.ID))
		}
		if seen[e.ID] {
			at([]any{"id"}, "there are two exceptions %q", e.ID)
		}
		seen[e.ID] = true
		if e.Owner == "" || e.Reason == "" {
			at([]any{"id"}, "exception %q needs an owner to ask, and a reason", e.ID)
		}
		x := &Exception{Id: e.ID, Owner: e.Owner, reason: e.Reason, Rules: e.Rules}
		var err error
		if x.Expires, err = time.Parse(time.RFC3339, e.Expires); err != nil {
			if x.Expires, err = time.Parse(time.DateOnly, e.Expires); err != nil {
				at([]any{"expires"}, "exception %q needs `expires`: a date such as 2027-01-31", e.ID)
			}
		}
		if len(e.Rules) == 0 {
			at([]any{"rules"}, "exception %q needs `rules`: the rules that it is for", e.ID)
		}
		for j, id := range e.Rules {
			if r := c.Set.Rule(id); r != nil {
				r.exceptions = append(r.exceptions, x)
			} else if !c.written[id] {
				at([]any{"rules", j}, "there is no rule %q%s", id, Suggest(id, slices.Sorted(maps.Keys(c.FileOf))))
			}
		}
		if e.When == "" {
			at([]any{"when"}, "exception %q needs `when`: the condition under which it applies", e.ID)
		} else if x.When, err = sc.Compile(e.When, cel.BoolType); err != nil {
			at([]any{"when"}, "%w", err)
		}
		if len(c.Problems) == n {
			c.Set.Exceptions = append(c.Set.Exceptions, x)
			c.Set.places[x.Id] = func(format string, args ...any) *strictyaml.Error {
				return d.Errorf([]any{"exceptions", i, "expires"}, format, args...)
			}
		}
	}
}
