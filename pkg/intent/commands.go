package intent

import (
	"cmp"
	"slices"
	"strings"

	"lazaret/pkg/text"
)

// command is a program that people ask for in their own words: "push it" asks for git push. A call is what they
// asked for only if it has no options but those listed here, and no operands but those that the user names.
type command struct {
	line string // the program with its subcommands
	acts string // verbs with which people ask for the program
	// about are words of which the request must have one. # stands for a version. If about is empty, the verb is
	// enough.
	about string
	// options are options that the user need not name. If one ends with a colon, it has a value, which the user must
	// name. If it ends with two, its value may be any text.
	options string
	needs   string // options of which the command must have at least one
	known   string // operands and values of options that the user need not name
	// own permits operands after the first, the remote, that the request does not name: branches of the project. It
	// does so only if the request names no other branch or remote.
	own bool
	// least is the least number of operands.
	least int
}

var commands = func() []command {
	all := []command{
		{line: "git push", acts: "push", options: "-u --set-upstream -q --quiet -v --verbose", known: "origin HEAD",
			own: true},
		{line: "git push", acts: "delete remove drop", about: "branch branches", needs: "--delete -d", known: "origin",
			least: 2},
		{line: "git pull", acts: "pull", options: "--rebase --ff-only -q --quiet", known: "origin", own: true},
		{line: "git fetch", acts: "fetch", about: "git origin remote branch branches tags commits", known: "origin",
			own: true, options: "--all --prune --tags -p -q --quiet"},
		{line: "git branch", acts: "delete remove drop", about: "branch branches", needs: "-d -D --delete", least: 1},
		{line: "git merge", acts: "merge", options: "--no-ff --ff-only --no-edit -m::", least: 1},
		{line: "git rebase", acts: "rebase", least: 1},
		{line: "git rm", acts: "delete remove", options: "-r -q --cached", least: 1},
		{line: "rm", acts: "delete remove erase", options: "-r -f -rf -fr -v", least: 1},
		{line: "gh pr create", acts: "open create raise submit file", about: pulls, known: "main master @me", options: `--fill
			--draft -d --title:: -t:: --body:: -b:: --head:: -H:: --base: -B: --reviewer: -r: --assignee: -a:`},
		{line: "gh pr merge", acts: "merge", about: "pr prs pull", options: "--squash --merge --rebase -s -m -r"},
		{line: "gh pr close", acts: "close", about: "pr prs pull", least: 1},
		{line: "gh issue create", acts: "open create raise submit file", about: "issue issues bug ticket", known: "@me",
			options: "--title:: -t:: --body:: -b:: --label: -l: --assignee: -a:"},
		{line: "gh issue close", acts: "close", about: "issue issues bug ticket", least: 1},
		{line: "glab mr create", acts: "open create raise submit file", about: pulls, known: "main master", options: `--fill
			--draft --title:: -t:: --description:: -d:: --source-branch:: -s:: --target-branch: -b: --reviewer:`},
		{line: "npm start", acts: "run start launch", about: "app server application site"},
		{line: "docker compose up", acts: "start run launch bring", about: stack, options: "-d --detach --build"},
		{line: "docker compose down", acts: "stop shut take bring", about: stack},
		{line: "docker compose down", acts: "drop delete remove", about: "volume volumes", needs: "-v --volumes"},
		{line: "docker compose restart", acts: "restart", about: stack},
	}
	for _, c := range []command{
		{line: "npm install", options: saves}, {line: "npm i", options: saves}, {line: "npm ci"}, {line: "yarn install"},
		{line: "yarn add", options: saves, least: 1}, {line: "pnpm install", options: saves},
		{line: "pnpm i", options: saves}, {line: "pnpm add", options: saves, least: 1},
		{line: "pip install", options: pips, known: reqs, least: 1},
		{line: "pip3 install", options: pips, known: reqs, least: 1},
		{line: "python -m pip install", options: pips, known: reqs, least: 1},
		{line: "python3 -m pip install", options: pips, known: reqs, least: 1},
		{line: "uv add", options: "--dev", least: 1}, {line: "poetry add", options: "--dev", least: 1},
		{line: "poetry install"}, {line: "cargo add", options: "--dev", least: 1}, {line: "bundle install"},
		{line: "composer install"}, {line: "composer require", options: "--dev", least: 1},
		{line: "go get", options: "-u -t", least: 1}, {line: "go install", least: 1}, {line: "gem install", least: 1},
		{line: "brew install", least: 1},
	} {
		c.acts = "install reinstall"
		all = append(all, c)
		// Users also add buttons and update tests. So the request must also have a word for packages.
		c.acts, c.about = "add update upgrade bump", `package packages dependency dependencies library libraries module
			modules npm yarn pnpm pip cargo #`
		all = append(all, c)
	}
	for _, line := range []string{"npm uninstall", "yarn remove", "pnpm remove", "pip uninstall", "cargo remove"} {
		all = append(all, command{line: line, acts: "uninstall remove drop", options: "-y", least: 1})
	}
	for _, line := range []string{"npm run", "yarn run", "pnpm run"} {
		all = append(all, command{line: line, acts: "run start launch", least: 1})
	}
	return all
}()

