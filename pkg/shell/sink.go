package shell

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// Sink is one write of a command line to a file. Paths in it are relative to the folder in which the line starts, and
// otherwise as written in the line.
type Sink struct {
	To string
	// From are the files from which the written text comes. Line is set if text of the command line itself is written
	// too.
	From []string
	Line bool
	// Known is set if From and Line describe all of the written text. If it is not set, any other text may be written
	// too.
	Known bool
}

// Files answers questions about the files that a line names. Paths are in the same form as in a Sink.
type Files struct {
	// whether an agent loads the file as its memory; Sinks returns only writes to such files
	Memory func(file string) bool
	Folder func(file string) bool // whether the path is a folder
	// Below returns the files in a folder and in all folders below it. The paths are relative to the folder. Files that
	// cannot be listed are missing.
	Below func(file string) []string
}

// Sinks returns the writes of a command line to memory files. Here and in names.go, a memory file is one for which
// files.Memory returns true.
//
// A program has no sink if it is known to write no text of unknown origin, or if it is known to build or test. Any
// other program that gets the name of a memory file has a Sink for this file without Known. If a line cannot be parsed
// and names a memory file, the result is one Sink without Known.
func Sinks(line string, files Files) []Sink {
	seen := map[string]bool{}
	once := func(file string) bool {
		if _, ok := seen[file]; !ok {
			seen[file] = files.Memory(file)
		}
		return seen[file]
	}
	lists := map[string][]string{}
	below := func(folder string) []string {
		if _, ok := lists[folder]; !ok {
			lists[folder] = files.Below(folder)
		}
		return lists[folder]
	}
	s := sinks{is: once, folder: files.Folder, below: below, line: line, written: map[string]bool{},
		links: map[string]string{}, where: map[*simple][]string{}, dirs: []string{""}}
	commands, plain, ok := lex(line)
	if ok {
		p := newPaths(maxNames, Around{Folder: files.Folder})
		p.where = s.where
		p.commands(commands)
		if !plain || !onlyLook(commands) {
			s.printed(commands)
		}
		return s.found
	}
	unquoted := strings.NewReplacer("\\\n", "", "\\", "", "\x00", "").Replace(line)
	if all := append(s.names(line, false), s.names(unquoted, false)...); len(all) > 0 {
		return []Sink{{To: all[0]}}
	}
	return nil
}

// flow is a text that a program prints or reads.
type flow struct {
	from    []string // the files that the text comes from
	line    bool     // text of the command line is part of it
	unknown bool     // any other text may be in it
}

func (f *flow) add(g flow) {
	f.from, f.line, f.unknown = append(f.from, g.from...), f.line || g.line, f.unknown || g.unknown
}

// sinks follows texts through a command line: from its words and from the files that it reads to the files that it
// writes.
type sinks struct {
	is      func(string) bool
	folder  func(string) bool
	below   func(string) []string
	found   []Sink
	line    string
	where   map[*simple][]string // the folders in which each program may run; none if they are not known
	dirs    []string             // those of the next program, relative to the first folder, which is ""
	lost    bool                 // the folder in which the next program runs is not known
	dirty   bool                 // a program of the line may have written any file
	written map[string]bool      // files that the line has written

	assigned bool     // the line may set variables
	formula  bool     // a word of the line runs a program if it is evaluated as arithmetic, see the function formula
	strange  bool     // the line sets a variable that may change how programs behave
	carried  []string // files whose names the variables of the line may contain
	// links that the line makes; the value is the memory file, or the folder of memory files, that a link names
	links map[string]string
	piped []string // memory files that earlier programs of the pipeline name
}

