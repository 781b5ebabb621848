package intent

import (
	"slices"
	"strings"
	"unicode"

	"lazaret/pkg/text"
)

// Limits on what AsksForCommand reads. Beyond a limit, it returns false.
const (
	maxRequest = 4 << 10 // bytes of the message
	maxCommand = 1 << 10 // bytes of the command line
	maxOrders  = 16      // imperatives
)

// AsksForCommand reports whether the user asked for a command line that runs one program and does nothing else. words
// are the words of the line. named is set if the user named everything in the line.
//
// The reading is strict: if a request is missed, a person has to approve the command, but a wrong command may destroy
// the machine's data. Only the latest message counts, and only if it has no line break and none of the words in holds.
// A part of a sentence asks for a command if it begins with an imperative and all of its words are understood.
func (s *Said) AsksForCommand(line string, words []string) (asked, named bool) {
	line = strings.TrimSpace(line)
	if len(s.Texts) == 0 || len(words) == 0 || len(line) > maxCommand {
		return false, false
	}
	said := s.Texts[len(s.Texts)-1]
	if len(said) > maxRequest || HoldsBack(said) {
		return false, false
	}
	for _, o := range orders(said) {
		if o.types(line) {
			return true, true
		}
		for i := range commands {
			if a, n := commands[i].wanted(o, words); a {
				asked, named = true, named || n
			}
		}
	}
	return asked, named
}

// holds are words of negation, deferral and condition, without apostrophes. Some are of other languages, because users
// mix them with English.
var holds = text.Set(`no not nor never none nobody nothing nowhere neither noone cannot don dont doesnt didnt wont
	wouldnt cant couldnt shouldnt mustnt neednt isnt arent wasnt werent hasnt havent hadnt aint shant stop wait hold
	refrain avoid until till unless before after only without instead actually later tomorrow tonight if when whenever
	once first yet eventually soon rather except maybe perhaps might should whether provided assuming suppose supposing
	imagine pretend beforehand prior sure ensure thought hang keep ignore disregard hour hours minute minutes week weeks
	ask confirm approve approved approval permission forget cancel undo revert scratch nevermind mind
	skip leave pause postpone delay defer drop abort nicht kein keine nein erst pas jamais non nunca nao niet geen`)

// apostrophes are the characters that people write as an apostrophe.
const apostrophes = "'’‘`´′‵ʼʹꞌ＇"

// HoldsBack reports whether a message has a word of holds or the name of a weekday. It also returns true for a message
// with letters of another script than Latin, because such words are not known in it.
func HoldsBack(said string) bool {
	if strings.ContainsFunc(said, func(r rune) bool { return unicode.IsLetter(r) && !unicode.Is(unicode.Latin, r) }) {
		return true
	}
	low := strings.Map(func(r rune) rune {
		if strings.ContainsRune(apostrophes, r) {
			return -1
		}
		return r
	}, text.Normalize(said))
	for w := range strings.FieldsFuncSeq(low, NotWord) {
		if holds[w] || days[w] {
			return true
		}
	}
	return false
}

// order is a part of a sentence that begins with an imperative.
type order struct {
	verb string
	raw  []string // the words after the verb as the user wrote them; a text in backticks is one word
	low  []string // these words in lower case, without punctuation
}

var (
	// openers are words before an imperative.
	openers = text.Set("please and then now also finally ok okay yes")
	// imperatives are verbs with which people begin a request. Verbs such as "check" and "review" are left out: they may
	// say what has to happen first ("check with Ana").
	imperatives = text.Set(`add adjust build bump change clean commit complete continue convert correct create deploy edit
		execute extend fetch find finish fix format implement improve install launch lint make merge move
		open pull push put raise rebase refactor release rename replace restart run stage start submit test
		try update upgrade use write`)
	// remarks are words with which a remark before an imperative begins: "looks good, push it".
	remarks = text.Set("looks lgtm good great nice perfect thanks thank fine done go ok okay yes")
	// remarked are other words of remarks: "that looks good to me so far".
	remarked = text.Set("to me you it that this so far very much all a lot well ahead")
	// clauses are words of a clause in which a later verb is no imperative: "find the people who fix it and push it".
	clauses = text.Set(`that who which whose how will would can could must shall may let have has had be been being is are
		was were i we they he she you people users someone somebody`)
	// toward are imperatives after which "to" names a place, and does not begin a clause.
	toward = text.Set("push open create raise submit")
	// cites are words that announce the words of somebody else. A word of texts announces them after "this" or "these".
	cites = text.Set(`summarize summarise translate shorten proofread explain rephrase reword rewrite paraphrase quote
		quotes describe document transcribe classify extract reply answer respond says say said tells told suggests suggested
		recommends recommended mentions mentioned claims claimed states stated wrote writes asks asked wants wanted
		requests requested here following below above pasted`)
	texts = text.Set("mail email e-mail message issue ticket text readme page post letter comment note paragraph document")
)

