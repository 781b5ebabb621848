package shell

import (
	"regexp"
	"slices"
	"strings"
)

// Others reports whether a command line prints text that others may have written, although the line reads this text
// from the project's folder or from installed packages: commits that were fetched from a remote of git, files of
// another revision, and descriptions of packages. remotes are the names of the repository's remotes. The result is also
// true if xargs runs a program that prints files, and the names of these files may come from another program than those
// in listers.
func Others(line string, remotes []string) bool {
	commands, _, ok := lex(line)
	return !ok || others(commands, remotes)
}

func others(commands []simple, remotes []string) bool {
	for i, c := range commands {
		all := slices.Clone(c.words)
		for _, r := range c.redirects {
			all = append(all, r.to)
		}
		for _, t := range all {
			if slices.ContainsFunc(t.inner, func(s sub) bool { return others(s.commands, remotes) }) {
				return true
			}
		}
		words := wordsOf(unwrapped(c.words))
		if len(words) == 0 {
			continue
		}
		if name := base(words[0].text); name == "git" && fetched(words[1:], remotes) || describes(name, words[1:]) ||
			readsNamed(words) && !listed(commands[:i]) {
			return true
		}
	}
	return false
}

// describes reports whether a program prints what the authors of a package say about it.
func describes(name string, args []word) bool {
	for _, sub := range describers[name] {
		if words := strings.Fields(sub); len(args) > len(words) && slices.EqualFunc(args[:len(words)], words,
			func(w word, s string) bool { return w.text == s }) {
			return true
		}
	}
	return false
}

var describers = map[string][]string{"pip": {"show"}, "pip3": {"show"}, "uv": {"pip show"}, "poetry": {"show"},
	"python": {"-m pip show"}, "python3": {"-m pip show"}, "npm": {"explain", "why"},
	"pnpm": {"why"}, "yarn": {"why"}}

// readsNamed reports whether a program prints text of files whose names are in its input.
func readsNamed(words []word) bool {
	if base(words[0].text) != "xargs" {
		return false
	}
	for _, w := range words[1:] {
		if !strings.HasPrefix(w.text, "-") {
			return !naming[w.text]
		}
	}
	return false
}

var (
	naming  = set("wc ls stat du basename dirname") // counters that print only names and numbers
	listers = set("find ls git rg grep egrep fgrep tree sort uniq head tail")
)

// listed reports whether the input of the program after commands has only names that listers print.
func listed(commands []simple) bool {
	n := len(commands)
	for i := n - 1; i >= 0 && commands[i].piped; i-- {
		if words := unwrapped(commands[i].words); len(words) == 0 || !listers[base(words[0].text)] {
			return false
		}
	}
	return n > 0 && commands[n-1].piped
}

// printing are the subcommands of git that print texts of commits and files.
var printing = set("show log diff grep blame annotate shortlog cat-file whatchanged branch")

var (
	// otherFile matches a file of another revision: main:docs/a.md. Formats such as %h:%s are none.
	otherFile = regexp.MustCompile(`^\w[\w./~^@{}-]*:[^%\s]+$`)
	// otherRef matches a revision that may come from a remote, and every whole name (refs/…). ownRef matches the whole
	// names that do not come from one: of branches, tags and the stash.
	otherRef = regexp.MustCompile(`(?i)^((FETCH|MERGE)_HEAD\b|remotes/|pull/|refs/)|@\{(u|upstream|push)\}`)
	ownRef   = regexp.MustCompile(`^refs/(heads|tags|stash)\b`)
	revision = regexp.MustCompile(`^[^~^@:]*`)
	// givesPattern matches an option of git grep whose value is the pattern, as in -nex.
	givesPattern = regexp.MustCompile(`^-[A-Za-z]*e`)
	// listOptions are options of git diff with which it prints names and numbers, and others that add no text.
	listOptions = set("--stat --shortstat --numstat --name-only --name-status")
	moreOptions = set("--cached --staged --no-renames --exit-code --no-color")
)

// fetched reports whether git prints text of commits that others may have written.
func fetched(args []word, remotes []string) bool {
	args, _ = gitArgs(args)
	if len(args) == 0 || !printing[args[0].text] {
		return false
	}
	name, args := args[0].text, args[1:]
	if name == "branch" { // it prints the first lines of commits with -v
		option := func(letters string) bool {
			return slices.ContainsFunc(args, func(w word) bool {
				return strings.HasPrefix(w.text, "-") && strings.ContainsAny(w.text, letters)
			})
		}
		return option("v") && option("ar")
	}
	pattern := name == "grep" && !slices.ContainsFunc(args, func(w word) bool {
		return givesPattern.MatchString(w.text)
	})
	lists := name == "diff" && slices.ContainsFunc(args, func(w word) bool { return listOptions[w.text] })
	if lists && !slices.ContainsFunc(args, func(w word) bool {
		return strings.HasPrefix(w.text, "-") && !listOptions[w.text] && !moreOptions[w.text] && w.text != "--"
	}) {
		return false
	}
	from := func(s string) bool {
		if otherRef.MatchString(s) && !ownRef.MatchString(s) {
			return true
		}
		s = strings.ToLower(revision.FindString(s)) // on some systems, the case of a name does not matter
		return slices.ContainsFunc(remotes, func(remote string) bool {
			remote = strings.ToLower(remote)
			return s == remote || strings.HasPrefix(s, remote+"/")
		})
	}
	for _, w := range args {
		s := w.text
		switch {
		case s == "--" && !pattern: // git grep reads the pattern and revisions behind a first --
			return false
		case s == "--all" || s == "--reflog" || strings.HasPrefix(s, "--remotes") || strings.HasPrefix(s, "--glob"),
			strings.HasPrefix(s, ":/") && s != ":/": // a commit of any branch whose message has this text
			return true
		case s == "" || strings.HasPrefix(s, "-") || s[0] == '^':
			continue
		case pattern:
			pattern = false
			continue
		}
		if otherFile.MatchString(s) && !strings.HasPrefix(s, "HEAD") {
			return true
		}
		// A...B of diff shows what B changed; A..B of log shows the commits of B that A does not have.
		a, b, both := strings.Cut(s, "...")
		if !both {
			a, b, both = strings.Cut(s, "..")
			if both && name != "diff" {
				a = ""
			}
		} else if name == "diff" {
			a = ""
		}
		if from(a) || from(b) {
			return true
		}
	}
	return false
}
