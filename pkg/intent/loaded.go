package intent

import (
	"path"
	"slices"
	"strings"

	"lazaret/pkg/text"
)

// File is a file that a call writes. Loaded says that agents or programs load it by themselves, as they load CLAUDE.md
// and .bashrc. The path of such a file is relative to the project's folder if the file is in this folder and the folder
// is known.
//
// Known says that the host knows this folder. Then an absolute path is one outside of it.
type File struct {
	Path   string
	Loaded bool
	Known  bool
}

// verb is a verb with which people ask for a change of a file. Each field is a form of request in which the verb may be
// used. A verb of telling, such as "explain", is in the list only so that the sentence is understood.
type verb struct {
	direct bool // "update CLAUDE.md"
	edit   bool // "fix the typo in CLAUDE.md": it changes a part of a text that is there
	into   bool // "add a line to CLAUDE.md"
	put    bool // "put the rules in CLAUDE.md", if nothing follows
	in     bool // "record the build in CLAUDE.md"
	note   bool // "note this in CLAUDE.md", but not "note the rule in CLAUDE.md", which may mean to pay attention
	from   bool // "remove a line from CLAUDE.md"
	carry  bool // "copy CLAUDE.md to AGENTS.md"
	swap   bool // "replace yarn with pnpm in CLAUDE.md"
}

var changeVerbs = func() map[string]verb {
	all := make(map[string]verb)
	for _, x := range []struct {
		words string
		has   verb
	}{
		{"update edit modify fix correct adjust extend improve shorten simplify reword rewrite revise tidy clean " +
			"format reformat trim expand amend refresh rework restructure condense adapt sort reorder reorganize reorganise",
			verb{direct: true, edit: true}},
		{"change replace", verb{direct: true, edit: true, swap: true}},
		{"set switch", verb{edit: true, swap: true}},
		{"translate complete finish make generate", verb{direct: true}},
		{"write", verb{direct: true, into: true, put: true}},
		{"create draft", verb{direct: true, into: true}},
		{"add put insert", verb{into: true, put: true}},
		{"append paste include import merge save store reflect", verb{into: true}},
		{"record document", verb{into: true, in: true}},
		{"note remember memorize memorise mention", verb{into: true, note: true}},
		{"state list describe explain", verb{}},
		{"remove delete strip cut", verb{edit: true, from: true}},
		{"copy duplicate", verb{into: true, carry: true}},
		{"move", verb{into: true, from: true, carry: true}},
		{"rename", verb{edit: true, carry: true, swap: true}},
	} {
		for w := range strings.FieldsSeq(x.words) {
			all[w] = x.has
		}
	}
	return all
}()