// orders returns the imperatives of a message. It returns none if the message has a line break, or a sign or word of a
// quotation. It also returns none if a sentence after the first imperative, or a short one before it, is not
// understood: such a sentence may take the request back.
func orders(said string) (out []order) {
	words, ok := rowWords(said)
	if !ok {
		return nil
	}
	from := 0
	for i, w := range words {
		if end := w[len(w)-1]; !strings.ContainsRune(".;!?", rune(end)) && i+1 < len(words) {
			continue
		}
		found, is := chain(words[from : i+1])
		if is == cited || is == unclear && (len(out) > 0 || i+1-from < leastRemark) {
			return nil
		}
		out, from = append(out, found...), i+1
	}
	return out[:min(len(out), maxOrders)]
}

// leastRemark is a number of words. A sentence before a request need not be understood if it has at least as many
// words. A shorter one may be an answer ("Nope.") or the name of a source.
const leastRemark = 4

// rowWords returns the words of a message. ok is false if the message has a line break, or a character that announces
// or encloses words of somebody else: a quotation mark, a bracket, a dash or a colon. The colon of "run:" or "execute:"
// is allowed.
func rowWords(row string) (words []string, ok bool) {
	row = strings.TrimSpace(row)
	if strings.ContainsAny(row, "\r\n\u2028\u2029") {
		return nil, false
	}
	for ; row != ""; row = strings.TrimSpace(row) {
		end := 0
		if row[0] == '`' {
			n := strings.IndexByte(row[1:], '`')
			if n < 0 {
				return nil, false
			}
			end = n + 2
		}
		if n := strings.IndexAny(row[end:], " \t"); n >= 0 {
			end += n
		} else {
			end = len(row)
		}
		w := row[:end]
		row = row[end:]
		low := strings.ToLower(w)
		runs := low == "run:" || low == "execute:"
		switch {
		case w[0] == '`' || runs:
		case strings.HasSuffix(w, ":"), strings.ContainsAny(w, "\"“”„«»‹›()[]{}<>|*`–—"), w[0] == '\'' || w[0] == '-',
			strings.HasPrefix(w, "‘"), w[0] == '#' && !version(nameOf(w)):
			return nil, false
		}
		words = append(words, w)
	}
	return words, true
}

// plainWord returns a word in lower case, without the punctuation after it.
func plainWord(raw string) string { return strings.ToLower(strings.TrimRight(raw, ".,;:!?")) }

// sense is how much of a sentence is understood.
type sense int

const (
	understoodAll sense = iota // imperatives, or a remark such as "thanks"
	unclear                    // something else
	cited                      // the sentence, or one near it, may be somebody else's
)

