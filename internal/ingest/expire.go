package ingest

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// An order to expire drops beliefs from content that was last read before the order's horizon (streams.Custody.Before),
// if they are unchanged and nothing depends on them. Memories stay. Event ids stay too, because otherwise a repeated
// event would count as new. Phrases and carriers of external content stay, because otherwise an external sentence would
// count as the user's own. The order also drops the state of silent sessions, see inactive_session.go.
//
// A partition may have millions of beliefs, so the order only begins the expiry. Further entries carry it out in steps,
// and between two steps the partition decides on events. How far the expiry has come is part of the fold. A belief is
// judged by its state at its step: it stays if its content was read again in the meantime, or if it came under legal
// hold.

// Limits of one step of an expiry: beliefs to examine, beliefs to drop, bytes of index to rewrite. A step takes some
// tens of milliseconds. Up to sixteen partitions take their steps in turn.
const (
	expiryLooks = 4096
	expiryDrops = 512
	expiryBytes = 512 << 10
)

var (
	expiryKey = []byte{keyCustody, 0, 'x'}
	// lostKey counts dropped beliefs whose documents are still in the word index. They cannot be removed directly,
	// because earlier versions did not store the document's number in the belief.
	lostKey = []byte{keyCustody, 0, 'e'}
)

// expiry is the progress of an expiry. It first drops beliefs and session state. Then it removes the documents that
// earlier versions left in the indexes (see lostKey), and sweeps the indexes.
type expiry struct {
	Statement string    `json:"statement"`
	Before    time.Time `json:"before"`
	// Belief is the key of the next belief to examine, or empty once all were examined. Session is the same for
	// sessions. Document is the key of the next index whose documents are examined, and From the number of its next
	// document.
	Belief   []byte `json:"belief,omitzero"`
	Session  []byte `json:"session,omitzero"`
	Document []byte `json:"document,omitzero"`
	From     uint32 `json:"from,omitzero"`
	// Again is set if another order moved the horizon Before to a later time while the expiry ran. All beliefs are
	// then examined a second time.
	Again bool `json:"again,omitzero"`
}

// expire begins the expiry that a signed order asks for. If an expiry is already running, it gets the later of the two
// horizons.
func (f *Fold) expire(st *stage.State, body *streams.CustodyEntry) error {
	c := body.Custody()
	if c == nil || c.Do != streams.DoExpire {
		return nil
	}
	x := new(expiry)
	ok, err := st.Load(expiryKey, x)
	if err != nil || ok && !x.Before.Before(c.Before) {
		return err
	}
	x.Statement, x.Before = c.ID, c.Before
	if body.Steps && ok {
		x.Again = true
	} else {
		x.Belief = []byte{keyBelief}
	}
	if body.Steps {
		return st.Put(expiryKey, x)
	}
	// An order of an earlier version is carried out while its entry is folded, and not in later steps.
	for len(x.Belief) > 0 {
		if err := f.expireBeliefs(st, x, &streams.ExpiryStep{Looks: expiryLooks, Drops: expiryDrops}); err != nil {
			return err
		}
	}
	return st.Put(expiryKey, x)
}

// pendingExpiryStep returns the entry for the next step of an expiry, or nil if none is running.
func (f *Fold) pendingExpiryStep(st *stage.State) (*stage.Admission, error) {
	x := new(expiry)
	ok, err := st.Load(expiryKey, x)
	if err != nil || !ok {
		return nil, err
	}
	now, err := f.clock(st, streams.SystemProject)
	if err != nil {
		return nil, err
	}
	return admission(streams.TypeDropped, streams.SystemProject, &streams.DroppedEntry{
		EntryHead: streams.EntryHead{Time: now}, Statement: x.Statement,
		Step: &streams.ExpiryStep{Looks: expiryLooks, Drops: expiryDrops, Bytes: expiryBytes, Sessions: true}})
}

// expireStep folds a step of an expiry.
func (f *Fold) expireStep(st *stage.State, step *streams.ExpiryStep) error {
	x := new(expiry)
	ok, err := st.Load(expiryKey, x)
	if err != nil || !ok {
		return err
	}
	if step.Looks <= 0 || step.Drops <= 0 || step.Bytes <= 0 {
		// No version writes a step with a limit of 0 or less. Such a step examines nothing, so the expiry would never
		// end.
		return st.Delete(expiryKey)
	}
	switch {
	case len(x.Belief) > 0:
		if err = f.expireBeliefs(st, x, step); len(x.Belief) == 0 && step.Sessions {
			x.Session = []byte{keyActive}
		}
	case len(x.Session) > 0:
		err = f.expireSessions(st, x, step)
	case len(x.Document) > 0:
		err = f.removeLost(st, x, step)
	default:
		done, err := sweep(st, step)
		if err != nil || !done {
			return err
		}
		if !x.Again {
			return st.Delete(expiryKey)
		}
		x.Again, x.Belief = false, []byte{keyBelief}
	}
	if err != nil {
		return err
	}
	return st.Put(expiryKey, x)
}