var (
	// partsOfText are words for parts of a text: "fix the typo in CLAUDE.md".
	partsOfText = text.Set(`line lines section sections note notes entry entries rule rules paragraph paragraphs sentence
		sentences bullet bullets point points item items hint hints reminder comment comments heading headings headline
		title chapter list table example examples typo typos spelling grammar wording word words mistake mistakes text
		link links command commands instruction instructions part parts description step steps job jobs workflow setting
		settings option options hook hooks key value version trigger permission permissions formatting
		docs documentation info information guidance guidelines`)
	// complemented are words after which "to" or "in" begins a complement: "a link to", "described in". Words with the
	// ending -ed count too.
	complemented = text.Set(`according due respect regard regards reference references link links pointer pointers symlink
		similar relative equal relevant response reply answer addition contrast contrary access next close closer
		adjacent prior up change changes edit edits update updates attention path paths adhere conform stick thanks
		analogous exception exceptions subject alternative equivalent redirect import imports refer refers referring
		pointing as like than is are was were be said says say given shown found written laid set means mean stands
		what's whats`)
	// locators are words between a preposition and a file's name: "to the end of our file CLAUDE.md".
	locators = text.Set(`a an the our my your this file project project's projects repo repo's repository's root existing
		new end top bottom beginning start of main up`)
	// relations are words that begin a phrase about the words before them. outward are words before the name of a file
	// to which something is written. Those of locating may also come before a file that is only read. saying are verbs
	// for what a file says, see told.
	relations = text.Set("for on about of with to from by at as per following using matching covering in into")
	outward   = text.Set("to into in onto as at under inside and")
	locating  = text.Set("in at under inside and")
	saying    = text.Set(`say contain have list note mention state explain tell remind describe document record include
		reflect`)
	// follows are words that may follow the name of a file in a request.
	follows = text.Set(`with so and for about on as please too now again accordingly because since at by using
		regarding also then to based`)
	// contents are words with which the text begins that the user wants to have in the file.
	contents = text.Set("that saying says how what why where which")
	// retracts are words with which a part of a text for a file may take the request back, because it may be said to the
	// agent: "actually, forget it".
	retracts = text.Set(`wait actually nevermind mind scratch cancel forget abort thought thoughts oops sorry later
		tomorrow kidding joking`)
	// definite are words before a thing that is there, and indefinite those before a new one.
	definite = text.Set(`the our its all every each those these their my your his her what which whichever whatever most
		some both any`)
	indefinite = text.Set("a an another one more new")
	// doable are things that a user may ask to fix or do, and that a file only lists.
	doable = text.Set("point points item items step steps task tasks todo todos")
	// listed are words for things that a file has, without an article.
	listed = text.Set("everything everyone anything all rules steps commands instructions hooks settings jobs")
	// values are words for a value that is somewhere else.
	values = text.Set(`value values default defaults one ones constant constants version versions name names manager tool
		variant counterpart counterparts equivalent equivalents it them`)
	// spans are units of time. "The hours" are a thing, and no delay. A negation, a deferral or a condition after a
	// word of besides may be said to the agent, and not be a part of the text for a file.
	spans   = text.Set("hour hours minute minutes week weeks")
	besides = text.Set("but though although however unless except only")
	// directories are words for a folder, and roots those for the root of the project.
	directories = text.Set("folder directory")
	roots       = text.Set("root project repo repository")
	// callers are words at the beginning of a message that greet or name the agent.
	callers = text.Set("hi hello hey claude codex gemini cursor agent lets let's")
	// inert are imperatives that do not take an earlier request back.
	inert = text.Set("continue commit push run test build lint")
)

// asksForLoaded reports whether the user asked for a change of a file that agents or programs load by themselves. The
// reading is as strict as that of AsksForCommand: the latest message counts, and one before it if the later ones only
// agree or go on. A sentence must begin with a verb of changing, and the file must be its object. The request is taken
// back by a negation, a deferral or a condition anywhere outside the text for the file, and by a later sentence that is
// not understood.
func (s *Said) asksForLoaded(file File) bool {
	for i := len(s.Texts) - 1; i >= max(0, len(s.Texts)-maxOrders); i-- {
		w := ReadWishes(s.Texts[i])
		if slices.ContainsFunc(w.Changed, func(p string) bool { return samePath(p, file) }) {
			return true
		}
		if !w.Inert {
			return false
		}
	}
	return false
}