// chain returns the imperatives of a sentence. Each part of the sentence, except a remark, must begin with an
// imperative.
func chain(sentence []string) (out []order, is sense) {
	low := make([]string, len(sentence))
	for i, w := range sentence {
		low[i] = plainWord(w)
		if cites[low[i]] || i > 0 && texts[low[i]] && (low[i-1] == "this" || low[i-1] == "these") {
			return nil, cited
		}
	}
	i := 0
	skip := func() {
		for i < len(low) && openers[low[i]] {
			i++
		}
	}
	skip()
	invited := i+1 < len(low) && (low[i] == "can" || low[i] == "could") && low[i+1] == "you"
	if invited {
		i += 2
		skip()
	}
	if strings.HasSuffix(sentence[len(sentence)-1], "?") && !invited {
		return nil, cited // the answer may be in a text that follows
	}
	begins := func(j int) bool { return imperatives[low[j]] }
	if i < len(low) && !begins(i) {
		if !remarks[low[0]] || invited {
			return nil, unclear
		}
		known := true
		for i = 1; i < len(low) && !(begins(i) && (openers[low[i-1]] || strings.HasSuffix(sentence[i-1], ","))); i++ {
			if clauses[low[i]] {
				return nil, unclear
			}
			known = known && (remarks[low[i]] || openers[low[i]] || tails[low[i]] || remarked[low[i]])
		}
		if i == len(low) && !known {
			return nil, unclear
		}
	}
	for i < len(low) {
		verb, from := i, i+1
		for i++; i < len(low) && !(begins(i) && (openers[low[i-1]] || strings.HasSuffix(sentence[i-1], ","))); i++ {
		}
		to := i
		for i < len(low) && to > from && openers[low[to-1]] {
			to--
		}
		out = append(out, order{low[verb], sentence[from:to], low[from:to]})
		if slices.ContainsFunc(low[from:to], func(w string) bool { return clauses[w] || w == "to" && !toward[low[verb]] }) {
			if low[verb] != "run" && low[verb] != "execute" { // the words after run are those of a command
				out = out[:len(out)-1]
			}
			break
		}
	}
	return out, understoodAll
}

// tails are words at the end of an order that change nothing.
var tails = text.Set("please now too again also thanks")

// reports are verbs of requests to know the result: "run x, then tell me". They may follow a command line.
var reports = text.Set("tell show report paste print")

// untail returns the number of words of an order without those at its end that change nothing: "for it", "now".
func (o order) untail() int {
	n := len(o.low)
	for n > 0 && tails[o.low[n-1]] {
		n--
	}
	at := func(i int, set string) bool { return i >= 0 && slices.Contains(strings.Fields(set), o.low[i]) }
	switch {
	case at(n-2, "for") && at(n-1, "it me us this that them"):
		n -= 2
	case at(n-3, "for") && at(n-2, "the my our this") && strings.Trim(o.low[n-1], "abcdefghijklmnopqrstuvwxyz") == "":
		n -= 3
	}
	return n
}

// types reports whether the user typed the command line in this order, after "run" or "execute".
func (o order) types(line string) bool {
	if o.verb != "run" && o.verb != "execute" || len(o.raw) == 0 || reaches(line) {
		return false
	}
	n := o.untail()
	if o.raw[0][0] == '`' {
		end := strings.LastIndexByte(o.raw[0], '`')
		return n <= 1 && strings.Trim(o.raw[0][end:], "`.,;!?") == "" && o.raw[0][1:end] == line
	}
	for i := 0; i+2 < n; i++ {
		if strings.HasSuffix(o.raw[i], ",") && (o.low[i+1] == "and" || o.low[i+1] == "then") && reports[o.low[i+2]] {
			n = i + 1
		}
	}
	return strings.ContainsAny(line, " /.") && !nouns[o.low[0]] && !strings.Contains(line, "`") &&
		strings.TrimRight(strings.Join(o.raw[:n], " "), ".,;!?") == line
}

// reaches reports whether a command line names a root, a home, the whole folder, a folder above it, .git, an absolute
// path or a pattern. A person approves such a line, even if the user typed it.
func reaches(line string) bool {
	if strings.ContainsAny(line, "$\\*?[") {
		return true
	}
	for w := range strings.FieldsFuncSeq(line, func(r rune) bool {
		return strings.ContainsRune(" \t\r\n\"'`=,;(){}<>|&", r)
	}) {
		if strings.HasPrefix(w, "-") {
			w = w[min(len(w), max(0, strings.IndexAny(w+"/", "/~."))):]
		}
		if strings.Contains(w, "://") && !strings.HasPrefix(strings.ToLower(w), "file:") {
			continue
		}
		for part := range strings.SplitSeq(w, ":") {
			inside := false // the path has a name other than .
			for i, name := range strings.Split(part, "/") {
				if name == ".." || strings.EqualFold(name, ".git") || name == "" && i == 0 && part != "" {
					return true
				}
				inside = inside || name != "" && name != "."
			}
			if part != "" && !inside || strings.HasPrefix(part, "~") {
				return true
			}
		}
	}
	return false
}

