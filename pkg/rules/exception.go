package rules

import (
	"maps"
	"slices"
	"time"

	"cel.dev/cel-go/cel"

	"lazaret/pkg/internal/strictyaml"
	"lazaret/streams"
)

// exception is a compiled exception.
type exception struct {
	id, owner, reason string
	rules             []string
	when              *expr
	expires           time.Time
}

// exceptions compiles exceptions.yaml.
func (c *compiler) exceptions(sc *scope) {
	if _, ok := c.src.files[exceptionsFile]; !ok {
		return
	}
	var ed exceptionsDoc
	d := c.decode(exceptionsFile, &ed)
	seen := make(map[string]bool)
	for i, e := range ed.Exceptions {
		n := len(c.bad)
		at := func(path []any, format string, args ...any) {
			c.bad.note(exceptionsFile, d.Errorf(append([]any{"exceptions", i}, path...), format, args...))
		}
		if !streams.ValidID(e.ID) {
			at([]any{"id"}, "%v", streams.CheckID("exception id", e.ID))
		}
		if seen[e.ID] {
			at([]any{"id"}, "there are two exceptions %q", e.ID)
		}
		seen[e.ID] = true
		if e.Owner == "" || e.Reason == "" {
			at([]any{"id"}, "exception %q needs owner and reason: who may be asked, and why", e.ID)
		}
		x := &exception{id: e.ID, owner: e.Owner, reason: e.Reason, rules: e.Rules}
		var err error
		if x.expires, err = time.Parse(time.RFC3339, e.Expires); err != nil {
			if x.expires, err = time.Parse(time.DateOnly, e.Expires); err != nil {
				at([]any{"expires"}, "exception %q needs expires: a date such as 2027-01-31", e.ID)
			}
		}
		if len(e.Rules) == 0 {
			at([]any{"rules"}, "exception %q needs rules: those that it is for", e.ID)
		}
		for j, id := range e.Rules {
			if r := c.set.Rule(id); r != nil {
				r.exceptions = append(r.exceptions, x)
			} else if !c.written[id] {
				at([]any{"rules", j}, "there is no rule %q%s", id, suggest(id, slices.Sorted(maps.Keys(c.seen))))
			}
		}
		if e.When == "" {
			at([]any{"when"}, "exception %q needs when: the condition under which it holds", e.ID)
		} else if x.when, err = sc.compile(e.When, cel.BoolType); err != nil {
			at([]any{"when"}, "%w", err)
		}
		if len(c.bad) == n {
			c.set.excepted = append(c.set.excepted, x)
			c.set.places[x.id] = func(format string, args ...any) *strictyaml.Error {
				return d.Errorf([]any{"exceptions", i, "expires"}, format, args...)
			}
		}
	}
}
