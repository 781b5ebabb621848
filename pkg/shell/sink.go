package shell

import (
	"path"
	"slices"
	"strings"
)

// Sink is a write of a command line to a file. Paths are as in the line, and relative to the folder in which the line
// starts.
type Sink struct {
	To string
	// From are the files whose text is written. Line is set if text of the line itself is written.
	From []string
	Line bool
	// Known is set if nothing else is written.
	Known bool
}

// Sinks returns the writes of a command line to files for which is returns true. folder reports whether a path is that
// of a folder. Programs that are known to write
// nothing, to build or to test have none. If a line cannot be parsed, and names such a file, the result is one sink
// that is not known.
func Sinks(line string, is, folder func(file string) bool) []Sink {
	s := sinks{is: is, folder: folder, written: map[string]bool{}}
	if len(line) > MaxLine<<4 || !s.run(line, 0) {
		for _, w := range named(line) {
			if is(w) {
				return append(s.found, Sink{To: w})
			}
		}
	}
	return s.found
}

// flow is a text that a program prints or reads.
type flow struct {
	from    []string // files
	line    bool     // text of the line
	unknown bool     // other text
}

func (f *flow) add(g flow) {
	f.from, f.line, f.unknown = append(f.from, g.from...), f.line || g.line, f.unknown || g.unknown
}

// sinks follows the texts of a command line.
type sinks struct {
	is      func(string) bool
	folder  func(string) bool
	found   []Sink
	dir     string          // folder after cd
	lost    bool            // the folder is not known
	dirty   bool            // a program of the line may have written any file
	written map[string]bool // files that the line has written
}

// maxNested is the maximum depth of substitutions.
const maxNested = 3

// run follows the programs of a line. It returns false if it cannot parse the line.
func (s *sinks) run(line string, depth int) bool {
	_, ok := s.printed(line, depth)
	return ok
}

// printed is run, and returns the text that the line prints.
func (s *sinks) printed(line string, depth int) (out flow, ok bool) {
	if depth > maxNested {
		return out, false
	}
	commands, ok := lex(line)
	if !ok {
		return out, false
	}
	var in flow
	for _, c := range commands {
		text := flow{line: true}
		for i := range c.words {
			for _, sub := range c.words[i].inner {
				f, ok := s.printed(sub, depth+1)
				if !ok {
					return out, false
				}
				text.add(f)
			}
			text.unknown = text.unknown || c.words[i].unknown && !c.words[i].glob
		}
		said := "" // text of here-documents
		for _, r := range c.redirects {
			if r.op == "<" {
				in.add(s.file(r.to))
			} else if r.op == "<<" {
				said += r.to.text
				for _, sub := range r.to.inner {
					f, ok := s.printed(sub, depth+1)
					if !ok {
						return out, false
					}
					in.add(f)
				}
				in.add(flow{line: true, unknown: r.to.unknown})
			}
		}
		prints := s.program(c.words, text, in, said)
		for _, r := range c.redirects {
			switch {
			case r.op != ">":
			case r.errors:
				s.write(r.to.text, flow{unknown: true})
			default:
				s.write(r.to.text, prints)
				prints = flow{}
			}
		}
		if in = (flow{}); c.piped {
			in = prints
		} else {
			out.add(prints)
		}
	}
	return out, true
}

// at returns a path relative to the folder in which the line starts.
func (s *sinks) at(file string) string {
	if s.dir == "" || strings.HasPrefix(file, "/") || strings.HasPrefix(file, "~") {
		return file
	}
	return path.Join(s.dir, file)
}

// file returns the text of a file.
func (s *sinks) file(t token) flow {
	file := s.at(t.text)
	if t.unknown || len(t.inner) > 0 || s.lost || s.dirty || s.written[path.Clean(file)] {
		return flow{unknown: true}
	}
	return flow{from: []string{file}}
}

func (s *sinks) write(to string, text flow) {
	if to == "/dev/null" {
		return
	}
	to = s.at(to)
	s.written[path.Clean(to)] = true
	if s.is(to) {
		s.found = append(s.found, Sink{to, text.from, text.line, !text.unknown})
	}
}