// command is a program for which people ask in their own words, "push it" for git push. None of them deletes anything.
type command struct {
	line string // the program with its subcommands
	acts string // imperatives by which people ask for it
	// may are the words that the request may have besides names. If must is not empty, the request must have one of the
	// words in it.
	may, must string
	// options are options that the user need not name. If one colon follows an option, the user must name its value; if
	// two follow, its value may be any text.
	options string
	known   string // operands and values that need not be named
	least   int    // the least number of operands
	most    int    // the greatest number of operands
	own     bool   // the second operand may be an unnamed branch, if the request names nothing
	pkg     bool   // the names are those of packages
	bare    bool   // the program installs what the project's files list, and has no operands
}

const (
	articles = "a an the my our your "
	branchy  = articles + "new local remote current latest branch branches change changes commit commits and "
	proposes = articles + pulls + " new draft pull merge it against to"
	pulls    = "pr pull-request merge-request mr request"
	saves    = "-D --save-dev -S --save -E --save-exact"
	pips     = "-U --upgrade -q --quiet -r:"
	packages = articles + `package packages library libraries module modules dependency dependencies deps requirements it
		them and`
)

var commands = func() []command {
	all := []command{
		{line: "git push", acts: "push", may: branchy + "it this that them work code fix to onto up origin", most: 2,
			own: true, options: "-u --set-upstream -q --quiet -v --verbose", known: "origin HEAD"},
		{line: "git pull", acts: "pull", may: branchy + "from origin", most: 2, known: "origin",
			options: "--rebase --ff-only -q --quiet"},
		{line: "git fetch", acts: "fetch", may: branchy + "from origin", most: 2,
			must: "origin branch branches commits changes remote", known: "origin", options: "--all --tags -q --quiet"},
		{line: "git merge", acts: "merge", may: branchy, least: 1, most: 1, options: "--no-ff --ff-only --no-edit -m::"},
		{line: "gh pr create", acts: "open create raise submit", may: proposes,
			must: pulls, known: "main master @me",
			options: "--fill --draft -d --title:: -t:: --body:: -b:: --base: -B: --assignee: -a:"},
		{line: "gh pr merge", acts: "merge", may: articles + pulls + " pull it", must: pulls, most: 1,
			options: "--squash --merge --rebase -s -m -r"},
		{line: "glab mr create", acts: "open create raise submit", may: proposes,
			must: pulls, known: "main master",
			options: "--fill --draft --title:: -t:: --description:: -d:: --target-branch: -b:"},
		{line: "docker compose up", acts: "start launch", may: articles + "docker compose stack containers services",
			must: "stack containers services", options: "-d --detach --build"},
	}
	for _, line := range []string{"npm start", "npm run dev", "yarn dev", "pnpm dev"} {
		all = append(all, command{line: line, acts: "start launch", must: "server app",
			may: articles + "dev development local server app"})
	}
	for line, c := range map[string]command{"npm install": {options: saves}, "npm i": {options: saves},
		"yarn add": {options: saves, least: 1}, "pnpm add": {options: saves, least: 1}, "pnpm install": {options: saves},
		"npm ci": {bare: true}, "yarn install": {bare: true}, "poetry install": {bare: true}, "bundle install": {bare: true},
		"composer install": {bare: true}, "pip install": {options: pips}, "pip3 install": {options: pips},
		"python -m pip install": {options: pips}, "python3 -m pip install": {options: pips},
		"uv add": {options: "--dev", least: 1}, "poetry add": {options: "--dev", least: 1},
		"cargo add": {options: "--dev", least: 1}, "composer require": {options: "--dev", least: 1},
		"go get": {options: "-u -t", least: 1}, "go install": {least: 1}, "gem install": {least: 1},
		"brew install": {least: 1}} {
		c.line, c.acts, c.may, c.pkg = line, "install", packages, true
		c.known = "requirements.txt requirements-dev.txt"
		if c.most = 64; c.bare {
			c.most = 0
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b command) int { return strings.Compare(a.line, b.line) })
	return all
}()

// wanted reports whether an order asks for the command in the user's own words. named is set if the order names all
// that the command does.
func (c *command) wanted(o order, words []string) (asked, named bool) {
	line := strings.Fields(c.line)
	if len(words) < len(line) || !slices.Equal(words[:len(line)], line) ||
		!slices.Contains(strings.Fields(c.acts), o.verb) {
		return false, false
	}
	names, ok := c.names(o)
	if !ok {
		return false, false
	}
	return c.permits(words[len(line):], names)
}

