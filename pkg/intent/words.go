package intent

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"

	"lazaret/pkg/text"
)

// FNVBasis and FNVPrime are the constants of 32-bit FNV-1a.
const (
	FNVBasis = 2166136261
	FNVPrime = 16777619
)

// Hash returns the 32-bit FNV-1a hash of s.
func Hash(s string) uint32 { return HashMore(FNVBasis, s) }

// HashMore returns the hash of a text followed by s. h is the hash of that text.
func HashMore(h uint32, s string) uint32 {
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * FNVPrime
	}
	return h
}

// NotWord reports whether r separates words: it is neither a letter nor a digit.
func NotWord(r rune) bool {
	if r < utf8.RuneSelf {
		return (r|0x20 < 'a' || r|0x20 > 'z') && (r < '0' || r > '9')
	}
	return !unicode.IsLetter(r) && !unicode.IsDigit(r)
}

// Stem returns a word without its English ending, by the Porter2 algorithm, so that "allocation"
// and "allocate" have the same stem.
func Stem(w string) string {
	if len(w) < 3 || len(w) > maxStemmed {
		return w
	}
	return stemOf(w).root
}

// StemHash returns the hash of a word's stem.
func StemHash(w string) uint32 {
	if len(w) < 3 || len(w) > maxStemmed {
		return Hash(w)
	}
	return stemOf(w).hash
}

// maxStemmed is the maximum length of a word with a stem, in bytes.
const maxStemmed = 40

func stemOf(w string) *stemmed {
	pair := &stems[Hash(w)%uint32(len(stems))]
	last := pair[0].Load()
	if last != nil && string(last.word[:last.size]) == w {
		return last
	}
	if s := pair[1].Load(); s != nil && string(s.word[:s.size]) == w {
		return s
	}
	s := &stemmed{root: english.Stem(w, true)}
	s.hash, s.size = Hash(s.root), uint8(copy(s.word[:], w))
	pair[0].Store(s)
	pair[1].Store(last)
	return s
}

// stems caches recent stems: two for each value of a hash, the latest first. Computing a stem takes
// 5 µs, and texts have few different words.
var stems [1 << 13][2]atomic.Pointer[stemmed]

// stemmed is a word with its stem. It fills one line of the processor's cache.
type stemmed struct {
	word [maxStemmed]byte
	root string
	hash uint32 // of root
	size uint8  // of the word
}

// SplitName splits a name into lower-case words: sendEmail, send_email and mail.SendEMail all
// contain send; FHIRManage is split into fhir and manage.
func SplitName(name string) []string { return appendParts(nil, name) }

// appendParts appends the words of a name to words.
func appendParts(words []string, name string) []string {
	n := len(words)
	words, ok := splitPlain(words, name)
	if ok {
		return words
	}
	words = words[:n]
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
		case NotWord(r):
			flush(i)
			start = i + 1
		case i > start && unicode.IsUpper(r) && (unicode.IsLower(rs[i-1]) || i+1 < len(rs) && unicode.IsUpper(rs[i-1]) &&
			unicode.IsLower(rs[i+1])):
			flush(i)
		}
	}
	flush(len(rs))
	return words
}

