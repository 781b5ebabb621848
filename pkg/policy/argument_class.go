package policy

import (
	"maps"
	"slices"
	"strings"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/shell"
	"lazaret/streams"
)

// The words in names of arguments whose values say what a call does. The last word of a name counts. In the case of
// methodWords, every word counts (X-HTTP-Method-Override).
var (
	commandWords = contentWords(strings.Fields("command commands cmd script shell bash commandline"))
	sqlWords     = contentWords(strings.Fields(`sql statement statements query queries q cypher mutation graphql
		document`))
	methodWords = contentWords(strings.Fields("method verb"))
	// settingWords are last words of arguments that name a setting. Another argument (valueWords) sets it, as in
	// {"key": "mfa", "value": false}.
	settingWords = contentWords(strings.Fields("name key setting field option property preference attribute path"))
	valueWords   = contentWords(strings.Fields("value to enabled state status on new"))
)

// addressWords are last words of names of arguments that have the address of a request.
var addressWords = contentWords(strings.Fields("url urls uri endpoint path route href host"))

// httpMethods are the methods of requests that change something.
var httpMethods = contentWords(strings.Fields("post put patch delete connect mkcol move copy propfind proppatch"))

// demand is what the value of one argument demands of the class of a call: at least this level, and these effects.
type demand struct {
	level         beliefs.Level
	effects       []string
	blast         beliefs.BlastRadius
	reversibility beliefs.Reversibility
	why           string
}

// atLeast raises a class so that it meets a demand.
func (c Class) atLeast(d demand) Class {
	for _, e := range d.effects {
		c = c.with(e)
	}
	c.Blast, c.Reversibility = max(c.Blast, d.blast), max(c.Reversibility, d.reversibility)
	return c.raise(d.level, d.why)
}

// raiseByArguments raises the class by the values of the arguments. They never lower it. If settled is set, an entry
// for the tool's own catalogue set the level. Then only the name of a file with secrets that the tool reads counts.
func (p *Policy) raiseByArguments(c Class, k *call, settled bool) Class {
	change := c.Level >= beliefs.L3
	if len(k.raw) == 0 || settled && change {
		return c
	}
	vars, err := k.variables()
	if err != nil {
		return c.raise(beliefs.L4, "the arguments cannot be read: "+err.Error())
	}
	r := argumentReader{p: p, change: change, all: !settled}
	words := nameWords(k.tool)
	is := func(set map[string]bool) bool {
		return slices.ContainsFunc(words, func(w string) bool { return set[w] })
	}
	r.searches = is(searching)
	r.database = !r.searches && (is(engines) || is(stores))
	r.walk(vars[varArgs], "", "", 0)
	if r.address {
		r.found = append(r.found, r.methods...)
	}
	for _, d := range r.found {
		c = c.atLeast(d)
	}
	return c
}

// argumentReader collects the demands of the arguments of a call.
type argumentReader struct {
	p        *Policy
	change   bool     // the call changes something, so that its arguments are not only the filter of a search
	database bool     // the tool's name says that it is one of a database, and does not say that it searches
	searches bool     // the tool's name says that it searches
	address  bool     // an argument has an address, to which a method may apply
	methods  []demand // of methods that count only if there is an address
	all      bool     // read all arguments, and not only the names of files with secrets
	values   int      // number of values read
	paired   int      // number of pairs of arguments read, see pairs
	found    []demand
}

// walk reads a value and all values inside it. parent and key are the names of the two innermost members around it.
func (r *argumentReader) walk(v any, parent, key string, depth int) {
	if r.values++; depth > maxArgDepth || r.values > maxArgValues {
		r.tooMany()
		return
	}
	switch v := v.(type) {
	case map[string]any:
		names := slices.Sorted(maps.Keys(v))
		for _, k := range names {
			if r.all && commandWords[lastWord(k)] {
				// The line may go on in another argument, such as args.
				if line, ok := shell.Line(v, k); ok && line != v[k] {
					r.add(r.p.command(k, line))
					continue
				} else if _, single := v[k].(string); single && !ok {
					r.add(r.p.command(k, "?"))
				}
			}
			r.walk(v[k], key, k, depth+1)
		}
		if r.change {
			r.pairs(v, names)
		}
		return
	case []any:
		if r.all && commandWords[lastWord(key)] && len(v) > 0 {
			r.add(r.p.command(key, ""))
		}
		for _, x := range v {
			r.walk(x, parent, key, depth+1)
		}
	case string:
		if r.all {
			r.address = r.address || addressWords[lastWord(key)] || strings.Contains(v, "://")
			r.text(key, v)
		}
		if !r.change && namesFile(key, v) && shell.SecretFile(v) {
			r.add(demand{beliefs.L4, []string{EffectRead, EffectSecret}, beliefs.BlastProject, beliefs.Reversible,
				"the argument " + clip(key) + " names a file with secrets"})
		}
	}
	if r.change {
		if why := weakens(nameWords(parent), nameWords(key), v); why != "" {
			r.add(grants(key, why))
		}
	}
}

