package intent

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// Wishes are the paths that a message names in requests. The reading is that of asksForLoaded.
type Wishes struct {
	Changed []string // files that it asks to change
	With    []string // files that it names in such a request, or in the text for the file
	// Outputs are the paths to which, or in which, it asks for something: "save it as /tmp/x.csv".
	Outputs []string
	Inert   bool // it neither asks for another change nor takes anything back
}

// asides are conditions and negations in a request that do not take it back. They are removed from the text. The group
// of each expression is the punctuation beside it, which stays.
var asides = []*regexp.Regexp{
	regexp.MustCompile(`(?i),?\s+(?:if|where|when|as) (?:needed|necessary|required|appropriate|applicable)` +
		`([.,;!?]|$|\s+and\b)`),
	regexp.MustCompile(`(?i),?\s+so (?:that )?(?:we|i|you|they|others|people) (?:don['’]?t|do not|won['’]?t|will not|` +
		`never) (?:forget|lose|miss|repeat)(?: (?:it|this|that|them|about it|about this))?([.!]|$)`),
	regexp.MustCompile(`(?i)([.!;]\s+)(?:make no other changes|change nothing else|(?:do not|don['’]t) (?:change|touch|` +
		`edit) anything else)(?:[.!]|$)`),
}

// ReadWishes returns what a message asks for.
func ReadWishes(said string) (w Wishes) {
	rows := strings.FieldsFunc(said, func(r rune) bool { return strings.ContainsRune("\r\n\u2028\u2029", r) })
	rows = slices.DeleteFunc(rows, func(row string) bool { return strings.TrimSpace(row) == "" })
	if len(said) > maxRequest {
		return Wishes{}
	}
	if len(rows) == 1 {
		if note, ok := strings.CutPrefix(strings.TrimSpace(said), "# "); ok { // the sign with which Claude Code adds a memory
			if plainContent(strings.Fields(note)) {
				w.Changed = []string{"CLAUDE.md"}
			}
			return w
		}
	}
	list, known := false, false // known: a request was found
	w.Inert = true
	for n, row := range rows {
		if list && strings.ContainsAny(strings.TrimSpace(row)[:1], "-*+0123456789") {
			if !plainContent(strings.Fields(row)) {
				return Wishes{}
			}
			continue
		}
		list = false
		for _, x := range asides {
			row = x.ReplaceAllString(row, "$1")
		}
		words, ok := tokens(row)
		if !ok {
			return Wishes{}
		}
		for from := 0; from < len(words); {
			to := from + 1
			for to < len(words) && !strings.ContainsAny(words[to-1][len(words[to-1])-1:], ".;!?") {
				to++
			}
			c := change{raw: words[from:to]}
			is := c.read()
			// After a colon, the rest of the row and the list that follows are text for the file.
			if c.colon {
				c.content, to, list = append(slices.Clip(c.content), words[to:]...), len(words), true
			}
			if is == cited || HoldsBack(strings.Join(c.outside(), " ")) || !plainContent(c.content) ||
				is == unclear && (known || to-from < leastRemark || n+1 < len(rows)) {
				return Wishes{}
			}
			known = known || is == understoodAll && c.changes
			w.Changed, w.With = append(w.Changed, c.paths...), append(w.With, c.with()...)
			w.Outputs, w.Inert = append(w.Outputs, c.outputs...), w.Inert && is == understoodAll && !c.changes
			from = to
		}
	}
	return w
}

// with returns the files that a request for a change of a file names, or the text for the file.
func (c *change) with() (out []string) {
	if len(c.paths) == 0 {
		return nil
	}
	for _, w := range append(slices.Clip(c.named), c.content...) {
		if file, ok := fileName(strings.Trim(w, "\"'`()")); ok {
			out = append(out, file)
		}
	}
	return out
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// plainContent reports whether the text that the user wants to have in a file has no words that may take the request
// back.
func plainContent(words []string) bool {
	first := false
	for i, w := range words {
		w = strings.Trim(plainWord(w), apostrophes+"\"*()-")
		if retracts[w] || besides[w] && HoldsBack(strings.Join(words[i+1:], " ")) {
			return false
		}
		first = first || w == "i" || w == "me" || w == "my" || strings.HasPrefix(w, "i'") || strings.HasPrefix(w, "i’")
	}
	return !first || !HoldsBack(strings.Join(words, " "))
}

// Words in the place of a quotation, and of a part of a row that is not understood.
const (
	quoted = "\x00"
	opaque = "\x01"
)

// tokens returns the words of a row. A quotation is one word: the path in it, or quoted. A sign or bracket that is not
// understood is opaque. ok is false if the row quotes somebody else as a whole.
func tokens(row string) (words []string, ok bool) {
	row = strings.TrimSpace(row)
	if strings.HasPrefix(row, ">") || strings.HasPrefix(row, "```") || strings.HasPrefix(row, "|") {
		return nil, false
	}
	for row != "" {
		if open, size, closing := quotation(row); closing != "" {
			end := strings.Index(row[size:], closing)
			word := opaque
			rest := ""
			if end >= 0 {
				inner := row[size : size+end]
				rest = row[size+end+len(closing):]
				word = quoted
				if _, is := fileName(inner); is && !strings.ContainsAny(inner, " \t") && open != "(" {
					word = inner
				} else if open == "(" && HoldsBack(inner) {
					word = opaque
				}
			}
			n := strings.IndexAny(rest, " \t")
			if n < 0 {
				n = len(rest)
			}
			if open == "(" && word == quoted && len(words) > 0 { // an aside
				words[len(words)-1] += rest[:n]
			} else {
				words = append(words, word+rest[:n])
			}
			row = strings.TrimSpace(rest[n:])
			continue
		}
		n := strings.IndexAny(row, " \t")
		if n < 0 {
			n = len(row)
		}
		w := row[:n]
		if strings.ContainsAny(w, "\"“”„«»‹›()[]{}<>|*`–—\x00\x01") || w[0] == '-' || w[0] == '#' {
			w = opaque + w[len(strings.TrimRight(w, ".,;:!?")):]
		}
		words, row = append(words, w), strings.TrimSpace(row[n:])
	}
	return words, true
}

// quotation returns the sign with which a text begins, its length, and the sign that ends the quotation. The last is
// empty if the text begins with no quotation.
func quotation(s string) (open string, size int, closing string) {
	for _, q := range []string{"\"\"", "“”", "„“", "«»", "‘’", "''", "``", "()"} {
		r := []rune(q)
		if strings.HasPrefix(s, string(r[0])) {
			return string(r[0]), len(string(r[0])), string(r[1])
		}
	}
	return "", 0, ""
}

// fileName returns the path in a word, if the word looks like one. A name needs an ending or a folder.
func fileName(raw string) (file string, ok bool) {
	w := strings.TrimPrefix(strings.TrimRight(raw, ".,;:!?"), "@")
	if w == "" || strings.Contains(w, "://") || strings.ContainsAny(w, "\x00\x01") {
		return "", false
	}
	end := strings.TrimLeft(path.Ext(path.Base(w)), ".")
	return w, end != "" && strings.Trim(end, "0123456789") != "" || strings.Contains(w, "/") && len(w) > 1
}