// samePath reports whether a path in the user's words is that of a file. A name without a folder is that of a file in
// the project's folder. If this folder is not known, the end of an absolute path is compared, but a file in a hidden
// folder (~/.claude/CLAUDE.md) is not one of a project.
func samePath(said string, f File) bool {
	said = strings.ToLower(path.Clean(strings.ReplaceAll(said, `\`, "/")))
	file := strings.ToLower(path.Clean(strings.ReplaceAll(f.Path, `\`, "/")))
	if said == file {
		return true
	}
	if rest, ok := strings.CutPrefix(said, "~/"); ok {
		parts := strings.SplitN(file, "/", 4) // /home/ana/…, /Users/ana/… or /root/…
		home := len(parts) == 4 && parts[0] == "" && (parts[1] == "home" || parts[1] == "users")
		return home && parts[3] == rest || file == "/root/"+rest
	}
	dir, ok := strings.CutSuffix(file, "/"+said)
	return ok && path.IsAbs(file) && !f.Known && !path.IsAbs(said) && !strings.HasPrefix(said, "..") &&
		!strings.Contains(dir, "/.")
}

// change is a sentence that may ask for a change of a file.
type change struct {
	raw, low []string
	paths    []string
	outputs  []string
	named    []string // the words of the parts that ask for a change of a file
	content  []string // the words of the text for a file
	cut      int      // the index in raw at which content begins, or 0
	colon    bool     // the content begins after a colon
	changes  bool     // the sentence asks for something that may change files
}

// outside returns the words of the sentence that are not of the text for a file. It leaves out some words that
// HoldsBack would take for a condition or a delay: those of "make sure" and "from scratch", and a thing such as "the
// hours".
func (c *change) outside() (words []string) {
	for i, w := range c.raw {
		switch {
		case c.cut > 0 && i >= c.cut:
			return words
		case i > 0 && (c.low[i-1] == "make" && c.low[i] == "sure" || c.low[i-1] == "from" && c.low[i] == "scratch"),
			i == 0 && c.low[i] == "ensure":
		case i > 0 && (c.low[i-1] == "the" || c.low[i-1] == "our") && spans[c.low[i]]:
		default:
			words = append(words, w)
		}
	}
	return words
}

// read finds the files in the sentence, and says how much of it is understood. All parts must begin with an imperative.
func (c *change) read() sense {
	for _, w := range c.raw {
		c.low = append(c.low, plainWord(w))
	}
	low, i := c.low, 0
	for i < len(low) && (openers[low[i]] || callers[low[i]]) {
		i++
	}
	invited := i+1 < len(low) && (low[i] == "can" || low[i] == "could" || low[i] == "would") && low[i+1] == "you"
	if invited {
		i += 2
		for i < len(low) && openers[low[i]] {
			i++
		}
	}
	for _, wish := range wished { // "I want you to add …"
		if n := len(wish); !invited && len(low) > i+n && slices.Equal(low[i:i+n], wish) && c.begins(i+n) {
			i += n
			break
		}
	}
	if at, ok := c.ahead(i); ok {
		return at
	}
	if !strings.HasSuffix(c.raw[len(c.raw)-1], "?") && c.told(i) {
		return understoodAll
	}
	if !invited && i < len(low) && !c.begins(i) && remarks[low[i]] { // "great, now add …"
		for i < len(low) && !(c.begins(i) && (openers[low[i-1]] || strings.HasSuffix(c.raw[i-1], ","))) {
			if !remarks[low[i]] && !openers[low[i]] && !tails[low[i]] && !remarked[low[i]] {
				return c.other()
			}
			i++
		}
	}
	switch {
	case i == len(low):
		return understoodAll
	case !c.begins(i):
		return c.other()
	case strings.HasSuffix(c.raw[len(c.raw)-1], "?") && !invited:
		return cited
	}
	for i < len(low) {
		from := i + 1
		for i++; i < len(low) && !(c.begins(i) && (openers[low[i-1]] || strings.HasSuffix(c.raw[i-1], ","))); i++ {
		}
		c.output(from, i)
		if c.changes = c.changes || !inert[low[from-1]]; c.asks(low[from-1], from, i) {
			c.named = append(c.named, c.raw[from:i]...)
			if c.cut > 0 {
				c.content = c.raw[c.cut:]
				return understoodAll
			}
			continue
		}
		part := low[from:i]
		if slices.ContainsFunc(part, func(w string) bool { return cites[w] || strings.ContainsAny(w, "\x01") }) {
			return cited
		}
		for j := from; j < i; j++ {
			if texts[low[j]] && (low[j-1] == "this" || low[j-1] == "these") || strings.HasSuffix(c.raw[j], ":") {
				return cited
			}
		}
		if slices.ContainsFunc(part, func(w string) bool { return clauses[w] || w == "to" && !toward[low[from-1]] }) {
			break // a verb after it may be no imperative
		}
	}
	return understoodAll
}

// told reads a sentence that asks that a file says something: "make sure CLAUDE.md says how the tests run", "I'd like
// CLAUDE.md to mention make test", "let CLAUDE.md say that …".
func (c *change) told(i int) bool {
	for _, x := range wanted {
		n := len(x.before)
		if len(c.low) <= i+n || !slices.Equal(c.low[i:i+n], x.before) {
			continue
		}
		at := i + n
		for at < len(c.low) && (locators[c.low[at]] || c.low[at] == "that") {
			at++
		}
		files, next := c.files(at, len(c.low))
		if len(files) == 0 || next+len(x.after)+1 >= len(c.low) || !slices.Equal(c.low[next:next+len(x.after)], x.after) {
			continue
		}
		says := c.low[next+len(x.after)]
		if x.third {
			short, ok := strings.CutSuffix(says, "s")
			if says = short; !ok {
				continue
			}
		}
		if saying[says] {
			c.paths, c.cut, c.changes = append(c.paths, files...), next+len(x.after)+1, true
			c.named, c.content = c.raw[:c.cut], c.raw[c.cut:]
			return true
		}
	}
	return false
}

// wanted are the words before the file and after it in sentences that told reads. third is set if the verb after them
// has the ending -s.
var wanted = []struct {
	before, after []string
	third         bool
}{
	{strings.Fields("make sure"), nil, true}, {strings.Fields("ensure"), nil, true}, {strings.Fields("let"), nil, false},
	{strings.Fields("i'd like"), strings.Fields("to"), false}, {strings.Fields("i’d like"), strings.Fields("to"), false},
	{strings.Fields("i would like"), strings.Fields("to"), false}, {strings.Fields("i want"), strings.Fields("to"), false},
}

// elsewhere reports whether words name a file as the place of something: "as table.csv", "to README.md".
func (c *change) elsewhere(from, to int) bool {
	for i := from + 1; i < to && !contents[c.low[i]]; i++ {
		j := i
		for j > from && locators[c.low[j-1]] {
			j--
		}
		if _, ok := fileName(c.raw[i]); ok && j > from && (outward[c.low[j-1]] || c.low[j-1] == "from") {
			return true
		}
	}
	return false
}

// ahead reads a sentence that begins with the file: "In CLAUDE.md, add a line that …". ok is false for other sentences.
func (c *change) ahead(i int) (is sense, ok bool) {
	if i >= len(c.low) || c.low[i] != "in" && c.low[i] != "to" {
		return 0, false
	}
	for i++; i < len(c.low) && locators[c.low[i]]; i++ {
	}
	files, next := c.files(i, len(c.low))
	if len(files) == 0 || next >= len(c.low) || !strings.HasSuffix(c.raw[next-1], ",") ||
		strings.HasSuffix(c.raw[len(c.raw)-1], "?") {
		return 0, false
	}
	v := changeVerbs[c.low[next]]
	if !v.edit && !v.put && !v.in && !v.note || c.elsewhere(next+1, len(c.low)) ||
		v.note && next+1 < len(c.low) && definite[c.low[next+1]] {
		return 0, false
	}
	c.changes = true
	if !c.follows(files, next, len(c.low), true) {
		return unclear, true
	}
	c.named = c.raw
	if c.cut > 0 {
		c.named, c.content = c.raw[:c.cut], c.raw[c.cut:]
	}
	return understoodAll, true
}

// wished are the beginnings of sentences that make a request of the words after them: "I want you to add …".
var wished = [][]string{strings.Fields("i want you to"), strings.Fields("i'd like you to"),
	strings.Fields("i need you to"), strings.Fields("i would like you to"), strings.Fields("i’d like you to")}

// other returns how much is understood of a sentence that begins with no imperative.
func (c *change) other() sense {
	for i, w := range c.low {
		if cites[w] || strings.HasSuffix(c.raw[i], ":") || strings.Contains(w, opaque) ||
			i > 0 && texts[w] && (c.low[i-1] == "this" || c.low[i-1] == "these") {
			return cited
		}
	}
	if strings.HasSuffix(c.raw[len(c.raw)-1], "?") {
		return cited
	}
	return unclear
}

// begins reports whether an imperative is at an index.
func (c *change) begins(i int) bool {
	_, ok := changeVerbs[c.low[i]]
	return ok || imperatives[c.low[i]]
}

// asks reports whether a part of the sentence asks for a change of a file. The part is from the word after its verb up
// to another part. It sets paths, and cut if a text for the file follows.
func (c *change) asks(word string, from, to int) bool {
	v, ok := changeVerbs[word]
	if !ok {
		return false
	}
	at := from
	for at < to && locators[c.low[at]] {
		at++
	}
	if files, next := c.files(at, to); len(files) > 0 {
		made := word == "add" && at > from && (c.low[from] == "a" || c.low[from] == "an")
		switch {
		case v.carry:
			return c.carries(files, next, to, word == "move" || word == "rename")
		case v.direct || made:
			return c.follows(files, next, to, v.direct)
		}
	}
	for at = from; at < to; at++ {
		first := at + 1
		for first < to && locators[c.low[first]] {
			first++
		}
		files, next := c.files(first, to)
		if len(files) == 0 || !c.object(v, c.low[at], from, at) && !c.swapped(v, from, at, next, to) {
			continue
		}
		if c.part(from, at) && definite[c.low[from]] && c.low[at] != "to" && c.low[at] != "into" && !v.edit && !v.from &&
			!v.in && next < to && !contents[c.low[next]] && !strings.HasSuffix(c.raw[next-1], ":") {
			continue
		}
		if v.from && v.carry && c.low[at] == "from" && next < to && (c.low[next] == "to" || c.low[next] == "into") {
			more, end := c.files(next+1, to)
			files, next = append(files, more...), max(end, next)
		}
		if c.follows(files, next, to, false) {
			return true
		}
	}
	return false
}

// output adds the paths of a part of the sentence that are the object of its verb or follow a word of direction.
func (c *change) output(from, to int) {
	for i := from; i < to; i++ {
		j := i
		for j > from && locators[c.low[j-1]] {
			j--
		}
		directed := j == from || j > from && outward[c.low[j-1]] && (j < from+2 || !complemented[c.low[j-2]])
		if j > from && locating[c.low[j-1]] {
			v, changes := changeVerbs[c.low[from-1]]
			// "Fix the bug described in ~/x.md" and "fix the test using the data in ~/x.md" only read the file.
			directed = directed && changes && (v.into || v.in || v.note || !slices.ContainsFunc(c.low[from:j-1], func(w string) bool {
				return relations[w] || len(w) > 4 && strings.HasSuffix(w, "ed")
			}))
		}
		if file, ok := fileName(c.raw[i]); ok && directed {
			c.outputs = append(c.outputs, file)
		}
	}
}

// object reports whether the words between a verb and a preposition (at the index at) are an object that fits the verb
// and the preposition.
func (c *change) object(v verb, prep string, from, at int) bool {
	object := c.low[from:at]
	if inside := prep == "in" || prep == "inside" || prep == "within"; inside && v.swap && swaps(object) {
		return true
	}
	for i, w := range object {
		how := w == "how" && i+1 < len(object) && object[i+1] == "to" || w == "to" && i > 0 && object[i-1] == "how"
		place := w == "to" && i+1 < len(object) && (nouns[object[i+1]] || strings.Contains(object[i+1], "/"))
		over := w == "that" && i > 0 && slices.Contains([]string{"on", "about", "for", "of"}, object[i-1])
		if !how && !over && len(object) > 1 && (clauses[w] || w == "to" && !place) || strings.Contains(w, opaque) {
			return false
		}
	}
	if len(object) > 0 {
		last := object[len(object)-1]
		if complemented[last] || len(last) > 4 && strings.HasSuffix(last, "ed") {
			return false
		}
	}
	short := len(object) == 0 || len(object) == 1 && slices.Contains([]string{"down", "it", "this", "these", "them",
		"that", quoted}, object[0]) || len(object) == 1 && strings.ContainsAny(object[0], "./@")
	switch prep {
	case "to", "into", "onto":
		return v.into
	case "at":
		return v.into && (c.low[at+1] == "the" || c.low[at+1] == "end" || c.low[at+1] == "top")
	case "in", "inside", "within":
		part := c.part(from, at)
		switch {
		case short && len(object) == 1 && listed[object[0]],
			len(object) > 0 && doable[object[len(object)-1]] && definite[object[0]]:
			return false
		case len(object) > 1 && definite[object[0]]: // "the rules in CLAUDE.md" may be rules that are there
			return v.edit && part || v.put && part || v.in || v.note && object[1] == "new"
		}
		return v.in || v.into && short || v.note && len(object) > 0 && !part || part && (v.edit || v.into) &&
			(v.edit || indefinite[object[0]])
	case "of":
		return (v.direct || v.from) && c.part(from, at)
	case "from":
		return v.from && len(object) > 0
	}
	return false
}

// swaps reports whether the object of a verb names a thing and its replacement or its new value: "yarn with pnpm",
// "the line length to 120".
func swaps(object []string) bool {
	at := slices.IndexFunc(object, func(w string) bool { return w == "with" || w == "by" || w == "to" || w == "from" })
	if at > 0 && object[at] == "from" { // "from npm to pnpm"
		at += 1 + slices.Index(object[at+1:], "to")
	}
	if at < 1 || at+1 >= len(object) || at > maxSwap || len(object)-at > 3 {
		return false
	}
	return !slices.ContainsFunc(object[:at], func(w string) bool {
		return clauses[w] || relations[w] && w != "from" || strings.Contains(w, opaque) || strings.HasSuffix(w, ",")
	}) && !slices.ContainsFunc(object[at+1:], func(w string) bool {
		return clauses[w] || relations[w] || partsOfText[w] || definite[w] || indefinite[w] || values[w] ||
			strings.Contains(w, opaque) || len(w) > 4 && strings.HasSuffix(w, "ed")
	})
}

// swapped reports whether a request has the form "replace yarn in CLAUDE.md with pnpm". at is the index of the
// preposition before the file.
func (c *change) swapped(v verb, from, at, next, to int) bool {
	return v.swap && c.low[at] == "in" && next < to && swaps(append(slices.Clone(c.low[from:at]), c.low[next:to]...))
}

// maxSwap is the maximum number of words of what is replaced.
const maxSwap = 6

// part reports whether the words of an object name a part of a text, before any preposition.
func (c *change) part(from, at int) bool {
	for i := from; i < min(at, from+5); i++ {
		switch {
		case partsOfText[c.low[i]]:
			return true
		case relations[c.low[i]], strings.HasSuffix(c.raw[i], ","):
			return false
		}
	}
	return false
}

// files returns the files whose names begin at an index, as in "CLAUDE.md, AGENTS.md and our GEMINI.md", and the index
// after them. A name with 's is followed by a part of the file's text.
func (c *change) files(at, to int) (files []string, next int) {
	for at < to {
		raw, own := strings.CutSuffix(strings.ReplaceAll(c.raw[at], "’", "'"), "'s")
		file, ok := fileName(raw)
		if !ok || own && !c.part(at+1, min(to, at+5)) {
			break
		}
		files = append(files, file)
		if at++; own {
			for at < to && !partsOfText[c.low[at]] {
				at++
			}
			at++
		}
		next = at
		if strings.HasSuffix(raw, ":") {
			break
		}
		for at < to && (c.low[at] == "and" || c.low[at] == "file" || locators[c.low[at]]) {
			at++
		}
	}
	return files, next
}

// carries adds the place to which a request copies or moves files. gone is set if the files are moved.
func (c *change) carries(files []string, at, to int, gone bool) bool {
	if at >= to || !slices.Contains([]string{"to", "into", "in", "as"}, c.low[at]) {
		return false
	}
	folder := false
	for at++; at < to && (locators[c.low[at]] || directories[c.low[at]]); at++ {
		folder = folder || directories[c.low[at]]
	}
	if at >= to {
		return false
	}
	name, is := fileName(c.raw[at])
	if name == "" || !is && !folder && !(at+1 < to && directories[c.low[at+1]]) {
		return false
	}
	if folder || !strings.Contains(path.Base(name), ".") {
		for _, file := range files {
			c.paths = append(c.paths, path.Join(name, path.Base(file)))
		}
	} else {
		c.paths = append(c.paths, name)
	}
	if gone {
		c.paths = append(c.paths, files...)
	}
	return true
}

// follows reports whether the words after the names of files are understood. It adds the paths of the files, and finds
// the text for them. direct is set if the files are the direct object of the verb.
func (c *change) follows(files []string, at, to int, direct bool) bool {
	last := c.raw[at-1]
	if strings.HasSuffix(last, ":") {
		c.paths, c.cut, c.colon = append(c.paths, files...), at, true
		return true
	}
	for at < to && c.low[at] == "file" {
		at++
	}
	dir := ""
	if at < to && slices.Contains([]string{"in", "of", "under", "inside"}, c.low[at]) {
		var ok bool
		if dir, at, ok = c.folder(at+1, to); !ok {
			return false
		}
	}
	if at < to && !strings.HasSuffix(last, ",") {
		w := c.low[at]
		next := ""
		if at+1 < to {
			next = c.low[at+1]
		}
		_, file := fileName(next)
		switch {
		case contents[w]:
		case w == "from" && next == "scratch":
		case w == "as" && c.elsewhere(at, to):
			return false
		case !follows[w], w == "to" && (file || !direct && !saying[next] || next == "the" || next == "our" || next == "my"):
			return false
		}
	}
	for i := at; i < len(c.low) && c.cut == 0; i++ {
		if contents[c.low[i]] {
			c.cut = i
		} else if strings.HasSuffix(c.raw[i], ":") {
			c.cut, c.colon = i+1, true
		}
	}
	end := to
	if c.cut > 0 {
		end = min(end, c.cut)
	}
	if strings.Contains(strings.Join(c.low[at:max(at, end)], " "), opaque) {
		c.cut, c.colon = 0, false
		return false
	}
	for _, file := range files {
		c.paths = append(c.paths, path.Join(dir, file))
	}
	return true
}

// folder reads the place of a file after "in": a folder, the root of the project, or a section of the file.
func (c *change) folder(at, to int) (dir string, next int, ok bool) {
	named := false
	for at < to && (c.low[at] == "the" || c.low[at] == "our" || c.low[at] == "my" || directories[c.low[at]]) {
		named = named || directories[c.low[at]]
		at++
	}
	if at >= to {
		return "", at, false
	}
	w := c.low[at]
	name := strings.Trim(strings.TrimRight(c.raw[at], ".,;:!?"), "/")
	after := at+1 < to && directories[c.low[at+1]]
	switch {
	case roots[w]:
		for at < to && (c.low[at] == w || c.low[at] != "root" && roots[c.low[at]] || directories[c.low[at]] ||
			c.low[at] == "of" || c.low[at] == "the") {
			at++
		}
		return "", at, true
	case c.part(at, min(to, at+3)):
		return "", to, true
	case (named || after || strings.Contains(w, "/")) && !strings.ContainsAny(name, "\x00\x01 "):
		return name, at + 1 + btoi(after), true
	}
	return "", at, false
}
