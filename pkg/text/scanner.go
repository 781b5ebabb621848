package text

import "strings"

// scanner reads a clean text once and finds its carriers and encoded spans. A token is a run of bytes that can occur in
// addresses, paths and numbers. Most tokens are ordinary words. The classes of their bytes show that, and the scanner
// skips them.
type scanner struct {
	s        string
	via      string
	decoding bool // look for encoded spans

	out     *carrierSet
	spans   []Span
	perKind map[string]int // number of spans found
	full    bool           // more spans were found than are kept
	regions [3]region      // url, html, escape
	letters region         // a run of single letters
	wrap    wrap           // the last multi-line text that was read as base64

	marking bool   // instead of values, record the positions of carriers in marks
	marks   []Span // these positions; Kind is the carrier's kind
}

// region is a part of the text that has encoded characters close to each other, such as %20 or &amp;.
type region struct {
	start, end int
	count      int
}

// Classes of the bytes that tokens consist of. A byte without a class ends a token.
const (
	inLower = 1 << iota
	inUpper
	inDigit
	inDot
	inAt
	inSlash
	inColon
	inDash // - and _
	inPlus
	inTilde
	inHigh // ≥ 0x80

	inLetters = inLower | inUpper
)

var tokenClass = func() (t [256]uint16) {
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = inLower, inUpper
	}
	for c := '0'; c <= '9'; c++ {
		t[c] = inDigit
	}
	for c := 0x80; c < 0x100; c++ {
		t[c] = inHigh
	}
	t['.'], t['@'], t['/'], t[':'] = inDot, inAt, inSlash, inColon
	t['-'], t['_'], t['+'], t['~'] = inDash, inDash, inPlus, inTilde
	return t
}()

const (
	regionGap  = 128 // maximum distance in bytes between encoded characters of one region
	regionEdge = 64  // bytes before and after a region that are decoded together with it
	minSpaced  = 6   // minimum number of single letters in a row that are read as one spaced-out word
	minEncoded = 16  // minimum number of characters of base64 or hex
)

func (sc *scanner) reset(s, via string, decoding bool) {
	sc.s, sc.via, sc.decoding = s, via, decoding
	sc.regions, sc.letters, sc.wrap = [3]region{}, region{}, wrap{}
	sc.spans = nil // the previous slice belongs to the caller
	sc.full = false
	sc.marking, sc.marks = false, nil
	if sc.perKind == nil {
		sc.perKind = map[string]int{}
	}
	clear(sc.perKind)
}

// keep adds a carrier. Its position is that of the token that is being read.
func (sc *scanner) keep(kind Kind, value string) { sc.keepAt(kind, value, 0, 0) }

// keepAt adds a carrier at the position s[start:end]. If end is 0, place sets the position later.
func (sc *scanner) keepAt(kind Kind, value string, start, end int) {
	if sc.marking {
		sc.marks = append(sc.marks, Span{Kind: string(kind), Start: start, End: end})
		return
	}
	sc.out.add(kind, value, sc.via)
}

// place sets the position of all marks from index n on that have no position yet. The position is the token
// s[start:end] without punctuation at its end.
func (sc *scanner) place(n, start, end int) {
	for end > start+1 && (sc.s[end-1] == '.' || sc.s[end-1] == ':') {
		end--
	}
	for ; n < len(sc.marks); n++ {
		if sc.marks[n].End == 0 {
			sc.marks[n].Start, sc.marks[n].End = start, end
		}
	}
}

// room reports whether another encoded span of this kind may be kept. If not, it records that a span was left out.
func (sc *scanner) room(kind string) bool {
	if sc.perKind[kind] == maxPerEncoding {
		sc.full = true
		return false
	}
	return true
}

func (sc *scanner) span(kind string, start, end int) {
	if sc.room(kind) {
		sc.perKind[kind]++
		sc.spans = append(sc.spans, Span{Kind: kind, Start: start, End: end})
	}
}

// scan adds the carriers of the text to out and returns its encoded spans in order of discovery.
func (sc *scanner) scan(out *carrierSet, h Hidden) []Span {
	sc.out = out
	if sc.decoding && h.Tags > 0 {
		sc.span(encTags, 0, 0)
	}
	if sc.decoding && h.Selectors > 0 {
		sc.span(encSelectors, 0, 0)
	}
	s := sc.s
	for i := 0; i < len(s); {
		mask := tokenClass[s[i]]
		if mask == 0 {
			i = sc.delimiter(i)
			continue
		}
		start := i
		for i++; i < len(s); i++ {
			c := tokenClass[s[i]]
			if c == 0 {
				break
			}
			mask |= c
		}
		if i-start < minEncoded && mask&^(inLetters|inDot) == 0 {
			if i-start == 1 && mask != inDot {
				sc.letter(start)
				continue
			}
			if mask == inLower && maybeVerb(s[start], i-start) {
				i = max(i, sc.command(start, i))
				continue
			}
			if mask&inDot == 0 || strings.IndexByte(s[start:i-1], '.') < 0 {
				continue // an ordinary word, perhaps with the punctuation that ends a sentence
			}
		}
		marked := len(sc.marks)
		i = max(i, sc.token(start, i, mask))
		if len(sc.marks) > marked {
			sc.place(marked, start, i)
		}
	}
	for k := range sc.regions {
		sc.closeRegion(k)
	}
	sc.closeLetters()
	return sc.spans
}