// printed adds the sinks of commands to s.found, and returns the text that the commands print.
func (s *sinks) printed(commands []simple) (out flow) {
	s.assignments(commands)
	in := flow{unknown: true} // the input of the shell
	for i, c := range commands {
		if i == 0 || !commands[i-1].piped {
			s.piped = nil
		}
		if dirs := s.where[&commands[i]]; len(dirs) > 0 {
			s.dirs = dirs
		}
		s.lost = len(s.where[&commands[i]]) != 1
		text := flow{line: true}
		for i := range c.words {
			f := s.word(c.words[i])
			if c.words[i].glob && len(c.words[i].inner) == 0 { // names of files
				f.unknown = strings.ContainsAny(c.words[i].text, "*?[") || c.words[i].told && s.assigned
			}
			text.add(f)
		}
		said := "" // text of here-documents
		fed := flow{}
		given := false // the command has an input other than that of the shell
		for _, r := range c.redirects {
			f := s.word(r.to)
			switch r.op {
			case "<":
				fed.add(s.file(r.to))
				fed.unknown = fed.unknown || r.errors
			case "<<":
				said += r.to.text
				f.line = true
				fed.add(f)
			default:
				continue
			}
			given = true
		}
		if given && (i == 0 || !commands[i-1].piped) {
			in = flow{}
		}
		in.add(fed)
		prints := s.program(c.words, text, in, said)
		if len(c.words) == 0 {
			prints = fed // $(< file)
		}
		redirected := false
		for _, r := range c.redirects { // of several files, bash writes only to the last one, but zsh to all
			switch {
			case r.op != ">":
			case r.errors:
				s.write(r.to, flow{unknown: true})
			default:
				s.write(r.to, prints)
				redirected = true
			}
		}
		if redirected {
			prints = flow{}
		}
		if in = (flow{unknown: true}); c.piped {
			in = prints
			for _, t := range c.words {
				s.piped = append(s.piped, s.tokenNames(t)...)
			}
			s.piped = unique(append(s.piped, s.names(said, false)...))
		} else {
			out.add(prints)
		}
	}
	return out
}

// word returns the text that a shell puts into a word in the place of substitutions and variables. It adds the sinks of
// the programs in the substitutions.
func (s *sinks) word(t token) (text flow) {
	for _, sub := range t.inner {
		piped := s.piped
		text.add(s.printed(sub.commands))
		s.piped = piped
	}
	text.unknown = text.unknown || t.unknown || t.told && s.assigned
	return text
}

// at returns a path relative to the folder in which the line starts. If the program may run in several folders, it is
// the path in one of them.
func (s *sinks) at(file string) string { return s.in(s.dirs[0], file) }

// places returns the paths of a file in all folders in which the program may run.
func (s *sinks) places(file string) (all []string) {
	for _, dir := range s.dirs {
		all = append(all, s.in(dir, file))
	}
	return all
}

// memory returns the memory file that a path may name, or "".
func (s *sinks) memory(file string) string {
	for _, at := range s.places(file) {
		if s.is(at) {
			return at
		}
	}
	return ""
}

// in returns the path of a file in a folder, relative to the folder in which the line starts. If the path goes through a
// link that the line makes, it replaces the link by its target.
func (s *sinks) in(dir, file string) string {
	if dir != "" && !strings.HasPrefix(file, "/") && !strings.HasPrefix(file, "~") {
		file = path.Join(dir, file)
	}
	for link, to := range s.links {
		if rest, ok := strings.CutPrefix(path.Clean(file), link); ok && (rest == "" || rest[0] == '/') {
			return to + rest
		}
	}
	return file
}

// file returns the flow of the text that a file contains.
func (s *sinks) file(t token) flow {
	file := s.at(t.text)
	if file == "/dev/null" {
		return flow{}
	}
	device := strings.HasPrefix(path.Clean(file), "/dev/") || strings.HasPrefix(path.Clean(file), "/proc/")
	expands := t.unknown || t.told && s.assigned || len(t.inner) > 0
	if expands || device || s.lost || s.dirty || s.written[path.Clean(file)] {
		return flow{unknown: true}
	}
	return flow{from: []string{file}}
}

// write adds the sinks of one write of a text to the file t. If t has variables, it may name any memory file that these
// variables may contain.
func (s *sinks) write(t token, text flow) {
	if t.text == "/dev/null" {
		return
	}
	to := s.at(t.text)
	s.written[path.Clean(to)] = true
	if at := s.memory(t.text); at != "" {
		s.found = append(s.found, Sink{at, text.from, text.line, !text.unknown})
		return
	}
	all := s.hidden(t)
	if t.glob {
		all = append(append(all, s.tokenNames(t)...), s.guesses(t.text)...)
	}
	for _, name := range unique(all) {
		s.found = append(s.found, Sink{name, text.from, text.line, !text.unknown})
	}
}