const tooMany = "there are more arguments than the policy reads"

// fileWords are the last words of names of arguments whose values name files. searchWords are those of arguments
// whose values do not. The value of any other argument names a file if it begins like a path.
var (
	fileWords = contentWords(strings.Fields(`file files filename path paths filepath document documents uri source src
		target destination dest folder dir directory attachment attachments`))
	searchWords = contentWords(strings.Fields(`pattern patterns query queries q regex search glob include exclude text
		content body message prompt question title subject string`))
)

// namesFile reports whether a value of an argument names a file.
func namesFile(key, v string) bool {
	last := lastWord(key)
	return fileWords[last] ||
		!searchWords[last] && v != "" && strings.ContainsAny(v[:1], "/~.") && !strings.Contains(v, " ")
}

// maxPairs limits the pairs of arguments that are read as the name and the value of a setting.
const maxPairs = 2 * maxArgValues

// pairs reads settings that are named in one argument and set in another, until one weakens security.
func (r *argumentReader) pairs(v map[string]any, names []string) {
	var values []string
	for _, n := range names {
		if valueWords[lastWord(n)] {
			values = append(values, n)
		}
	}
	for _, n := range names {
		setting, ok := v[n].(string)
		if !ok || len(values) == 0 || !settingWords[lastWord(n)] || len(setting) > MaxTool ||
			len(strings.Fields(setting)) > 4 {
			continue
		}
		words := nameWords(setting)
		for _, m := range values {
			if r.paired++; r.paired > maxPairs {
				r.tooMany()
				return
			}
			if m == n {
				continue
			}
			if why := weakens(nil, words, v[m]); why != "" {
				r.add(grants(setting, why))
				return
			}
		}
	}
}

// tooMany demands a hold because arguments stay unread.
func (r *argumentReader) tooMany() {
	if len(r.found) == 0 || r.found[len(r.found)-1].why != tooMany {
		r.add(demand{level: beliefs.L4, why: tooMany})
	}
}

func (r *argumentReader) add(d demand) {
	if d.level > 0 {
		r.found = append(r.found, d)
	}
}

// text reads a string, by the name of its argument.
func (r *argumentReader) text(key, v string) {
	last := lastWord(key)
	switch {
	case commandWords[last]:
		r.add(r.p.command(key, v))
	case sqlWords[last]:
		r.add(statement(key, v, last == "sql", r.database, r.searches))
	case httpMethods[strings.ToLower(strings.TrimSpace(v))] && slices.ContainsFunc(nameWords(key),
		func(w string) bool { return methodWords[w] }):
		s := demand{beliefs.L4, []string{EffectWrite, EffectEgress}, beliefs.BlastExternal, beliefs.Irreversible,
			"the argument " + clip(key) + " is a method that changes something"}
		if strings.EqualFold(strings.TrimSpace(v), "delete") {
			s.effects = append(s.effects, EffectDelete)
		}
		if words := nameWords(key); slices.Contains(words, "http") || slices.Contains(words, "override") ||
			len(words) == 1 && v == strings.ToUpper(v) {
			r.add(s)
		} else {
			r.methods = append(r.methods, s) // it may be a payment method or a verb of a language
		}
	}
}

// command judges the value of an argument whose name says that it is a command line. A single word may be the name
// of a function ({"command": "view"}). Then it is judged like the name of a tool.
func (p *Policy) command(key, line string) demand {
	why := "the argument " + clip(key) + " is a command line"
	exec := demand{beliefs.L4, []string{EffectExec}, beliefs.BlastExternal, beliefs.Irreversible, why}
	if word := strings.TrimSpace(line); word != "" && len(word) <= MaxTool && strings.Trim(word,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_") == "" {
		if c := p.Class(Call{Tool: word}); c.Entry != "" && c.Level < beliefs.L4 {
			return demand{c.Level, c.Effects, c.Blast, c.Reversibility, why}
		}
	}
	switch shell.Kind(line) {
	case shell.Look:
		return demand{}
	case shell.Build:
		return demand{beliefs.L3, []string{EffectWrite}, beliefs.BlastProject, beliefs.Compensable, why}
	}
	return exec
}

// grants returns the demand of a setting that weakens security. why says how.
func grants(key, why string) demand {
	return demand{beliefs.L4, []string{EffectSecret, EffectWrite}, beliefs.BlastExternal, beliefs.Compensable,
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
