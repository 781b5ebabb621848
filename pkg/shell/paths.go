package shell

import "strings"

// Path is a word of a command line that may be the path of a file.
type Path struct {
	// Names are the paths that the word may mean, with the folders to which the line may have changed before. They are
	// not cleaned, since a folder in them may be a link.
	Names []string
	// Program is the name of the program, or "" for the file of a redirection.
	Program string
	// Write is set if a program may change the file, or run it.
	Write bool
	// Pattern is set if the shell expands the word to the names of files.
	Pattern bool
	// Lost is set if the folder in which the program runs is not known.
	Lost bool
}

// Paths returns the words of a command line that may be paths: the arguments of each program and the files of its
// redirections, but not the program itself. They have at most most names; all says whether these are all. A line that
// cannot be parsed has none.
func Paths(line string, most int) (found []Path, all bool) {
	commands, _, ok := lex(line)
	if !ok {
		return nil, true
	}
	p := paths{dirs: []string{""}, most: most}
	p.commands(commands)
	return p.found, !p.more
}

// maxDirs is the maximum number of folders to which a line may change.
const maxDirs = 16

type paths struct {
	found []Path
	most  int      // how many more names are returned
	more  bool     // there are more names
	dirs  []string // the folders in which a program may run, relative to the first; "" is the first
	lost  bool
}

func (p *paths) commands(all []simple) {
	for _, c := range all {
		p.command(c)
	}
}

func (p *paths) command(c simple) {
	for _, r := range c.redirects {
		p.inner(r.to)
		if r.op != "<<" {
			p.add("", r.to, r.op == ">")
		}
	}
	for _, t := range c.words {
		p.inner(t)
	}
	words := unwrapped(c.words)
	if len(words) == 0 {
		return
	}
	name, args := base(words[0].text), words[1:]
	plain := make([]word, len(words))
	for i, t := range words {
		plain[i] = word{t.text, t.unknown || t.told || len(t.inner) > 0}
	}
	write := !looks(plain)
	switch {
	case name == "cd" || name == "pushd":
		for _, t := range operands(args) {
			p.add(name, t, false)
		}
		p.cd(operands(args))
		return
	case name == "popd":
		p.lost = true
	case name == "echo" || name == "printf" || targeted[name] || name == evaluating || name == closing:
		return
	case name == "git" && (len(args) == 0 || args[0].text != "mv") && write:
		return // its words name branches, remotes and files whose text git has stored
	case buildersBy[name] != nil && len(args) > 0:
		args = args[1:]
	}
	for _, t := range args {
		p.add(name, t, write)
		if _, value, ok := strings.Cut(t.text, "="); ok && strings.HasPrefix(t.text, "-") {
			t.text = value
			p.add(name, t, write)
		}
	}
}

// targeted are programs whose arguments are names of targets and packages.
var targeted = set("make npm pnpm yarn cargo")

// inner adds the words of the programs that a shell runs to replace a part of a word.
func (p *paths) inner(t token) {
	for _, s := range t.inner {
		in := *p
		in.commands(s.commands)
		p.found, p.more, p.most = in.found, in.more, in.most
	}
}

// cd adds the folder to which a line changes.
func (p *paths) cd(to []token) {
	switch {
	case len(to) == 0:
		p.dirs = append(p.dirs, "~")
	case len(to) > 1 || to[0].text == "-" || to[0].unknown || len(to[0].inner) > 0 || len(p.dirs) >= maxDirs:
		p.lost = true
	default:
		for _, dir := range p.dirs {
			if n := joined(dir, to[0]); len(p.dirs) < maxDirs {
				p.dirs = append(p.dirs, n)
			} else {
				p.lost = true
			}
		}
	}
}

// joined returns the path of a word in a folder. It is not cleaned.
func joined(dir string, t token) string {
	name := t.text
	if t.told {
		name = strings.NewReplacer("${HOME}", "~", "$HOME", "~", "${PWD}", ".", "$PWD", ".").Replace(name)
	}
	if dir == "" || strings.HasPrefix(name, "/") || strings.HasPrefix(name, "~") {
		return name
	}
	return dir + "/" + name
}

// add adds a word.
func (p *paths) add(program string, t token, write bool) {
	if t.text == "" || t.unknown && !t.glob || len(t.inner) > 0 || len(t.text) > maxPath {
		return
	}
	texts := []string{t.text}
	if t.glob {
		texts = braces(t.text, maxBraces)
	}
	for _, text := range texts {
		if p.most -= len(p.dirs); p.most < 0 {
			p.more = true
			return
		}
		x := Path{Program: program, Write: write, Lost: p.lost, Pattern: strings.ContainsAny(text, "*?[") && t.glob}
		for _, dir := range p.dirs {
			x.Names = append(x.Names, joined(dir, token{text: text, told: t.told}))
		}
		p.found = append(p.found, x)
	}
}
