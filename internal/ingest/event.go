package ingest

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Ids of events are the host's. An event with the id and the bytes of another one is
// a repeat of it. One with the id and other bytes is an event of its own: it gets an
// id of its own, is judged like every other, and the arbiter raises an alert. A host
// whose counter starts again loses nothing by it.

// fingerprint tells a repeat from another event under the same id.
type fingerprint struct{ hi, lo uint64 }

// printOf is the fingerprint of a message: 128 bits of SHA-256, so that nobody who
// writes two texts can make the second a repeat of the first.
func printOf(a streams.Address, body []byte) fingerprint {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%s\x00", a.Kind, a.Origin)
	h.Write(body)
	sum := h.Sum(nil)
	// A low half of zero means an earlier version's, which had 64 bits.
	return fingerprint{binary.BigEndian.Uint64(sum), binary.BigEndian.Uint64(sum[8:]) | 1}
}

// earlierPrint is the fingerprint that earlier versions took.
func earlierPrint(a streams.Address, body []byte) fingerprint {
	d := xxhash.New()
	fmt.Fprintf(d, "%s\x00%s\x00", a.Kind, a.Origin)
	d.Write(body)
	return fingerprint{hi: d.Sum64()}
}

// known is what is kept of an event under its id.
type known struct {
	intake uint64 // 0: there is none
	print  fingerprint
	origin beliefs.Origin // of an observation
}

const printMark = 0 // before the low half of a fingerprint; no origin begins so

func (k *known) bytes() []byte {
	v := binary.BigEndian.AppendUint64(nil, k.intake)
	v = binary.BigEndian.AppendUint64(v, k.print.hi)
	if k.print.lo != 0 {
		v = binary.BigEndian.AppendUint64(append(v, printMark), k.print.lo)
	}
	return append(v, k.origin...)
}

func readKnown(v []byte) (k known) {
	if len(v) < 16 {
		return k
	}
	k.intake, k.print.hi = binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[8:])
	v = v[16:]
	if len(v) >= 9 && v[0] == printMark {
		k.print.lo, v = binary.BigEndian.Uint64(v[1:]), v[9:]
	}
	k.origin = beliefs.Origin(v)
	return k
}

func eventKey(project, agent, id string) []byte { return stage.Key(keyEvent, project, agent, id) }

// othersKey is where the ids of the events are kept that came under an id that
// another event had. No legal id ends so.
func othersKey(project, agent, id string) []byte {
	return stage.Key(keyEvent, project, agent, id+"~")
}

// maxOthers is how many events under one id are known by it, the latest.
const maxOthers = 16

func (f *Fold) known(st *stage.State, project, agent, id string) (known, error) {
	v, _, err := st.Get(eventKey(project, agent, id))
	return readKnown(v), err
}

// others are the events that came under an id that another event had.
func others(st *stage.State, project, agent, id string) (ids []string, err error) {
	_, err = st.Load(othersKey(project, agent, id), &ids)
	return ids, err
}

// identity is under which id an event stands in the ledger.
type identity struct {
	id     string
	reuses string // the id that it was sent under, where that is another event's
	first  uint64 // intake sequence of the event that it repeats, or 0
}

// identify tells a repeat from a new event, and gives one that comes under the id of
// another an id of its own.
func (f *Fold) identify(st *stage.State, m *stage.Message, id string) (identity, error) {
	a := m.Address
	same := func(k known) bool {
		if k.print.lo == 0 {
			return k.print == earlierPrint(a, m.Data)
		}
		return k.print == printOf(a, m.Data)
	}
	k, err := f.known(st, a.Project, a.Agent, id)
	if err != nil || k.intake == 0 {
		return identity{id: id}, err
	}
	if same(k) {
		return identity{id: id, first: k.intake}, nil
	}
	ids, err := others(st, a.Project, a.Agent, id)
	if err != nil {
		return identity{}, err
	}
	for _, own := range slices.Backward(ids) {
		if k, err = f.known(st, a.Project, a.Agent, own); err != nil {
			return identity{}, err
		}
		if k.intake != 0 && same(k) {
			return identity{id: own, reuses: id, first: k.intake}, nil
		}
	}
	for n := 0; ; n++ {
		own := ownID(id, m.Seq, n)
		if k, err = f.known(st, a.Project, a.Agent, own); err != nil || k.intake == 0 {
			return identity{id: own, reuses: id}, err
		}
	}
}

// ownID is the n-th choice of an id for an event that came under another one's.
func ownID(id string, intake uint64, n int) string {
	tag := fmt.Sprintf("-r%d", intake)
	if n > 0 {
		tag += fmt.Sprintf("-%d", n)
	}
	return id[:min(len(id), streams.MaxIDLen-len(tag))] + tag
}

// noteEvent keeps the id of an event.
func (f *Fold) noteEvent(st *stage.State, project string, h *streams.EntryHead) error {
	k := known{intake: h.Intake, print: fingerprint{h.Print, h.Print2}}
	if err := st.Set(eventKey(project, h.Agent, h.ID), k.bytes()); err != nil || h.Reuses == "" {
		return err
	}
	ids, err := others(st, project, h.Agent, h.Reuses)
	if err != nil {
		return err
	}
	ids = append(ids, h.ID)
	return st.Put(othersKey(project, h.Agent, h.Reuses), ids[max(0, len(ids)-maxOthers):])
}

// noteOrigin keeps the origin of an observation with its id.
func (f *Fold) noteOrigin(st *stage.State, project string, e *streams.ObservationEntry) error {
	k, err := f.known(st, project, e.Agent, e.ID)
	if err != nil {
		return err
	}
	k.origin = e.Origin
	return st.Set(eventKey(project, e.Agent, e.ID), k.bytes())
}

// originOf is the origin of an observation, if there is one of that id.
func (f *Fold) originOf(st *stage.State, project, agent, id string) (o beliefs.Origin, ok bool, err error) {
	k, err := f.known(st, project, agent, id)
	return k.origin, k.origin != "", err
}