// delimiter handles byte i, which is not part of a token. It returns the byte at which scanning continues.
func (sc *scanner) delimiter(i int) int {
	s := sc.s
	switch s[i] {
	case '\\':
		if i+1 == len(s) {
			break
		}
		switch s[i+1] {
		case 'x':
			if isHexPair(s, i+2) {
				sc.encoded(2, i, i+4)
				return i + 4
			}
		case 'u':
			if isHexPair(s, i+2) && isHexPair(s, i+4) {
				sc.encoded(2, i, i+6)
				return i + 6
			}
		case 'n', 'r', 't', '"', '/', '\\':
			return i + 2 // a JSON escape inside a string
		}
	case '%':
		if isHexPair(s, i+1) {
			sc.encoded(0, i, i+3)
			return i + 3
		}
	case '&':
		if end := entityEnd(s, i); end > 0 {
			sc.encoded(1, i, end)
			return end
		}
	}
	return i + 1
}

// entityEnd returns the end of the HTML character reference at byte i, or 0.
func entityEnd(s string, i int) int {
	for j := i + 1; j < len(s) && j < i+12; j++ {
		switch c := s[j]; {
		case c == ';' && j > i+2:
			return j + 1
		case c == '#' && j == i+1, isAlnum(c):
		default:
			return 0
		}
	}
	return 0
}

var regionKinds = [3]string{encURL, encHTML, encEscape}

func (sc *scanner) encoded(kind, start, end int) {
	r := &sc.regions[kind]
	if r.count > 0 && start-r.end > regionGap {
		sc.closeRegion(kind)
	}
	if r.count == 0 {
		r.start = start
	}
	r.end = end
	r.count++
}

func (sc *scanner) closeRegion(kind int) {
	r := sc.regions[kind]
	sc.regions[kind] = region{}
	if r.count == 0 || !sc.decoding {
		return
	}
	start, end := r.start, r.end
	for start > 0 && r.start-start < regionEdge && sc.s[start-1] != '\n' {
		start--
	}
	for end < len(sc.s) && end-r.end < regionEdge && sc.s[end] != '\n' {
		end++
	}
	// Extend the region to whole words, or at least to whole characters.
	if i := strings.IndexAny(sc.s[start:r.start], " \t"); i >= 0 && start > 0 && sc.s[start-1] > ' ' {
		start += i + 1
	}
	if i := strings.LastIndexAny(sc.s[r.end:end], " \t"); i >= 0 && end < len(sc.s) && sc.s[end] > ' ' {
		end = r.end + i
	}
	for start < r.start && sc.s[start]&0xc0 == 0x80 {
		start++
	}
	for end > r.end && end < len(sc.s) && sc.s[end]&0xc0 == 0x80 {
		end--
	}
	sc.span(regionKinds[kind], start, end)
}

// letter records a token that is one letter or digit: several in a row may be a spaced-out word.
func (sc *scanner) letter(i int) {
	r := &sc.letters
	if r.count > 0 && i-r.end > 3 {
		sc.closeLetters()
	}
	if r.count == 0 {
		r.start = i
	}
	r.end = i + 1
	r.count++
}

func (sc *scanner) closeLetters() {
	r := sc.letters
	sc.letters = region{}
	if r.count >= minSpaced && sc.decoding {
		sc.span(encSpaced, r.start, r.end)
	}
}

// token examines the token s[start:end], which is not a plain word. It returns the byte at which scanning continues.
// That byte may be after the token, because some carriers have several tokens.
func (sc *scanner) token(start, end int, mask uint16) int {
	s := sc.s
	tok := s[start:end]
	if mask&inColon != 0 && mask&inSlash != 0 {
		if i := strings.Index(tok, "://"); i > 0 {
			return sc.url(start, i)
		}
	}
	if mask&inUpper != 0 && len(tok) >= awsID {
		sc.awsWithin(tok, start)
	}
	composed := len(tok) >= minSecret && mask&^(inLetters|inDigit) != 0 // a key may be only a part of such a token
	if mask&inAt != 0 {
		if composed {
			sc.secretsWithin(tok, start)
		}
		sc.at(tok)
		return end
	}
	if mask&inDigit != 0 {
		if next, ok := sc.digits(start, end, mask); ok {
			return next
		}
		if mask&inColon != 0 {
			if next, ok := sc.labeled(start, end); ok {
				return next
			}
		}
	}
	if (len(tok) >= minSecret || tok[0] == '-') && sc.secret(tok, start) {
		return end
	}
	if composed {
		sc.secretsWithin(tok, start)
	}
	if sc.decoding && len(tok) >= minEncoded {
		if next, ok := sc.encodedRun(start, end); ok {
			return next
		}
	}
	if mask&inPlus != 0 && mask&^(inLetters|inPlus|inDot) == 0 && plusForSpace(tok) {
		sc.encoded(0, start, end)
		return end
	}
	if sc.decoding && mask&(inDash|inDot) != 0 && len(tok) >= 2*minSpaced-1 && spacedOut(tok) {
		sc.span(encSpaced, start, end)
		return end
	}
	if sc.find(tok) {
		return end
	}
	if len(tok) >= minOpaque && sc.opaque(tok, mask) {
		return end
	}
	if mask&(inSlash|inTilde) != 0 {
		if start == 0 || s[start-1] != '<' { // not a closing tag
			sc.path(tok)
		}
		return end
	}
	if mask == inUpper|inColon && len(tok) == 2 && end < len(s) && s[end] == '\\' {
		return sc.windowsPath(start, end)
	}
	if mask&inDot != 0 {
		sc.dotted(tok)
	}
	return end
}