const (
	pulls = "pr prs pull pull-request merge merge-request mr"
	saves = "-D --save-dev -S --save -E --save-exact"
	pips  = "-U --upgrade -q --quiet -r: -e:"
	reqs  = "requirements.txt requirements-dev.txt ."
	stack = "stack containers container services service compose docker"
)

var (
	// negations are words with which a sentence asks that something is not done.
	negations = text.Set("not don't dont never without avoid except unless cannot can't won't shouldn't mustn't")
	// reports are words with which a sentence says what somebody else says or did.
	reports = text.Set(`says said tells told suggests suggested recommends recommended mentions mentioned claims claimed
		states stated wrote writes asks asked wants wanted ran did`)
	// leads are words before a command that the user wants to be run.
	leads = text.Set("run execute with using use via by do try call invoke then and just please now command also")
	// fillers are words between a verb and the name of its object, or after that name.
	fillers = text.Set(`a an the my our your this that its new local remote branch branches package packages library
		libraries module modules dependency tool script version git npm pip file files folder directory changes change commit
		commits it them everything all up back on onto to into off pull request pr issue server`)
	// follow are words after the name of an object. A name that is an ordinary word counts only before one of them
	// or at the end of the sentence.
	follow = text.Set(`and or then to for in from with as on at please now too also again first into onto via using so
		before after if when but because`)
	// unnamed are words for objects that the user does not name.
	unnamed = text.Set("what whatever whichever need needed dependencies deps requirements anything something they he she")
)

// maxTexts is the maximum length, in bytes, of the messages that are compared with a command line. The latest ones
// are taken.
const maxTexts = 32 << 10

// AsksForCommand reports whether the user asked for a command line, which must start one program and do nothing
// else. words are the words of the line. named is set if the user named all of its operands. A later sentence can
// withdraw an earlier request: "do not push yet".
func (s *Said) AsksForCommand(line string, words []string) (asked, named bool) {
	line = strings.Join(strings.Fields(line), " ")
	from, size := len(s.Texts), 0
	for from > 0 && size+len(s.Texts[from-1]) <= maxTexts {
		from--
		size += len(s.Texts[from])
	}
	for _, said := range s.Texts[from:] {
		first := true
		for row := range strings.Lines(said) {
			for sentence := range sentences(strings.Fields(row)) {
				a, n, denied := commanded(sentence, line, words, first)
				switch first = false; {
				case denied:
					asked, named = false, false
				case a:
					asked, named = true, named || n
				}
			}
		}
	}
	return asked, named
}

// commanded reports whether a sentence asks for a command line. first is set for the first sentence of a message.
// denied is set if the sentence says that the line must not be run.
func commanded(sentence []string, line string, words []string, first bool) (asked, named, denied bool) {
	low := make([]string, len(sentence))
	negated := false
	for i, w := range sentence {
		low[i] = text.Normalize(w)
		negated = negated || negations[strings.ReplaceAll(bare(low[i]), "’", "'")]
	}
	reported := slices.ContainsFunc(low, func(w string) bool { return reports[bare(w)] })
	switch {
	case typed(sentence, low, line, first):
		asked, named = true, true
	default:
		for _, part := range parts(sentence) {
			for i := range commands {
				if a, n := commands[i].wanted(part, words); a {
					asked, named = true, named || n
				}
			}
		}
	}
	if !asked || negated {
		return false, false, asked
	}
	if reported || informs(low) {
		return false, false, false
	}
	return asked, named, false
}

