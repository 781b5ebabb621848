package rules

import (
	"strings"
	"unicode/utf8"

	"lazaret/pkg/intent"
	"lazaret/pkg/text"
)

// Markers are classes of instruction that a text carries for whoever reads it.
// They are reasoned from what an instruction to a model has to say (put aside
// what you were told, be somebody else, do this, tell nobody, keep it), over
// normalised and decoded views, and not from any collection of attacks. Alone
// each of them is common in harmless text; rules decide what to make of them.
//
// They are found in one pass over the words of a view: a pattern is a few
// classes of words that follow one another in a sentence, so that its cost is
// the text's length, whatever the text is.

// classes of words, as bits.
const (
	wOverride uint32 = 1 << iota // puts aside
	wRule                        // what is put aside
	wPrior                       // which of it
	wModel                       // the reader
	wModal                       // must, should
	wGreet                       // opens a message to somebody
	wLead                        // comes before a request
	wFill                        // may stand between lead and verb
	wAct                         // what a request asks for
	wLeak                        // gives away
	wSecret                      // what is given away
	wNot                         // do not, never, without
	wTell                        // tell, mention
	wPerson                      // user, anyone
	wHush                        // secretly
	wCall                        // call, invoke
	wTool                        // tool, function
	wKeep                        // remember, store
	wForever                     // always, permanently
	wConsent                     // knowledge, permission
	wMode                        // developer, admin: before "mode"
	wFuture                      // future: before "sessions"
	wSession                     // sessions, conversations
	wSelf                        // who speaks
	wAnswer                      // what the reader says
	wShape                       // gives it a form
	wFollow                      // does as it is told
	wStrict                      // without exception
	wMachine                     // a reader that is a program
	wAsk
	wReply
)

var wordClasses = func() map[string]uint32 {
	m := make(map[string]uint32)
	for bits, words := range map[uint32]string{
		wOverride: "ignore ignoring ignored disregard disregarding forget forgetting override overriding overrides bypass bypassing supersede supersedes overrule neglect discard",
		wRule:     "instruction instructions prompt prompts rule rules guideline guidelines direction directions directive directives command commands message messages context task tasks policy policies restriction restrictions constraint constraints safety orders",
		wPrior:    "previous prior earlier above preceding former original existing initial all any every your other system before foregoing old past",
		wModel:    "ai assistant assistants agent agents llm llms chatbot chatbots model models bot",
		wModal:    "must should shall need needs have has please required instructed asked supposed",
		wMachine:  "software automated parser reviewer evaluator grader",
		wAsk:      "ask asks asked asking",
		wReply:    "reply respond answer say output print return",
		wGreet:    "dear hey hello attention note notice instruction instructions message reminder",
		wLead:     "please kindly must should need to immediately lets let's",
		wFill:     "also now then first immediately directly just next additionally",
		wAct: "send transfer email e-mail forward upload post publish share delete remove erase wipe pay buy purchase order grant revoke give download execute run call invoke use change update modify set reset unlock open lock disable enable " +
			"add create book schedule cancel withdraw deposit redeem reveal export copy move fetch retrieve access search find check show read get submit register subscribe install write append replace store save remember recommend approve deny reject visit navigate click " +
			"arrange make turn print reply respond answer include say output translate",
		wLeak:    "send forward email mail upload post transmit leak exfiltrate share reveal include append copy submit export disclose",
		wSecret:  "password passwords credential credentials apikey api_key secret secrets token tokens key keys conversation prompt confidential pin",
		wNot:     "don't dont not never without avoid",
		wTell:    "tell telling inform informing mention mentioning reveal revealing notify notifying disclose disclosing alert alerting ask asking warn",
		wPerson:  "user human anyone anybody operator owner them him her this it confirmation users customer",
		wHush:    "secretly silently quietly covertly discreetly",
		wCall:    "call invoke use run execute trigger utilize utilise employ using calling",
		wTool:    "tool tools function functions api command commands plugin plugins",
		wKeep:    "remember memorize memorise store save keep retain note",
		wForever: "always permanently permanent forever future memory every",
		wConsent: "knowledge consent permission confirmation approval confirming asking",
		wMode:    "developer admin root god maintenance debug unrestricted",
		wSelf:    "my me i mine our us we im id",
		wAnswer:  "answer answers response responses reply replies output outputs completion summary",
		wShape:   "in with only end begin start include must should respond reply answer solely exclusively print add append insert write use replace to of format",
		wFollow:  "follow following adhere obey comply execute perform complete fulfill fulfil heed",
		wStrict:  "strictly exactly must immediately without fully carefully task instead",
		wFuture:  "future",
		wSession: "sessions session conversations conversation tasks chats interactions requests",
	} {
		for _, w := range strings.Fields(words) {
			m[w] |= bits
		}
	}
	return m
}()

