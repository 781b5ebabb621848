package text

// Term is a search term: the 48-bit hash of a word's stem.
type Term uint64

// maxTermText is the number of bytes of a text that [Terms] reads.
const maxTermText = 64 << 10

// Terms returns the first words of a text in order, at most limit. The words are folded as in [Normalize] and stemmed.
// Function words are left out. In scripts without spaces each character is a word. Terms reads only the first 64 KiB of
// the text.
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
				next++ // an escaped line end in quoted JSON
			}
			i = next + 1
			continue
		}
		if next-i > maxStopWord || !stopWords.has(full) {
			out = append(out, stemTerm(normal[i:next], full))
		}
		i = next
	}
	return out
}

// Label returns a term that stands for a property and its value, such as "agent" and the agent's name. It differs from
// the terms of all words, except for hash collisions.
func Label(name, value string) Term { return Term(hashText("\x00"+name+"\x00", value) & mask48) }
