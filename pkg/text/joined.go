package text

import "strings"

// A sentence can be written without its spaces: DeleteTheFile, delete-the-file, or
// place.Send it. Names of programs and tools are written so too. Small words tell a
// phrase from a name: names leave them out.

// small are the words that phrases have and names seldom do.
var small = wordsOf("the this that these those my your our his her their its it them me him us you an please " +
	"everything everyone anyone previous must")

// linking are words that names of a few parts have too.
var linking = wordsOf("to for from into onto with and all any every of in on at as by or not now immediately " +
	"without a i")

// A name of a few parts is read as words if it sets instructions aside: ignoreInstructions,
// disregard_system_prompt. One that acts on a thing is also a name of a tool, and is read as words
// if the thing follows: deleteFile budget.xlsx.
var (
	asideVerbs = wordsOf("ignore disregard forget override overrule bypass")
	asideNouns = wordsOf("instruction instructions prompt prompts guardrails safeguards")
	actVerbs   = wordsOf("delete remove erase wipe overwrite send forward transfer wire pay upload share post publish " +
		"download run execute install grant reveal email")
	actNouns = wordsOf("file files folder directory database table record records email emails mail mails message " +
		"messages money funds payment report document documents data password passwords credentials secret secrets " +
		"key keys token tokens code script command access contacts")
)

// Parts of a joined word from which it reads as a phrase with a linking word, and without.
const (
	linkedParts = 4
	manyParts   = 6
)

// maxJoined is the length in bytes of the longest word that is looked at.
const maxJoined = 400

// joint reports whether c joins the parts of a word.
func joint(c byte) bool { return c == '_' || c == '-' || c == '.' || c == '+' }

// wordEnd is where the joined word at the start of s ends: letters and digits, and
// single joints between them.
func wordEnd(s string) int {
	n := 0
	for n < len(s) && (isAlnum(s[n]) || joint(s[n]) && n > 0 && isAlnum(s[n-1]) && n+1 < len(s) && isAlnum(s[n+1])) {
		n++
	}
	return n
}

// spread adds the parts of a joined word to buf, with spaces between, if it reads as a
// phrase. It reports whether it does. after is what follows the word.
func spread(buf []byte, w, after string) ([]byte, bool) {
	if len(w) < 5 || len(w) > maxJoined {
		return buf, false
	}
	from, start, parts, short := len(buf), 0, 0, 0
	smalls, links, camel := false, false, false
	aside, acts, command := false, false, false
	var word [16]byte
	for i := 1; i <= len(w); i++ {
		cut := i == len(w) || joint(w[i]) || joint(w[i-1]) || partsCamel(w, i)
		if !cut {
			continue
		}
		if p := w[start:i]; !joint(p[0]) {
			camel = camel || i < len(w) && !joint(w[i])
			if parts++; parts > 1 {
				buf = append(buf, ' ')
			}
			buf = append(buf, p...)
			if len(p) == 1 {
				short++
			}
			if len(p) <= len(word) {
				lower := asciiLower(word[:0], p)
				smalls = smalls || small[string(lower)]
				links = links || parts > 1 && linking[string(lower)]
				if parts == 1 {
					aside, acts = asideVerbs[string(lower)], actVerbs[string(lower)]
				}
				if string(lower) != "to" { // sendMoneyTo
					command = aside && asideNouns[string(lower)] || acts && actNouns[string(lower)]
				}
			}
		}
		start = i
	}
	phrase := parts > 1 && short <= 1 && (smalls || links && camel && parts >= linkedParts || parts >= manyParts ||
		command && parts <= linkedParts && (aside || nameFollows(after)))
	if !phrase {
		return buf[:from], false
	}
	return buf, true
}

// partsCamel reports whether a capital begins a part at byte i of w: theFile, HTMLFile.
func partsCamel(w string, i int) bool {
	if tokenClass[w[i]]&inUpper == 0 {
		return false
	}
	return tokenClass[w[i-1]]&inUpper == 0 || i+1 < len(w) && tokenClass[w[i+1]]&inLower != 0
}

