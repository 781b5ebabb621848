package signals

// trimmed and edges have bytes around a word that do not belong to the word. unusual has bytes that only unusual words
// have.
var (
	trimmed = byteSet(`.,;:!?"'()[]{}<>`)
	edges   = byteSet(`.,;:!?"'()[]`)
	unusual = byteSet("0123456789@./:_-=+")
	// namesEnd has the bytes that may come directly after a proper name.
	namesEnd = byteSet(`.,;:!?"'()[]{}`)
)

type bytes256 [256]bool

func byteSet(s string) *bytes256 {
	t := new(bytes256)
	for _, c := range []byte(s) {
		t[c] = true
	}
	return t
}

// trim removes bytes of the set t from both ends of w.
func (t *bytes256) trim(w string) string {
	for len(w) > 0 && t[w[0]] {
		w = w[1:]
	}
	for len(w) > 0 && t[w[len(w)-1]] {
		w = w[:len(w)-1]
	}
	return w
}

func (t *bytes256) in(w string) bool {
	for i := range len(w) {
		if t[w[i]] {
			return true
		}
	}
	return false
}
