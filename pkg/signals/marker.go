package signals

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"lazaret/pkg/text"
)

// Markers are classes of instructions that a text gives its reader. They follow from the parts that an instruction to a
// model can have (ignore earlier instructions, take a role, do this, tell nobody, remember it). They were not derived
// from a collection of attacks. They are found in normalized and decoded views. Each class alone is frequent in
// harmless text. Rules combine them.
//
// One pass over the words of a view finds them. A pattern is a few classes of words that follow each other in a
// sentence, so that the cost is linear in the length of the text.

// Classes of words, as bits.
const (
	wOverride uint32 = 1 << iota // verbs for ignoring rules
	wRule                        // names of the rules to ignore
	wPrior                       // words before or after wRule: previous, above
	wModel                       // names of the reader
	wModal                       // must, should
	wGreet                       // words that begin a message: hello, attention
	wLead                        // words before a request: please, must
	wFill                        // words between wLead and wAct
	wAct                         // verbs of requests
	wLeak                        // verbs of disclosure
	wSecret                      // names of things to disclose
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
	wSelf                        // the speaker
	wAnswer                      // the reader's output
	wShape                       // verbs that tell the reader which form the output must have
	wFollow                      // verbs of obedience
	wStrict                      // words that make an order strict: strictly, exactly, must
	wMachine                     // names for a reader that is a program
	wAsk
	wReply
)

var wordClasses = func() map[string]uint32 {
	m := make(map[string]uint32)
	for bits, words := range map[uint32]string{
		wOverride: "ignore ignoring ignored disregard disregarding forget forgetting override overriding overrides bypass " +
			"bypassing supersede supersedes overrule neglect discard",
		wRule: "instruction instructions prompt prompts rule rules guideline guidelines direction directions directive " +
			"directives command commands message messages context task tasks policy policies restriction restrictions " +
			"constraint constraints safety orders",
		wPrior: "previous prior earlier above preceding former original existing initial all any every your other " +
			"system before foregoing old past",
		wModel:   "ai assistant assistants agent agents llm llms chatbot chatbots model models bot",
		wModal:   "must should shall need needs have has please required instructed asked supposed",
		wMachine: "software automated parser reviewer evaluator grader",
		wAsk:     "ask asks asked asking",
		wReply:   "reply respond answer say output print return",
		wGreet:   "dear hey hello attention note notice instruction instructions message reminder",
		wLead:    "please kindly must should need to immediately lets let's",
		wFill:    "also now then first immediately directly just next additionally",
		wAct: "send transfer email e-mail forward upload post publish share delete remove erase wipe pay buy purchase " +
			"order grant revoke give download execute run call invoke use change update modify set reset unlock open lock " +
			"disable enable " +
			"add create book schedule cancel withdraw deposit redeem reveal export copy move fetch retrieve access search " +
			"find check show read get submit register subscribe install write append replace store save remember recommend " +
			"approve deny reject visit navigate click " +
			"arrange make turn print reply respond answer include say output translate",
		wLeak: "send forward email mail upload post transmit leak exfiltrate share reveal include append copy submit " +
			"export disclose",
		wSecret: "password passwords credential credentials apikey api_key secret secrets token tokens key keys " +
			"conversation prompt confidential pin",
		wNot: "don't dont not never without avoid",
		wTell: "tell telling inform informing mention mentioning reveal revealing notify notifying disclose disclosing " +
			"alert alerting ask asking warn",
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
		wShape: "in with only end begin start include must should respond reply answer solely exclusively print add " +
			"append insert write use replace to of format",
		wFollow:  "follow following adhere obey comply execute perform complete fulfill fulfil heed",
		wStrict:  "strictly exactly must immediately without fully carefully task instead",
		wFuture:  "future",
		wSession: "sessions session conversations conversation tasks chats interactions requests",
	} {
		for _, w := range strings.Fields(words) {
			m[w] |= bits
		}
	}
	right := maps.Clone(m)
	for w, bits := range right {
		if bits &= wOverride | wRule | wPrior | wAct; bits == 0 {
			continue
		}
		for _, wrong := range misspelt(w) {
			if right[wrong] == 0 && wrong != "crate" && wrong != "revel" {
				m[wrong] |= bits
			}
		}
	}
	return m
}()