func asciiLower(buf []byte, s string) []byte {
	for i := range len(s) {
		c := s[i]
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		buf = append(buf, c)
	}
	return buf
}

// nameFollows reports whether a space or a colon and the name of a thing follow a word: that of
// a file, an address or an account.
func nameFollows(after string) bool {
	after, colon := strings.CutPrefix(after, ":")
	name, space := strings.CutPrefix(after, " ")
	if !colon && !space || strings.Contains(name[:min(len(name), maxJoined)], "://") {
		return false
	}
	name, _, _ = strings.Cut(name[:min(len(name), maxJoined)], " ")
	name = strings.Trim(name, "\"'`.,;:!?()")
	digits := 0
	for i := range len(name) {
		switch c := name[i]; {
		case tokenClass[c] == inDigit:
			digits++
		case c == '@' || c == '/' || c == '.':
			if i > 0 && i+1 < len(name) {
				return true
			}
		}
	}
	return digits >= 4
}

// isPhrase reports whether a joined word, a name in a document, reads as a phrase.
func isPhrase(w string) bool { return isCommand(w, "") }

// isCommand is isPhrase for a word that a text follows.
func isCommand(w, after string) bool {
	_, ok := spread(nil, w, after)
	return ok && wordEnd(w) == len(w)
}

// beginsPhrase reports whether a joined word behind a full stop is a phrase of its own:
// DeleteTheFile, but not The.File of Delete.The.File.
func beginsPhrase(w string) bool {
	if tokenClass[w[0]]&inUpper == 0 {
		return false
	}
	n := 1
	for n < len(w) && !joint(w[n]) && !partsCamel(w, n) {
		n++
	}
	return !small[strings.ToLower(w[:n])] && isPhrase(w)
}

// Bytes that part addresses and paths from what stands around them, and those that stand
// in addresses and paths alone.
const (
	otherByte = iota
	aroundAddress
	addressByte
)

var addressClass = func() (t [256]uint8) {
	for _, c := range []byte(" \t\r\n\"'()[]{}<>,;|\x1e") {
		t[c] = aroundAddress
	}
	for _, c := range []byte("/@\\%=&") {
		t[c] = addressByte
	}
	return t
}()

// inAddress reports whether the word from i to end of s is part of an address or a path.
func inAddress(s string, i, end int) bool {
	for j := i - 1; j >= max(0, i-maxJoined) && addressClass[s[j]] != aroundAddress; j-- {
		if addressClass[s[j]] == addressByte {
			return true
		}
	}
	return end < len(s) && (addressClass[s[end]] == addressByte || strings.HasPrefix(s[end:], "://"))
}

// afterMark are words that do not follow the verb of an instruction: object.Delete is gone.
var afterMark = wordsOf("to is was are were be has had have can will may and or for in on of at as by if when which " +
	"that's returns return does did do " +
	"method methods function functions call calls class event events field api documentation s")

// beginsSentence reports whether a sentence begins at byte i of s, behind a full stop
// without a space: place.Send it.
func beginsSentence(s string, i int) bool {
	if i < 2 || tokenClass[s[i]]&inUpper == 0 || s[i-1] != '.' && s[i-1] != '!' && s[i-1] != '?' ||
		byteClass[s[i-2]] == spaceByte {
		return false
	}
	n := i
	for n < len(s) && asciiLetter(s[n]) {
		n++
	}
	if n-i < 2 || n == len(s) || s[n] != ' ' || inAddress(s, i, n) {
		return false
	}
	next := s[n+1:]
	m := 0
	for m < len(next) && m <= maxKey && (asciiLetter(next[m]) || next[m] == '\'') {
		m++
	}
	return m == 0 || !afterMark[strings.ToLower(next[:m])]
}
