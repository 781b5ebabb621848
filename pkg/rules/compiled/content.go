package compiled

import (
	"slices"
	"unsafe"

	"lazaret/pkg/signals"
)

// The fields that have the content of an event.
const (
	contentText  = iota // the original content
	contentViews        // the views of the content, see package text; the first view is the normal form
	contentArgs         // the arguments of an action
	contentFields
)

var contentNames = [contentFields]string{
	contentText:  "content.text",
	contentViews: "content.views",
	contentArgs:  "action.text",
}

// contentIndex indexes the literals to find in an event's content. The fields contentText, contentViews and contentArgs
// share one table of literals. Often, several of these fields have the same text, and it is then scanned only once: an
// action's arguments are also its text, and the normal form of most texts differs from the original only in case and
// white space.
type contentIndex struct {
	literals *literals
	lits     []literal
	byText   map[string]int
}

// add adds an atom, the condition that the field called name contains the literal lit. It reports whether it did. It
// refuses a literal with white space that the normal form may change, except for the views, because such a literal must
// be searched in the original text.
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

// calm reports whether the only white space in a lower-case text is single spaces between words. The normal form of the
// text then has the same white space.
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

// alike compares a text with its normal form, the view. same reports whether they differ only in case and white space.
// Then a calm literal that the text contains is also in the view. A literal that the view contains is also in the text
// if it contains no break. A break is the position in the view of a space for which the text has other white space,
// such as a tab or two spaces. alike appends the breaks to breaks.
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
		case from == 0 || i == len(text): // the text begins or ends with space, which the view does not have
		case space(text[from-1]): // the first of several white space characters
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

// match finds the atoms of these fields that hold for the event's content.
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
	few := c.literals.few() // with few literals, searching each text costs less than comparing the text with its view
	if few {
		t.scan(c, text, same)
	}
	for i, v := range views {
		on := 1 << contentViews
		if i == 0 && !few {
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
	if len(views) == 0 && !few {
		t.scan(c, text, same)
	}
}

// is reports whether two strings share the same memory. Then they are equal, and scanning one of them is enough.
func is(s, t string) bool {
	return len(s) == len(t) && unsafe.StringData(s) == unsafe.StringData(t)
}

// scan finds literals in a text. on is a bit set of the fields that have this text. t.breaks has the breaks: the
// positions at which the original content has other white space than the view.
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

// broken reports whether there is a break between start and end.
func (t *Lookup) broken(start, end int) bool {
	i, _ := slices.BinarySearch(t.breaks, int32(start))
	return i < len(t.breaks) && t.breaks[i] < int32(end)
}