// misspelt returns the spellings of a word of six letters or more that have exactly one of these errors: two letters in
// the wrong order, a letter that is missing, or a letter twice. The first and the last letter are right.
func misspelt(w string) (out []string) {
	if len(w) < 6 {
		return nil
	}
	for i := 1; i < len(w)-1; i++ {
		if i < len(w)-2 && w[i] != w[i+1] {
			out = append(out, w[:i]+string(w[i+1])+string(w[i])+w[i+2:])
		}
		out = append(out, w[:i]+w[i+1:], w[:i]+w[i:i+1]+w[i:])
	}
	return out
}

// mayHaveClass reports whether a word may be in wordClasses. It needs no lookup, and returns false for most words
// without a class.
func mayHaveClass(w string) bool {
	return len(w) < 32 && firstLengths[w[0]]&lastLengths[w[len(w)-1]]&(1<<len(w)) != 0
}

// firstLengths has, for each byte, the lengths of the words in wordClasses that begin with it, as bits. lastLengths has
// the lengths of those that end with it.
var firstLengths, lastLengths = func() (first, last [256]uint32) {
	for w := range wordClasses {
		first[w[0]] |= 1 << len(w)
		last[w[len(w)-1]] |= 1 << len(w)
	}
	return first, last
}()

// The markers, in the order in which they are listed. A marker says what a sentence of the text does. docs/rules.md has
// examples.
const (
	mOverride   = iota // cancels earlier instructions to the reader
	mRole              // claims to be the system, or gives the reader a role
	mAddress           // addresses the reader as a machine
	mRequest           // asks for an act
	mExfiltrate        // asks for a secret or for the conversation
	mSecrecy           // asks to hide something from the user
	mTool              // asks to call a tool
	mPersist           // asks for a lasting effect
	mPlea              // asks for something for its writer
	mAnswer            // prescribes the reader's answer
	mObey              // demands that the reader obeys
	mHidden            // the content has invisible characters (this marker is not about a sentence)
)

// commanding has the markers of a text that commands its reader. A text with only a request, a plea or the name of a
// tool does not.
const commanding = uint16(1<<len(markerNames)-1) &^ (1<<mRequest | 1<<mPlea | 1<<mTool)

var markerNames = [...]string{
	"override",
	"role",
	"address",
	"request",
	"exfiltrate",
	"secrecy",
	"tool",
	"persist",
	"plea",
	"answer",
	"obey",
	"hidden",
}

// frames are parts of chat templates. A document has no reason to have them, and a model may take one for the end of
// the document.
var frames = []string{
	"<|im_start",
	"<|im_end",
	"<|system",
	"<|user",
	"<|assistant",
	"<|endoftext",
	"[inst]",
	"[/inst]",
	"[system]",
	"### instruction",
	"### system",
	"<system>",
	"</system>",
	"<<sys>>",
}

const (
	// maxMarked is a number of bytes. Markers are searched only in so many bytes at the beginning of a view, and in so
	// many at its end.
	maxMarked = 64 << 10
	// maxSentences is the maximum number of sentences that are stored for a text, and sentenceWords the maximum number
	// of stored words of each sentence.
	maxSentences  = 24
	sentenceWords = 48
)

// directives has what was found of the instructions that a text gives its reader.
type directives struct {
	found     uint16     // markers, as bits
	sentences [][]uint32 // for each sentence that asks for something, the hashed stems of its words
	said      []string   // text of each of these sentences in normal form, with the sentences after it that belong to it
}

// markers returns the names of the markers found in any view, in a fixed order.
func markers(views []text.View, hidden bool) []string {
	var d directives
	d.read(views, false)
	return d.names(hidden)
}

// Markers returns the names of all markers.
func Markers() []string { return slices.Clone(markerNames[:]) }

// Instructs reports whether a content gives its reader an instruction. views are those of the content, and hidden says
// whether it has hidden parts. derived is the Derived field of the content's block, or nil. Instructs stores there what
// it has found, so that sentinels of the same process need not search again.
func Instructs(views []text.View, hidden bool, derived *atomic.Value) bool {
	var k kept
	k.MarkedIn = k.directives.read(views, derived != nil)
	if derived != nil {
		derived.CompareAndSwap(nil, &k)
	}
	d := k.directives
	return Commands(d.names(hidden))
}

