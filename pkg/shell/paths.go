package shell

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// Path is a word of a command line that may be the path of a file.
type Path struct {
	// Names are the paths that the word may mean, with the folders to which the line may have changed before. They are
	// not cleaned, since a folder in them may be a link.
	Names []string
	// Program is the name of the program, or "" for the file of a redirection. It is xargs if xargs reads the files
	// whose names the program prints.
	Program string
	// Write is set if a program may change the file, or run it.
	Write bool
	// Source is set if the program copies the text of the file into another one.
	Source bool
	// Pattern is set if the shell expands the word to the names of files.
	Pattern bool
	// Lost is set if the folder in which the program runs is not known.
	Lost bool
	// Folder is set if Names are the folders in which the program runs, and may write files or run those that it finds.
	Folder bool
	// Tool is the package that npx downloads and runs if it is not installed in Names, the folders in which npx runs.
	Tool string
	// Shown is set if the program may change the file, but also prints or copies its text, as prettier and sed -i.bak
	// do.
	Shown bool
	// Anew is set for the file of a redirection that surely replaces the whole text of the file.
	Anew bool
}

// Around tells Paths about the files around a line. A nil Folder knows no folder.
type Around struct {
	Folder func(path string) bool // whether there is a folder at a path, relative to the one in which the line starts
	Free   func(path string) bool // whether there is nothing at a path, so that mkdir makes a folder there
	Search bool                   // whether cd looks for a folder in those of CDPATH first
	// Top returns the path that git rev-parse --show-toplevel prints in a folder, or "" if it is not known. sure says that
	// git prints it; otherwise git may print nothing.
	Top func(folder string) (path string, sure bool)
}

// Paths returns the words of a command line that may be paths: the arguments of each program and the files of its
// redirections, but not the program itself. It also returns the folders in which a program may write. All these
// together have at most `most` names. all is false if there are more. A line that cannot be parsed has none.
func Paths(line string, most int, around Around) (found []Path, all bool) {
	commands, _, ok := lex(line)
	if !ok {
		return nil, true
	}
	p := newPaths(most, around)
	p.commands(commands)
	return p.found, !p.more
}

func newPaths(most int, around Around) *paths {
	return &paths{most: most, around: around, made: map[string]bool{},
		shells: map[*subshell]*folders{nil: {dirs: []string{""}}}}
}

// maxDirs is the maximum number of folders in which a program may run.
const maxDirs = 16

// folders are the folders in which the programs of a shell may run, relative to the one in which the line starts.
type folders struct {
	dirs   []string
	failed []string // those in which the line goes on if a program of the chain fails
	before []string // those in which it ran before the last cd; nil if they are not known
	seen   []string // all those in which it ran earlier
	lost   bool     // the folder is not known
	chain  int
}

type paths struct {
	found  []Path
	most   int  // how many more names are returned
	more   bool // there are more names
	around Around
	ran    bool // a program after which git may find another repository may have run
	row    int
	broken []string        // the folders in which the row may have ended by an error
	shaky  bool            // a descriptor of the shell may be closed, so that a redirection fails
	wrote  bool            // a program that may remove folders may have run
	built  bool            // a build may have run
	made   map[string]bool // folders that the line has made
	adrift bool            // no folder is known any more
	feeds  bool            // xargs gets the names that the program prints, for a program that prints the texts of the files
	shells map[*subshell]*folders
	where  map[*simple][]string // records the folders of each program, if it is not nil
	*folders
}

func (p *paths) commands(all []simple) {
	feeds := make([]bool, len(all))
	for i := len(all) - 2; i >= 0; i-- {
		words := wordsOf(unwrapped(all[i+1].words))
		feeds[i] = all[i].piped && (feeds[i+1] || len(words) > 0 && readsNamed(words))
	}
	p.shaky = p.shaky || slices.ContainsFunc(all, func(c simple) bool {
		return c.shaky && len(c.words) > 0 && c.words[0].text == closing
	})
	for i, c := range all {
		if outer := p.shells[nil]; c.row > p.row {
			if n := len(outer.dirs); len(p.broken) > 0 {
				if outer.dirs = outer.with(p.broken); len(outer.dirs) > n {
					outer.before = nil
				}
			}
			p.row, p.broken = c.row, nil
		}
		p.folders, p.feeds = p.in(c.in, c.chain), feeds[i]
		if breaks(c) && len(p.broken) <= maxDirs {
			p.broken = append(p.broken, p.dirs...)
		}
		p.lost = p.lost || c.turned
		if p.where != nil && !p.lost && !p.adrift {
			p.where[&all[i]] = p.dirs
		}
		p.command(c)
		for shell := c.in; c.apart; shell = shell.outer {
			if f := p.shells[shell]; f != nil && len(f.seen) > 0 {
				f.dirs, f.before = f.with(f.seen), nil
			}
			if shell == nil {
				break
			}
		}
		p.ran = p.ran || !keepsRepository(c)
		if steers(c) {
			p.lost, p.adrift = true, p.adrift || c.in != nil && c.in.last
		}
	}
}

