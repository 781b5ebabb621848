package text

// Term is a word as a search sees it: the hash, 48 bits wide, of its folded
// form's stem.
type Term uint64

// maxTermText is how much of a text [Terms] reads, in bytes.
const maxTermText = 64 << 10

// Terms returns the words of a text in order, at most limit of them: folded as
// in [Normalize], without function words and English endings. A word of letters
// of a script that has no spaces is one character. Of more than 64 KiB the
// beginning is read.
func Terms(s string, limit int) []Term {
	sc := newScratch()
	defer sc.free()
	var h Hidden
	normal := sc.fold(sc.clean(cutText(s, maxTermText), &h))
	var out []Term
	for i := 0; i < len(normal) && len(out) < limit; {
		full, next := scanWord(normal, i)
		if next == i {
			if normal[i] == '\\' && i+1 < len(normal) && (normal[i+1] == 'n' || normal[i+1] == 'r' || normal[i+1] == 't') {
				next++ // the escape of a line end in quoted JSON
			}
			i = next + 1
			continue
		}
		if next-i > maxStopWord || !stopWords.has(full) {
			out = append(out, sc.stem(normal[i:next], full))
		}
		i = next
	}
	return out
}

// Label is the term of a property that is no word of the text, as "agent" and
// its name. No text has it as a word, but for chance.
func Label(name, value string) Term { return Term(hashText("\x00"+name+"\x00", value) & mask48) }