// Commands reports whether a content with these markers commands its reader. It gives the same result as the macro
// `commands` in rules/common.yaml. It exists for code that must not depend on the active rules. A test compares
// function and macro.
func Commands(markers []string) bool {
	has := func(names ...string) bool {
		return slices.ContainsFunc(markers, func(m string) bool { return slices.Contains(names, m) })
	}
	return has("override", "role", "secrecy", "exfiltrate", "obey", "answer") ||
		has("hidden") && len(markers) > 1 || has("address") && has("request", "tool", "persist")
}

// read adds the markers and sentences of a content's views. It searches the lines of each view. It also searches all
// segments of a document as one text, so that it finds an instruction that is split over segments, such as strings of a
// JSON document, and each string that is split itself. In these searches, it finds only markers and stores no
// sentences. Last, it searches the sentences that are split over short strings. read returns the first decoded view
// with a marker that no earlier view has.
func (d *directives) read(views []text.View, keep bool) (markedIn string) {
	for i, v := range views {
		before := d.found
		if strings.ContainsAny(v.Lines, "\x1e\x1f") {
			d.scan(v.Text, false)
			d.scan(v.Whole, false)
		}
		if i == 0 {
			before = d.found
		}
		d.scan(v.Lines, keep)
		d.scan(v.Cells, keep)
		switch {
		case markedIn != "" || d.found == before:
		case i > 0:
			markedIn = v.Name
		case len(views) > 1 && views[1].Lines == "":
			markedIn = views[1].Name // that view has the lines
		}
	}
	return markedIn
}

// carriers returns, for each of the stored sentences, the carriers of the content that are in it.
func (d *directives) carriers(in *Input) [][]uint32 {
	out := make([][]uint32, len(d.said))
	if len(out) == 0 {
		return out
	}
	lower := make([]string, len(in.Content.Carriers))
	for j, c := range in.Content.Carriers {
		_, v, _ := strings.Cut(c, ":")
		lower[j] = strings.ToLower(v)
	}
	for i, said := range d.said {
		packed := ""
		for j, v := range lower {
			has := strings.Contains(said, v)
			if !has && kindOf(in.Content.Carriers[j]).Traits().Spaced {
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

// wordLists has lists that were used for the words of a sentence, to use them again. Lists longer than wordListMost are
// not kept.
var wordLists = sync.Pool{New: func() any { return new([]string) }}

const wordListMost = 2048

// scan finds the markers in one view. If keep is set, it also stores the words of each sentence that asks for
// something.
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
		words := wordLists.Get().(*[]string)
		s.words = *words
		defer func() {
			s.words = s.words[:cap(s.words)]
			clear(s.words) // the words share memory with the text
			if *words = s.words[:0]; cap(s.words) <= wordListMost {
				wordLists.Put(words)
			}
		}()
	}
	for i := 0; i < len(view); {
		if view[i] == ' ' {
			i++
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
		// If a double dash inside a word comes before an instruction, it splits the word: place--Delete the file.
		parted := false
		if dash := strings.Index(view[start:i], "--"); dash > 0 && orders(view[start+dash+2:]) {
			i, parted = start+dash, true
		}
		w := bare(view[start:i])
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

// bare returns a word without the apostrophes and underscores around it, which are punctuation. For a word that has
// only dashes, bare returns "".
func bare(w string) string {
	if !joins(w[0]) && !joins(w[len(w)-1]) {
		return w // most words
	}
	if w = strings.Trim(w, "'_"); strings.Trim(w, "-") == "" {
		return ""
	}
	return w
}

// joins reports whether a byte can join two parts of a word.
func joins(c byte) bool { return c == '\'' || c == '_' || c == '-' }

// wordByte says for each byte whether it can be part of a word. Letters, digits, and the bytes for which joins is true
// can.
var wordByte = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= utf8.RuneSelf || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || joins(byte(c))
	}
	return t
}()
