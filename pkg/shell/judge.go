package shell

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// The kinds of command lines. A line is Look or Build only under two conditions: all its programs and their options are
// listed in this package, and the shell puts no unknown text into their arguments. The folder is the one in which the
// line starts.
const (
	Look  = "look"  // programs that only read files
	Build = "build" // as Look, and programs that build, test and stage in the folder, or write files in it or in /tmp
	Other = "other"
)

// MaxLine is the maximum length of a command line in bytes. A longer line is of the kind Other.
const MaxLine = 4 << 10

// Kind returns the kind of a command line.
func Kind(line string) string {
	if len(line) > MaxLine {
		return Other
	}
	j := judge{kind: Look}
	all, _, ok := lex(line)
	if !ok || !j.commands(all) || !j.some || j.kind == Build && (j.settings || j.remote) {
		return Other
	}
	return j.kind
}

// Remote reports whether a command line of the kind Look prints text that a server has, such as the
// comments on an issue.
func Remote(line string) bool {
	j := judge{kind: Look}
	all, _, ok := lex(line)
	return ok && len(line) <= MaxLine && j.commands(all) && j.remote
}

// judge finds the kind of a command line.
type judge struct {
	kind     string
	some     bool // the line starts at least one program
	away     bool // a cd in the line may lead out of the folder in which the line starts
	system   bool // a cd in the line leads to the home, or to a folder of the system
	settings bool // a cd in the line leads to a folder with settings of programs, see started
	remote   bool // a program prints text from a server
}

// commands judges the programs of a command line, or of a substitution in it. It returns false if one of them makes the
// kind of the line Other.
func (j *judge) commands(all []simple) bool {
	return !slices.ContainsFunc(all, func(c simple) bool { return !j.command(c) })
}

// command judges one program with its redirections. It returns false if they make the kind of the line Other.
func (j *judge) command(c simple) bool {
	for _, r := range c.redirects {
		t := r.to
		switch {
		case r.op == "<<":
			if t.unknown || t.told || !j.inner(t) {
				return false
			}
		case !literal(t) || secret(t.text) || stacked.MatchString(t.text) || socket.MatchString(t.text):
			return false
		case r.op == "<", t.text == "/dev/null":
		case !j.writes(t.text):
			return false
		}
	}
	words := c.words
	for len(words) > 0 && assigns(words[0].text) && literal(words[0]) && safeVariable(words[0].text) {
		words = words[1:]
	}
	if len(words) == 0 || settles(c.words) {
		return settles(c.words)
	}
	if activates(words) {
		j.kind = Build
		return !j.away && len(c.redirects) == 0
	}
	switch words[0].text {
	case evaluating:
		j.some = true
		return !slices.ContainsFunc(words, func(t token) bool { return !literal(t) })
	case closing:
		return len(c.redirects) == 0
	}
	plain := make([]word, len(words))
	for i, t := range words {
		var ok bool
		if plain[i], ok = j.word(words, i); !ok || secret(t.text) && !searched(words, i) || stacked.MatchString(t.text) {
			return false
		}
	}
	j.some = true
	return j.program(plain)
}

// stacked matches a word that a shell expands to a path in an earlier working folder, such as ~-/a.
var stacked = regexp.MustCompile(`(^|=)~(-|\+?\d)`)

// socket matches a file of a redirection for which bash connects to another machine.
var socket = regexp.MustCompile(`^/dev/(tcp|udp)/`)

// searchers are programs whose first operand is a pattern or an expression, and not a file.
var searchers = set("grep egrep fgrep rg jq")

// lists are programs that show names of files, but not what the files contain.
var lists = set("ls stat test [")

// searched reports whether a word that looks like a file with keys is harmless. Either it is the pattern of a search or
// the expression of jq, such as event.key, or only the name of the file is shown. The result is false if the pattern
// may be in another word.
func searched(words []token, i int) bool {
	w := words[i].text
	if lists[base(words[0].text)] && keyWord(strings.ToLower(w)) {
		// For these programs, the names of the folders in the path are judged too.
		return !secret(strings.TrimSuffix(w, path.Base(w)))
	}
	if !dotted.MatchString(w) {
		return false
	}
	all, from := words[:i], 0
	if all[0].text == "xargs" {
		for from = 1; from < i && (all[from].text == "-0" || all[from].text == "-r"); from++ {
		}
	} else if all[0].text == "git" && i > 1 && all[1].text == "grep" {
		from = 1
	}
	if from >= i || !searchers[base(all[from].text)] {
		return false
	}
	for _, t := range words[from+1:] {
		if s := t.text; !literal(t) && !t.glob || strings.HasPrefix(s, "--reg") || strings.HasPrefix(s, "--fi") &&
			!strings.HasPrefix(s, "--fix") || strings.HasPrefix(s, "-") && !strings.HasPrefix(s, "--") &&
			(strings.Contains(s, "f") || strings.Contains(strings.TrimSuffix(s, "e"), "e")) {
			return false
		}
	}
	return !slices.ContainsFunc(all[from+1:], func(t token) bool { return t.glob || !strings.HasPrefix(t.text, "-") })
}

