package lexical

import (
	"encoding/binary"
	"errors"

	"lazaret/pkg/text"
)

// run has the postings of one bucket for consecutive segments, as lists sorted by term. first is the first of these
// segments. A run with common set has a key of its own and is a single list, that of a common term. The bucket's other
// run does not have this list.
type run struct {
	first  uint32
	data   []byte
	common bool
}

// term returns the term of a run that has common set.
func (r *run) term() text.Term { return termAt(r.data) }

// list has the documents of one term, in order. Its encoding has these parts:
//
//   - the term in six bytes
//   - the number of documents, as a varint
//   - if there are several documents: the last document and the length in bytes of the part that follows, as varints
//   - for each document: its distance from the document before it, as a varint, and its weight, as a byte
//
// Documents are numbered from the first document of the run. The first distance is from zero.
type list struct {
	term  text.Term
	count uint32
	last  uint32
	data  []byte
}

func (l *list) append(doc uint32, impact uint8) {
	l.data = append(binary.AppendUvarint(l.data, uint64(doc-l.last)), impact)
	l.last, l.count = doc, l.count+1
}

func (l *list) encode(b []byte) []byte {
	b = appendTerm(b, l.term)
	b = binary.AppendUvarint(b, uint64(l.count))
	if l.count != 1 {
		b = binary.AppendUvarint(b, uint64(l.last))
		b = binary.AppendUvarint(b, uint64(len(l.data)))
	}
	return append(b, l.data...)
}

// join appends the list m to l. The documents of m are numbered from a later document than those of l. behind is the
// distance between the two.
func (l *list) join(m list, behind uint32) error {
	first, n := binary.Uvarint(m.data)
	if n <= 0 {
		return errBadRun
	}
	l.data = binary.AppendUvarint(l.data, first+uint64(behind-l.last))
	l.data = append(l.data, m.data[n:]...)
	l.last, l.count = m.last+behind, l.count+m.count
	return nil
}

var errBadRun = errors.New("the index of words in a stage's state is damaged: stop the stage and remove its state " +
	"folder; it is rebuilt from the ledger or, after a trim, from a snapshot")

// next returns the first list in the data of a run, and the data after the list. Both share memory with data.
func next(data []byte) (l list, rest []byte, err error) {
	if len(data) < 6 {
		return l, nil, errBadRun
	}
	l.term = termAt(data)
	data = data[6:]
	var v [3]uint64 // number of documents, last document, length
	for i := range v {
		x, n := binary.Uvarint(data)
		if n <= 0 {
			return l, nil, errBadRun
		}
		if i == 1 && v[0] == 1 {
			v[1], v[2] = x, uint64(n)+1
			break
		}
		v[i], data = x, data[n:]
	}
	if v[2] > uint64(len(data)) {
		return l, nil, errBadRun
	}
	l.count, l.last, l.data = uint32(v[0]), uint32(v[1]), data[:v[2]]
	return l, data[v[2]:], nil
}

// find returns the list of a term in a run.
func find(data []byte, t text.Term) (l list, ok bool, err error) {
	for len(data) > 0 {
		if l, data, err = next(data); err != nil {
			return l, false, err
		}
		if l.term >= t {
			return l, l.term == t, nil
		}
	}
	return l, false, nil
}

// mergeRuns merges runs of one bucket into one run that begins at segment first. The runs must be in the order of their
// segments. mergeRuns calls fn with each list of the new run in the order of terms. fn must not retain the list.
func mergeRuns(first uint32, runs []run, fn func(*list) error) error {
	heads := make([]list, len(runs))
	rests := make([][]byte, len(runs))
	live := make([]bool, len(runs))
	step := func(i int) (err error) {
		if live[i] = len(rests[i]) > 0; live[i] {
			heads[i], rests[i], err = next(rests[i])
		}
		return err
	}
	for i, r := range runs {
		rests[i] = r.data
		if err := step(i); err != nil {
			return err
		}
	}
	var l list
	for {
		least, any := text.Term(0), false
		for i := range heads {
			if live[i] && (!any || heads[i].term < least) {
				least, any = heads[i].term, true
			}
		}
		if !any {
			return nil
		}
		l = list{term: least, data: l.data[:0]}
		for i := range heads {
			if !live[i] || heads[i].term != least {
				continue
			}
			if err := l.join(heads[i], (runs[i].first-first)*segment); err != nil {
				return err
			}
			if err := step(i); err != nil {
				return err
			}
		}
		if err := fn(&l); err != nil {
			return err
		}
	}
}
