package rules

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"

	"lazaret/pkg/text"
)

const (
	fnvBasis = 2166136261
	fnvPrime = 16777619
)

// hash32 is FNV-1a.
func hash32(s string) uint32 {
	h := uint32(fnvBasis)
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * fnvPrime
	}
	return h
}

func notWord(r rune) bool {
	if r < utf8.RuneSelf {
		return (r|0x20 < 'a' || r|0x20 > 'z') && (r < '0' || r > '9')
	}
	return !unicode.IsLetter(r) && !unicode.IsDigit(r)
}

// stem is a word without its English ending, by Porter's second algorithm, so
// that "allocation" meets "allocate".
func stem(w string) string {
	if len(w) < 3 || len(w) > 40 {
		return w
	}
	slot := &stems[hash32(w)%uint32(len(stems))]
	if s := slot.Load(); s != nil && s.word == w {
		return s.stem
	}
	s := &stemmed{strings.Clone(w), english.Stem(w, true)}
	slot.Store(s)
	return s.stem
}

// stems are the stems of the words that were met last. A stem takes 5 µs, and
// texts have few words.
var stems [1 << 13]atomic.Pointer[stemmed]

type stemmed struct{ word, stem string }

// splitName cuts a name into lower-case words: sendEmail, send_email and
// mail.SendEMail all hold send; FHIRManage holds fhir and manage.
func splitName(name string) []string {
	if words, ok := splitPlain(name); ok {
		return words
	}
	var words []string
	rs := []rune(name)
	start := 0
	flush := func(end int) {
		if end-start > 1 || end > start && unicode.IsDigit(rs[start]) {
			words = append(words, strings.ToLower(string(rs[start:end])))
		}
		start = end
	}
	for i, r := range rs {
		switch {
		case notWord(r):
			flush(i)
			start = i + 1
		case i > start && unicode.IsUpper(r) && (unicode.IsLower(rs[i-1]) || i+1 < len(rs) && unicode.IsUpper(rs[i-1]) && unicode.IsLower(rs[i+1])):
			flush(i)
		}
	}
	flush(len(rs))
	return words
}

// splitPlain is splitName of a text without characters outside of ASCII.
func splitPlain(name string) (words []string, ok bool) {
	start, big := 0, false
	flush := func(end int) {
		if end-start > 1 || end > start && name[start] >= '0' && name[start] <= '9' {
			w := name[start:end]
			if big {
				w = strings.ToLower(w)
			}
			words = append(words, w)
		}
		start, big = end, false
	}
	upper := func(i int) bool { return name[i] >= 'A' && name[i] <= 'Z' }
	lower := func(i int) bool { return name[i] >= 'a' && name[i] <= 'z' }
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= utf8.RuneSelf:
			return nil, false
		case !upper(i) && !lower(i) && (c < '0' || c > '9'):
			flush(i)
			start = i + 1
			continue
		case i > start && upper(i) && (lower(i-1) || i+1 < len(name) && upper(i-1) && lower(i+1)):
			flush(i)
		}
		big = big || upper(i)
	}
	flush(len(name))
	return words, true
}

// acts are what tools do, in the words that tools and people have for it. Two
// words of one line are the same act.
var acts = func() map[string]string {
	m := make(map[string]string)
	for _, line := range []string{
		"send email mail forward message notify dispatch text sms post publish share tweet reply",
		"delete remove erase wipe clear purge drop discard uninstall",
		"pay transfer wire deposit withdraw purchase buy sell trade order donate tip checkout",
		"grant give permit permission allow authorize authorise invite enroll privilege",
		"revoke deny block ban disable deactivate suspend terminate cancel",
		"update change modify edit set replace alter adjust rename reset configure overwrite tamper manipulate falsify",
		"get retrieve fetch find search look show view read list check display access query obtain extract collect gather",
		"create add book schedule register make generate new insert open subscribe append reserve arrange",
		"unlock disarm open enter",
		"execute run launch start invoke trigger deploy install activate",
		"export download copy move upload backup transmit leak exfiltrate steal forward redirect reroute",
		"write save store record log note remember",
		"monitor track observe watch spy surveil record",
		"approve accept confirm sign submit apply",
		"recommend suggest promote rate review advertise",
		"turn control switch operate go navigate guide steer drive start stop",
		"allocate assign reallocate distribute prioritize prioritise optimize optimise",
	} {
		words := strings.Fields(line)
		for _, w := range words {
			if _, ok := m[stem(w)]; !ok {
				m[stem(w)] = "act:" + words[0]
			}
		}
	}
	return m
}()

