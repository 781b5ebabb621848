package policy

import (
	"maps"
	"slices"
	"strings"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/shell"
	"lazaret/streams"
)

// The words of names of arguments whose values say what a call does. A name's last word counts, and for methods any
// word (X-HTTP-Method-Override).
var (
	commandWords = contentWords(strings.Fields("command commands cmd script shell bash commandline"))
	sqlWords     = contentWords(strings.Fields("sql statement statements query queries q cypher mutation graphql document"))
	methodWords  = contentWords(strings.Fields("method verb"))
	// settingWords name the setting that a neighbouring argument (valueWords) sets, as in {"key": "mfa", "value": false}.
	settingWords = contentWords(strings.Fields("name key setting field option property preference attribute"))
	valueWords   = contentWords(strings.Fields("value to enabled state on new"))
)

// httpMethods are the methods of requests that change something.
var httpMethods = contentWords(strings.Fields("post put patch delete connect mkcol move copy propfind proppatch"))

// said is what an argument says about the call.
type said struct {
	level         beliefs.Level
	effects       []string
	blast         beliefs.BlastRadius
	reversibility beliefs.Reversibility
	why           string
}

func (c Class) hear(s said) Class {
	for _, e := range s.effects {
		c = c.with(e)
	}
	c.Blast, c.Reversibility = max(c.Blast, s.blast), max(c.Reversibility, s.reversibility)
	return c.raise(s.level, s.why)
}

// raiseByArguments raises the class by the values of the arguments. They never lower it.
func (p *Policy) raiseByArguments(c Class, k *call) Class {
	if len(k.raw) == 0 {
		return c
	}
	vars, err := k.variables()
	if err != nil {
		return c.raise(beliefs.L4, "the arguments cannot be read: "+err.Error())
	}
	h := hearing{p: p, change: c.Level >= beliefs.L3,
		database: slices.ContainsFunc(nameWords(k.tool), func(w string) bool { return databases[w] })}
	h.walk(vars[varArgs], "", "", 0)
	for _, s := range h.said {
		c = c.hear(s)
	}
	return c
}

// hearing collects what the arguments of a call say.
type hearing struct {
	p        *Policy
	change   bool // the call changes something, so that its arguments are not only the filter of a search
	database bool // the tool's name says that it is one of a database
	values   int
	said     []said
}

func (h *hearing) walk(v any, parent, key string, depth int) {
	if h.values++; depth > maxArgDepth || h.values > maxArgValues {
		if len(h.said) == 0 || h.said[len(h.said)-1].why != tooMany {
			h.said = append(h.said, said{level: beliefs.L4, why: tooMany})
		}
		return
	}
	switch v := v.(type) {
	case map[string]any:
		names := slices.Sorted(maps.Keys(v))
		for _, k := range names {
			h.walk(v[k], key, k, depth+1)
		}
		if h.change {
			h.pairs(v, names)
		}
		return
	case []any:
		if commandWords[lastWord(key)] && len(v) > 0 {
			h.add(h.p.command(key, ""))
		}
		for _, x := range v {
			h.walk(x, parent, key, depth+1)
		}
	case string:
		h.text(key, v)
	}
	if h.change {
		if why := weakens(nameWords(parent), nameWords(key), v); why != "" {
			h.add(grants(key, why))
		}
	}
}

const tooMany = "there are more arguments than the policy reads"

// pairs reads settings that are named in one argument and set in another.
func (h *hearing) pairs(v map[string]any, names []string) {
	for _, n := range names {
		setting, ok := v[n].(string)
		if !ok || !settingWords[lastWord(n)] || len(setting) > MaxTool || len(strings.Fields(setting)) > 4 {
			continue
		}
		for _, m := range names {
			if m == n || !valueWords[lastWord(m)] {
				continue
			}
			if why := weakens(nil, nameWords(setting), v[m]); why != "" {
				h.add(grants(setting, why))
			}
		}
	}
}

func (h *hearing) add(s said) {
	if s.level > 0 {
		h.said = append(h.said, s)
	}
}

func (h *hearing) text(key, v string) {
	last := lastWord(key)
	switch {
	case commandWords[last]:
		h.add(h.p.command(key, v))
	case sqlWords[last]:
		h.add(statement(key, v, last == "sql", h.database))
	case httpMethods[strings.ToLower(strings.TrimSpace(v))] && slices.ContainsFunc(nameWords(key),
		func(w string) bool { return methodWords[w] }):
		s := said{beliefs.L4, []string{EffectWrite, EffectEgress}, beliefs.BlastExternal, beliefs.Irreversible,
			"the argument " + clip(key) + " is a method that changes something"}
		if strings.EqualFold(strings.TrimSpace(v), "delete") {
			s.effects = append(s.effects, EffectDelete)
		}
		h.add(s)
	}
}

// command judges an argument that is named like a command line. A single word is judged as the name of a tool is,
// because it may be the name of a function ({"command": "view"}).
func (p *Policy) command(key, line string) said {
	why := "the argument " + clip(key) + " is a command line"
	exec := said{beliefs.L4, []string{EffectExec}, beliefs.BlastExternal, beliefs.Irreversible, why}
	if word := strings.TrimSpace(line); word != "" && len(word) <= MaxTool && strings.Trim(word,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_") == "" {
		if c := p.Class(Call{Tool: word}); c.Entry != "" && c.Level < beliefs.L4 {
			return said{c.Level, c.Effects, c.Blast, c.Reversibility, why}
		}
	}
	switch shell.Kind(line) {
	case shell.Look:
		return said{}
	case shell.Build:
		return said{beliefs.L3, []string{EffectWrite}, beliefs.BlastProject, beliefs.Compensable, why}
	}
	return exec
}

func grants(key, why string) said {
	return said{beliefs.L4, []string{EffectSecret, EffectWrite}, beliefs.BlastExternal, beliefs.Compensable,
		"the argument " + clip(key) + " " + why}
}

func clip(s string) string { return streams.Clip(s, 80) }

// nameWords returns the words of an argument's name.
func nameWords(key string) []string {
	if len(key) > MaxTool {
		key = key[:MaxTool]
	}
	n := parseName(key, nil, nil)
	words := make([]string, len(n.words))
	for i, w := range n.words {
		words[i] = string(n.text(w))
	}
	return words
}