// find looks for a carrier that is the whole token.
func (sc *scanner) find(tok string) bool {
	for _, f := range finders {
		if len(tok) < f.min {
			continue
		}
		if value, ok := f.find(tok); ok {
			sc.keep(f.kind, value)
			return true
		}
	}
	return false
}

// maxLabels is the maximum number of labels before a value, as in pay:iban:DE89370400440532013000.
const maxLabels = 8

// labeled looks for a carrier directly after a label of letters and a colon, as in IBAN:DE89370400440532013000. A label
// may follow another one. labeled returns where to continue, and false if there is no such carrier.
func (sc *scanner) labeled(start, end int) (int, bool) {
	letters, labels := 0, 0
	for i := start; i < end-1 && labels < maxLabels; i++ {
		switch c := tokenClass[sc.s[i]]; {
		case c&inLetters != 0:
			letters++
			continue
		case c == inDash:
			continue
		case c != inColon || letters == 0:
			return 0, false
		}
		letters, labels = 0, labels+1
		mask := uint16(0)
		for j := i + 1; j < end; j++ {
			mask |= tokenClass[sc.s[j]]
		}
		if next, ok := sc.digits(i+1, end, mask); ok {
			return next, true
		}
		if sc.find(sc.s[i+1 : end]) {
			return end, true
		}
	}
	return 0, false
}

// spacedOut reports whether tok is single characters with the same separator between them, as in
// i-g-n-o-r-e.
func spacedOut(tok string) bool {
	sep := tok[1]
	if isAlnum(sep) {
		return false
	}
	for i := range len(tok) {
		if i%2 == 1 && tok[i] != sep || i%2 == 0 && !isAlnum(tok[i]) {
			return false
		}
	}
	return true
}

// plusForSpace reports whether tok consists of at least three words that are joined by plus signs, as in the query of a
// URL.
func plusForSpace(tok string) bool {
	n := 0
	for i := range len(tok) {
		if tok[i] != '+' {
			continue
		}
		if i == 0 || i == len(tok)-1 || tok[i-1] == '+' {
			return false
		}
		n++
	}
	return n > 1
}

// encodedRun looks for base64 and hex in the token s[start:end]. If base64 continues on the next lines, it reads them
// too.
func (sc *scanner) encodedRun(start, end int) (int, bool) {
	s := sc.s
	found := false
	for i := start; i < end; {
		if !base64Byte(s[i]) {
			i++
			continue
		}
		from := i
		for i < end && base64Byte(s[i]) {
			i++
		}
		if i-from < minEncoded {
			continue
		}
		if isHex(s[from:i]) {
			if (i-from)%2 == 0 && sc.room(encHex) && decodeHex(s[from:i]) != "" {
				sc.span(encHex, from, i)
				found = true
			}
			continue
		}
		if !mixed(s[from:i]) || !sc.room(encBase64) {
			continue
		}
		// If the beginning does not decode to text, the run counts as a word or an identifier, not as base64.
		if decodeBase64(s[from:min(i, from+minEncoded)]) == "" && decodeBase64(s[from:min(i, from+4*minEncoded)]) == "" {
			continue
		}
		to, ok := i, false
		if i == end {
			to, ok = sc.wrapped(from, i)
		}
		if !ok {
			if to = i; decodeBase64(s[from:to]) == "" {
				continue
			}
		}
		sc.span(encBase64, from, to)
		found = true
		i = to
	}
	return end, found
}

func base64Byte(c byte) bool {
	return isAlnum(c) || c == '+' || c == '/' || c == '-' || c == '_'
}

// mixed reports whether s has capitals or digits after its first byte, as base64 does.
func mixed(s string) bool {
	classes := uint16(0)
	for i := 1; i < len(s); i++ {
		classes |= tokenClass[s[i]]
	}
	return classes&(inUpper|inDigit) != 0
}

func isHex(s string) bool {
	for i := range len(s) {
		if !isHexDigit(s[i]) {
			return false
		}
	}
	return true
}