var (
	// filters print parts of the text of their operands. Without operands, they print parts of their input.
	filters = map[string]*options{
		"cat": {short: "AbeEnstTuv"}, "head": {short: "qvn:c:", numbers: true},
		"tail": {short: "qvn:c:", numbers: true}, "tac": {}, "nl": {short: "b:n:w:s:v:"},
		"sort": {short: "bdfgiMhnRrVmsuzk:t:", long: set("reverse unique numeric-sort ignore-case stable")},
		"uniq": {short: "cdDuizf:s:w:", max: 1}, "cut": {short: "b:c:d:f:s"}, "tr": {short: "ds"},
		"grep": grepOptions, "egrep": grepOptions, "fgrep": grepOptions,
		"column": {short: "ts:c:"}, "fold": {short: "sw:", numbers: true}, "sed": {short: "nErsuz"}, "tee": {short: "ai"},
	}
	grepOptions = &options{short: "abEFGPchHiLlnoqsUvwxzA:B:C:m:", numbers: true, long: set(`ignore-case invert-match
		line-number count only-matching word-regexp line-regexp fixed-strings extended-regexp perl-regexp no-filename
		with-filename quiet color`)}
)

// The silent programs print nothing. The quiet programs print only the texts of their words, numbers, dates and the
// like. None of these programs writes a text to a file.
var (
	silent = set("true false : [ test [[ exit for sleep touch mkdir rmdir rm chmod")
	quiet  = set("pwd date whoami hostname uname basename dirname realpath wc stat which")
)

// program returns the text that a program prints, and adds the program's sinks. text is the text of its words. in is
// its input. said is the part of its input that the line contains as a here-document.
func (s *sinks) program(words []token, text, in flow, said string) (prints flow) {
	if words = unwrapped(words); len(words) == 0 {
		return flow{}
	}
	name, args := base(words[0].text), words[1:]
	plain := wordsOf(words)
	if inner, ok := wrapped(name, plain[1:]); ok {
		words = words[len(words)-len(inner):]
		name, args, plain = base(words[0].text), words[1:], inner
	}
	if s.strange || words[0].unknown && !words[0].glob || len(words[0].inner) > 0 {
		s.dirty = true
		s.other(name, args, said)
		return flow{unknown: true}
	}
	if name == "git" && len(args) > 0 && args[0].text == "mv" {
		name, args = "mv", args[1:]
	}
	writes := name == "sed" && slices.ContainsFunc(args, func(t token) bool { return inPlace(t.text) }) ||
		(name == "sort" || name == "uniq") && !looks(plain)
	switch {
	case name == "echo" || name == "printf":
		return text
	case name == "cd" || name == "pushd": // if the next folder is not known, it may be the one that the word says
		if to := operands(args); len(to) == 1 && !to[0].unknown && len(to[0].inner) == 0 && to[0].text != "-" {
			s.dirs = append([]string{s.at(to[0].text)}, s.dirs[:min(len(s.dirs), maxDirs)]...)
		}
		return flow{}
	case name == "export" || name == "set" || name == "popd" || name == "ls" || looksOn(name, args):
		s.dirty = s.dirty || name == "git"
	case name == evaluating:
		if s.formula {
			s.other(name, args, "")
		}
		return flow{}
	case silent[name]:
		if slices.ContainsFunc(args, formula) {
			s.other(name, args, "")
		}
		return flow{}
	case quiet[name]:
		text.unknown = text.unknown || slices.ContainsFunc(args, func(t token) bool {
			return t.glob || (name == "date" || name == "wc") && (strings.HasPrefix(t.text, "--f") ||
				strings.HasPrefix(t.text, "-") && !strings.HasPrefix(t.text, "--") && strings.Contains(t.text, "f"))
		})
		return text
	case name == "cp" || name == "mv" || name == "ln" || name == "install":
		if !s.copies(name, args) {
			s.other(name, args, said)
		}
	case filters[name] != nil && !writes:
		return s.filter(name, args, text, in)
	case name == "sed":
		s.edit(args, text)
	case looks(plain):
	case name == closing:
	default:
		if s.dirty = true; !builds(plain) || runs(plain) {
			s.other(name, args, said)
		} else if interpreters[name] == "" || len(args) > 0 && args[0].text == "-m" {
			s.other("go", outputs(args), "")
		}
	}
	return flow{unknown: true}
}

// wordsOf returns tokens as words.
func wordsOf(all []token) []word {
	words := make([]word, len(all))
	for i, t := range all {
		words[i] = word{t.text, t.unknown || len(t.inner) > 0}
	}
	return words
}

// The options in outputOptions name a file to which a build or a test writes, perhaps in the next word. Those in
// inputOptions name no such file, although they may have a value.
var (
	outputOptions = set("o coverprofile junitxml junit-xml cov-report output output-file outputFile out")
	inputOptions  = set(`ignore cov coverpkg deselect select extend-ignore run bench skip tags filter grep exclude
		testNamePattern testPathPattern test-dir p project`)
)

