package shell

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// named splits a text into the words that may be names of files.
func named(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n'\"`;|&<>()=,:{}", r) })
}

// names returns the memory files that a text names. If sed is set, the text is a script of sed. In such a script, a
// name may directly follow the letter w or W.
func (s *sinks) names(text string, sed bool) (out []string) {
	try := func(w string) bool {
		at := s.memory(w)
		if w == "" || at == "" {
			return false
		}
		out = append(out, at)
		return true
	}
	for _, w := range named(text) {
		if w[0] != '-' && try(w) {
			continue
		}
		letters := min(64, len(w)-len(strings.TrimLeft(w, nameLetters+"-")))
		for i := 1; w[0] == '-' && i <= letters && i < len(w); i++ { // -oCLAUDE.md
			if strings.ContainsAny(w[i:], "./") && try(w[i:]) {
				break
			}
		}
		for i := range w {
			if sed && (w[i] == 'w' || w[i] == 'W') && len(w)-i < maxPath && try(w[i+1:]) {
				break
			}
		}
	}
	return out
}

// literal reports whether a shell leaves a word as it is, without replacing any part of it.
func literal(t token) bool { return !t.unknown && !t.told && len(t.inner) == 0 }

// hidden returns the memory files that the substitutions and variables of a word may name.
func (s *sinks) hidden(t token) (out []string) {
	for _, sub := range t.inner {
		out = append(out, s.names(sub.text, false)...)
	}
	if t.unknown && !t.glob || len(t.inner) > 0 || t.told {
		out = append(out, s.carried...)
	}
	return unique(out)
}

// tokenNames returns the memory files that a word may name.
func (s *sinks) tokenNames(t token) []string {
	all := append(s.names(t.text, false), s.hidden(t)...)
	for _, m := range s.matches(t) {
		if at := s.memory(m); t.glob && at != "" {
			all = append(all, at)
		}
	}
	return all
}

// matches returns the paths that a pattern of file names matches. For a word that is not a pattern, it returns the
// word.
func (s *sinks) matches(t token) (out []string) {
	if !t.glob {
		return []string{t.text}
	}
	for _, pattern := range braces(t.text, maxBraces) {
		start := strings.IndexAny(pattern, "*?[")
		if start < 0 {
			out = append(out, pattern)
			continue
		}
		dir := pattern[:strings.LastIndexByte(pattern[:start], '/')+1]
		depth, wide := strings.Count(pattern[len(dir):], "/")+1, dir+widened(pattern[len(dir):])
		for _, at := range s.places(cmp.Or(dir, ".")) {
			for _, file := range s.below(at) {
				parts := strings.Split(file, "/")
				name := dir + strings.Join(parts[:min(depth, len(parts))], "/")
				if ok, err := path.Match(wide, name); err == nil && ok && !slices.Contains(out, name) {
					out = append(out, name)
				}
			}
		}
	}
	return out
}

// guesses returns the usual memory files that a pattern may match in a folder whose files are not known. Outside of the
// folder in which the line starts, it returns none for a pattern such as docs/*.md, which names no part of such a file.
func (s *sinks) guesses(pattern string) (out []string) {
	for _, pattern := range braces(path.Clean(pattern), maxBraces) {
		dir := pattern[:strings.LastIndexByte(pattern[:max(strings.IndexAny(pattern, "*?["), 0)], '/')+1]
		if slices.ContainsFunc(s.places(cmp.Or(dir, ".")), func(at string) bool { return len(s.below(at)) > 0 }) {
			continue
		}
		parts := strings.Split(strings.ToLower(widened(pattern)), "/")
		for i, part := range parts {
			names := memoryFolders
			if i+1 == len(parts) {
				names = slices.Sorted(maps.Keys(memoryFiles))
			}
			stem := strings.TrimSuffix(part, path.Ext(part))
			if !strings.ContainsAny(part, "*?[") || i > 0 && strings.Trim(stem, "*?") == "" {
				continue
			}
			for _, name := range names {
				file := strings.Join(slices.Concat(parts[:i], []string{name}, parts[i+1:]), "/")
				if ok, err := path.Match(part, name); err == nil && ok && name[0] != '.' && s.memory(file) != "" {
					out = append(out, s.memory(file))
				}
			}
		}
	}
	return out
}

var (
	// plainSet matches a set of letters that shells and Go read in the same way, and anySet matches other sets.
	plainSet = regexp.MustCompile(`^\[\w[\w.]*\]$`)
	anySet   = regexp.MustCompile(`\[[!^]?\]?[^\]/]*\]`)
)