// names returns the names in an order, in lower case. ok is false if the order has a word that is not understood.
func (c *command) names(o order) (names map[string]bool, ok bool) {
	may, must, article := text.Set(c.may), text.Set(c.must), text.Set(articles)
	names = make(map[string]bool)
	found := c.must == ""
	prev, joined := "", true
	for i := range o.untail() {
		low, raw := o.low[i], o.raw[i]
		found = found || must[low] && (low != "request" || prev == "pull" || prev == "merge")
		name := strings.ToLower(nameOf(raw))
		switch {
		case may[low]:
			joined = true
		case name == "" || !plainName(name):
			return nil, false
		case c.pkg:
			noun := i+1 < len(o.low) && strings.HasPrefix(o.low[i+1], "packag")
			if !joined || article[prev] && !noun || unnamed[name] {
				return nil, false
			}
			names[name], joined = true, strings.HasSuffix(raw, ",")
		case signed(name) || raw[0] == '`' || slices.Contains([]string{"branch", "to", "against", "from", "origin", "request",
			"pr", "mr"}, prev):
			names[name] = true
		default:
			return nil, false
		}
		prev = low
	}
	delete(names, "origin")
	return names, found
}

// unnamed are words that name no package.
var unnamed = text.Set("this that these those what whatever anything something everything all")

// permits reports whether each argument of the command is one of the names, or is allowed without a name (see command).
// named is false if an argument is a branch that the user did not name.
func (c *command) permits(args []string, names map[string]bool) (ok, named bool) {
	options, known := strings.Fields(c.options), strings.Fields(c.known)
	hit := make(map[string]bool)
	is := func(w string) bool {
		if w = strings.ToLower(w); !c.pkg {
			w = branchOf(w)
		}
		hit[w] = hit[w] || names[w]
		return names[w]
	}
	named = true
	n := 0
	for i := 0; i < len(args); i++ {
		w := args[i]
		name, value, joined := strings.Cut(w, "=")
		switch {
		case slices.Contains(options, w):
		case strings.HasPrefix(w, "-"):
			text := slices.Contains(options, name+"::")
			if !text && !slices.Contains(options, name+":") {
				return false, false
			}
			if !joined {
				if i++; i == len(args) {
					return false, false
				}
				value = args[i]
			}
			if !text && !is(value) && !slices.Contains(known, value) {
				return false, false
			}
		default:
			n++
			switch {
			case !plainName(w):
				return false, false
			case is(w), !c.pkg && slices.Contains(known, w):
			case c.own && n == 2 && branchOf(w) != "":
				named = false
			default:
				return false, false
			}
		}
	}
	if n < c.least || n > c.most || c.pkg && n == 0 && len(names) > 0 {
		return false, false
	}
	for name := range names {
		if !c.pkg && !hit[name] {
			return false, false // the request names another branch, remote or number
		}
	}
	return true, named
}

// branchOf returns the name of a branch without refs/heads/. It is empty for another kind of reference.
func branchOf(w string) string {
	low := strings.ToLower(w)
	w = w[len(w)-len(strings.TrimPrefix(strings.TrimPrefix(low, "refs/"), "heads/")):]
	if low = strings.ToLower(w); strings.HasPrefix(low, "refs/") || strings.HasPrefix(low, "heads/") ||
		strings.HasPrefix(low, "tags/") || strings.HasPrefix(low, "remotes/") {
		return ""
	}
	return w
}

// version reports whether a word is a version or a number: 19, v2.4.0.
func version(w string) bool {
	w = strings.TrimPrefix(w, "v")
	return w != "" && w[0] >= '0' && w[0] <= '9'
}

// nameOf returns a word of a request without the punctuation and backticks around it.
func nameOf(raw string) string { return strings.TrimLeft(strings.TrimRight(raw, ".,;:!?`"), "`#") }

// signed reports whether a word is written as no ordinary word is: fix/duration, next-themes, 12.
func signed(w string) bool { return strings.ContainsAny(w, "/-_.@0123456789") }

// plainName reports whether a word can be the name of a branch or of a package, and nothing that a program reads as
// more, such as a path, an address or two references.
func plainName(w string) bool {
	return w != "" && !strings.Contains(w, "..") && !strings.ContainsAny(w[:1], "./-_") &&
		!strings.ContainsFunc(w, func(r rune) bool { return NotWord(r) && !strings.ContainsRune("/._-@", r) })
}
