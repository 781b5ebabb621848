package signals

import (
	"strings"

	"lazaret/pkg/intent"
)

// polite has words after which "please" asks for nothing that a tool could do: please note, please feel free.
var polite = map[string]bool{
	"note":    true,
	"see":     true,
	"find":    true,
	"contact": true,
	"refer":   true,
	"be":      true,
	"feel":    true,
	"let":     true,
	"do":      true,
	"visit":   true,
	"allow":   true,
	"keep":    true,
	"accept":  true,
	"select":  true,
	"enter":   true,
}

// never is the value of a position in a sentence if no word of its class has occurred.
const never = -100

// sentence is the state of one sentence. The fields from override to please are positions: that of the last word of a
// certain class, or never. If the last negation was "without", future is its position.
type sentence struct {
	d     *directives
	n     int    // number of words so far
	found uint16 // markers in this sentence
	words []string
	// start is set where a clause begins.
	start                                                                          bool
	prev, prev2                                                                    uint32
	last, last2                                                                    string
	override, rule, prior, model, greet, leak, not, tell, call, keep, lead, future int
	follow, strict, shape, act, cond, asked, reply, please                         int
	open, self, asks                                                               bool
	from                                                                           int // first stored word
	// after is the number of next sentences that are still to be stored with the last request.
	after int
	// commands is set if a sentence of the current segment commands its reader. apart is set if a segment has ended
	// since the last sentence was stored.
	commands, apart bool
	// view is the text that is scanned. The current sentence is view[at:till]. asksAt is the offset at which the last
	// stored sentence begins.
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
	switch c := view[i]; {
	case c == ' ' || c == ',' || c == '\n' || c == '*' || c == '_':
	case s.insideObject(i):
		s.mark(mRequest)
	default:
		s.act = never // a verb must be followed by its object: in "order": 3, order is only a name
	}
	switch view[i] {
	case '\n', '|', '-':
		s.start = true
	case '\x1e', '\x1f':
		s.end()
		s.commands, s.apart = false, true
	case '.', '!', '?':
		// A dot inside a word does not end a sentence: shop.example, 3.5. But if an instruction begins after it, it
		// does: place.Delete the file.
		if i+1 >= len(view) || !wordByte[view[i+1]] || orders(view[i+1:]) {
			s.end()
		}
	case ';', '{', '}', '[', ']':
		s.end()
	case ':':
		if s.open && (s.last == "system" || s.last2 == "system" && (s.last == "message" || s.last == "prompt")) &&
			s.n <= 3 {
			s.mark(mRole)
		}
		s.start = true
	case '"', '\'':
		// Each value of a record, such as a JSON object, is a sentence of its own.
		if p := strings.TrimRight(view[max(0, i-3):i], " \\"); p != "" && (p[len(p)-1] == ',' || p[len(p)-1] == ':') {
			s.end()
		}
		s.start = true
	case '(', '*', '>', '_':
		s.start = true
	case ')': // a bracket after the number of an item begins a sentence: 1) Delete
		s.start = s.start || i > 0 && view[i-1] >= '0' && view[i-1] <= '9'
	case '=', '+', '~', '`', '\\':
		if orders(view[i+1:]) {
			s.end()
		}
	}
}

// insideObject reports whether byte i is inside the name of a file, a package or an address that follows the verb of a
// request. The sentence must address a machine, because verbs are also names: order x.csv.
func (s *sentence) insideObject(i int) bool {
	if !s.open || s.found&(1<<mAddress) == 0 || s.n-s.act != 2 || i+1 >= len(s.view) || !wordByte[s.view[i-1]] {
		return false
	}
	switch s.view[i] {
	case '.', '@':
		return wordByte[s.view[i+1]]
	case ':':
		return strings.HasPrefix(s.view[i:], "://")
	}
	return false
}

// named has words that can follow the verb of an instruction, but not the name of a method or host: the, all, files.
var named = map[string]bool{
	"the":        true,
	"all":        true,
	"this":       true,
	"that":       true,
	"these":      true,
	"those":      true,
	"every":      true,
	"any":        true,
	"my":         true,
	"your":       true,
	"our":        true,
	"a":          true,
	"an":         true,
	"it":         true,
	"them":       true,
	"everything": true,
	"him":        true,
	"her":        true,
	"money":      true,
	"funds":      true,
	"files":      true,
}