// classLengths are how long words with classes are, as bits, by their first byte:
// most words need not be looked up.
var classLengths = func() (t [256]uint32) {
	for w := range wordClasses {
		t[w[0]] |= 1 << len(w)
	}
	return t
}()

// The markers, in the order in which they are listed.
const (
	mOverride = iota
	mRole
	mAddress
	mRequest
	mExfiltrate
	mSecrecy
	mTool
	mPersist
	mPlea
	mAnswer
	mObey
	mHidden
)

var markerNames = []string{"override", "role", "address", "request", "exfiltrate", "secrecy", "tool", "persist", "plea", "answer", "obey", "hidden"}

// frames are pieces of chat templates: no document needs them, and a model
// may take them for the end of a document.
var frames = []string{"<|im_start", "<|im_end", "<|system", "<|user", "<|assistant", "<|endoftext", "[inst]", "[/inst]", "[system]", "### instruction", "### system", "<system>", "</system>", "<<sys>>"}

const (
	// maxMarked is how much of a view is searched for markers, in bytes from
	// its start and as much from its end.
	maxMarked = 64 << 10
	// maxSentences is how many sentences of a text are kept, and sentenceWords
	// how many words of each.
	maxSentences  = 24
	sentenceWords = 48
)

// directives is what a text tells its reader to do.
type directives struct {
	found     uint16     // markers, as bits
	sentences [][]uint32 // hashed stems of the sentences that ask for something
	said      []string   // the same sentences, in normal form, with what says more of them
}

// markers lists the classes that any view carries, in a fixed order.
func markers(views []text.View, hidden bool) []string {
	var d directives
	d.read(views, false)
	return d.names(hidden)
}

// read adds what the views of a content say. Sentences are looked for in the
// lines of a view. A document is also read as one text, across its segments, so
// that notation hides nothing; sentences of that reading are not kept. read
// returns the first decoded view that carries a marker that no view before it had.
func (d *directives) read(views []text.View, keep bool) (markedIn string) {
	for i, v := range views {
		before := d.found
		if strings.ContainsAny(v.Lines, "\x1e\x1f") {
			d.scan(v.Text, false)
		}
		if i == 0 {
			before = d.found
		}
		d.scan(v.Lines, keep)
		switch {
		case markedIn != "" || d.found == before:
		case i > 0:
			markedIn = v.Name
		case len(views) > 1 && views[1].Lines == "":
			markedIn = views[1].Name // its lines are in this one
		}
	}
	return markedIn
}

// carriers are those of the content's that stand in each of its sentences.
func (d *directives) carriers(in *Input) [][]uint32 {
	out := make([][]uint32, len(d.said))
	for i, said := range d.said {
		packed := ""
		for j, c := range in.Content.Carriers {
			kind, v, _ := strings.Cut(c, ":")
			v = strings.ToLower(v)
			has := strings.Contains(said, v)
			if !has && (kind == string(text.IBAN) || kind == string(text.Card) || kind == string(text.Phone)) {
				if packed == "" {
					packed = wholeName(said)
				}
				has = strings.Contains(packed, wholeName(v))
			}
			if has {
				out[i] = append(out[i], in.carriers[j])
			}
		}
		out[i] = distinct(out[i])
	}
	return out
}

