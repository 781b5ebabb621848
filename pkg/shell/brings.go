package shell

import (
	"path"
	"slices"
	"strings"
	"sync"
)

// bringing are programs that bring text from other machines, in addition to those in connecting, delivering and
// fetching.
var bringing = set(`elinks lftp yt-dlp youtube-dl hg svn bzr cvs degit tiged giget gdown huggingface-cli hf urllib
	requests urlopen urlretrieve fetch`)

// managed are programs whose arguments may name another machine, although they bring only libraries and images. The
// subcommands in the table bring text of others nevertheless.
var managed = map[string]map[string]bool{
	"docker": set("cp exec logs export"), "podman": set("cp exec logs export"),
	"kubectl": set("cp exec logs get describe"), "gh": nil, "git": nil,
	"npm": set("view info show v pack"), "pnpm": set("view info show pack"), "yarn": set("info npm pack"),
	"pip": set("show download"), "pip3": set("show download"), "uv": nil, "poetry": nil, "cargo": set("info search"),
	"gem": set("info fetch unpack"), "go": nil, "bundle": nil, "composer": set("show"), "brew": nil,
	"apt": nil, "apt-get": nil,
}

// hubChanges are the second words of subcommands of gh that bring no text.
var hubChanges = set(`create comment edit close reopen merge review delete lock unlock pin unpin ready login status
	set`)

// runners are programs that run the code in their input.
var runners = set("sh bash zsh dash ksh fish python python3 node deno bun perl ruby php eval source . xargs parallel")

// Brings reports whether a command line may bring text from another machine, or from commits that others may have
// written. remotes are the names of the repository's remotes. A line that cannot be read brings text if it contains the
// name of a program that does, or a URL.
func Brings(line string, remotes []string) bool {
	commands, _, ok := lex(line)
	if !ok {
		return reaches(line)
	}
	return others(commands, remotes) || brings(commands, sync.OnceValue(func() bool { return reaches(line) }), remotes)
}

// reaches reports whether a text has the name of a program that connects to another machine, or a URL.
func reaches(text string) bool {
	return has(text, connects) || strings.Contains(text, "://") || strings.Contains(text, "/dev/tcp/")
}

// connects are the programs that bring text from other machines, except those of managed.
var connects = func() map[string]bool {
	all := map[string]bool{}
	for _, programs := range []map[string]bool{connecting, delivering, fetching, bringing} {
		for program := range programs {
			if _, ok := managed[program]; !ok {
				all[program] = true
			}
		}
	}
	return all
}()

// brings is like Brings, for the programs of a line. line reports whether the whole line reaches another machine.
func brings(commands []simple, line func() bool, remotes []string) bool {
	for i, c := range commands {
		all := slices.Clone(c.words)
		var said strings.Builder
		for _, r := range c.redirects {
			all = append(all, r.to)
			if r.op == "<<" || strings.Contains(r.to.text, "/dev/tcp/") {
				said.WriteString("\n" + r.to.text)
			}
		}
		for _, t := range all {
			if slices.ContainsFunc(t.inner, func(s sub) bool { return brings(s.commands, line, remotes) }) {
				return true
			}
		}
		words := wordsOf(unwrapped(c.words))
		if len(words) == 0 {
			continue
		}
		name, args := strings.ToLower(path.Base(words[0].text)), words[1:]
		subcommands, isManaged := managed[name]
		switch {
		case name == "git":
			if gitBrings(args, remotes) {
				return true
			}
		case name == "gh":
			if len(args) > 1 && !hubChanges[args[1].text] {
				return true
			}
		case isManaged:
			if slices.ContainsFunc(args, func(w word) bool { return subcommands[w.text] }) {
				return true
			}
		case connects[name] || remote(words) || strings.Contains(said.String(), "/dev/tcp/"):
			return true
		case (looks(words) || builds(words)) && interpreters[name] == "" && !runners[name]:
		default:
			for _, w := range args {
				said.WriteString("\n" + w.text)
			}
			if (runners[name] && i > 0 && commands[i-1].piped || words[0].wild) && line() || reaches(said.String()) {
				return true
			}
		}
	}
	return false
}