// typed reports whether a sentence contains the command line itself, and wants it to be run.
func typed(sentence, low []string, line string, first bool) bool {
	if !strings.ContainsAny(line, " /.") {
		return false // an ordinary word may be the name of a program
	}
	said := strings.Join(sentence, " ")
	for from, tries := 0, 0; tries < maxTyped; tries++ {
		i := strings.Index(said[from:], line)
		if i < 0 {
			return false
		}
		i += from
		from = i + 1
		before, after := said[:i], said[i+len(line):]
		quote := ""
		if before != "" {
			if quote = before[len(before)-1:]; strings.Contains("`'\"", quote) {
				if before = before[:len(before)-1]; !strings.HasPrefix(after, quote) {
					continue // the quotation mark belongs to a longer command
				}
				after = after[1:]
			} else if quote != " " {
				continue
			}
		}
		lead := strings.Fields(before)
		next := strings.Fields(after)
		switch {
		case strings.Trim(after[:min(1, len(after))], " .,;:!?)") != "":
		case len(next) > 0 && after[0] == ' ' && !strings.Contains("`'\"", cmp.Or(quote, " ")) &&
			!follow[bare(text.Normalize(next[0]))]: // the user's command has more words than the line
		case len(lead) == 0 && first,
			len(lead) > 0 && (leads[bare(low[len(lead)-1])] || strings.HasSuffix(lead[len(lead)-1], ":")):
			if len(lead) < 2 || !doers[bare(low[len(lead)-2])] {
				return true
			}
		}
	}
	return false
}

// maxTyped is the maximum number of places in a sentence at which a command line is looked for.
const maxTyped = 32

// wanted reports whether a request asks for the command in the user's own words. named is set if the request names
// all operands in words.
func (c *command) wanted(request, words []string) (asked, named bool) {
	line := strings.Fields(c.line)
	if len(words) < len(line) || !slices.Equal(words[:len(line)], line) {
		return false, false
	}
	acts, about := strings.Fields(c.acts), strings.Fields(c.about)
	prev := ""
	if len(about) > 0 && !slices.ContainsFunc(request, func(raw string) bool {
		w := bare(text.Normalize(raw))
		return slices.Contains(about, w) || slices.Contains(about, "#") && version(w)
	}) {
		return false, false
	}
	for i, raw := range request {
		w := bare(text.Normalize(raw))
		if slices.ContainsFunc(acts, func(a string) bool { return Stem(a) == Stem(w) }) && !nouns[prev] && !doers[prev] &&
			prev != line[0] {
			if asked, named = c.permits(words[len(line):], request, i+1); asked {
				return true, named
			}
		}
		prev = w
	}
	return false, false
}

// doers are words for somebody other than the agent. In "we push on Fridays", the user does not ask the agent to
// push.
var doers = text.Set("i we they he she it who people users")

// version reports whether a word is a version: 19, v2.4.0.
func version(w string) bool {
	w = strings.TrimPrefix(w, "v")
	return w != "" && w[0] >= '0' && w[0] <= '9'
}

// nameOf returns a word of a request without the punctuation around it.
func nameOf(raw string) string {
	return strings.TrimLeft(strings.TrimRight(raw, ".,;:!?)\"'”’`"), "(\"'“‘`#")
}

// signed reports whether a word has a sign or a digit, as names have and ordinary words do not: fix/duration,
// next-themes, react@19.
func signed(w string) bool { return strings.ContainsAny(w, "/-_.@:0123456789") }