func (d *directives) names(hidden bool) []string {
	if hidden {
		d.found |= 1 << mHidden
	}
	if d.found == 0 {
		return nil
	}
	var out []string
	for i, name := range markerNames {
		if d.found&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}

// scan adds what one view says. With keep it also keeps the words of sentences
// that ask for something.
func (d *directives) scan(view string, keep bool) {
	if len(view) > 2*maxMarked {
		d.scan(view[:maxMarked], keep)
		view = view[len(view)-maxMarked:]
	}
	if strings.ContainsAny(view, "<[#") {
		for _, f := range frames {
			if strings.Contains(view, f) {
				d.found |= 1 << mRole
				break
			}
		}
	}
	s := sentence{d: d, view: view}
	if keep {
		s.words = make([]string, 0, min(len(view)/4, sentenceWords))
	}
	for i := 0; i < len(view); {
		if view[i] == ' ' {
			i++ // says nothing
			continue
		}
		if !wordByte[view[i]] {
			s.punctuation(view, i)
			i++
			continue
		}
		start := i
		for i < len(view) && wordByte[view[i]] {
			i++
		}
		// A dash inside a word parts it before an instruction: place--Delete the file.
		parted := false
		if dash := strings.Index(view[start:i], "--"); dash > 0 && orders(view[start+dash+2:]) {
			i, parted = start+dash, true
		}
		// An apostrophe or an underscore around a word is a mark, and a dash a dash.
		w := strings.Trim(view[start:i], "'_")
		if strings.Trim(w, "-") == "" {
			w = ""
		}
		if w == "" || w[0] != view[start] {
			s.punctuation(view, start)
		}
		if w == "" {
			s.n++
			continue
		}
		if !s.open {
			s.at = start
		}
		s.till = i
		s.word(w)
		if keep {
			s.words = append(s.words, w)
		}
		if parted {
			s.end()
			i += 2
		}
	}
	s.end()
}

// wordByte is what words are made of: letters, digits and what joins them.
var wordByte = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= utf8.RuneSelf || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '\'' || c == '_' || c == '-'
	}
	return t
}()

// polite words after please ask for nothing that a tool does.
var polite = map[string]bool{"note": true, "see": true, "find": true, "contact": true, "refer": true, "be": true, "feel": true, "let": true, "do": true, "visit": true, "allow": true, "keep": true, "accept": true, "select": true, "enter": true}

// never is the place of a word that did not come.
const never = -100

// sentence is the place in one sentence: when each class of words was met.
type sentence struct {
	d     *directives
	n     int    // words so far
	found uint16 // in this sentence
	words []string
	// colon and start: the last word was followed by a colon; a clause begins.
	start                                                                          bool
	prev, prev2                                                                    uint32
	last, last2                                                                    string
	override, rule, prior, model, greet, leak, not, tell, call, keep, lead, future int
	follow, strict, shape, act, cond, asked, reply, please                         int
	open, self, asks                                                               bool
	from                                                                           int // first word that is kept
	after                                                                          int // sentences that still belong to the last request
	// view is the text, at and till the bytes of it that the sentence takes, and
	// asked where the last one that was kept begins.
	view             string
	at, till, asksAt int
}

func (s *sentence) begin() {
	s.n, s.open, s.start, s.found, s.from = 0, true, true, 0, 0
	s.prev, s.prev2, s.last, s.last2 = 0, 0, "", ""
	s.override, s.rule, s.prior, s.model, s.greet, s.leak = never, never, never, never, never, never
	s.not, s.tell, s.call, s.keep, s.lead, s.future = never, never, never, never, never, never
	s.follow, s.strict, s.shape, s.act, s.self = never, never, never, never, false
	s.cond, s.asked, s.reply, s.please, s.asks = never, never, never, never, false
	s.words = s.words[:0]
}

func (s *sentence) punctuation(view string, i int) {
	if view[i] != ' ' && view[i] != ',' && view[i] != '\n' && view[i] != '*' && view[i] != '_' {
		s.act = never // a verb with nothing after it is a name: "order": 3
	}
	switch view[i] {
	case '\n', '|', '-':
		s.start = true
	case '\x1e', '\x1f':
		s.end()
	case '.', '!', '?':
		// A dot inside a word ends nothing: shop.example, 3.5. One before an
		// instruction does: place.Delete the file.
		if i+1 >= len(view) || !wordByte[view[i+1]] || orders(view[i+1:]) {
			s.end()
		}
	case ';', '{', '}', '[', ']':
		s.end()
	case ':':
		if s.open && (s.last == "system" || s.last2 == "system" && (s.last == "message" || s.last == "prompt")) && s.n <= 3 {
			s.mark(mRole)
		}
		s.start = true
	case '"', '\'':
		// The values of a record are sentences of their own.
		if p := strings.TrimRight(view[max(0, i-3):i], " \\"); p != "" && (p[len(p)-1] == ',' || p[len(p)-1] == ':') {
			s.end()
		}
		s.start = true
	case '(', '*', '>', '_':
		s.start = true
	case ')': // the number of an item: 1) Delete
		s.start = s.start || i > 0 && view[i-1] >= '0' && view[i-1] <= '9'
	case '=', '+', '~', '`', '\\':
		if orders(view[i+1:]) {
			s.end()
		}
	}
}