// expireBeliefs examines the next beliefs, and drops those that the order covers.
func (f *Fold) expireBeliefs(st *stage.State, x *expiry, step *streams.ExpiryStep) error {
	type old struct {
		project string
		*record
	}
	var all []old
	from, looked := x.Belief, 0
	x.Belief = nil
	err := st.ScanFrom([]byte{keyBelief}, from, func(k, v []byte) (bool, error) {
		if looked == step.Looks || len(all) == step.Drops {
			x.Belief = bytes.Clone(k)
			return false, nil
		}
		looked++
		project, id, _ := strings.Cut(string(k[1:]), "\x00")
		r := new(record)
		if err := readRecord(id, v, r); err != nil {
			return false, err
		}
		if r.At.Before(x.Before) && r.plain() && r.Ref.Axes.Security == beliefs.Clean && !streams.IsSynthetic(project) {
			all = append(all, old{project, r})
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	// Do all reads before the writes. After a write, a scan needs a new iterator.
	held := make(map[string]bool) // project → whether a legal hold covers it, see onHold
	gone := all[:0]
	for _, o := range all {
		if err := again(st, o.project, o.record); err != nil {
			return err
		}
		keep, err := f.outlives(st, o.project, o.record, x.Before, held)
		if err != nil {
			return err
		}
		if !keep {
			gone = append(gone, o)
		}
	}
	lost := uint64(0)
	for _, o := range gone {
		if err := dropRead(st, o.project, o.record); err != nil {
			return err
		}
		if !o.indexed() {
			continue
		}
		found, err := unindexBelief(st, o.project, o.record)
		if err != nil {
			return err
		}
		if !found {
			lost++
		}
	}
	v, had, err := st.Get(lostKey)
	if err != nil {
		return err
	}
	if had && len(v) == 8 {
		lost += binary.BigEndian.Uint64(v)
	}
	if lost > 0 && len(x.Belief) == 0 {
		x.Document = []byte{keyIndex}
	}
	if lost == 0 {
		return nil
	}
	return st.Set(lostKey, binary.BigEndian.AppendUint64(nil, lost))
}

// unindexBelief removes a belief from its word index, and reports whether it found the belief there.
func unindexBelief(st *stage.State, project string, r *record) (found bool, err error) {
	if r.Doc == 0 {
		return false, nil
	}
	place := placeOf(r)
	s, err := lastVolume(st, project, place, shelfOf(r))
	if err != nil {
		return false, err
	}
	for v := int(s.volume); v >= 0; v-- {
		s.volume = byte(v)
		if found, err = index(st, project, place, s).Remove(r.Doc-1, r.Ref.ID); err != nil {
			return false, err
		}
		if found {
			return true, st.Set(sweptKey(project, place, s), nil)
		}
	}
	return false, nil
}

func sweptKey(project, place string, s shelf) []byte {
	return append(stage.Key(keySwept, project, place, ""), s.key())
}

// indexKeyOf returns the key of the index that a key of the state belongs to, or nil if it belongs to none.
func indexKeyOf(key []byte) []byte {
	for n, at := 0, 0; ; n++ {
		i := bytes.IndexByte(key[at:], 0)
		if i < 0 {
			return nil
		}
		if at += i + 1; n == 1 {
			return key[:min(at+1, len(key))]
		}
	}
}

// removeLost examines the next documents of the indexes, and removes those whose belief was dropped (see lostKey).
func (f *Fold) removeLost(st *stage.State, x *expiry, step *streams.ExpiryStep) error {
	for looked := 0; looked < step.Looks; looked++ { // an index counts as one document
		var key []byte
		err := st.ScanFrom([]byte{keyIndex}, x.Document, func(k, _ []byte) (bool, error) {
			key = bytes.Clone(indexKeyOf(k))
			return false, nil
		})
		if err != nil {
			return err
		}
		if key == nil {
			x.Document, x.From = nil, 0
			return st.Delete(lostKey)
		}
		x.Document = key
		parts := bytes.SplitN(key[1:], []byte{0}, 3)
		project := string(parts[0])
		type document struct {
			doc uint32
			id  string
		}
		var all []document
		more := false
		if err := indexAt(st, key).Documents(x.From, func(doc uint32, id string) bool {
			if more = looked == step.Looks; more {
				x.From = doc
				return false
			}
			looked++
			all = append(all, document{doc, id})
			return true
		}); err != nil {
			return err
		}
		for _, d := range all {
			v, ok, err := st.Get(stage.Key(keyBelief, project, d.id))
			if err != nil {
				return err
			}
			r := new(record)
			if ok {
				if err := readRecord(d.id, v, r); err != nil {
					return err
				}
				if r.Doc == 0 || r.Doc == d.doc+1 {
					continue
				}
			}
			if _, err := indexAt(st, key).Remove(d.doc, d.id); err != nil {
				return err
			}
			if err := st.Set(append([]byte{keySwept}, key[1:]...), nil); err != nil {
				return err
			}
		}
		if !more {
			x.Document, x.From = slices.Concat(key, []byte{0xff}), 0
		}
	}
	return nil
}

// sweep continues to remove the postings of dropped beliefs from the indexes, and reports whether none are left. It
// drops an index that has no beliefs left.
func sweep(st *stage.State, step *streams.ExpiryStep) (done bool, err error) {
	for room := step.Bytes; room > 0; {
		var swept []byte
		err := st.Scan([]byte{keySwept}, func(k, _ []byte) (bool, error) {
			swept = bytes.Clone(k)
			return false, nil
		})
		if err != nil || swept == nil {
			return err == nil, err
		}
		key := append([]byte{keyIndex}, swept[1:]...)
		x := indexAt(st, key)
		n, err := x.Living()
		if err != nil {
			return false, err
		}
		if n == 0 {
			if err := st.DropPrefix(key); err != nil {
				return false, err
			}
			*st.Memo() = nil
			room -= dropCost
		} else if room, err = x.Sweep(room - dropCost); err != nil {
			return false, err
		}
		if n > 0 && room == 0 {
			return false, nil
		}
		if err := st.Delete(swept); err != nil {
			return false, err
		}
	}
	return false, nil
}

// dropCost is the number of bytes that a dropped index counts towards the limit of a step.
const dropCost = 4 << 10

// indexed reports whether a recall can find the belief.
func (r *record) indexed() bool { return r.Memory || r.Ref.Kind == beliefs.Content }

// outlives reports whether an unchanged belief from read content stays although an order to expire with the horizon
// `before` is carried out. The belief stays if the content was read again at or after the horizon, if the project or
// one of its data subjects is under legal hold, or if another record depends on the belief or on its event.
func (f *Fold) outlives(st *stage.State, project string, r *record, before time.Time,
	held map[string]bool) (bool, error) {
	if !r.last().Before(before) {
		return true, nil
	}
	if h, err := onHold(st, project, held); err != nil || h {
		return true, err
	}
	event := parentKey(streams.Parent{ID: r.Ref.Observation, Agent: r.Agent})
	for _, on := range []string{r.Ref.ID, event} {
		if used, err := hasKey(st, stage.Key(keyImpact, project, on, "")); err != nil || used {
			return true, err
		}
	}
	return false, nil
}

// onHold reports whether a project or one of its data subjects is under legal hold. held caches the results.
func onHold(st *stage.State, project string, held map[string]bool) (bool, error) {
	h, ok := held[project]
	if ok {
		return h, nil
	}
	_, whole, err := st.Get(legalHoldKey(project))
	if err != nil {
		return true, err
	}
	person, err := hasKey(st, personHoldKey(project, ""))
	if err != nil {
		return true, err
	}
	held[project] = whole || person
	return held[project], nil
}

// hasKey reports whether the state has a key that begins with prefix.
func hasKey(st *stage.State, prefix []byte) (found bool, err error) {
	err = st.Scan(prefix, func(_, _ []byte) (bool, error) {
		found = true
		return false, nil
	})
	return found, err
}

// dropRead removes a belief from read content, and its text.
func dropRead(st *stage.State, project string, r *record) error {
	var sum [32]byte
	if r.Ref.Kind == beliefs.Content {
		if _, err := hex.Decode(sum[:], []byte(strings.TrimPrefix(r.Digest, "sha256:"))); err != nil {
			return err
		}
		if err := st.Delete(contentKey(project, sum)); err != nil {
			return err
		}
	}
	if p := r.of(); p != (streams.Person{}) {
		if err := st.Delete(personKey(project, p, r.Ref.ID)); err != nil {
			return err
		}
	}
	if err := dropProvenance(st, project, r.Ref.ID); err != nil {
		return err
	}
	for _, key := range []byte{keyBelief, keyAgain, keyText} {
		if err := st.Delete(stage.Key(key, project, r.Ref.ID)); err != nil {
			return err
		}
	}
	return nil
}