// outputs returns the arguments of a build or a test that may name a file to which it writes.
func outputs(args []token) (out []token) {
	for i, t := range args {
		option, value, has := strings.Cut(strings.TrimLeft(t.text, "-"), "=")
		switch {
		case !strings.HasPrefix(t.text, "-") || inputOptions[option]:
		case has:
			out = append(out, token{text: value})
		case outputOptions[option] && i+1 < len(args):
			out = append(out, args[i+1])
		}
	}
	return out
}

// filter returns the text that a filter prints, and adds the sinks of tee and sed. If an option of the filter is not in
// its list, the text is unknown.
func (s *sinks) filter(name string, args []token, text, in flow) (prints flow) {
	all, ok := filters[name].operands(args)
	if name == "tee" {
		in.unknown = in.unknown || !ok
		if !ok {
			all = args
		}
		for _, t := range all {
			s.write(t, in)
		}
		return in
	}
	if name == "sed" && (!ok || len(all) == 0 || !literal(all[0]) || !plainSed(all[0].text)) {
		s.other(name, args, "") // a script may write files
		if !ok || len(all) == 0 || !literal(all[0]) {
			return flow{unknown: true}
		}
		text.unknown = true
	}
	switch {
	case !ok || name != "sed" && slices.ContainsFunc(args, func(t token) bool { return !literal(t) && !t.glob }):
		return flow{unknown: true}
	case name == "tr":
		in.unknown = in.unknown || !hasPrefix(args, "-d") || len(all) != 1
		return in
	case name == "sed":
		prints, all = text, all[1:]
	case strings.HasSuffix(name, "grep"):
		if len(all) == 0 {
			return flow{unknown: true}
		}
		all = all[1:]
	}
	if len(all) == 0 {
		prints.add(in)
	}
	for _, t := range all {
		if t.text == "-" {
			prints.add(in)
		} else {
			prints.add(s.file(t))
		}
	}
	return prints
}

// copyOptions are the permitted options of cp, mv, ln and install.
var copyOptions = &options{short: "aRrpvnuifTdLPHsxDt:m:o:g:", long: set(`archive recursive preserve verbose no-clobber
	update interactive force target-directory mode owner group symbolic no-target-directory`)}

// copies adds the sinks of cp, mv, ln and install. A link counts as a copy of the file to which it points. copies
// returns false if it cannot follow the copies, for example if an option is not permitted or the line makes too many
// links.
func (s *sinks) copies(name string, args []token) bool {
	all, ok := copyOptions.operands(args)
	if !ok || slices.ContainsFunc(args, func(t token) bool { return t.glob && strings.Contains(t.text, "{") }) {
		return false
	}
	var to *token
	for i, t := range args {
		if folder, ok := strings.CutPrefix(t.text, "--target-directory="); ok {
			t.text, to = folder+"/", &t
		} else if t.text == "-t" && i+1 < len(args) {
			t = args[i+1]
			t.text, to = t.text+"/", &t
		} else if t.text == "--target-directory" || strings.HasPrefix(t.text, "-") && !strings.HasPrefix(t.text, "--") &&
			strings.Contains(t.text, "t") {
			return false
		}
	}
	if to == nil && len(all) > 1 {
		to, all = &all[len(all)-1], all[:len(all)-1]
	}
	if to == nil {
		return name != "ln"
	}
	folder := len(all) > 1 || strings.HasSuffix(to.text, "/") ||
		slices.ContainsFunc(s.places(to.text), s.folder) && !slices.ContainsFunc(args, func(t token) bool {
			return t.text == "--no-target-directory" || cluster(t.text, 'T')
		})
	for _, from := range all {
		if name != "ln" && s.copied(from, *to, folder) {
			continue
		}
		text := s.file(from)
		into := *to
		text.unknown = text.unknown || to.unknown || len(to.inner) > 0
		if folder {
			into.text = path.Join(into.text, path.Base(from.text))
		}
		// The target of a symbolic link is relative to the folder of the link.
		if name == "ln" && !strings.HasPrefix(from.text, "/") && path.Dir(into.text) != "." {
			text.unknown = true
		}
		if inside := s.memory(path.Join(into.text, "x")); inside != "" && slices.ContainsFunc(s.places(from.text), s.folder) {
			s.found = append(s.found, Sink{To: inside})
		}
		s.write(into, text)
		source := s.at(from.text)
		if name == "ln" && (s.is(source) || s.is(path.Join(source, "x"))) {
			if len(s.links) == maxNames {
				return false
			}
			s.links[path.Clean(s.at(into.text))] = source
		}
	}
	return true
}