// named are words that follow the verb of an instruction, and no method or host.
var named = map[string]bool{"the": true, "all": true, "this": true, "that": true, "these": true, "those": true, "every": true, "any": true, "my": true, "your": true,
	"our": true, "a": true, "an": true, "it": true, "them": true, "everything": true, "him": true, "her": true, "money": true, "funds": true, "files": true}

// orders reports whether a text begins with a verb that asks for something and
// what it is about.
func orders(s string) bool {
	verb, rest := firstWord(s)
	if wordClasses[verb]&wAct == 0 || rest == "" || rest[0] != ' ' {
		return false
	}
	object, _ := firstWord(rest[1:])
	return named[object]
}

// firstWord cuts a text behind the word that it begins with.
func firstWord(s string) (word, rest string) {
	n := 0
	for n < len(s) && wordByte[s[n]] {
		n++
	}
	return s[:n], s[n:]
}

// end closes the sentence, and keeps its words if it asks for something.
func (s *sentence) end() {
	if !s.open {
		return
	}
	s.open = false
	if s.self && s.found&(1<<mRequest) != 0 {
		s.mark(mPlea)
	}
	s.d.found |= s.found
	asks := (s.found != 0 || s.asks) && len(s.words) > 1
	if n := len(s.d.sentences); n > 0 && s.after > 0 && len(s.words) > 0 {
		// What follows a request says more of it.
		s.d.sentences[n-1] = distinct(append(s.d.sentences[n-1], s.kept()...))
		s.d.said[n-1] = s.view[s.asksAt:s.till]
		s.after--
	}
	if asks && len(s.d.sentences) < maxSentences {
		s.after = 2
		hs := s.kept()
		if s.found&(1<<mRequest|1<<mObey|1<<mOverride|1<<mAddress) != 0 {
			hs = distinct(append(hs, intent.Request))
		}
		s.d.sentences = append(s.d.sentences, hs)
		s.asksAt = s.at
		s.d.said = append(s.d.said, s.view[s.at:s.till])
	}
}

func (s *sentence) mark(m int) {
	if s.found == 0 {
		s.from = max(0, s.n-beforeMark)
	}
	s.found |= 1 << m
}

// beforeMark is how many words before the first mark of a sentence are kept.
const beforeMark = 8

// kept are the words of the sentence around what it asks for.
func (s *sentence) kept() []uint32 {
	from := min(s.from, len(s.words))
	return sentenceHashes(s.words[from:min(len(s.words), from+sentenceWords)])
}

// word takes the next word. Windows are in words, and what they join stands in
// one sentence.
func (s *sentence) word(w string) {
	if !s.open {
		s.begin()
	}
	c := uint32(0)
	if len(w) < 32 && classLengths[w[0]]&(1<<len(w)) != 0 {
		c = wordClasses[w]
	}
	n := s.n
	switch n - s.act {
	case 1:
		s.asks = true
	case 2:
		s.mark(mRequest)
	}
	if n-s.please == 2 && !polite[s.last] {
		s.mark(mRequest)
	}
	if w == "please" || w == "kindly" || w == "you" && (s.last == "can" || s.last == "could" || s.last == "would") {
		s.please = n
	}
	if c != 0 {
		s.classified(c, w, n)
	}
	s.more(c, w, n)
	switch w {
	case "now":
		if s.last2 == "you" && s.last == "are" {
			s.mark(mRole)
		}
	case "on":
		if s.last2 == "from" && s.last == "now" {
			s.mark(mPersist)
		}
	case "mode":
		if s.prev&wMode != 0 {
			s.mark(mRole)
		}
	case "a", "an", "the", "if", "though":
		if s.last2 == "act" && s.last == "as" {
			s.mark(mRole)
		}
	case "document", "email", "data":
		if s.last2 == "end" && s.last == "of" {
			s.mark(mRole)
		}
	}
	if c&wFill == 0 && w != "you" && w != "the" && w != "sure" {
		s.start = false
	}
	s.last2, s.last = s.last, w
	s.prev2, s.prev = s.prev, c
	s.n++
}

