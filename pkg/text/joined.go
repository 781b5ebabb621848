package text

import "strings"

// A sentence can be written without spaces between its words: DeleteTheFile, delete-the-file, or place.Send it. Such a
// joined word is split into its words if it reads as a phrase. Names of programs and tools have the same form, but they
// rarely contain small words such as "the". So a small word shows that the joined word is a phrase.

// small are words that are frequent in phrases and rare in names.
var small = Set("the this that these those my your our his her their its it them me him us you an please " +
	"everything everyone anyone previous must")

// linking are words that are frequent in phrases, but also occur in names of a few parts.
var linking = Set("to for from into onto with and all any every of in on at as by or not now immediately " +
	"without a i")

// A joined word of a few parts is read as a phrase if it tells the reader to ignore instructions: ignoreInstructions,
// disregard_system_prompt. A joined word with an action verb and a noun may be the name of a tool. It is read as a
// phrase only if an object follows: deleteFile budget.xlsx.
var (
	asideVerbs = Set("ignore disregard forget override overrule bypass")
	asideNouns = Set("instruction instructions prompt prompts guardrails safeguards")
	actVerbs   = Set("delete remove erase wipe overwrite send forward transfer wire pay upload share post publish " +
		"download run execute install grant reveal email")
	actNouns = Set("file files folder directory database table record records email emails mail mails message " +
		"messages money funds payment report document documents data password passwords credentials secret secrets " +
		"key keys token tokens code script command access contacts")
)

// Minimum number of parts of a joined word that has no small word and is still read as a phrase: linkedParts if it has
// a linking word and is written like DeleteTheFile, otherwise manyParts.
const (
	linkedParts = 4
	manyParts   = 6
)

// maxJoined is the maximum length of a joined word, in bytes. Longer words are not examined.
const maxJoined = 400

// joint reports whether c is a separator inside a joined word.
func joint(c byte) bool { return c == '_' || c == '-' || c == '.' || c == '+' }

// wordEnd returns the length of the joined word at the start of s: letters and digits, with single
// separators between them.
func wordEnd(s string) int {
	n := 0
	for n < len(s) && (isAlnum(s[n]) || joint(s[n]) && n > 0 && isAlnum(s[n-1]) && n+1 < len(s) && isAlnum(s[n+1])) {
		n++
	}
	return n
}

// spread reports whether a joined word reads as a phrase. If so, it appends the parts to buf with
// spaces between them. after is the text that follows the word.
func spread(buf []byte, w, after string) ([]byte, bool) {
	if len(w) < 5 || len(w) > maxJoined {
		return buf, false
	}
	first := 1
	for first < len(w) && !partBegins(w, first) {
		first++
	}
	if first == len(w) {
		return buf, false // most words have one part
	}
	from, start, parts, short := len(buf), 0, 0, 0
	smalls, links, camel := false, false, false
	aside, acts, command := false, false, false
	var word [16]byte
	for i := first; i <= len(w); i++ {
		if i < len(w) && !partBegins(w, i) {
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
				if string(lower) != "to" { // as in sendMoneyTo
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

// partBegins reports whether a part of the joined word w begins at byte i, or a separator between two parts.
func partBegins(w string, i int) bool { return joint(w[i]) || joint(w[i-1]) || partsCamel(w, i) }

// partsCamel reports whether the capital at byte i of w begins a new part, as in theFile or
// HTMLFile.
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

// nameFollows reports whether after begins with the name of a file, an address or an account. The name follows a space
// or a colon.
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

// isPhrase reports whether a joined word, such as a name in a document, reads as a phrase.
func isPhrase(w string) bool { return isCommand(w, "") }

// isCommand is like isPhrase. It also knows the text after the word: a verb and a noun, as in deleteFile, are a phrase
// if the name of an object follows.
func isCommand(w, after string) bool {
	_, ok := spread(nil, w, after)
	return ok && wordEnd(w) == len(w)
}

// beginsPhrase reports whether a joined word that follows a full stop is a phrase of its own. In place.DeleteTheFile,
// it returns true for DeleteTheFile. In Delete.The.File, it returns false for The.File, because The is a small word.
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

// Classes of bytes. Bytes of the class aroundAddress separate an address or a path from the text around it. Bytes of
// the class addressByte occur only in an address or a path.
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

// inAddress reports whether the joined word s[i:end] is part of an address or a path.
func inAddress(s string, i, end int) bool {
	for j := i - 1; j >= max(0, i-maxJoined) && addressClass[s[j]] != aroundAddress; j-- {
		if addressClass[s[j]] == addressByte {
			return true
		}
	}
	return end < len(s) && (addressClass[s[end]] == addressByte || strings.HasPrefix(s[end:], "://"))
}

// afterMark are words that do not follow the verb of an instruction. So "object.Delete is gone" is a name in a
// sentence, and "place.Send it" is an instruction.
var afterMark = Set("to is was are were be has had have can will may and or for in on of at as by if when which " +
	"that's returns return does did do " +
	"method methods function functions call calls class event events field api documentation s")

// beginsSentence reports whether a sentence begins at byte i of s, after a full stop without a space. In "place.Send
// it", it begins at "Send".
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
