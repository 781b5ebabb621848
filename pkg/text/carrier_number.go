package text

import "strings"

// digits reads a token with digits as an address, an account, a card, a phone number or a long
// number. It returns where to continue, and false if the token is none of these.
func (sc *scanner) digits(start, end int, mask uint16) (int, bool) {
	s := sc.s
	tok := s[start:end]
	if c := s[start]; c|0x20 >= 'a' && c|0x20 <= 'z' {
		if next, ok := sc.iban(start); ok {
			return next, true
		}
	}
	if mask&^(inDigit|inDot|inColon|inSlash|inDash) == 0 && mask&inDot != 0 {
		host := strings.TrimRight(tok, ".:-/")
		host, _, _ = strings.Cut(host, "/")
		host, _, _ = strings.Cut(host, ":")
		if strings.Count(host, ".") == 3 {
			if ip, ok := parseIP(host); ok {
				sc.keep(IP, ip.String())
				return end, true
			}
		}
	}
	if mask&inColon != 0 && mask&(inAt|inSlash|inTilde|inHigh|inPlus) == 0 {
		if ip, ok := ipv6(tok); ok {
			sc.keep(IP, ip)
			return end, true
		}
	}
	if mask&^(inDigit|inDot|inDash|inPlus|inColon) != 0 {
		return end, false
	}
	next := sc.number(start)
	return max(next, end), next > start
}

func ipv6(tok string) (string, bool) {
	tok = strings.TrimRight(tok, ".-")
	colons := strings.Count(tok, ":")
	if colons < 2 || colons < 7 && !strings.Contains(tok, "::") || len(tok) < 3 {
		return "", false
	}
	if len(tok) < 6 && tok != "::1" && strings.IndexFunc(tok, func(r rune) bool { return r|0x20 >= 'a' }) < 0 {
		return "", false // 3::4 is a slice or a ratio
	}
	ip, ok := parseIP(tok)
	return ip.String(), ok && ip.Is6()
}

// digitGroups is a number as people write it: groups of digits, with one separator between two
// groups.
type digitGroups struct {
	digits []byte
	ends   []int // end of each group, as an index in digits
	bytes  []int // end of each group, as a byte offset in the text
	seps   []byte
	plus   bool
}

const maxDigits = 34

func readGroups(s string, i int) digitGroups {
	var g digitGroups
	var digits [maxDigits + 1]byte
	var ends, at [10]int
	var seps [10]byte
	g.digits, g.ends, g.bytes, g.seps = digits[:0], ends[:0], at[:0], seps[:0]
	if s[i] == '+' {
		g.plus = true
		i++
	}
	for len(g.ends) < len(ends) {
		from := i
		for i < len(s) && s[i] >= '0' && s[i] <= '9' && len(g.digits) <= maxDigits {
			g.digits = append(g.digits, s[i])
			i++
		}
		if i == from {
			break
		}
		g.ends, g.bytes = append(g.ends, len(g.digits)), append(g.bytes, i)
		sep := i
		for i < len(s) && i < sep+2 && strings.IndexByte(" -.()", s[i]) >= 0 {
			i++
		}
		if i == sep || i == len(s) || s[i] < '0' || s[i] > '9' || i == sep+2 && s[sep] != ')' && s[sep+1] != '(' {
			break
		}
		g.seps = append(g.seps, s[sep])
	}
	return g
}

// number reads the number at start and returns its end. It returns start if the number is not a
// carrier.
func (sc *scanner) number(start int) int {
	s := sc.s
	at := start
	for at < len(s) && (s[at] == '-' || s[at] == '.' || s[at] == ':') {
		at++
	}
	if at == len(s) || s[at] != '+' && (s[at] < '0' || s[at] > '9') {
		return start
	}
	g := readGroups(s, at)
	if len(g.digits) < 7 {
		return start
	}
	if g.plus {
		if next, ok := sc.phone(g); ok {
			return next
		}
		return start
	}
	if next, ok := sc.card(g); ok {
		return next
	}
	if at < 2 || s[at-1] != ' ' || s[at-2] < '0' || s[at-2] > '9' { // not inside another number
		if next, ok := sc.phone(g); ok {
			return next
		}
	}
	return sc.longNumber(start, g)
}

func (sc *scanner) card(g digitGroups) (int, bool) {
	for i, n := range g.ends {
		if i > 0 && (g.seps[i-1] != g.seps[0] || g.seps[0] != ' ' && g.seps[0] != '-') {
			break
		}
		if i > 0 && g.ends[0] != 4 {
			break // the groups of a card have four digits each, or 4, 6 and 5
		}
		if n >= 13 && n <= 19 && cardPrefix(g.digits[:n]) && luhn(g.digits[:n]) {
			sc.keep(Card, masked(string(g.digits[:n]), 6, 4))
			return g.bytes[i], true
		}
	}
	return 0, false
}

// cardPrefix reports whether a number has the prefix and the length of a large card network.
func cardPrefix(d []byte) bool {
	two := int(d[0]-'0')*10 + int(d[1]-'0')
	four := two*100 + int(d[2]-'0')*10 + int(d[3]-'0')
	n := len(d)
	switch {
	case d[0] == '4':
		return n == 13 || n == 16 || n == 19
	case two >= 51 && two <= 55, four >= 2221 && four <= 2720:
		return n == 16
	case two == 34, two == 37:
		return n == 15
	case two == 30, two == 36, two == 38, two == 39:
		return n == 14 || n == 16
	case four == 6011, two == 64, two == 65, two == 62, two == 35, two == 60, two == 67:
		return n >= 16
	}
	return false
}