// dotted matches a name with a dot and no folder.
var dotted = regexp.MustCompile(`^\w+(\.\w+)+$`)

// safeVariable reports whether an assignment changes nothing but the output of programs. A value may be the name of a
// file or of a folder, as in DIR=out make, or a list of names. A build may read or write these files.
func safeVariable(assignment string) bool {
	name, value, _ := strings.Cut(assignment, "=")
	return harmless[name] && name != "GOFLAGS" && (value == "" || plainValue.MatchString(value) && !slices.ContainsFunc(
		strings.FieldsFunc(value, func(r rune) bool { return r == ' ' || r == ',' }), func(s string) bool {
			return !own(s) || started(s) || secret(s) || IsMemoryFile(s)
		}))
}

// plainValue matches a value that stays a list of names if make or a script puts it into another command line.
var plainValue = regexp.MustCompile(`^[\w./][\w.,/+-]*( [\w./][\w.,/+-]*)*$`)

// activates reports whether a command reads the script of a virtual environment of the folder into the shell. The
// script is code of the folder, as a script of Python is.
func activates(words []token) bool {
	return len(words) == 2 && (words[0].text == "source" || words[0].text == ".") && literal(words[0]) &&
		literal(words[1]) && !words[1].loose && activation.MatchString(words[1].text)
}

var activation = regexp.MustCompile(`^(?:\./)?(?:\.?venv|env)/bin/activate$`)

// settles reports whether a command only sets safe variables for later programs, or options of the shell with which it
// ends or prints something after an error.
func settles(words []token) bool {
	if len(words) > 1 && words[0].text == "set" && literal(words[0]) {
		return !slices.ContainsFunc(words[1:], func(t token) bool { return !literal(t) || !harmlessSet.MatchString(t.text) })
	}
	if len(words) > 1 && words[0].text == "export" && literal(words[0]) {
		words = words[1:]
	}
	return len(words) > 0 && !slices.ContainsFunc(words, func(t token) bool {
		return !literal(t) || t.loose || !assigns(t.text) || !safeVariable(t.text)
	})
}

// inner reports whether a word contains only substitutions whose programs only look at files.
func (j *judge) inner(t token) bool {
	return !slices.ContainsFunc(t.inner, func(s sub) bool {
		in := judge{kind: Look}
		return !in.commands(s.commands) || !in.some || in.kind != Look || in.remote
	})
}

// word returns the word words[i] in the form in which its program gets it. ok is false if the shell may replace the
// word by an unknown text.
func (j *judge) word(words []token, i int) (w word, ok bool) {
	t := words[i]
	if t.text == "[" {
		t.unknown, t.glob = false, false // this is the name of the program [; a pattern would have a closing bracket
	}
	w = word{text: t.text, wild: t.glob || t.told}
	if i == 1 && words[0].text == "cd" && topLevel(t) {
		return word{text: "top", wild: true}, true
	}
	switch {
	case t.loose || t.split && !t.told || t.unknown && !t.glob || !j.inner(t):
		return w, false
	case t.glob:
		return w, plainPattern(t.text)
	case t.pipe || len(t.inner) == 0:
		return w, true
	}
	switch base(words[0].text) { // other words with a substitution are permitted in quotes, for some programs
	case "echo":
		return w, i > 0
	case "printf":
		return w, i > 1
	case "git":
		before := words[max(i-1, 0)].text
		w.text = "text"
		return w, i > 2 && words[1].text == "commit" && t.text == "" && (before == "--message" ||
			strings.HasPrefix(before, "-") && strings.TrimLeft(before[1:], "aqvs") == "m")
	}
	return w, false
}