// cluster reports whether an argument consists of short options and one of them is the given one. So -rT contains T.
func cluster(arg string, option rune) bool {
	return strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && strings.ContainsRune(arg, option)
}

// copied adds the sinks of a copy of a folder with its files, or of the files that a pattern matches. It returns false
// if from is neither a folder nor a pattern, or if the files of a folder cannot be listed.
func (s *sinks) copied(from, to token, folder bool) bool {
	known := !to.unknown && !from.told && len(to.inner)+len(from.inner) == 0 && !s.lost && !s.dirty
	sources := s.matches(from)
	copies := func(into, file string) {
		s.written[path.Clean(s.at(into))] = true
		if at := s.memory(into); at != "" {
			s.found = append(s.found, Sink{To: at, From: []string{s.at(file)}, Known: known && !s.written[path.Clean(file)]})
		}
	}
	for _, source := range sources {
		into := to.text
		if folder {
			into = path.Join(into, path.Base(source))
		}
		if !s.folder(s.at(source)) {
			if !from.glob {
				return false
			}
			copies(into, source)
			continue
		}
		files := s.below(s.at(source))
		if len(files) == 0 {
			return false
		}
		for _, file := range files {
			copies(path.Join(into, file), path.Join(source, file))
		}
	}
	return len(sources) > 0
}

// edit adds the sinks of sed -i. If plainSed accepts the script, all text that sed adds to a file is from the script
// itself.
func (s *sinks) edit(args []token, text flow) {
	all, ok := editOptions.operands(args)
	if !ok || len(all) == 0 {
		s.other("sed", args, "")
		return
	}
	text.unknown = text.unknown || !literal(all[0]) && len(all[0].inner) == 0 || !plainSed(all[0].text)
	if text.unknown {
		s.other("sed", all[:1], "") // the script may write files
	}
	for _, t := range all[1:] {
		for _, option := range args {
			if suffix := suffixOf(option.text); suffix != "" {
				copied := t
				copied.text += suffix
				s.write(copied, s.file(t))
			}
		}
		s.write(t, text)
	}
}

var editOptions = &options{short: "nErsuzi;", long: set("in-place")}

// hasPrefix reports whether an argument begins with one of the prefixes.
func hasPrefix(args []token, prefixes ...string) bool {
	return slices.ContainsFunc(args, func(t token) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(t.text, p) })
	})
}

func inPlace(option string) bool {
	return strings.HasPrefix(option, "-") && !strings.HasPrefix(option, "--") && strings.Contains(option, "i") ||
		strings.HasPrefix(option, "--in-place")
}

// plainSed reports whether a script of sed has one of two forms. The first is a single command that reads no file,
// writes no file and runs no program. The second is a list of commands that only print and delete lines.
func plainSed(script string) bool {
	if strings.Trim(script, "0123456789,$ ;pd") == "" && strings.Contains(script, ";") {
		return true
	}
	script = strings.TrimLeft(script, "0123456789,$ ")
	if strings.HasPrefix(script, "/") {
		end := strings.IndexByte(script[1:], '/')
		if end < 0 || strings.Contains(script[:end+1], `\`) || !wholeSets.MatchString(script[:end+1]) {
			return false
		}
		script = strings.TrimLeft(script[end+2:], " ")
	}
	switch {
	case script == "d" || script == "p":
		return true
	case strings.HasPrefix(script, "a"), strings.HasPrefix(script, "i"), strings.HasPrefix(script, "c"):
		return !strings.Contains(script, "\n")
	case len(script) < 4 || script[0] != 's':
		return false
	}
	delimiter, script := script[1:2], strings.ReplaceAll(script[1:], `\\`, "")
	parts := strings.Split(strings.ReplaceAll(script, `\`+delimiter, ""), delimiter)
	return len(parts) == 4 && strings.Trim(parts[3], "gIpmM0123456789") == ""
}

// wholeSets matches an address of sed in which each set of letters is closed. On macOS, a set may contain the / that
// otherwise ends the address.
var wholeSets = regexp.MustCompile(`^([^\[]|\[\[:[a-z]+:\]\]|\[\^?[^\]^\[][^\]\[]*\])*$`)

// assigns reports whether a word is an assignment to a variable, as in front of a program.
func assigns(w string) bool {
	name, _, ok := strings.Cut(w, "=")
	return ok && name != "" && strings.Trim(name, nameLetters) == ""
}
