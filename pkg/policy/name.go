package policy

import "lazaret/pkg/intent"

// MaxTool is the maximum length of a tool name, in bytes. A longer name matches no entry.
const MaxTool = 256

// toolName is a tool's name split into words: at separators, between lower and upper case
// (sendEmail), before the last capital of a run that lower case follows (HTTPGet), and between
// letters and digits (oauth2).
type toolName struct {
	norm  []byte // words in lower case, joined by '.'
	words []word
	// reads is set if the name is nothing but nouns for something that is read: price_history, parts_for. Such a name
	// counts as if it began with "get".
	reads bool
	// plain is set if the name is ASCII. In other names a look-alike letter may hide a word, so
	// their words may raise the level but not allow an action.
	plain bool
}

type word struct {
	from, to int32 // range in norm
	// noun is set if a governing word (see governs) precedes this word without a conjunction between them, or if the name
	// puts its verb last. In get_order_status, "order" is a noun: the tool does not place an order. "email" in
	// email.list, "report" in report_search and "return" in return_label_create are nouns too.
	noun bool
	// head is set for the first word of the name, and for the first word after a namespace
	// separator: '.', '/', ':' or a double underscore.
	head bool
	// act is set for a head, and for the last word after nouns: tag in ticket_tag.
	act bool
	// still is set for a reading verb that is a noun, since the verb of the name is at its end: monitor in monitor_mute.
	// The word then does not count as a verb.
	still bool
}

// governs are the words after which ambiguous words are nouns. They are part of the policy
// language: changing them changes the meaning of policies.
var governs = map[string]bool{
	"get": true, "read": true, "list": true, "search": true, "find": true, "view": true, "show": true,
	"lookup": true, "fetch": true, "query": true, "describe": true, "retrieve": true, "check": true,
	"inspect": true, "browse": true, "count": true, "track": true, "verify": true, "validate": true,
	"extract": true, "peek": true, "transcribe": true,
	"by": true, "of": true, "per": true, "for": true,
}

// lookups are governing words that are rarely nouns. Other governing words can be nouns: in
// email_list, the verb may be email.
var lookups = map[string]bool{
	"get": true, "read": true, "search": true, "find": true, "lookup": true, "fetch": true, "retrieve": true,
}

// conjunctions end the effect of a governing word: in get_and_post, post is a verb.
var conjunctions = map[string]bool{"and": true, "or": true, "then": true, "to": true, "with": true}

// parseName splits a name. It uses norm and words as buffers.
func parseName(name string, norm []byte, words []word) toolName {
	n := toolName{norm: norm[:0], words: words[:0], plain: true}
	noun, head := false, true
	for i := 0; i < len(name); {
		if classOf(name[i]) == separator {
			switch c := name[i]; {
			case c == '.', c == '/', c == ':', c == '_' && i > 0 && name[i-1] == '_':
				head = true
			}
			i++
			continue
		}
		if len(n.norm) > 0 {
			n.norm = append(n.norm, '.')
		}
		w := word{from: int32(len(n.norm)), noun: noun, head: head, act: head}
		head = false
		for start := i; i < len(name) && !(i > start && boundary(name, i)); i++ {
			c := name[i]
			if c >= 0x80 {
				n.plain = false
			}
			if classOf(c) == upper {
				c += 'a' - 'A'
			}
			n.norm = append(n.norm, c)
		}
		w.to = int32(len(n.norm))
		n.words = append(n.words, w)
		switch text := n.text(w); {
		case governs[string(text)]:
			noun = true
		case conjunctions[string(text)]:
			noun = false
		}
	}
	n.readLast()
	n.verbLast()
	return n
}

// verbLast finds the nouns in names that begin with a noun: order_show, price_history, return_label_create,
// ticket_tag.
func (n *toolName) verbLast() {
	from := len(n.words) - 1
	for from > 0 && !n.words[from].head {
		from--
	}
	last := len(n.words) - 1
	if end := last; end > from {
		if end > from+1 && string(n.text(n.words[end])) == "all" {
			end-- // monitor_close_all
		}
		if intent.ActsAfterNoun(n.text(n.words[from]), n.text(n.words[end]), end == from+1) {
			for i := from; i < end; i++ {
				n.words[i].noun = true
			}
			n.words[from].still = true
			n.words[end].noun, n.words[end].act = false, true
			return
		}
	}
	several := last > 0 && last == from && intent.Several(n.text(n.words[last])) // okta.logs
	if last < 1 || !several && !intent.IsNoun(string(n.text(n.words[min(from, last-1)]))) {
		// The part after the namespace does not begin with a noun, or, if it has one word, the namespace does not end
		// with a noun.
		return
	}
	method := make([]string, len(n.words)-from)
	for i, w := range n.words[from:] {
		method[i] = string(n.text(w))
	}
	space := ""
	if from > 0 {
		space = string(n.text(n.words[from-1]))
	}
	n.reads = intent.States(space, method)
	read := n.reads || intent.ShownLast(method)
	for i := range n.words {
		w := &n.words[i]
		w.noun = w.noun || n.reads && i >= from || read && !several && i < last || // post.orders may post
			i >= from && intent.Describes(method, i-from)
	}
	n.words[last].act = n.words[last].act || intent.ActLast(method)
}

// readLast finds the nouns in names that put a reading verb last. The verb begins the last segment after a namespace
// (email.list_threads), or is the last of several words (email_search). The words before that verb are nouns, unless
// one of them is a conjunction.
func (n *toolName) readLast() {
	last := len(n.words) - 1
	for last > 0 && !n.words[last].head {
		last--
	}
	if last <= 0 || !governs[string(n.text(n.words[last]))] {
		if last = len(n.words) - 1; last <= 0 || !lookups[string(n.text(n.words[last]))] {
			return
		}
	}
	for i := range last {
		if conjunctions[string(n.text(n.words[i]))] {
			return
		}
	}
	for i := range last {
		n.words[i].noun = true
	}
}

func (n *toolName) text(w word) []byte { return n.norm[w.from:w.to] }

type charClass uint8

const (
	separator charClass = iota
	lower
	upper
	digit
	other // beyond ASCII, and the wildcards of patterns
)

func classOf(c byte) charClass {
	switch {
	case c >= 'a' && c <= 'z':
		return lower
	case c >= 'A' && c <= 'Z':
		return upper
	case c >= '0' && c <= '9':
		return digit
	case c >= 0x80, c == '*', c == '?':
		return other
	}
	return separator
}

// boundary reports whether a word ends before name[i]. i must be at least 1.
func boundary(name string, i int) bool {
	prev, this := classOf(name[i-1]), classOf(name[i])
	switch {
	case this == separator:
		return true
	case prev == other || this == other:
		return false
	case (prev == digit) != (this == digit):
		return true
	case prev == lower && this == upper:
		return true
	case prev == upper && this == upper:
		return i+1 < len(name) && classOf(name[i+1]) == lower
	}
	return false
}

// matchPattern matches a normalized name against a normalized pattern. '*' matches any run of
// bytes, '?' matches one byte.
func matchPattern(pattern string, name []byte) bool {
	p, s := 0, 0
	star, mark := -1, 0
	for s < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, s
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[s]):
			p++
			s++
		case star >= 0:
			mark++
			p, s = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
