package rules

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
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
	wNext                        // sentence openers that are no verbs
)

var wordClasses = func() map[string]uint32 {
	m := make(map[string]uint32)
	for bits, words := range map[uint32]string{
		wOverride: "ignore ignoring ignored disregard disregarding forget forgetting override overriding overrides bypass bypassing supersede supersedes overrule neglect discard",
		wRule:     "instruction instructions prompt prompts rule rules guideline guidelines direction directions directive directives command commands message messages context task tasks policy policies restriction restrictions constraint constraints safety orders",
		wPrior:    "previous prior earlier above preceding former original existing initial all any every your other system before foregoing old past",
		wModel:    "ai assistant assistants agent agents llm llms chatbot chatbots model models bot",
		wModal:    "must should shall need needs have has please required instructed asked supposed",
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
		wFuture:  "future",
		wSession: "sessions session conversations conversation tasks chats interactions requests",
	} {
		for _, w := range strings.Fields(words) {
			m[w] |= bits
		}
	}
	return m
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
	mHidden
)

var markerNames = []string{"override", "role", "address", "request", "exfiltrate", "secrecy", "tool", "persist", "hidden"}

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
}

// markers lists the classes that any view carries, in a fixed order.
func markers(views []string, hidden bool) []string {
	var d directives
	for _, v := range views {
		d.scan(v, false)
	}
	return d.names(hidden)
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
	s := sentence{d: d}
	for i := 0; i < len(view); {
		if !wordByte[view[i]] {
			s.punctuation(view, i)
			i++
			continue
		}
		start := i
		for i < len(view) && wordByte[view[i]] {
			i++
		}
		s.word(view[start:i])
		if keep {
			s.words = append(s.words, view[start:i])
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
	open                                                                           bool
}

func (s *sentence) begin() {
	s.n, s.open, s.start, s.found = 0, true, true, 0
	s.prev, s.prev2, s.last, s.last2 = 0, 0, "", ""
	s.override, s.rule, s.prior, s.model, s.greet, s.leak = never, never, never, never, never, never
	s.not, s.tell, s.call, s.keep, s.lead, s.future = never, never, never, never, never, never
	s.words = s.words[:0]
}

func (s *sentence) punctuation(view string, i int) {
	switch view[i] {
	case '.', '!', '?':
		// A dot inside a word ends nothing: shop.example, 3.5.
		if i+1 >= len(view) || !wordByte[view[i+1]] {
			s.end()
		}
	case ';', '\n':
		s.end()
	case ':':
		if s.open && (s.last == "system" || s.last2 == "system" && (s.last == "message" || s.last == "prompt")) && s.n <= 3 {
			s.mark(mRole)
		}
		s.start = true
	case '"', '(', '*', '>', ',':
		s.start = s.start || view[i] != ','
	}
}

// end closes the sentence, and keeps its words if it asks for something.
func (s *sentence) end() {
	if !s.open {
		return
	}
	s.open = false
	s.d.found |= s.found
	if s.found != 0 && len(s.words) > 1 && len(s.d.sentences) < maxSentences {
		var hs []uint32
		for _, w := range s.words[:min(len(s.words), sentenceWords)] {
			for _, part := range toolWords(w) {
				hs = append(hs, hash32(part))
			}
		}
		slices.Sort(hs)
		s.d.sentences = append(s.d.sentences, slices.Compact(hs))
	}
}

func (s *sentence) mark(m int) { s.found |= 1 << m }

// word takes the next word. Windows are in words, and what they join stands in
// one sentence.
func (s *sentence) word(w string) {
	if !s.open {
		s.begin()
	}
	c := wordClasses[w]
	n := s.n
	if c != 0 {
		s.classified(c, w, n)
	}
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
	if c&wModel != 0 {
		if n-s.greet <= 4 {
			s.mark(mAddress)
		}
		s.model = n
	}
	if c&wGreet != 0 {
		s.greet = n
	}
	if c&wAct != 0 && (s.start || s.prev&wLead != 0 && (s.prev&^wLead == 0 || s.last == "please") || s.prev&wFill != 0 && s.prev2&wLead != 0 || s.requestBefore()) {
		s.mark(mRequest)
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

// hash32 is FNV-1a.
func hash32(s string) uint32 {
	h := uint32(2166136261)
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * 16777619
	}
	return h
}

func notWord(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }

// stem folds the commonest English endings, so that "emails" meets "email".
func stem(w string) string {
	for _, end := range []string{"ing", "ed", "es", "s"} {
		if s, ok := strings.CutSuffix(w, end); ok && len(s) >= 3 {
			return s
		}
	}
	return strings.TrimSuffix(w, "e")
}

// toolWords cuts a name into stems: sendEmail, send_email and mail.sendEmail
// all hold send and email.
func toolWords(name string) []string {
	if words, ok := plainWords(name); ok {
		return words
	}
	var words []string
	var b strings.Builder
	flush := func() {
		if b.Len() > 1 {
			words = append(words, stem(strings.ToLower(b.String())))
		}
		b.Reset()
	}
	prev := rune(0)
	for _, r := range name {
		switch {
		case notWord(r):
			flush()
			prev = 0
			continue
		case unicode.IsUpper(r) && unicode.IsLower(prev):
			flush()
		}
		b.WriteRune(r)
		prev = r
	}
	flush()
	return words
}

// plainWords is toolWords of a text without letters outside of ASCII.
func plainWords(name string) (words []string, ok bool) {
	start, upper := -1, false
	flush := func(end int) {
		if start >= 0 && end-start > 1 {
			w := name[start:end]
			if upper {
				w = strings.ToLower(w)
			}
			words = append(words, stem(w))
		}
		start, upper = -1, false
	}
	for i := range len(name) {
		c := name[i]
		big := c >= 'A' && c <= 'Z'
		switch {
		case c >= utf8.RuneSelf:
			return nil, false
		case !big && (c < 'a' || c > 'z') && (c < '0' || c > '9'):
			flush(i)
			continue
		case big && start >= 0 && name[i-1] >= 'a' && name[i-1] <= 'z':
			flush(i)
		}
		if start < 0 {
			start = i
		}
		upper = upper || big
	}
	flush(len(name))
	return words, true
}