// orders reports whether a text begins with a verb that can ask for something, followed by the beginning of its object.
func orders(s string) bool {
	verb, rest := firstWord(s)
	if wordClasses[verb]&wAct == 0 || rest == "" || rest[0] != ' ' {
		return false
	}
	object, _ := firstWord(rest[1:])
	return named[object]
}

// firstWord splits a text after its first word.
func firstWord(s string) (word, rest string) {
	n := 0
	for n < len(s) && wordByte[s[n]] {
		n++
	}
	return s[:n], s[n:]
}

// end ends the sentence. If the sentence asks for something, its words are stored.
func (s *sentence) end() {
	if !s.open {
		return
	}
	s.open = false
	if s.self && s.found&(1<<mRequest) != 0 {
		s.mark(mPlea)
	}
	s.d.found |= s.found
	s.commands = s.commands || s.found&commanding != 0
	asks := (s.found != 0 || s.asks) && len(s.words) > 1
	if n := len(s.d.sentences); n > 0 && s.after > 0 && len(s.words) > 0 {
		// The two sentences after a request are stored as a part of the request.
		s.d.sentences[n-1] = distinct(append(s.d.sentences[n-1], s.kept()...))
		if s.found&commanding != 0 && !s.apart {
			s.d.sentences[n-1] = distinct(append(s.d.sentences[n-1], intent.Command))
		}
		s.d.said[n-1] = s.view[s.asksAt:s.till]
		s.after--
	}
	if asks && len(s.d.sentences) < maxSentences {
		s.after, s.apart = 2, false
		hs := s.kept()
		if s.found&(1<<mRequest|1<<mObey|1<<mOverride|1<<mAddress) != 0 {
			hs = distinct(append(hs, intent.Request))
		}
		if s.commands {
			hs = distinct(append(hs, intent.Command))
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

// beforeMark is how many words before the first marked word of a sentence are stored.
const beforeMark = 8

// kept returns hashes of the words of the sentence, at most sentenceWords. It begins a few words before the first
// marked word.
func (s *sentence) kept() []uint32 {
	from := min(s.from, len(s.words))
	return sentenceHashes(s.words[from:min(len(s.words), from+sentenceWords)])
}

// word processes the next word of the sentence, and finds markers. The distances in it are numbers of words within the
// sentence.
func (s *sentence) word(w string) {
	if !s.open {
		s.begin()
	}
	c := uint32(0)
	if mayHaveClass(w) {
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
		if s.rule > s.override && n-s.override <= 10 && n-s.rule <= 3 && w != "all" && w != "any" && w != "every" &&
			w != "your" {
			s.mark(mOverride) // as in "the instructions above"
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
	if c&wAct != 0 &&
		(s.start || s.prev&wLead != 0 && (s.prev&^wLead == 0 || s.last == "please") ||
			s.prev&wFill != 0 && s.prev2&wLead != 0 || s.requestBefore()) {
		s.act = n
	}
	if c&wSecret != 0 && n-s.leak <= 12 && (s.last != "public") &&
		(w != "key" && w != "keys" || s.last == "api" || s.last == "private" || s.last == "secret" || s.last == "access") &&
		(w != "prompt" || s.last == "system") {
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

// more finds those markers that are about how the reader must answer, or that the reader must obey.
func (s *sentence) more(c uint32, w string, n int) {
	if c&wSelf != 0 {
		s.self = true
	}
	// The reader's answer: in your answer.
	if c&wAnswer != 0 && s.last == "your" && n-s.shape <= 8 {
		s.mark(mAnswer)
	}
	// The text says how the reader must answer a question: if asked, reply.
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

// notWithout reports whether the last negation in the sentence was "without".
func (s *sentence) notWithout() bool { return s.future == s.not }

// requestBefore reports whether the words before a verb make the sentence a request: you must, i want you to, can you,
// make sure to.
func (s *sentence) requestBefore() bool {
	switch s.last {
	case "you":
		return s.last2 == "can" || s.last2 == "could" || s.last2 == "would" || s.last2 == "will"
	case "to":
		return s.last2 == "you" || s.last2 == "sure" || s.last2 == "remember" || s.last2 == "forget" ||
			s.prev2&wModal != 0 ||
			s.last2 == "is"
	case "must", "should", "shall":
		return true
	case "and":
		return s.found&(1<<mRequest) != 0
	}
	return false
}