// splitPlain is appendParts for ASCII text. ok is false if the text has other characters.
func splitPlain(words []string, name string) (out []string, ok bool) {
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
			return words, false
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

// acts maps the stems of verbs for what tools do to acts. Words on one line have the same act. deeds divides acts
// further: words between two bars have the same deed. Booking a room and adding a member are both acts of creating,
// but different deeds.
var acts, deeds = func() (acts, deeds map[string]string) {
	acts, deeds = make(map[string]string), make(map[string]string)
	for _, line := range []string{
		"send email mail forward message notify dispatch text sms reply | post publish share tweet",
		"delete remove erase wipe clear purge drop discard uninstall",
		"pay transfer wire deposit withdraw donate tip | purchase buy sell trade order checkout",
		"grant give permit permission allow authorize authorise privilege | invite enroll",
		"revoke deny block ban disable deactivate suspend terminate cancel",
		"update change modify edit set replace alter adjust rename reset configure overwrite tamper manipulate falsify " +
			"exchange swap upgrade downgrade",
		"get retrieve fetch find search look show view read list check display access query obtain extract collect gather",
		"create make generate new | add insert append subscribe | book schedule reserve arrange | register | open",
		"unlock disarm open enter",
		"execute run launch start invoke trigger deploy install activate",
		"export download copy move upload backup transmit leak exfiltrate steal forward redirect reroute",
		"write save store record log note remember",
		"monitor track observe watch spy surveil record",
		"approve accept confirm sign submit apply",
		"recommend suggest promote rate review advertise",
		"turn control switch operate go navigate guide steer drive start stop",
		"allocate assign reallocate distribute prioritize prioritise optimize optimise",
		"merge join combine integrate consolidate rebase",
		"close resolve finish complete conclude archive",
		"restore recover reopen undo revert rollback",
		"connect link attach pair mount | disconnect unlink detach unmount",
		"pause resume mute unmute snooze",
		"return ship deliver print",
	} {
		act, deed := "act:"+line[:strings.IndexByte(line, ' ')], ""
		for _, w := range strings.Fields(line) {
			if w == "|" {
				deed = ""
				continue
			}
			w = Stem(w)
			deed = cmp.Or(deed, "\x00did"+w)
			if acts[w] == "" {
				acts[w], deeds[w] = act, deed
			}
		}
	}
	return acts, deeds
}()

// ActsOf returns the acts of a tool: those of the words of its name, and the effects that the policy declares.
func ActsOf(tool string, effects []string) []string {
	out := slices.Clone(effects)
	for _, w := range SplitName(tool) {
		if a, ok := acts[Stem(w)]; ok {
			if a = strings.TrimPrefix(a, "act:"); !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out
}

// dull words do not tell which tool or value is meant.
var dull = func() map[string]bool {
	m := make(map[string]bool)
	for _, w := range strings.Fields("the a an of to in on at for and or with by from is are be it this that as my your " +
		"me you i we they them their our his her its " +
		"tool manager api service system function handler agent client server app user data info information details " +
		"detail by id name true false none null all any new please " +
		"not no can will would should could has have had do does did was were been which who what when where how if then " +
		"so than also just about into over under out up down") {
		m[Stem(w)] = true
		m[w] = true
	}
	return m
}()

// Call has the properties of an action that are compared with texts. They come from the tool's name and from the
// arguments.
type Call struct {
	Act    []uint32 // acts, hashed
	Deeds  []uint32 // deeds of all verbs in the name that change something: create_note has two
	Vague  []uint32 // hashes that stand for these deeds if the user's word is vague, see vaguely
	Things []uint32 // words of the tool's name that are not its act
	Space  []uint32 // words of Things in the name's namespace (shop.orders.close), if the rest of the name has things too
	Whole  uint32   // the whole name as one word; texts that name the tool often contain it
	Args   []uint32 // words of the arguments
	Values []Value  // the individual arguments
	Marks  []uint32 // words of the arguments with a digit; they name single things
	Opens  bool     // the name says that the tool opens something to be read: notebook.open
}

// maxArgs is the maximum number of words of the arguments that are compared.
const maxArgs = 64

// ReadCall parses a tool's name and its arguments in normalized form.
func ReadCall(tool, args string) *Call {
	c := &Call{Whole: Hash(Stem(WholeName(tool)))}
	words := SplitName(tool)
	from := verbsFrom(tool, words)
	if from < 0 {
		c.Act = append(c.Act, reading[0])
	}
	c.Opens = opens(method(tool, words))
	space, things := len(SplitName(tool[:namespace(tool)])), 0
	for i, w := range words {
		if i == space {
			c.Space, things = slices.Clone(c.Things), len(c.Things)
		}
		s := Stem(w)
		if d := deeds[s]; d != "" && i >= from && from >= 0 && !slices.Contains(reading, Hash(acts[s])) {
			c.Deeds, c.Vague = append(c.Deeds, Hash(d)), append(c.Vague, vaguely(d))
		}
		// The first act of a name is what the tool does. A second one is a noun: log in get_log.
		if a, ok := acts[s]; ok && i >= from && len(c.Act) == 0 {
			c.Act = append(c.Act, Hash(a))
		} else if !dull[s] && !(i+1 < len(words) && state(w)) {
			c.Things = append(c.Things, Hash(s))
		}
	}
	for w := range strings.FieldsFuncSeq(args[:min(len(args), 16<<10)], NotWord) {
		if len(c.Args) == maxArgs {
			break
		}
		s := Stem(w)
		if len(s) < 3 || dull[s] {
			continue
		}
		c.Args = append(c.Args, Hash(s))
		if len(s) >= 4 && strings.ContainsAny(s, "0123456789") {
			c.Marks = append(c.Marks, Hash(s))
		}
	}
	if len(c.Things) == things {
		c.Space = nil
	}
	c.Things, c.Args, c.Marks = Distinct(c.Things), Distinct(c.Args), Distinct(c.Marks)
	return c
}

// namespace returns the length of the namespace of a tool's name: shop.orders.close, shop__orders_close,
// mcp__shop__orders_close.
func namespace(tool string) int {
	if at := strings.LastIndex(tool, "__"); at >= 0 {
		return at
	}
	return max(0, strings.IndexAny(tool, "./:"))
}

// lookups are reading verbs that are hardly ever nouns. At the end of a name they are its verb.
var lookups = text.Set("get read search find lookup fetch retrieve")

// verbsFrom returns the index of the first word of a tool's name that may be its verb. It returns -1 if the name
// consists of nouns for something that is only read. If a verb follows the namespace, the words of the namespace count
// as nouns: store/search, mail.list. The words before a reading verb at the end count as nouns too: notes_read,
// order_show.
func verbsFrom(tool string, words []string) int {
	last := len(words) - 1
	if last > 0 && lookups[words[last]] {
		return last
	}
	method, space := method(tool, words)
	switch {
	case ShownLast(method):
		return last
	case States(space, method):
		return -1
	case len(method) == len(words):
		return 0
	}
	if !slices.ContainsFunc(method, func(w string) bool { return acts[Stem(w)] != "" }) {
		return 0
	}
	return len(words) - len(method)
}

// method returns the words of a tool's name without its namespace, and the last word of the namespace, if any.
func method(tool string, words []string) (method []string, space string) {
	method = SplitName(tool[max(strings.LastIndexAny(tool, "./:"), strings.LastIndex(tool, "__"))+1:])
	if n := len(words) - len(method); n > 0 {
		space = words[n-1]
	}
	return method, space
}

// state reports whether a word before another word of a tool's name describes the state of a thing: delivered in
// return_delivered_items, pending in cancel_pending_order. People rarely mention it.
func state(w string) bool {
	return len(w) > 5 && strings.HasSuffix(w, "ed") || w == "pending" || w == "existing" || w == "current"
}

// Distinct sorts hs and removes repeats, in place.
func Distinct(hs []uint32) []uint32 {
	slices.Sort(hs)
	return slices.Compact(hs)
}

// Words returns the hashes of a sentence's words in the form with which calls are compared: their stems, and the
// acts that they name.
func Words(words []string) []uint32 {
	var hs []uint32
	var parts []string
	for _, w := range words {
		parts = appendParts(parts[:0], w)
		for _, part := range parts {
			s := Stem(part)
			hs = append(hs, Hash(s))
			hs = appendDate(hs, s)
			if a, ok := acts[s]; ok {
				hs = append(hs, Hash(a))
			}
		}
	}
	return Distinct(hs)
}

// WholeName returns a tool's name as one word.
func WholeName(tool string) string {
	var buf [128]byte
	return string(AppendWholeName(buf[:0], tool))
}

// AppendWholeName appends a tool's name as one word to buf.
func AppendWholeName(buf []byte, tool string) []byte {
	n := len(buf)
	for i := range len(tool) {
		switch c := tool[i]; {
		case c >= utf8.RuneSelf:
			buf = buf[:n]
			for _, r := range strings.ToLower(tool) {
				if !NotWord(r) {
					buf = utf8.AppendRune(buf, r)
				}
			}
			return buf
		case c >= 'A' && c <= 'Z':
			buf = append(buf, c|0x20)
		case !NotWord(rune(c)):
			buf = append(buf, c)
		}
	}
	return buf
}

// Has reports whether the sorted words contain h.
func Has(words []uint32, h uint32) bool {
	_, ok := slices.BinarySearch(words, h)
	return ok
}

// Count returns how many of the hashes in of are among words.
func Count(words, of []uint32) (n int) {
	for _, h := range of {
		if Has(words, h) {
			n++
		}
	}
	return n
}

// Request is a marker among the words of a sentence that explicitly asks for something, rather than
// only beginning with a verb.
var Request = Hash("\x00request")

// Command is a marker among the words of a sentence that commands its reader: it overrides rules, poses as the
// system, addresses a program, or demands secrecy or obedience. The later sentences of the same segment have the
// marker too.
var Command = Hash("\x00command")

// Asks reports whether a sentence asks for the call. The tool's name as one word is enough. So is the tool's act with
// one of these: half of the things in its name, a mark of the arguments, at least two words and half of all words of
// the arguments, or, in a sentence that has the marker Request, one thing or all words of the arguments. Without the
// act, the sentence must have half of the things and at least two, or the marker Request with two thirds of the words
// of the arguments and at least three. If same is false, the sentence is from another session. Then it must have the
// whole name, or the act and all of the things, which must be at least two.
func (c *Call) Asks(sentence []uint32, same bool) bool {
	if Has(sentence, c.Whole) {
		return true
	}
	things, act := Count(sentence, c.Things), Count(sentence, c.Act) > 0
	if !same {
		return act && things >= 2 && things == len(c.Things)
	}
	args := Count(c.Args, sentence) // both are sorted sets, and a sentence is usually shorter
	if act && Has(sentence, Request) && (things > 0 || args > 0 && args == len(c.Args)) {
		return true
	}
	if act && (things > 0 && 2*things >= len(c.Things) || Count(sentence, c.Marks) > 0 ||
		args >= 2 && 2*args >= len(c.Args)) {
		return true
	}
	return things >= 2 && 2*things >= len(c.Things) || args >= 3 && 3*args >= 2*len(c.Args) && Has(sentence, Request)
}

// Strength returns how closely words name the call. If they have the tool's whole name, or its act and all of its
// things, the result is at least 100.
func (c *Call) Strength(words []uint32) int {
	things, act := Count(words, c.Things), Count(words, c.Act) > 0
	n := things + 2*Count(words, c.Marks)
	if act {
		n++
	}
	if Has(words, c.Whole) || act && things > 0 && things == len(c.Things) {
		n += 100
	}
	return n
}

// Value is one string or number of a call's arguments.
type Value struct {
	Path   string
	Text   string
	Tokens []uint32 // stems of significant words, distinct
	Date   []uint32 // for an ISO date: year, name of the month, day
	Marks  int      // number of tokens with a digit that name a single thing
	marks  []uint32 // the tokens that Marks counts
	Prose  bool     // the value is running text, not the name of something
	// Running is set for a sentence, however short: the value has function words, or ends with a full stop. Such a
	// value does not name a single thing. But an address in it may be meant for the reader.
	Running bool
	file    uint32 // see fileHash; 0 if the value is not a file, or its words tell it from other files
}

const (
	maxValues   = 64
	maxNameLike = 12 // maximum number of words of a name
)

// ReadValues returns the strings and numbers of a call's arguments, ordered by path. It returns at most
// maxValues.
func ReadValues(args map[string]any) []Value {
	var out []Value
	leaves(args, func(path string, v any) bool {
		if n, ok := v.(float64); ok {
			v = strconv.FormatFloat(n, 'f', -1, 64)
		}
		if s, ok := v.(string); ok {
			if x := readValue(path, s); len(x.Tokens) > 0 {
				out = append(out, x)
			}
		}
		return len(out) < maxValues
	})
	return out
}

// leaves calls f with the path and value of each leaf of a call's arguments, ordered by path, until f returns false.
// cut reports whether leaves were left out, because f returned false or because a leaf is deeper than maxValueDepth.
func leaves(args map[string]any, f func(path string, v any) bool) (cut bool) {
	full := false
	var walk func(path string, v any, depth int)
	walk = func(path string, v any, depth int) {
		if cut = cut || full || depth > maxValueDepth; full || depth > maxValueDepth {
			return
		}
		switch v := v.(type) {
		case []any:
			for i, x := range v {
				walk(path+"."+strconv.Itoa(i), x, depth+1)
			}
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				walk(path+"."+k, v[k], depth+1)
			}
		default:
			full = !f(strings.TrimPrefix(path, "."), v)
		}
	}
	walk("", args, 0)
	return cut
}

const maxValueDepth = 8

func readValue(path, s string) Value {
	x := Value{Path: path, Text: s}
	norm := text.Normalize(s[:min(len(s), 4<<10)])
	words, small := 0, 0 // dull words of more than one letter are small
	for w := range strings.FieldsFuncSeq(norm, NotWord) {
		if words++; len(x.Tokens) == maxArgs {
			break // it is prose
		}
		if words <= maxNameLike && len(w) > 1 && dull[w] {
			small++
		}
		st := Stem(w)
		digit := strings.ContainsAny(st, "0123456789")
		if len(st) < 2 && !digit || dull[st] {
			continue
		}
		x.Tokens = append(x.Tokens, Hash(st))
		if digit && len(st) >= 4 {
			x.Marks++
			x.marks = append(x.marks, Hash(st))
		}
	}
	x.file = fileHash(norm)
	x.Tokens = Distinct(x.Tokens)
	x.Prose = words > maxNameLike
	x.Running = x.Prose || words >= 5 && small >= 2 || words >= 4 && strings.HasSuffix(s, ".") // a short sentence
	if len(norm) >= 10 && len(norm) <= 25 && isoDate(norm[:10]) {
		m := int(norm[5]-'0')*10 + int(norm[6]-'0')
		if m >= 1 && m <= 12 {
			x.Marks = 0 // a date does not name a single thing
			x.Date = []uint32{Hash(norm[:4]), Hash("\x00month" + monthNames[m-1]),
				Hash("\x00day" + strings.TrimLeft(norm[8:10], "0"))}
		}
	}
	return x
}

// fileHash returns a hash of the whole name of the file at a path in normalized form, if the words of the name do not
// tell it from the names of other files: a.txt and c.txt have only the word txt, as data.txt and info.txt have. For
// any other text it returns 0.
func fileHash(path string) uint32 {
	if path = bare(path); strings.ContainsFunc(path, unicode.IsSpace) {
		return 0
	}
	name := ""
	apart := func(r rune) bool { return NotWord(r) && !strings.ContainsRune("._-", r) }
	for part := range strings.FieldsFuncSeq(path, apart) {
		name = part
	}
	dot := strings.LastIndexByte(name, '.')
	if dot <= 0 || len(name)-dot < 3 || len(name) > maxStemmed { // "e.g", with an ending of one letter, is no file
		return 0
	}
	if strings.ContainsFunc(name[dot+1:], NotWord) || !strings.ContainsFunc(name[dot+1:], unicode.IsLetter) {
		return 0
	}
	words, lost := 0, false
	for w := range strings.FieldsFuncSeq(name[:dot], NotWord) {
		if len(w) == 1 && (w[0] < '0' || w[0] > '9') {
			lost = true
		} else if !dull[Stem(w)] {
			words++
		}
	}
	if words > 0 && !lost {
		return 0
	}
	return Hash("\x00file" + name)
}

// telling returns the words that distinguish the value from others of its kind: those with a
// number, or all if there are none.
func (x *Value) telling() []uint32 {
	if x.Marks > 0 {
		return x.marks
	}
	return x.Tokens
}

// distinctive reports whether a value names a single thing: a name of two words or more, or one
// with a number. Prose and dates do not.
func (x *Value) distinctive() bool {
	return !x.Running && x.Date == nil && (x.Marks > 0 || len(x.Tokens) > 1)
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

// appendDate appends the hash of the month or day that a word names, if any.
func appendDate(hs []uint32, w string) []uint32 {
	if n := len(w); n == 0 {
		return hs
	}
	if w[0] >= '0' && w[0] <= '9' {
		day := strings.TrimRight(w, "stndrh")
		if len(day) <= 2 && day != "" && day[len(day)-1] <= '9' && day[len(day)-1] >= '0' {
			hs = append(hs, Hash("\x00day"+strings.TrimLeft(day, "0")))
		}
		return hs
	}
	if len(w) >= 3 {
		for i, m := range monthNames {
			if w[:3] == m && (len(w) == 3 || months[i] == w) {
				return append(hs, Hash("\x00month"+m))
			}
		}
	}
	return hs
}

// months has the stems of the names of the months.
var months = func() (t [12]string) {
	for i, m := range strings.Fields(
		"january february march april may june july august september october november december") {
		t[i] = Stem(m)
	}
	return t
}()

// In reports whether words contain the value: all of its tokens, three quarters of the tokens of a name that has four
// or more, or its date.
func (x *Value) In(words []uint32) bool {
	n := Count(words, x.Tokens)
	if n == len(x.Tokens) {
		return true
	}
	if len(x.Date) > 0 && Count(words, x.Date) == len(x.Date) {
		return true
	}
	return !x.Prose && len(x.Tokens) >= 4 && 4*n >= 3*len(x.Tokens)
}

// named is like In, for the words of a user or of results, which have the hashes of file names.
func (x *Value) named(words []uint32) bool { return x.In(words) && (x.file == 0 || Has(words, x.file)) }