// filters print the text of their operands, or of their input.
var filters = set("cat head tail tac nl sort uniq cut tr grep egrep fgrep column fold sed tee")

// quiet programs print nothing of a file and write none that has a text.
var quiet = set(`true false : [ test pwd ls date whoami hostname uname basename dirname realpath wc stat touch mkdir
	rmdir rm chmod sleep which exit export set for [[`)

// program returns what a program prints. text is that of the words, and in the program's input. said is the part of
// the input that is in the line.
func (s *sinks) program(words []token, text, in flow, said string) (prints flow) {
	for len(words) > 0 && assigns(words[0].text) {
		words = words[1:]
	}
	if len(words) == 0 {
		return flow{}
	}
	name, args := base(words[0].text), words[1:]
	if name == "git" && len(args) > 0 && args[0].text == "mv" {
		name, args = "mv", args[1:]
	}
	plain := make([]word, len(words))
	for i, t := range words {
		plain[i] = word{t.text, t.unknown || len(t.inner) > 0}
	}
	writes := name == "sed" && slices.ContainsFunc(args, func(t token) bool { return inPlace(t.text) }) ||
		(name == "sort" || name == "uniq") && !looks(plain)
	switch {
	case name == "echo" || name == "printf":
		return text
	case name == "cd" && len(args) == 1 && !args[0].unknown && len(args[0].inner) == 0 && args[0].text != "-":
		s.dir = s.at(args[0].text)
		return flow{}
	case name == "cd":
		s.lost = true
		return flow{}
	case quiet[name]:
		return flow{}
	case name == "cp" || name == "mv" || name == "ln" || name == "install":
		s.copies(args)
		return flow{}
	case filters[name] && !writes:
		return s.filter(name, args, in)
	case name == "sed":
		return s.edit(args)
	}
	switch {
	case looks(plain):
	case name == "done" || name == "fi" || name == "}":
		s.lost = s.lost || s.dir != "" // a subshell ends with its folder
	default:
		if s.dirty = true; !builds(plain) {
			s.other(name, args, said)
		}
	}
	return flow{unknown: true}
}

// Programs that write their operands, and those that run code in their arguments or their input.
var (
	writers = set("rsync scp patch ed ex uniq")
	runners = set("python python3 node deno bun perl ruby bash sh zsh dash eval osascript php")
)

// results are options that name the file for the program's result.
var results = set("-o -O --output --out --outfile --output-document --output-file of")

// other follows a program that may write anything. If it gets the name of a file in another way than by the arguments
// that are known here, it has no sink.
func (s *sinks) other(name string, args []token, said string) {
	put := func(file string) {
		if file = s.at(file); s.is(file) {
			s.found = append(s.found, Sink{To: file})
		}
	}
	all := operands(args)
	switch {
	case name == "git" && len(args) > 1 && (args[0].text == "checkout" || args[0].text == "restore"):
		// Without a revision, the text is the one that was staged or committed last.
		revision := args[0].text == "checkout" && args[1].text != "--" && len(args) > 2 ||
			args[0].text == "restore" && hasPrefix(args, "-s", "--source")
		for _, t := range args[1:] {
			if revision {
				put(t.text)
			}
		}
	case writers[name] && len(all) > 0:
		for _, t := range all {
			put(t.text)
		}
		if to := all[len(all)-1].text; strings.HasSuffix(to, "/") { // a folder
			put(path.Join(to, "x"))
		}
	case slices.ContainsFunc(args, func(t token) bool { return inPlace(t.text) }) && set("perl ruby awk gawk")[name]:
		for _, t := range all {
			put(t.text)
		}
	case runners[name]:
		for _, t := range args {
			said += "\n" + t.text
		}
		inline := name == "eval" || len(all) == 0 || all[0].text == "-" || slices.ContainsFunc(args, func(t token) bool {
			return strings.HasPrefix(t.text, "-") && strings.ContainsAny(t.text, "creE")
		})
		if !inline {
			return // a script in a file
		}
		for _, w := range named(said) {
			put(w)
		}
	}
	for i, t := range args {
		option, value, ok := strings.Cut(t.text, "=")
		short := strings.HasPrefix(t.text, "-") && !strings.HasPrefix(t.text, "--") && strings.HasSuffix(t.text, "o")
		switch {
		case ok && results[option]:
			put(value)
		case (results[t.text] || short) && i+1 < len(args):
			put(args[i+1].text)
		}
	}
}

