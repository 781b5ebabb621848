package text

import "unicode/utf8"

// minWrapped is the minimum length of a line in a wrapped encoding.
const minWrapped = 60

// wrappedEnd returns the end of a base64 text whose first line is s[from:to] and which may continue on the next lines.
func wrappedEnd(s string, from, to int) int {
	width := to - from
	for width >= minWrapped {
		i := to
		for i < len(s) && (s[i] == '\n' || s[i] == '\r') && i < to+2 {
			i++
		}
		next := i
		for next < len(s) && base64Byte(s[next]) {
			next++
		}
		if i == to || next == i || next-i > width {
			break
		}
		to = next
		if next-i < width {
			break // the last line
		}
	}
	return to
}

// wrap is a base64 text over several lines. Each of its lines could be the beginning of a base64 text. The text is
// decoded once for all these beginnings.
type wrap struct {
	to    int          // its end
	lines map[int]bool // by the start of a line of full width: whether the text from there on is readable
}

// wrapped returns the end of the base64 text that begins with the run s[from:to] and continues on the next lines. ok
// reports whether the text has more than one line and is readable.
func (sc *scanner) wrapped(from, to int) (end int, ok bool) {
	if ok, known := sc.wrap.lines[from]; known {
		return sc.wrap.to, ok
	}
	end = wrappedEnd(sc.s, from, to)
	if end == to {
		return end, false
	}
	sc.wrap = newWrap(sc.s, from, end, to-from)
	return end, sc.wrap.lines[from]
}

// newWrap decodes the base64 text s[from:to] with lines of the given width.
func newWrap(s string, from, to, width int) wrap {
	packed := packBase64(s[from:to])
	// Four characters are three bytes. So a text that begins at line i decodes to a part of the bytes of the text that
	// begins at line k only if a multiple of four characters is between the two lines. step is the smallest number of
	// lines with such a multiple.
	step := 1
	for step*width%4 != 0 {
		step *= 2
	}
	var tails [4][]bool
	for k := range min(step, len(packed)/width) {
		tails[k] = readableTails(unpackBase64(packed[k*width:]), step*width/4*3)
	}
	w := wrap{to: to, lines: make(map[int]bool, len(packed)/width)}
	for i, n := from, 0; n < len(packed)/width; n++ {
		for !base64Byte(s[i]) {
			i++
		}
		w.lines[i] = tails[n%step][n/step]
		i += width
	}
	return w
}

// readableTails reports for each multiple of step whether readable accepts the bytes of b from there to the end. The
// result is not exact for a tail that is shorter than a line.
func readableTails(b []byte, step int) []bool {
	ok := make([]bool, len(b)/step+1)
	// read moves backwards from the end of b. It stops at a character that cannot be part of a text.
	read := func(b []byte, lastRune func([]byte) (rune, int)) {
		for balance := 0; len(b) > 0; {
			r, size := lastRune(b)
			n, printable := weight(r)
			if !printable || r == utf8.RuneError && size == 1 {
				return
			}
			b = b[:len(b)-size]
			if balance += n; balance >= 0 && len(b)%step == 0 {
				ok[len(b)/step] = true
			}
		}
	}
	read(b, lastOfUTF16)
	// The last bytes alone show where b must be cut, so that it does not end in an incomplete character.
	last := max(0, len(b)-4*utf8.UTFMax)
	for last < len(b) && !utf8.RuneStart(b[last]) {
		last++
	}
	read(b[:last+len(wholeRunes(b[last:]))], utf8.DecodeLastRune)
	return ok
}

// lastOfUTF16 returns the last character of ASCII text in little-endian UTF-16.
func lastOfUTF16(b []byte) (rune, int) {
	if n := len(b); n >= 2 && b[n-1] == 0 && b[n-2] < utf8.RuneSelf {
		return rune(b[n-2]), 2
	}
	return utf8.RuneError, 1
}