// keepsRepository reports whether git finds the same repository after a program as before it. A program that copies or
// moves files may make another one.
func keepsRepository(c simple) bool {
	if slices.ContainsFunc(c.redirects, func(r redirect) bool { return r.op == ">" && !discards(r) && !leaves(r.to) }) {
		return false
	}
	words := unwrapped(c.words)
	if len(words) == 0 || settles(c.words) || assigns(c.words[0].text) {
		return len(c.words) == 0 || settles(c.words)
	}
	name, plain := base(words[0].text), wordsOf(words)
	return changes(words) || name == closing || looks(plain) || builds(plain) && !placing[name] &&
		(name != "tee" || !slices.ContainsFunc(words, func(t token) bool { return !leaves(t) }))
}

// leaves reports whether git finds the same repository after a file was written: a repository has .git, or HEAD.
func leaves(t token) bool {
	name := strings.ToLower(t.text[strings.LastIndexByte(t.text, '/')+1:])
	return literal(t) && !t.loose && name != "head" && !strings.HasPrefix(name, ".git")
}

var (
	// placing are the builders that make files and folders whose names are in the line.
	placing = set("cp mv sed mkdir touch")
	// removing are words of builders with which they may remove a folder of the project.
	removing = set("mv checkout switch stash merge rebase --")
	// builtFolder matches the path of a folder that builds make, and may remove before they fail.
	builtFolder = regexp.MustCompile(`(?i)(^|/)(build|dist|out|output|target|bin|obj|lib|tmp|temp|node_modules|vendor|` +
		`coverage|public|site|\.[^/.][^/]*)(/|$)`)
	// newFolder matches a word of mkdir that is the name of one folder.
	newFolder = regexp.MustCompile(`^\w[\w.-]*$`)
)

// keepsFolders reports whether the folders of the project are still there after a program, except those of builds. A
// script may remove the folders that its arguments name.
func keepsFolders(words []word) bool {
	return builds(words) && !runs(words) && (interpreters[words[0].text] == "" || words[1].text == "-m") &&
		!slices.ContainsFunc(words, func(w word) bool { return removing[w.text] || strings.Contains(w.text, "clean") })
}

// makes notes the folders that mkdir makes for sure.
func (p *paths) makes(c simple, name string, args []token) {
	fails := func(r redirect) bool { return !discards(r) }
	if name != "mkdir" || p.around.Free == nil || p.made == nil || c.in != nil || c.maybe || p.lost || len(p.dirs) > 1 ||
		p.shaky || c.shaky || len(p.broken) > 0 || slices.ContainsFunc(c.redirects, fails) {
		return
	}
	for _, t := range args {
		if dir := joined(p.dirs[0], t); literal(t) && !t.loose && newFolder.MatchString(t.text) && p.around.Free(dir) {
			p.made[dir] = true
		}
	}
}

// discards reports whether a redirection only discards text, so that it does not fail.
func discards(r redirect) bool { return r.op == ">" && r.to.text == "/dev/null" && literal(r.to) }

// in returns the folders of a shell of the line, at the beginning or within a chain. A subshell begins in those of the
// shell around it.
func (p *paths) in(shell *subshell, chain int) *folders {
	f := p.shells[shell]
	if f == nil {
		f = new(folders)
		*f = *p.in(shell.outer, chain)
		p.shells[shell] = f
	}
	if f.chain != chain {
		if len(f.failed) > 0 {
			f.dirs, f.before = f.with(f.failed), nil
		}
		f.failed, f.chain = nil, chain
	}
	return f
}

// with returns f.dirs and the folders in more, without repeats, and at most maxDirs.
func (f *folders) with(more []string) []string {
	all := slices.Clone(f.dirs)
	for _, dir := range more {
		if !slices.Contains(all, dir) {
			all = append(all, dir)
		}
	}
	f.lost = f.lost || len(all) > maxDirs
	return all[:min(len(all), maxDirs)]
}