// gitBrings reports whether git writes text of other repositories, or of commits that others may have written. A pull
// of the project's own branches brings no such text.
func gitBrings(args []word, remotes []string) bool {
	args = gitCommand(args)
	if len(args) == 0 {
		return false
	}
	isOther := func(w word) bool { return otherRef.MatchString(w.text) && !ownRef.MatchString(w.text) }
	switch name, rest := args[0].text, args[1:]; name {
	case "clone", "svn":
		return true
	case "submodule", "subtree":
		return slices.ContainsFunc(rest, func(w word) bool { return w.text == "add" })
	case "archive":
		return slices.ContainsFunc(rest, func(w word) bool { return strings.HasPrefix(w.text, "--remote") })
	case "pull":
		return slices.ContainsFunc(rest, func(w word) bool {
			return isOther(w) || strings.Contains(w.text, ":") || strings.Contains(w.text, "/") && !own(w.text)
		})
	case "merge", "rebase", "cherry-pick", "reset", "switch", "worktree", "read-tree":
		return slices.ContainsFunc(rest, isOther)
	case "checkout", "restore":
		if slices.ContainsFunc(rest, isOther) {
			return true
		}
		operands, named := 0, []word{{text: "show"}}
		for _, w := range rest {
			source := strings.TrimPrefix(w.text, "--source=")
			if source == w.text && strings.HasPrefix(w.text, "-s") {
				source = w.text[2:]
			}
			if name == "checkout" && (w.text == "-b" || w.text == "-B") {
				return false
			}
			if !strings.HasPrefix(source, "-") {
				operands++
				named = append(named, word{text: source})
			}
		}
		return operands > 1 && fetched(named, remotes)
	}
	return false
}

// gitCommand returns the subcommand of git with its arguments.
func gitCommand(args []word) []word {
	for len(args) > 0 && strings.HasPrefix(args[0].text, "-") {
		if args[0].text == "-c" || args[0].text == "-C" {
			args = args[min(1, len(args)-1):]
		}
		args = args[1:]
	}
	return args
}

// Patches returns the operands of git apply and git am in a command line: files with patches.
func Patches(line string) (files []string) {
	commands, _, _ := lex(line)
	for _, c := range commands {
		words := wordsOf(unwrapped(c.words))
		if len(words) == 0 || base(words[0].text) != "git" {
			continue
		}
		if args := gitCommand(words[1:]); len(args) > 1 && (args[0].text == "apply" || args[0].text == "am") {
			for _, w := range args[1:] {
				files = append(files, w.text)
			}
		}
	}
	return files
}

// lasting are programs that start other programs, which may still run after the line has ended.
var lasting = set("at batch setsid tmux screen systemd-run daemonize crontab")

// Lasts reports whether a program of a command line may go on after the line has ended.
func Lasts(line string) bool {
	commands, _, ok := lex(line)
	return !ok && strings.Contains(line, "&") || lasts(commands)
}

func lasts(commands []simple) bool {
	return slices.ContainsFunc(commands, func(c simple) bool {
		words := unwrapped(c.words)
		return c.behind || len(words) > 0 && lasting[base(words[0].text)] || slices.ContainsFunc(c.words, func(t token) bool {
			return slices.ContainsFunc(t.inner, func(s sub) bool { return lasts(s.commands) })
		})
	})
}

// Searches reports whether a program of a command line searches the folder in which it runs, without naming it.
func Searches(line string) bool {
	commands, _, _ := lex(line)
	for i, c := range commands {
		words := wordsOf(unwrapped(c.words))
		if len(words) == 0 {
			continue
		}
		fed := i > 0 && commands[i-1].piped
		switch base(words[0].text) {
		case "rg", "ag", "ack":
			if !fed {
				return true
			}
		case "grep", "egrep", "fgrep":
			if slices.ContainsFunc(words[1:], func(w word) bool {
				return strings.HasPrefix(w.text, "-") && !strings.HasPrefix(w.text, "--") && strings.ContainsAny(w.text, "rR") ||
					strings.HasPrefix(w.text, "--rec") || strings.HasPrefix(w.text, "--deref")
			}) {
				return true
			}
		case "git":
			if args := gitCommand(words[1:]); len(args) > 0 && args[0].text == "grep" {
				return true
			}
		case "xargs":
			return true
		}
	}
	return false
}

// Mentioned returns the words of a command line that may be files that code in it writes: words of the whole line if it
// cannot be read, and otherwise those of the code that it gives to shells and interpreters.
func Mentioned(line string) (files []string) {
	var text strings.Builder
	commands, _, ok := lex(line)
	all := !ok
	for i, c := range commands {
		words := wordsOf(unwrapped(c.words))
		if len(words) == 0 || !runners[strings.ToLower(path.Base(words[0].text))] {
			continue
		}
		all = all || i > 0 && commands[i-1].piped
		for _, w := range words[1:] {
			text.WriteString("\n" + w.text)
		}
		for _, r := range c.redirects {
			text.WriteString("\n" + r.to.text)
		}
	}
	if all {
		text.WriteString("\n" + line)
	}
	for _, w := range named(text.String()) {
		if strings.ContainsAny(w, "./") && !strings.HasPrefix(w, "-") && len(files) < maxMentioned &&
			!strings.Contains(w, "//") && len(w) <= maxPath {
			files = append(files, w)
		}
	}
	return files
}

// maxMentioned is the maximum number of words that Mentioned returns.
const maxMentioned = 256