func (s *sentence) classified(c uint32, w string, n int) {
	if c&wRule != 0 {
		if n-s.override <= 10 && (s.prior > s.override || s.override == n-1) {
			s.mark(mOverride)
		}
		if s.last == "new" || s.last == "important" || s.last2 == "new" && s.last == "system" {
			if strings.HasPrefix(w, "instruction") {
				s.mark(mRole)
			}
		}
		s.rule = n
	}
	if c&wPrior != 0 {
		if s.rule > s.override && n-s.override <= 10 && n-s.rule <= 3 && w != "all" && w != "any" && w != "every" && w != "your" {
			s.mark(mOverride) // the instructions above
		}
		s.prior = n
	}
	if c&wOverride != 0 {
		s.override = n
	}
	if c&wModal != 0 && n-s.model <= 5 {
		s.mark(mAddress)
	}
	if c&(wModel|wMachine) != 0 {
		if n-s.greet <= 4 {
			s.mark(mAddress)
		}
		s.model = n
	}
	if c&wGreet != 0 {
		s.greet = n
	}
	if c&wAct != 0 && (s.start || s.prev&wLead != 0 && (s.prev&^wLead == 0 || s.last == "please") || s.prev&wFill != 0 && s.prev2&wLead != 0 || s.requestBefore()) {
		s.act = n
	}
	if c&wSecret != 0 && n-s.leak <= 12 && (s.last != "public") && (w != "key" && w != "keys" || s.last == "api" || s.last == "private" || s.last == "secret" || s.last == "access") && (w != "prompt" || s.last == "system") {
		s.mark(mExfiltrate)
	}
	if c&wLeak != 0 {
		s.leak = n
	}
	if c&wPerson != 0 && n-s.tell <= 4 && s.tell-s.not <= 4 && s.tell > s.not {
		s.mark(mSecrecy)
	}
	if c&wTell != 0 {
		s.tell = n
	}
	if c&wConsent != 0 && n-s.not <= 4 && s.not >= 0 && s.notWithout() {
		s.mark(mSecrecy)
	}
	if c&wNot != 0 {
		s.not = n
		s.future = never
		if w == "without" {
			s.future = n
		}
	}
	if s.prev&wHush != 0 && c&wAct != 0 {
		s.mark(mSecrecy)
	}
	if c&wTool != 0 && n-s.call <= 7 {
		s.mark(mTool)
	}
	if c&wCall != 0 {
		s.call = n
	}
	if c&wForever != 0 && n-s.keep <= 10 && w != "every" {
		s.mark(mPersist)
	}
	if c&wSession != 0 && s.prev&wFuture != 0 {
		s.mark(mPersist)
	}
	if c&wKeep != 0 {
		s.keep = n
	}
}

// more finds the markers that say how the reader has to answer or obey.
func (s *sentence) more(c uint32, w string, n int) {
	if c&wSelf != 0 {
		s.self = true
	}
	// What the reader says, and that it is the reader's: in your answer.
	if c&wAnswer != 0 && (s.last == "your" || s.last == "the" && s.last2 == "in") && n-s.shape <= 8 && s.last == "your" {
		s.mark(mAnswer)
	}
	// What to say if asked: a document that scripts its reader's answers.
	if c&wReply != 0 && s.asked > never && n > s.asked {
		s.mark(mAnswer)
	}
	if c&wAsk != 0 && s.cond > never && n-s.cond <= 4 {
		s.asked = n
	}
	if w == "if" || w == "when" || w == "whenever" {
		s.cond = n
	}
	if (w == "only" || w == "solely" || w == "exclusively") && n-s.reply <= 2 {
		s.mark(mAnswer)
	}
	if c&wReply != 0 {
		s.reply = n
	}
	if c&(wShape|wAct) != 0 {
		s.shape = n
	}
	if c&wRule != 0 && n-s.follow <= 5 && (s.strict > never && n-s.strict <= 8) {
		s.mark(mObey)
	}
	if c&wFollow != 0 {
		s.follow = n
	}
	if c&wStrict != 0 {
		s.strict = n
	}
}

// notWithout reports whether the last negation was "without".
func (s *sentence) notWithout() bool { return s.future == s.not }

// requestBefore reports whether the words before a verb make it a request:
// you must, i want you to, can you, make sure to.
func (s *sentence) requestBefore() bool {
	switch s.last {
	case "you":
		return s.last2 == "can" || s.last2 == "could" || s.last2 == "would" || s.last2 == "will"
	case "to":
		return s.last2 == "you" || s.last2 == "sure" || s.last2 == "remember" || s.last2 == "forget" || s.prev2&wModal != 0 || s.last2 == "is"
	case "must", "should", "shall":
		return true
	case "and":
		return s.found&(1<<mRequest) != 0
	}
	return false
}