func (p *paths) command(c simple) {
	for _, r := range c.redirects {
		p.inner(r.to)
		if r.op != "<<" {
			from := len(p.found)
			p.add("", r.to, r.op == ">")
			if len(p.found) == from+1 && r.op == ">" && literal(r.to) {
				p.found[from].Anew = !r.end && !c.maybe && !c.turned && c.in == nil && !p.lost && !p.adrift
			}
			if r.op == ">" && !strings.HasPrefix(r.to.text, "/") {
				p.folder("")
			}
		}
	}
	for _, t := range c.words {
		p.inner(t)
	}
	words := unwrapped(c.words)
	if len(words) == 0 || settles(c.words) {
		return
	}
	name, args := base(words[0].text), words[1:]
	plain := make([]word, len(words))
	for i, t := range words {
		plain[i] = word{t.text, t.unknown || t.told || len(t.inner) > 0}
	}
	checker := checkers[name]
	write := !looks(plain) && (checker == nil || !checker.permit(plain[1:]))
	switch {
	case changes(words):
		for _, t := range operands(args) {
			p.add(name, t, false)
		}
		p.cd(c, args)
		p.adrift = p.adrift || c.in != nil && c.in.last
		return
	case name == "echo" || name == "printf" || name == evaluating || name == closing:
		return
	case write:
		p.folder(name)
		if tool := npxTool(name, plain); tool != "" && len(p.found) > 0 {
			p.found[len(p.found)-1].Tool = tool
		}
		p.wrote, p.built = p.wrote || !keepsFolders(plain), p.built || !placing[name] && name != "tee"
		p.makes(c, name, args)
	}
	if end := slices.IndexFunc(args, func(t token) bool { return t.text == "--" }); targeted[name] && end >= 0 {
		name, args = name+" --", args[end+1:] // the words after -- are for the program that it runs
	}
	switch {
	case targeted[name], name == "git" && (len(args) == 0 || args[0].text != "mv") && write:
		return // words of git name branches, remotes and files whose text git has stored
	case buildersBy[name] != nil && len(args) > 0:
		if args[0].text == "run" {
			name = "go run"
		}
		args = args[1:]
	}
	if p.feeds {
		name = "xargs"
	}
	from := len(p.found)
	for _, t := range args {
		p.add(name, t, write)
		if _, value, ok := strings.Cut(t.text, "="); ok && (strings.HasPrefix(t.text, "-") || name == "dd") {
			t.text = value
			p.add(name, t, write)
		}
	}
	if name == "cp" || name == "mv" || name == "git" && write {
		for i := from; i < len(p.found); i++ {
			p.found[i].Source = i+1 < len(p.found) || hasPrefix(args, "-t", "--target")
		}
	}
	for i := from; i < len(p.found) && write && shows(plain); i++ {
		p.found[i].Shown = true
	}
}

// shows reports whether a program, perhaps one that another program runs, is a builder that prints text of the files in
// its arguments, or a sed that copies them to files with a suffix.
func shows(words []word) bool {
	sed := base(words[0].text) == "sed"
	return slices.ContainsFunc(words, func(w word) bool {
		return sed && suffixOf(w.text) != "" || showing[path.Base(w.text)] || strings.HasPrefix(w.text, "-w=") ||
			strings.HasPrefix(w.text, "--w=")
	})
}

// showing are the builders that print text of the files in their arguments. gofmt -w=false does that, too.
var showing = set("prettier goimports ruff flake8 black isort mypy json.tool")

// npxTool returns the package that npx may download and run. The program may also be one that runs npx.
func npxTool(name string, words []word) string {
	if name != "npx" && name != "timeout" && environments[name] == "" {
		return ""
	}
	for i, w := range words[:len(words)-1] {
		if next := words[i+1].text; base(w.text) == "npx" && next != "--no-install" {
			return next
		}
	}
	return ""
}

// checkers are builders that only read the files in their arguments, with the options for which this is so.
var checkers = map[string]*options{"gofmt": {long: set("l d s e")}, "shellcheck": builders["shellcheck"],
	"black": {short: "qvl:", need: []string{"--check", "--diff"}, long: set("check diff quiet verbose line-length color")},
	"ruff": {short: "qv", first: set("check format"), need: []string{"--diff"}, long: set(`diff select ignore quiet
		no-cache line-length verbose`)}}

// targeted are programs whose arguments are names of targets and packages.
var targeted = set("make npm pnpm yarn cargo")

// inner adds the words of the programs that a shell runs to replace a part of a word.
func (p *paths) inner(t token) {
	for _, s := range t.inner {
		in := *p
		here := *p.folders
		here.chain = 0
		in.made = nil // it is not known here whether the program of the word runs
		in.shells = map[*subshell]*folders{nil: &here}
		in.commands(s.commands)
		if len(s.commands) > 0 && len(s.commands[0].words) > 0 { // an arithmetic expression runs in this shell
			first := s.commands[0].words[0].text
			p.adrift = p.adrift || expansion(first) && (in.adrift || here.lost && !p.lost)
		}
		p.found, p.more, p.most, p.wrote, p.ran = in.found, in.more, in.most, p.wrote || in.wrote, p.ran || in.ran
		p.built = p.built || in.built
	}
}

// changes reports whether a program changes the folder of its shell.
func changes(words []token) bool {
	return len(words) > 0 && (words[0].text == "cd" || words[0].text == "pushd" || words[0].text == "popd")
}