func luhn(d []byte) bool {
	sum := 0
	for i := range d {
		v := int(d[len(d)-1-i] - '0')
		if i%2 == 1 {
			if v *= 2; v > 9 {
				v -= 9
			}
		}
		sum += v
	}
	return sum%10 == 0
}

// phone recognizes international numbers and the grouping of North America. It ignores other national formats, because
// such a number could be a date, a version or an amount.
func (sc *scanner) phone(g digitGroups) (int, bool) {
	groups := func(sizes ...int) int { // returns the index of the last group, or -1
		if len(g.ends) < len(sizes) {
			return -1
		}
		from := 0
		for i, n := range sizes {
			if g.ends[i]-from != n {
				return -1
			}
			from = g.ends[i]
		}
		return len(sizes) - 1
	}
	d := g.digits
	american := func(i, skip int) (int, bool) {
		sc.keep(Phone, "+1"+string(d[skip:skip+10]))
		return g.bytes[i], true
	}
	if d[0] == '1' {
		if i := groups(1, 3, 3, 4); i > 0 && d[1] >= '2' && d[4] >= '2' {
			return american(i, 1)
		}
	} else if i := groups(3, 3, 4); i > 0 && d[0] >= '2' && d[3] >= '2' {
		return american(i, 0)
	}
	skip := 0
	if !g.plus {
		if d[0] != '0' || d[1] != '0' || d[2] == '0' || len(g.ends) < 2 {
			return 0, false
		}
		skip = 2
	}
	if d[skip] == '0' {
		return 0, false
	}
	last := -1
	for i, n := range g.ends {
		if n-skip > 15 {
			break
		}
		last = i
	}
	if last < 0 || g.ends[last]-skip < 8 {
		return 0, false
	}
	sc.keep(Phone, "+"+string(d[skip:g.ends[last]]))
	return g.bytes[last], true
}

const minNumber = 8

// longNumber recognizes one run of digits, or several runs that are joined by hyphens. A date or a decimal fraction is
// not a long number.
func (sc *scanner) longNumber(start int, g digitGroups) int {
	last := 0
	for last < len(g.seps) && g.seps[last] == '-' && last+1 < len(g.ends) {
		last++
	}
	if last < len(g.seps) && g.seps[last] == '.' {
		return start
	}
	d := g.digits[:g.ends[last]]
	if len(d) < minNumber || len(d) > maxDigits || dateLike(d) {
		return start
	}
	sc.keep(Number, string(d))
	return g.bytes[last]
}

// dateLike reports whether 8, 12 or 14 digits are a date, perhaps with a time.
func dateLike(d []byte) bool {
	if len(d) != 8 && len(d) != 12 && len(d) != 14 {
		return false
	}
	two := func(i int) int { return int(d[i]-'0')*10 + int(d[i+1]-'0') }
	century, month, day := two(0), two(4), two(6)
	return (century == 19 || century == 20) && month >= 1 && month <= 12 && day >= 1 && day <= 31
}

// ibanLengths gives the length of an IBAN for each country, from the SWIFT registry.
const ibanLengths = "AD24AE23AL28AT20AZ28BA20BE16BG22BH22BI27BR29BY28CH21CR22CY28CZ24DE22DJ27DK18DO28EE20EG29ES24FI18" +
	"FK18FO18FR27GB22GE22GI23GL18GR27GT28HN28HR21HU28IE22IL23IQ23IS26IT27JO30KW30KZ20LB28LC32LI21LT20LU20LV21LY25" +
	"MC27MD24ME22MK19MN20MR27MT31MU30NI28NL18NO15OM23PK24PL28PS29PT25QA29RO24RS22RU33SA24SC31SD18SE24SI19SK24SM27" +
	"SO23ST25SV28TL23TN24TR26UA29VA22VG24XK20YE30"

// iban reads an account number at start, with or without spaces between groups, and returns its
// end.
func (sc *scanner) iban(start int) (int, bool) {
	s := sc.s
	if len(s)-start < 15 || s[start+2] < '0' || s[start+2] > '9' || s[start+3] < '0' || s[start+3] > '9' {
		return 0, false
	}
	country := [2]byte{s[start] &^ 0x20, s[start+1] &^ 0x20}
	want := 0
	for i := 0; i < len(ibanLengths); i += 4 {
		if ibanLengths[i] == country[0] && ibanLengths[i+1] == country[1] {
			want = int(ibanLengths[i+2]-'0')*10 + int(ibanLengths[i+3]-'0')
			break
		}
	}
	var value [34]byte
	n, i, gap := 0, start, false
	for n < want && i < len(s) {
		c := s[i]
		switch {
		case (c == ' ' || c == '-') && !gap && n >= 4:
			gap = true
		case c >= '0' && c <= '9':
			value[n], gap = c, false
			n++
		case c|0x20 >= 'a' && c|0x20 <= 'z':
			value[n], gap = c&^0x20, false
			n++
		default:
			return 0, false
		}
		i++
	}
	if want == 0 || n < want || i < len(s) && isAlnum(s[i]) || !mod97(value[:n]) {
		return 0, false
	}
	sc.keep(IBAN, string(value[:n]))
	return i, true
}

// mod97 verifies the checksum of an IBAN (ISO 7064).
func mod97(value []byte) bool {
	rem := 0
	digit := func(c byte) {
		if c >= 'A' {
			rem = (rem*100 + int(c-'A') + 10) % 97
			return
		}
		rem = (rem*10 + int(c-'0')) % 97
	}
	for _, c := range value[4:] {
		digit(c)
	}
	for _, c := range value[:4] {
		digit(c)
	}
	return rem == 1
}