// named returns the words of a text that may be names of files.
func named(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n'\"`;|&<>()=,:{}", r) })
}

// operands returns the words that are no options.
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

// filter returns what a filter prints, and follows what tee writes.
func (s *sinks) filter(name string, args []token, in flow) (prints flow) {
	all := operands(args)
	if name == "tee" {
		for _, t := range all {
			s.write(t.text, in)
		}
		return in
	}
	if name == "tr" || hasPrefix(args, "-f", "-r", "--file") {
		return flow{in.from, in.line, in.unknown || name != "tr" && len(all) > 1}
	}
	if strings.HasSuffix(name, "grep") || name == "sed" {
		if len(all) > 0 {
			prints = flow{line: name == "sed", unknown: name == "sed" && !plainSed(all[0].text)}
			all = all[1:]
		}
	}
	read := false
	for _, t := range all {
		switch {
		case t.text == "-":
		case strings.Trim(t.text, "0123456789") == "" && name != "cat": // the value of an option
		default:
			read = true
			prints.add(s.file(t))
			continue
		}
		if t.text == "-" {
			read = true
			prints.add(in)
		}
	}
	if !read {
		prints.add(in)
	}
	return prints
}

// copies follows cp, mv, ln and install. A link has the text of the file that it points to.
func (s *sinks) copies(args []token) {
	var to *token
	var all []token
	for i := 0; i < len(args); i++ {
		t := args[i]
		if folder, ok := strings.CutPrefix(t.text, "--target-directory="); ok {
			to = &token{text: folder + "/", unknown: t.unknown}
			continue
		}
		switch t.text {
		case "-t", "--target-directory":
			if i++; i < len(args) {
				to = &token{text: args[i].text + "/", unknown: args[i].unknown}
			}
		case "-m", "-o", "-g", "-S", "--mode", "--owner", "--group", "--suffix":
			i++
		default:
			all = append(all, t)
		}
	}
	if all = operands(all); to == nil && len(all) > 1 {
		to, all = &all[len(all)-1], all[:len(all)-1]
	}
	if to == nil {
		return
	}
	folder := len(all) > 1 || strings.HasSuffix(to.text, "/") || s.folder(s.at(to.text))
	for _, from := range all {
		text := s.file(from)
		text.unknown = text.unknown || to.unknown
		into := to.text
		if folder {
			into = path.Join(into, path.Base(from.text))
		}
		if inside := s.at(path.Join(into, "x")); s.folder(s.at(from.text)) && s.is(inside) {
			s.found = append(s.found, Sink{To: inside})
		}
		s.write(into, text)
	}
}

// edit follows sed -i. A script that only replaces or deletes writes no text but its own.
func (s *sinks) edit(args []token) flow {
	all := operands(args)
	if len(all) == 0 {
		return flow{}
	}
	several := hasPrefix(args, "-e", "-f", "--expression", "--file")
	for _, t := range all[1:] {
		s.write(t.text, flow{line: true, unknown: several || t.unknown || all[0].unknown || !plainSed(all[0].text)})
	}
	return flow{}
}

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

// plainSed reports whether a script of sed is one command that neither reads, writes nor runs anything.
func plainSed(script string) bool {
	script = strings.TrimLeft(script, "0123456789,$ ")
	if strings.HasPrefix(script, "/") {
		end := strings.IndexByte(script[1:], '/')
		if end < 0 {
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
	parts := strings.Split(strings.ReplaceAll(script[1:], `\`+script[1:2], ""), script[1:2])
	return len(parts) == 4 && strings.Trim(parts[3], "gIpmM0123456789") == ""
}

// assigns reports whether a word in front of a program sets a variable.
func assigns(w string) bool {
	name, _, ok := strings.Cut(w, "=")
	return ok && name != "" && strings.Trim(name, nameLetters) == ""
}
