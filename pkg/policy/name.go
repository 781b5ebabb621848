package policy

// MaxTool is the longest tool name that is looked at, in bytes. A longer one
// matches nothing.
const MaxTool = 256

// toolName is a tool's name cut into words: at separators, where lower case
// turns to upper (sendEmail), before the last capital of a run that lower case
// follows (HTTPGet), and between letters and digits (oauth2).
type toolName struct {
	norm  []byte // words in lower case, joined by '.'
	words []word
	// plain says that the name is ASCII. In another one a look-alike letter may
	// hide a word, so its words may raise but not admit.
	plain bool
}

type word struct {
	from, to int32 // in norm
	// noun says that a reading word or a preposition stands before this one,
	// with no conjunction between: the order in get_order_status is none that
	// is placed.
	noun bool
	// head says that it is the first word, or the first behind a namespace: a
	// '.', '/', ':' or double underscore.
	head bool
}

// governs are the words that make nouns of the ambiguous words after them.
// They are part of the policy language: changing them changes what policies
// mean.
var governs = map[string]bool{
	"get": true, "read": true, "list": true, "search": true, "find": true, "view": true, "show": true,
	"lookup": true, "fetch": true, "query": true, "describe": true, "retrieve": true, "check": true,
	"inspect": true, "browse": true, "count": true, "track": true, "verify": true, "validate": true,
	"by": true, "of": true, "per": true, "for": true,
}

// conjunctions end that: the post in get_and_post is one.
var conjunctions = map[string]bool{"and": true, "or": true, "then": true, "to": true, "with": true}

// parseName cuts a name, into the memory that norm and words have.
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
		w := word{from: int32(len(n.norm)), noun: noun, head: head}
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
		switch text := n.norm[w.from:w.to]; {
		case governs[string(text)]:
			noun = true
		case conjunctions[string(text)]:
			noun = false
		}
	}
	return n
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

// boundary reports whether a word ends before name[i], i > 0.
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

// matchPattern matches a normalised name against a normalised pattern: '*' is
// any run of bytes, '?' is one byte.
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