// objectsOf returns the names that follow a verb as its objects: "install next-themes and lodash for the page" has two.
// An ordinary word counts only at the end of such a phrase: in "install the library the docs recommend", docs does not.
func objectsOf(request []string) (out []string) {
	for i, raw := range request {
		w := nameOf(raw)
		low := text.Normalize(w)
		next := ""
		if i+1 < len(request) {
			next = text.Normalize(nameOf(request[i+1]))
		}
		switch {
		case w == "" || unnamed[low]:
			return out
		case fillers[low] && !quoted(raw), len(out) > 0 && (low == "and" || low == "or"):
			continue
		case signed(w), quoted(raw), ends(raw), next == "", follow[next], fillers[next]:
			if follow[low] || dull[low] {
				return out
			}
			out = append(out, w)
		default:
			return out
		}
		if !strings.HasSuffix(raw, ",") && next != "and" && next != "or" {
			return out
		}
	}
	return out
}

func quoted(raw string) bool { return raw != "" && strings.Contains("\"'“‘`", raw[:1]) }

// branches returns the names of branches and remotes in a request: words with a sign or a digit, words in quotes,
// and the words after "to", "from" and "branch".
func branches(request []string) (out []string) {
	prev := ""
	for _, raw := range request {
		w := nameOf(raw)
		low := text.Normalize(w)
		if w != "" && (signed(w) || quoted(raw) || (prev == "to" || prev == "branch" || prev == "from") && !fillers[low] &&
			!follow[low] && !dull[low] && !unnamed[low]) {
			out = append(out, w)
		}
		prev = low
	}
	return out
}

// permits reports whether the request names everything in the arguments of the command that it must name. named is
// set if it names every operand that decides what the command changes. The verb of the request is the word before
// index after.
func (c *command) permits(args, request []string, after int) (ok, named bool) {
	options, needs, known := strings.Fields(c.options), strings.Fields(c.needs), strings.Fields(c.known)
	names := objectsOf(request[after:])
	if c.own {
		names = branches(request[after:])
	}
	in := func(names []string) func(w string) bool {
		return func(w string) bool {
			return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(nameOf(n), w) })
		}
	}
	is, has := in(names), in(request)
	needed, named := len(needs) == 0, true
	var operands []string
	for i := 0; i < len(args); i++ {
		w := args[i]
		if !strings.HasPrefix(w, "-") {
			operands = append(operands, w)
			continue
		}
		name, value, joined := strings.Cut(w, "=")
		switch {
		case slices.Contains(needs, w):
			needed = true
		case slices.Contains(options, w):
		case slices.Contains(options, name+":"), slices.Contains(options, name+"::"):
			if !joined {
				if i++; i == len(args) {
					return false, false
				}
				value = args[i]
			}
			if !slices.Contains(options, name+"::") && !slices.Contains(known, value) && !has(value) {
				return false, false
			}
		default:
			return false, false
		}
	}
	if !needed || len(operands) < c.least {
		return false, false
	}
	hit := false
	for i, w := range operands {
		switch {
		case is(w) || namesVersion(w, is, has):
			hit = true
		case slices.Contains(known, w):
		case c.own && i > 0 && plainName(w):
			named = named && !trunk[w] // "push it" is about the branch that the user works on, not about a shared one
		default:
			return false, false
		}
	}
	if c.own && len(operands) > 0 && !hit && slices.ContainsFunc(names, func(n string) bool {
		return !slices.Contains(known, n)
	}) {
		return false, false // the request names another branch or another remote
	}
	return true, named
}

// namesVersion reports whether a request names a package and its version: react@19 for "react to 19".
func namesVersion(w string, is, has func(string) bool) bool {
	at := strings.LastIndexByte(w, '@')
	if at <= 0 {
		at = strings.Index(w, "==")
	}
	if at <= 0 {
		return false
	}
	v := strings.TrimLeft(w[at:], "@=")
	return is(w[:at]) && (v == "latest" || version(v) && (has(v) || has("v"+v) || has(strings.TrimPrefix(v, "v"))))
}

// trunk are usual names of the branch that all developers share.
var trunk = text.Set("main master trunk develop production release")

// plainName reports whether a word can be the name of a branch and has none of the signs by which git reads more
// than a name (a..b, a:b, +a).
func plainName(w string) bool {
	return w != "" && !strings.Contains(w, "..") && !strings.ContainsFunc(w, func(r rune) bool {
		return NotWord(r) && !strings.ContainsRune("/._-", r)
	})
}