// plainPattern reports whether a pattern of file names matches only files of text and source code. It must match no
// hidden file.
func plainPattern(pattern string) bool {
	pattern = strings.TrimPrefix(pattern, "./")
	ending := path.Ext(pattern)
	return pattern != "" && textFiles[ending] && !strings.ContainsAny(pattern, "{}") &&
		!strings.ContainsAny(ending, "*?[") && pattern[0] != '.' && !strings.Contains(pattern, "/.")
}

var textFiles = set(`.md .txt .rst .log .csv .go .mod .py .js .jsx .mjs .ts .tsx .c .h .cc .cpp .hpp .rs .java .kt .rb
	.php .swift .scala .sql .html .css .scss .proto .xml .svg .tf .lua .zig .ex .exs .hs .cs .vue .svelte`)

// writes records that the line writes a file. It returns false if the file makes the kind of the line Other.
func (j *judge) writes(file string) bool {
	j.kind = Build
	return written(file) && !j.away && strings.IndexByte(nameLetters+"./", file[0]) >= 0 && !digit(file[0])
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// duration matches an argument of timeout.
var duration = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?[smhd]?$`)

// program judges a program with its arguments. It returns false if they make the kind of the line Other.
func (j *judge) program(words []word) bool {
	if words[0].text == "timeout" {
		words = words[1:]
		if len(words) > 2 && words[0].text == "-k" && duration.MatchString(words[1].text) {
			words = words[2:]
		}
		if len(words) < 2 || !duration.MatchString(words[0].text) {
			return false
		}
		words = words[1:]
	}
	inner, within := wrapped(words[0].text, words[1:])
	if within {
		j.kind, words = Build, inner
	}
	name := base(words[0].text)
	if name == "cd" {
		j.goes(words[1:])
	}
	switch {
	case j.away && (within || runs(words)):
		return false
	case looks(words):
		if remote(words) {
			j.remote = true
			return !within && !(j.away && name == "git") // settings of git name programs to run
		}
		return true
	case slices.ContainsFunc(words, func(w word) bool {
		patterns := name == "git" || builders[name] != nil && builders[name].patterns
		return w.wild && (!patterns || strings.Contains(w.text, "$"))
	}):
		return false
	case (name == "tee" || name == "sed") && j.away || j.system:
		return false
	case name == "sed" && slices.ContainsFunc(words, func(w word) bool {
		// The suffix after -i may be a path: then sed moves the file with the old text to it.
		return strings.HasPrefix(w.text, "-") && strings.ContainsAny(w.text, "/*")
	}):
		return false
	}
	j.kind = Build
	return builds(words) && !(name == "sed" && backsUp(words[1:]))
}

// backsUp reports whether sed -i may copy a file to one of settings, with keys or of memory: -i.md copies CLAUDE to
// CLAUDE.md. On macOS, the word after -i is the suffix.
func backsUp(args []word) bool {
	var suffixes, files []string
	for _, w := range args {
		if suffix := suffixOf(w.text); suffix != "" {
			suffixes = append(suffixes, suffix)
		} else if !strings.HasPrefix(w.text, "-") {
			files = append(files, w.text)
		}
	}
	suffixes = append(suffixes, files[:min(len(files), 1)]...)
	return slices.ContainsFunc(suffixes, func(suffix string) bool {
		return slices.ContainsFunc(files, func(file string) bool {
			file += suffix
			return file != suffix+suffix && (started(file) || secret(file) || IsMemoryFile(file))
		})
	})
}

// suffixOf returns the suffix in an option -i or --in-place of sed.
func suffixOf(option string) string {
	if suffix, ok := strings.CutPrefix(option, "--in-place="); ok {
		return suffix
	}
	if !strings.HasPrefix(option, "-") || strings.HasPrefix(option, "--") {
		return ""
	}
	_, suffix, _ := strings.Cut(option, "i")
	return suffix
}

// systemFolder matches the home itself and folders of the system, which are no folders of a project. A project may be in
// any other folder.
var systemFolder = regexp.MustCompile(`^(/+|(~|\$HOME|\$\{HOME\})/*|/+(bin|boot|dev|etc|lib\w*|proc|sbin|sys|usr)(/.*)?)$`)

// goes records where a cd leads: out of the folder in which the line starts, to the home or a folder of the system, or
// to a folder with settings.
func (j *judge) goes(args []word) {
	j.away = j.away || len(args) != 1 || args[0].wild || !own(args[0].text)
	j.system = j.system || len(args) == 0 || slices.ContainsFunc(args, func(w word) bool {
		return systemFolder.MatchString(w.text)
	})
	j.settings = j.settings || slices.ContainsFunc(args, func(w word) bool { return started(w.text) })
}