// widened returns a pattern that matches in Go all names that a pattern matches in a shell, and perhaps more.
func widened(pattern string) string {
	parts := strings.Split(pattern, "/")
	for i, part := range parts {
		if strings.ContainsAny(anySet.ReplaceAllString(part, ""), `[]()\`) {
			parts[i] = "*"
			continue
		}
		parts[i] = anySet.ReplaceAllStringFunc(part, func(set string) string {
			if plainSet.MatchString(set) {
				return set
			}
			return "?"
		})
	}
	return strings.Join(parts, "/")
}

// maxBraces is the maximum number of words to which the braces of one word expand.
const maxBraces = 64

// braces expands {a,b} in a word. most is the maximum number of words that it returns.
func braces(word string, most int) (out []string) {
	end := strings.IndexByte(word, '}')
	start := strings.LastIndexByte(word[:max(end, 0)], '{')
	if end < 0 || start < 0 {
		return []string{word}
	}
	for _, part := range strings.Split(word[start+1:end], ",") {
		if len(out) < most {
			out = append(out, braces(word[:start]+part+word[end+1:], most-len(out))...)
		}
	}
	return out
}

// maxPath is the maximum length of a path on Linux. maxNames is the maximum number of file names that are recorded for
// one program.
const (
	maxPath  = 4096
	maxNames = 16
)

// unique drops repeated names, and all names after the first maxNames.
func unique(names []string) (out []string) {
	for _, n := range names {
		if len(out) < maxNames && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// inside returns the path of a file in a folder if every file in this folder is a memory file. Otherwise it returns
// nil.
func (s *sinks) inside(folder string) []string {
	in := s.memory(path.Join(folder, "x"))
	if folder != "" && in != "" && (strings.HasSuffix(folder, "/") || slices.ContainsFunc(s.places(folder), s.folder)) {
		return []string{in}
	}
	return nil
}

// other adds the sinks of a program that is not known. Such a program may write any text to any file whose name it
// gets.
func (s *sinks) other(name string, args []token, said string) {
	all := s.names(said, false)
	for _, t := range args {
		if name == "sed" {
			all = append(all, s.names(t.text, true)...)
		}
		all = append(all, s.tokenNames(t)...)
		_, value, _ := strings.Cut(t.text, "=")
		all = append(append(all, s.inside(t.text)...), s.inside(value)...)
		for i := 2; strings.HasPrefix(t.text, "-") && i < min(len(t.text), 6); i++ { // -Pmemory
			all = append(all, s.inside(t.text[i:])...)
		}
	}
	if name != "sed" && name != "go" {
		all = append(all, s.piped...)
	}
	for _, to := range unique(all) {
		s.found = append(s.found, Sink{To: to})
	}
}

// assigners are programs that set variables from their arguments or their input.
var assigners = set(`for set export declare typeset local readonly read mapfile readarray getopts let eval source .
	unset`)

// harmless are variables with upper-case names that do not change the acts of a program that only looks at files.
var harmless = set(`FILE OUT DIR MSG VERSION NAME CI LANG LC_ALL TZ NODE_ENV CGO_ENABLED GOFLAGS NO_COLOR FORCE_COLOR
	GOOS GOARCH GOMAXPROCS RUST_BACKTRACE CARGO_TERM_COLOR PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED
	FOO BAR BAZ DEBUG VERBOSE LOG_LEVEL UPDATE UPDATE_GOLDEN UPDATE_SNAPSHOTS HEADLESS GOGC GOTRACEBACK GOARM GOAMD64
	RUST_LOG CARGO_INCREMENTAL CLICOLOR PYTHONUTF8 PYTHONFAULTHANDLER`)

// assignments records the variables that commands set. A variable with upper-case letters in its name sets strange
// unless it is one of harmless, because programs may read it as a setting.
func (s *sinks) assignments(commands []simple) {
	line := false
	for _, c := range commands {
		program := "" // the first word that is not an assignment
		for _, r := range c.redirects {
			s.formula = s.formula || formula(r.to)
		}
		for _, t := range c.words {
			s.formula = s.formula || formula(t)
			name, value, _ := strings.Cut(t.text, "=")
			switch {
			case assigns(t.text) && (program == "" || assigners[program] || program == "env" || program == "sudo"):
				s.assigned = true
				s.strange = s.strange || len(name) > 1 && name != strings.ToLower(name) && !harmless[name] &&
					(name != "PATH" || !systemPath(value))
				for _, sub := range append(t.inner, sub{text: value}) {
					s.carried = append(append(s.carried, s.names(sub.text, false)...), s.inside(sub.text)...)
				}
			case program == "" && t.text != "command" && t.text != "time":
				program = base(t.text)
			}
		}
		if !assigners[program] && !(program == "printf" && hasPrefix(c.words[1:], "-v")) {
			continue
		}
		s.assigned = true
		if program == "export" { // its assignments were noted above
			continue
		}
		if !line {
			s.carried = append(s.carried, s.names(s.line, false)...)
		}
		line = true
	}
	s.carried = unique(s.carried)
}

// formula reports whether a word contains a[$(program)] or the like in quotes. A shell that evaluates the word as
// arithmetic runs the program.
func formula(t token) bool { return strings.Contains(t.text, "$(") || strings.Contains(t.text, "`") }

// systemPath reports whether, with this value of PATH, a shell finds the programs of the system first.
func systemPath(value string) bool {
	for _, dir := range strings.Split(value, ":") {
		if dir == "$PATH" || dir == "${PATH}" {
			return true
		}
		if !strings.HasPrefix(dir, "/usr/") || strings.Contains(dir, "..") {
			return false
		}
	}
	return false
}

// wrappers are programs that run another program, which is named in their arguments. The value is the number of
// operands before the name of that program.
var wrappers = map[string]int{"timeout": 1, "env": 0, "sudo": 0, "command": 0, "nohup": 0, "nice": 0, "time": 0}

// unwrapped drops the assignments and the wrappers in front of a program.
func unwrapped(words []token) []token {
	for len(words) > 0 {
		skip, wrapper := wrappers[base(words[0].text)]
		switch {
		case assigns(words[0].text):
			words = words[1:]
		case wrapper && len(words) > skip+1 && literal(words[1]) && !strings.HasPrefix(words[1].text, "-"):
			words = words[skip+1:]
		default:
			return words
		}
	}
	return words
}

// looksOn reports whether a program writes no text to the files in its arguments, except text that git has stored. A
// program of awk must also neither print to files nor run another program.
func looksOn(name string, args []token) bool {
	switch name {
	case "git":
		return gitLooks(args)
	case "gh":
		return len(args) > 1 && set("pr issue")[args[0].text] && set("create edit comment view list")[args[1].text]
	case "xargs":
		for len(args) > 0 && (args[0].text == "-0" || args[0].text == "-r") {
			args = args[1:]
		}
		return len(args) > 0 && set("cat head tail grep wc ls stat rm sha256sum")[args[0].text]
	case "find":
		return !slices.ContainsFunc(args, func(t token) bool {
			return !literal(t) && !t.glob || hasPrefix([]token{t}, "-exec", "-ok", "-fp", "-fl")
		})
	case "awk", "gawk", "mawk":
		all, ok := (&options{short: "F:v:"}).operands(args)
		return ok && len(all) > 0 && len(all[0].inner) == 0 && (!all[0].unknown || all[0].glob) &&
			!strings.ContainsAny(all[0].text, ">|@") && !strings.Contains(all[0].text, "system")
	}
	return false
}

// gitLooks reports whether a subcommand of git writes no text to the files in its arguments, except text that was
// staged or committed before.
func gitLooks(args []token) bool {
	for len(args) > 1 && args[0].text == "-C" && literal(args[1]) {
		args = args[2:]
	}
	if len(args) == 0 {
		return false
	}
	for _, t := range args[1:] {
		if !literal(t) && !t.glob && args[0].text != "commit" {
			return false
		}
	}
	plain := []word{{text: "git"}}
	for _, t := range args {
		plain = append(plain, word{text: t.text})
	}
	switch args[0].text {
	case "checkout":
		return len(args) == 2 || args[1].text == "--" || builds(plain)
	case "restore":
		return !slices.ContainsFunc(args[1:], func(t token) bool {
			return strings.HasPrefix(t.text, "-") && t.text != "--" && t.text != "--staged" && t.text != "--worktree"
		})
	case "rm", "push", "fetch", "ls-tree", "cat-file", "check-ignore", "rev-list":
		return true
	case "reset":
		return len(args) == 2 || args[1].text == "HEAD" || args[1].text == "--"
	case "mv":
		return false
	}
	return looks(plain) || builds(plain)
}

// operands returns the arguments that are not options. The value of an option counts as an operand.
func operands(args []token) (out []token) {
	for i, t := range args {
		if t.text == "--" {
			return append(out, args[i+1:]...)
		}
		if len(t.text) < 2 || t.text[0] != '-' {
			out = append(out, t)
		}
	}
	return out
}

// operands returns the arguments that are neither options nor values of options. ok is false if an option is not in the
// list o.
func (o *options) operands(args []token) (out []token, ok bool) {
	for i := 0; i < len(args); i++ {
		t := args[i]
		// A variable may expand to an option. It still counts as an operand.
		if t.text == "" && len(t.inner) > 0 || strings.HasPrefix(t.text, "$") && t.unknown || t.glob && t.text[0] == '*' {
			out = append(out, t)
			continue
		}
		switch {
		case t.text == "--":
			return append(out, args[i+1:]...), true
		case len(t.text) < 2 || t.text[0] != '-':
			out = append(out, t)
		case o.numbers && strings.Trim(t.text[1:], "0123456789") == "":
		case strings.HasPrefix(t.text, "--"):
			if name, _, _ := strings.Cut(t.text[2:], "="); !o.long[name] {
				return out, false
			}
		default:
			ok, next := o.cluster(t.text[1:])
			if !ok {
				return out, false
			}
			if next {
				i++
			}
		}
	}
	return out, true
}