// actsOf is what a tool does: by the words of its name, whatever verb it has
// for it, and by the effects that the policy declares.
func actsOf(tool string, effects []string) []string {
	out := slices.Clone(effects)
	for _, w := range splitName(tool) {
		if a, ok := acts[stem(w)]; ok {
			if a = strings.TrimPrefix(a, "act:"); !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out
}

// dull words say nothing about which tool or value is meant.
var dull = func() map[string]bool {
	m := make(map[string]bool)
	for _, w := range strings.Fields("the a an of to in on at for and or with by from is are be it this that as my your me you i we they them their our his her its " +
		"tool manager api service system function handler agent client server app user data info information details detail by id name true false none null all any new please " +
		"not no can will would should could has have had do does did was were been which who what when where how if then so than also just about into over under out up down") {
		m[stem(w)] = true
		m[w] = true
	}
	return m
}()

// call is what is compared of an action: the act of its tool, the things that
// the tool's name and the arguments name.
type call struct {
	act    []uint32 // acts, hashed
	things []uint32 // other words of the tool's name
	whole  uint32   // the name as one word: a text that names the tool often holds it so
	args   []uint32 // words of the arguments
	values []value  // the arguments one by one
	marks  []uint32 // those of them with a digit: names and numbers of single things
}

// maxArgs is how many words of the arguments are compared.
const maxArgs = 64

// readCall reads a tool's name, and its arguments in normal form.
func readCall(tool, args string) *call {
	c := &call{whole: hash32(stem(wholeName(tool)))}
	for _, w := range splitName(tool) {
		s := stem(w)
		// The first act is what the tool does; a later one names a thing: get log.
		if a, ok := acts[s]; ok && len(c.act) == 0 {
			c.act = append(c.act, hash32(a))
		} else if !dull[s] {
			c.things = append(c.things, hash32(s))
		}
	}
	for _, w := range strings.FieldsFunc(args[:min(len(args), 16<<10)], notWord) {
		s := stem(w)
		if len(s) < 3 || dull[s] || len(c.args) == maxArgs {
			continue
		}
		c.args = append(c.args, hash32(s))
		if len(s) >= 4 && strings.ContainsAny(s, "0123456789") {
			c.marks = append(c.marks, hash32(s))
		}
	}
	c.things, c.args, c.marks = distinct(c.things), distinct(c.args), distinct(c.marks)
	return c
}

func distinct(hs []uint32) []uint32 {
	slices.Sort(hs)
	return slices.Compact(hs)
}

// sentenceHashes are the words of a sentence as calls are compared with them:
// stems, and the acts that they name.
func sentenceHashes(words []string) []uint32 {
	var hs []uint32
	for _, w := range words {
		for _, part := range splitName(w) {
			s := stem(part)
			hs = append(hs, hash32(s))
			hs = appendDate(hs, s)
			if a, ok := acts[s]; ok {
				hs = append(hs, hash32(a))
			}
		}
	}
	return distinct(hs)
}

// wholeName is a tool's name as one word.
func wholeName(tool string) string {
	return strings.Map(func(r rune) rune {
		if notWord(r) {
			return -1
		}
		return r
	}, strings.ToLower(tool))
}

func hasHash(words []uint32, h uint32) bool {
	_, ok := slices.BinarySearch(words, h)
	return ok
}

// count is how many of some hashes are among the words.
func count(words, of []uint32) (n int) {
	for _, h := range of {
		if hasHash(words, h) {
			n++
		}
	}
	return n
}

// requestHash stands among the words of a sentence that asks for something in
// so many words, and does not only begin with a verb.
var requestHash = hash32("\x00request")

// asks reports whether a sentence asks for the call: it holds the tool's name
// as one word; or the tool's act with half of the things that its name names, a
// single mark of the arguments, or half of their words; or, without the act, at
// least two of the things or most of the words. What was read in another
// session has to name the act and all of the things.
func (c *call) asks(sentence []uint32, same bool) bool {
	if hasHash(sentence, c.whole) {
		return true
	}
	things, args := count(sentence, c.things), count(sentence, c.args)
	act := count(sentence, c.act) > 0
	if !same {
		return act && things >= 2 && things == len(c.things)
	}
	if act && hasHash(sentence, requestHash) && (things > 0 || args > 0 && args == len(c.args)) {
		return true
	}
	if act && (things > 0 && 2*things >= len(c.things) || count(sentence, c.marks) > 0 || args >= 2 && 2*args >= len(c.args)) {
		return true
	}
	return things >= 2 && 2*things >= len(c.things) || args >= 3 && 3*args >= 2*len(c.args) && hasHash(sentence, requestHash)
}

// strength is how closely words name the call. Somebody who names the tool
// itself says more than any number of words.
func (c *call) strength(words []uint32) int {
	things, act := count(words, c.things), count(words, c.act) > 0
	n := things + 2*count(words, c.marks)
	if act {
		n++
	}
	if hasHash(words, c.whole) || act && things > 0 && things == len(c.things) {
		n += 100
	}
	return n
}

// maxNames is how many identifiers of a text are kept.
const maxNames = 64

// identifiers are the words of a text that look like the names of tools: with
// a capital or an underscore inside, as one word each.
func identifiers(s string) []uint32 {
	s = s[:min(len(s), 64<<10)]
	var out []uint32
	start, odd := -1, false // of the word; whether it may have parts
	end := func(i int) {
		if w := s[max(start, 0):i]; start >= 0 && odd && len(w) >= 6 && len(w) <= 100 && len(out) < maxNames && len(splitName(w)) >= 2 {
			if h := hash32(stem(wholeName(w))); !slices.Contains(out, h) {
				out = append(out, h)
			}
		}
		start, odd = -1, false
	}
	for i := 0; i < len(s); {
		size := 1
		class := nameByte[s[i]]
		if class == nameRune {
			var r rune
			r, size = utf8.DecodeRuneInString(s[i:])
			if class = nameOdd; notWord(r) {
				class = nameNone
			}
		}
		switch {
		case class == nameNone:
			if start >= 0 {
				end(i)
			}
		case start < 0:
			start = i
			fallthrough
		default:
			// A word of small letters is one part.
			odd = odd || class == nameOdd
		}
		i += size
	}
	end(len(s))
	return distinct(out)
}

// What a byte is in a name: no part of one, a small letter, something else, or
// to be looked at as a rune.
const (
	nameNone = iota
	nameSmall
	nameOdd
	nameRune
)

var nameByte = func() (t [256]uint8) {
	for c := range t {
		switch {
		case c >= utf8.RuneSelf:
			t[c] = nameRune
		case c >= 'a' && c <= 'z':
			t[c] = nameSmall
		case !notWord(rune(c)) || c == '_' || c == '.' || c == '-':
			t[c] = nameOdd
		}
	}
	return t
}()

// named reports whether somebody's words name the call: the whole name; or its
// act, and half of its things and marks; or, where the name has no act, all of
// its things.
func (c *call) named(words []uint32) bool {
	if hasHash(words, c.whole) {
		return true
	}
	things := count(words, c.things)
	switch {
	case 2*count(words, c.marks) < len(c.marks):
		return false
	case len(c.act) == 0:
		return len(c.things) > 0 && things == len(c.things)
	case len(c.things) == 0:
		return count(words, c.act) > 0 && 2*count(words, c.args) >= len(c.args)
	}
	return count(words, c.act) > 0 && 2*things >= len(c.things)
}

// value is one string or number of a call's arguments.
type value struct {
	path   string
	text   string
	tokens []uint32 // stems that say something, distinct
	date   []uint32 // of an ISO date: year, month by name, and day
	marks  int      // tokens with a digit that name a single thing
	prose  bool     // it is a text of its own, and no name of anything
}

const (
	maxValues   = 64
	maxNameLike = 12 // words up to which a value may be the name of something
)

// readValues are the leaves of a call's arguments, in the order of their paths.
func readValues(args map[string]any) []value {
	var out []value
	var walk func(path string, v any, depth int)
	walk = func(path string, v any, depth int) {
		if len(out) == maxValues || depth > maxValueDepth {
			return
		}
		switch v := v.(type) {
		case string:
			if x := readValue(path, v); len(x.tokens) > 0 {
				out = append(out, x)
			}
		case float64:
			if x := readValue(path, strconv.FormatFloat(v, 'f', -1, 64)); len(x.tokens) > 0 {
				out = append(out, x)
			}
		case []any:
			for i, x := range v {
				walk(path+"."+strconv.Itoa(i), x, depth+1)
			}
		case map[string]any:
			for _, k := range sortedKeys(v) {
				walk(path+"."+k, v[k], depth+1)
			}
		}
	}
	walk("", args, 0)
	return out
}

const maxValueDepth = 8

func readValue(path, s string) value {
	x := value{path: strings.TrimPrefix(path, "."), text: s}
	norm := text.Normalize(s[:min(len(s), 4<<10)])
	words := strings.FieldsFunc(norm, notWord)
	x.prose = len(words) > maxNameLike
	for _, w := range words {
		st := stem(w)
		digit := strings.ContainsAny(st, "0123456789")
		if len(st) < 2 && !digit || dull[st] || len(x.tokens) == maxArgs {
			continue
		}
		x.tokens = append(x.tokens, hash32(st))
		if digit && len(st) >= 4 {
			x.marks++
		}
	}
	x.tokens = distinct(x.tokens)
	if len(norm) >= 10 && len(norm) <= 25 && isoDate(norm[:10]) {
		m := int(norm[5]-'0')*10 + int(norm[6]-'0')
		if m >= 1 && m <= 12 {
			x.marks = 0 // a date names no single thing
			x.date = []uint32{hash32(norm[:4]), hash32("\x00month" + monthNames[m-1]), hash32("\x00day" + strings.TrimLeft(norm[8:10], "0"))}
		}
	}
	return x
}

func isoDate(s string) bool {
	for i := range len(s) {
		if c := s[i]; (i == 4 || i == 7) != (c == '-') || i != 4 && i != 7 && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

var monthNames = [12]string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}

// appendDate adds what a word says of a date: the month that it names, or the
// day that it counts.
func appendDate(hs []uint32, w string) []uint32 {
	if n := len(w); n == 0 {
		return hs
	}
	if w[0] >= '0' && w[0] <= '9' {
		day := strings.TrimRight(w, "stndrh")
		if len(day) <= 2 && day != "" && day[len(day)-1] <= '9' && day[len(day)-1] >= '0' {
			hs = append(hs, hash32("\x00day"+strings.TrimLeft(day, "0")))
		}
		return hs
	}
	if len(w) >= 3 {
		for i, m := range monthNames {
			if w[:3] == m && (len(w) == 3 || months[i] == w) {
				return append(hs, hash32("\x00month"+m))
			}
		}
	}
	return hs
}

// months are the stems of the months' names.
var months = func() (t [12]string) {
	for i, m := range strings.Fields("january february march april may june july august september october november december") {
		t[i] = stem(m)
	}
	return t
}()

// in reports whether words hold the value: all of a name's, or the date.
func (x *value) in(words []uint32) bool {
	n := count(words, x.tokens)
	if n == len(x.tokens) {
		return true
	}
	if len(x.date) > 0 && count(words, x.date) == len(x.date) {
		return true
	}
	return !x.prose && len(x.tokens) >= 4 && 4*n >= 3*len(x.tokens)
}
