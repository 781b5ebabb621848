package intent

import (
	"path"
	"slices"
	"strings"

	"lazaret/pkg/text"
)

// changing are the deeds of requests to change a file. rewording are other verbs with which people ask for that.
var (
	changing = func() (hs []uint32) {
		for _, w := range []string{"update", "create", "add", "write", "copy", "merge"} {
			hs = append(hs, Hash(deeds[Stem(w)]))
			if w != "copy" && w != "merge" {
				hs = append(hs, vaguely(deeds[Stem(w)]))
			}
		}
		return Distinct(hs)
	}()
	rewording = stemHashes("remove rewrite reword shorten simplify translate tidy duplicate")
	// A request with a word of each list may ask for the opposite: do not touch, don't add anything.
	negating  = stemHashes("not don never avoid")
	forbidden = stemHashes("touch change edit modify alter anything")
)

func stemHashes(words string) (hs []uint32) {
	for _, w := range strings.Fields(words) {
		hs = append(hs, Hash(Stem(w)))
	}
	return Distinct(hs)
}

// AsksToChange reports whether the user asked for a change of every one of the files, by its name. One request must
// have the file's name and a verb of changing. A request does not count if it only asks to know something, or if it may
// ask that the file is not changed. For a file that agents or programs load by themselves, asksForLoaded decides.
func (s *Said) AsksToChange(files []File) bool {
	return len(files) > 0 && !slices.ContainsFunc(files, func(file File) bool {
		if file.Loaded {
			return !s.asksForLoaded(file)
		}
		return !slices.ContainsFunc(s.Requests, func(q Ask) bool { return q.changes(file.Path) })
	})
}

// changes reports whether a request asks for a change of a file. The request must have the file's name. It need not
// name the file's folder.
func (q *Ask) changes(file string) bool {
	name := text.Normalize(path.Base(strings.ReplaceAll(file, `\`, "/")))
	words := SplitName(name)
	if len(words) == 0 || slices.ContainsFunc(words, func(w string) bool {
		s := Stem(w)
		return !Has(q.Named, Hash(s)) && !(dull[s] && Has(q.Words, Hash(s))) // agent in AGENTS.md is dull
	}) {
		return false
	}
	return Has(q.Words, handed) && (Count(q.Words, negating) == 0 || Count(q.Words, forbidden) == 0) &&
		(Count(q.Words, changing) > 0 || Count(q.Words, rewording) > 0)
}

// Wants reports whether the user wants something done, and not only to know something.
func (s *Said) Wants() bool { return s.marked(handed) }

// relateFiles adds to a relation that the user asked for a change of the files that the call writes.
func (s *Said) relateFiles(c *Call, r *Relation, files []File) {
	if !s.AsksToChange(files) {
		return
	}
	r.Files, r.Strange, r.Other = true, "", ""
	for i := range c.Values {
		if v := &c.Values[i]; slices.ContainsFunc(files, func(f File) bool {
			return v.Text == f.Path || strings.HasSuffix(v.Text, "/"+f.Path)
		}) && !slices.Contains(r.Values, v.Path) {
			r.Values = append(r.Values, v.Path)
		}
	}
	slices.Sort(r.Values)
}

// Unrelated reports whether a relation says that the user's words have nothing to do with the call. A nil relation
// says so too. If the user's words are not understood, the result is false.
func (s *Said) Unrelated(r *Relation) bool {
	return understood(s.Words) && (r == nil || !r.Asked && !r.Deed && !r.Handed && !r.Files && r.Values == nil &&
		r.Carriers == nil)
}

// maxWritten is the maximum number of sentences of a text that are compared. leastWritten is the minimum number of
// words in each of them.
const (
	maxWritten   = 400
	leastWritten = 3
)

// Sentences returns the words of each sentence of a text that a call writes, without short sentences.
func Sentences(written string) (out [][]uint32) {
	for s := range strings.FieldsFuncSeq(written, func(r rune) bool { return strings.ContainsRune(".;!?\n", r) }) {
		var words []uint32
		for w := range strings.FieldsFuncSeq(text.Normalize(s), NotWord) {
			if st := Stem(w); len(st) > 1 && !dull[st] {
				words = append(words, Hash(st))
			}
		}
		if words = Distinct(words); len(words) >= leastWritten && len(out) < maxWritten {
			out = append(out, words)
		}
	}
	return out
}