// topLevel reports whether a word is the output of git rev-parse --show-toplevel.
func topLevel(t token) bool {
	if t.text != "" || t.unknown || t.told || t.pipe || len(t.inner) != 1 || len(t.inner[0].commands) != 1 {
		return false
	}
	c := t.inner[0].commands[0]
	return len(c.words) == 3 && len(c.redirects) == 0 && c.words[0].text == "git" && c.words[1].text == "rev-parse" &&
		c.words[2].text == "--show-toplevel" && !slices.ContainsFunc(c.words, func(t token) bool { return !literal(t) })
}

// variableFolder matches a path that begins with the home or the current folder, as the value of a variable.
var variableFolder = regexp.MustCompile(`^\$(HOME|PWD|\{HOME\}|\{PWD\})(/[^$]*)?$`)

// plainFolder reports whether the folder to which cd changes can be read from its argument.
func plainFolder(t token) bool {
	return !t.unknown && !t.loose && len(t.inner) == 0 && (!t.told || variableFolder.MatchString(t.text)) &&
		(t.home || !strings.HasPrefix(t.text, "~")) && !strings.Contains(t.text, "=~") &&
		!strings.ContainsAny(t.text[:min(len(t.text), 1)], "-+=")
}

// cd changes the folder.
func (p *paths) cd(c simple, args []token) {
	if p.lost || p.adrift {
		return
	}
	from, to := p.dirs, []string(nil)
	for len(args) > 0 && (args[0].text == "-L" || args[0].text == "--") { // after -P, links change what .. means
		args = args[1:]
	}
	switch {
	case c.words[0].text != "cd" || c.timed || len(args) > 1: // cd behind a wrapper is a program of its own
	case slices.ContainsFunc(c.redirects, func(r redirect) bool { return zshNumbers.MatchString(r.to.text) }):
	case len(args) == 0:
		to = []string{"~"}
	case args[0].text == "-":
		to = p.before
	case topLevel(args[0]) && p.around.Top != nil && !p.ran:
		to = p.tops(args[0].split)
	case p.around.Search && !strings.HasPrefix(args[0].text, "/") && !strings.HasPrefix(args[0].text, "."):
	case plainFolder(args[0]):
		for _, dir := range p.dirs {
			to = append(to, joined(dir, args[0]))
		}
	}
	long := func(dir string) bool { return len(dir) > maxPath }
	if to == nil || len(p.failed) > maxDirs || slices.ContainsFunc(to, long) {
		p.lost = true
		return
	}
	fails := func(r redirect) bool { return !discards(r) }
	folder := p.around.Folder
	missing := func(dir string) bool {
		return !p.made[dir] && (!folder(dir) || p.built && builtFolder.MatchString(dir))
	}
	if c.maybe || p.wrote || p.shaky || c.shaky || slices.ContainsFunc(c.redirects, fails) ||
		folder == nil || slices.ContainsFunc(to, missing) {
		p.failed = append(p.failed, from...)
	}
	p.before, p.dirs = from, to
	for _, dir := range from {
		if len(p.seen) <= maxDirs && !slices.Contains(p.seen, dir) { // one more than maxDirs makes the folder unknown
			p.seen = append(slices.Clip(p.seen), dir)
		}
	}
}

// plainPath matches a path that shells leave as it is, without quotes too.
var plainPath = regexp.MustCompile(`^/[\w/.+,@%-]+$`)

// tops returns the folders to which cd "$(git rev-parse --show-toplevel)" leads, or nil if they are not known. Where
// git prints nothing, cd "" succeeds; without the quotes (bare), it is cd and leads to the home.
func (p *paths) tops(bare bool) (to []string) {
	for _, dir := range p.dirs {
		top, sure := p.around.Top(dir)
		if top == "" || bare && (!sure || !plainPath.MatchString(top)) {
			return nil
		}
		if to = append(to, top); !sure {
			to = append(to, dir)
		}
	}
	return to
}

// zshNumbers matches 1-5, the input of cd a<1-5>b. To zsh, this is the pattern of a name.
var zshNumbers = regexp.MustCompile(`^\d*-\d*$`)

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

// folder adds the folders in which a program runs.
func (p *paths) folder(program string) {
	if p.most -= len(p.dirs); p.most < 0 {
		p.more = true
		return
	}
	x := Path{Program: program, Write: true, Lost: p.lost || p.adrift, Folder: true}
	for _, dir := range p.dirs {
		x.Names = append(x.Names, joined(dir, token{text: "."}))
	}
	p.found = append(p.found, x)
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
		x := Path{Program: program, Write: write, Lost: p.lost || p.adrift,
			Pattern: strings.ContainsAny(text, "*?[") && t.glob}
		for _, dir := range p.dirs {
			x.Names = append(x.Names, joined(dir, token{text: text, told: t.told}))
		}
		p.found = append(p.found, x)
	}
}
