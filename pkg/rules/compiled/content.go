package compiled

import (
	"slices"
	"unsafe"

	"lazaret/pkg/signals"
)

// The fields that hold the content of an event.
const (
	contentText  = iota // as it came
	contentViews        // in other forms, of which the first is normal
	contentArgs         // once more, of an action
	contentFields
)

var contentNames = [contentFields]string{
	contentText:  "content.text",
	contentViews: "content.views",
	contentArgs:  "action.text",
}

// contentIndex is the literals that are looked for in an event's content. The
// fields that hold it share a table, and what stands in several of them is read
// once: an action's arguments are its text, and the normal form of most texts is
// the text but for case and white space.
type contentIndex struct {
	literals *literals
	lits     []literal
	byText   map[string]int
}

// add takes an atom, unless it is to be looked for in its own field: the text
// may hold white space that its normal form does not.
func (c *contentIndex) add(name string, lit string, atom int32) bool {
	f := slices.Index(contentNames[:], name)
	if f < 0 || f != contentViews && !calm(lit) {
		return false
	}
	i, ok := c.byText[lit]
	if !ok {
		i = len(c.lits)
		c.byText[lit] = i
		c.lits = append(c.lits, literal{lit, [contentFields]int32{-1, -1, -1}})
	}
	c.lits[i].atoms[f] = atom
	return true
}

// calm reports whether white space in a text in lower case stands between words
// only, and is one space.
func calm(s string) bool {
	for i := range len(s) {
		switch {
		case s[i] == ' ' && i > 0 && i+1 < len(s) && s[i-1] != ' ', !space(s[i]):
		default:
			return false
		}
	}
	return true
}

func space(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// alike compares a text with its normal form. same says that they differ in case
// and white space only; then breaks are the spaces of the view for which the text
// has other white space. A calm literal that stands in such a text stands in the
// view, and one that stands in the view with no break in it stands in the text.
func alike(text, view string, breaks []int32) (same bool, _ []int32) {
	i, j := 0, 0
	for i < len(text) {
		for i+8 <= len(text) && j+8 <= len(view) && (eight(text[i:i+8]) == eight(view[j:j+8]) ||
			lowerEight(text[i:i+8]) == eight(view[j:j+8])) {
			i, j = i+8, j+8
		}
		if i == len(text) {
			break
		}
		if j < len(view) && lowerByte[text[i]] == lowerByte[view[j]] {
			i, j = i+1, j+1
			continue
		}
		from := i
		for i < len(text) && space(text[i]) {
			i++
		}
		switch {
		case i == from:
			return false, breaks
		case from == 0 || i == len(text): // trimmed
		case space(text[from-1]): // the view's space is the first of them
			breaks = append(breaks, int32(j-1))
		case j < len(view) && view[j] == ' ':
			breaks = append(breaks, int32(j))
			j++
		default:
			return false, breaks
		}
	}
	return j == len(view), breaks
}

// match finds the atoms that a content meets.
func (c *contentIndex) match(in *signals.Input, t *Lookup) {
	text, views, args := in.Content.Text, in.Content.Views, in.Action.Text
	if !is(text, args) {
		t.scan(c, args, 1<<contentArgs)
		args = ""
	}
	same := 1 << contentText
	if args != "" {
		same |= 1 << contentArgs
	}
	t.breaks = t.breaks[:0]
	for i, v := range views {
		on := 1 << contentViews
		if i == 0 {
			var ok bool
			if ok, t.breaks = alike(text, v, t.breaks); ok {
				on |= same
			} else {
				t.breaks = t.breaks[:0]
				t.scan(c, text, same)
			}
		}
		t.scan(c, v, on)
		t.breaks = t.breaks[:0]
	}
	if len(views) == 0 {
		t.scan(c, text, same)
	}
}

// is reports whether two texts are one in memory.
func is(s, t string) bool {
	return len(s) == len(t) && unsafe.StringData(s) == unsafe.StringData(t)
}

// scan looks for literals in a text that stands in some of the fields, with t.breaks
// where that of the content has other white space.
func (t *Lookup) scan(c *contentIndex, s string, on int) {
	skip := func(l *literal) bool {
		for f, a := range l.atoms {
			if on>>f&1 == 1 && a >= 0 && !t.met(a) {
				return false
			}
		}
		return true
	}
	hit := func(l *literal, start int) {
		for f, a := range l.atoms {
			if on>>f&1 == 1 && a >= 0 && (f == contentViews || !t.broken(start, start+len(l.text))) {
				t.hit(a)
			}
		}
	}
	c.literals.scan(s, skip, hit)
}

// broken reports whether a break lies in a part of the view.
func (t *Lookup) broken(start, end int) bool {
	i, _ := slices.BinarySearch(t.breaks, int32(start))
	return i < len(t.breaks) && t.breaks[i] < int32(end)
}
