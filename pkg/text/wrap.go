package text

import "unicode/utf8"

// minWrapped is the minimum length of a line in a wrapped encoding.
const minWrapped = 60

// wrappedEnd returns the end of a base64 text that continues over several lines.
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

// wrap is a base64 text over several lines. Many lines can look like the beginning of a text, so it
// is decoded once for all of them.
type wrap struct {
	to    int          // its end
	lines map[int]bool // for the start of each line of full width: is the text readable from there?
}

// wrapped returns the end of the base64 text that begins with the run s[from:to] and continues in
// the next lines. ok reports whether there is one and it is readable.
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
	// Four characters are three bytes. So the bytes from a line are the same as those from an
	// earlier line only if a multiple of four characters is between them, which is step lines.
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

// readableTails reports, for each multiple of step, whether readable accepts the rest of b from
// there. It is not exact for tails that are shorter than a line.
func readableTails(b []byte, step int) []bool {
	ok := make([]bool, len(b)/step+1)
	// read goes back from the end to the last character that cannot be part of a text.
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
	// Only the last bytes decide where an incomplete character is cut off.
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
