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

// The host chooses the ids of events. An event with the same id and the same bytes as an earlier one is a repeat of it.
// An event with the same id but other bytes is a new event: it gets a new id and is judged like any other, and the
// arbiter raises an alert. So no event is lost if a host starts to count its ids from the beginning again.

// fingerprint identifies the bytes of an event, to tell a repeat from another event with the same id.
type fingerprint struct{ hi, lo uint64 }

// printOf returns the fingerprint of a message: 128 bits of SHA-256. So nobody can make a different message with the
// same fingerprint.
func printOf(a streams.Address, body []byte) fingerprint {
	h := sha256.New()
	b := append(make([]byte, 0, sha256.Size), a.Kind...)
	b = append(append(append(b, 0), a.Origin...), 0)
	h.Write(b)
	h.Write(body)
	sum := h.Sum(b[:0])
	// A fingerprint whose low half is zero was made by an earlier version and has 64 bits. So set a bit of the low
	// half.
	return fingerprint{binary.BigEndian.Uint64(sum), binary.BigEndian.Uint64(sum[8:]) | 1}
}

// earlierPrint returns the fingerprint of a message as earlier versions computed it: 64 bits of xxHash.
func earlierPrint(a streams.Address, body []byte) fingerprint {
	d := xxhash.New()
	fmt.Fprintf(d, "%s\x00%s\x00", a.Kind, a.Origin)
	_, _ = d.Write(body)
	return fingerprint{hi: d.Sum64()}
}

// known is the state's record of an event's id.
type known struct {
	intake uint64 // 0: there is no event with this id
	print  fingerprint
	origin beliefs.Origin // for an observation
}

const printMark = 0 // in a stored record, the byte before the low half of a fingerprint; no origin begins with it

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

// othersKey is the key of the list of events that were sent with an id that another event has. The value has their new
// ids. No valid id ends with "~", so this key is not that of an event.
func othersKey(project, agent, id string) []byte {
	return stage.Key(keyEvent, project, agent, id+"~")
}

// maxOthers is the maximum number of new ids that are stored for one id that was used again. The latest are kept.
const maxOthers = 16

func (f *Fold) known(st *stage.State, project, agent, id string) (known, error) {
	v, _, err := st.Get(eventKey(project, agent, id))
	return readKnown(v), err
}

// others returns the new ids of the events that were sent with the id, although another event had it.
func others(st *stage.State, project, agent, id string) (ids []string, err error) {
	_, err = st.Load(othersKey(project, agent, id), &ids)
	return ids, err
}

// identity is the result of identify.
type identity struct {
	id     string // the event's id in the ledger
	reuses string // the id with which the event was sent, if another event has it
	first  uint64 // place in the intake of the event that this one repeats, or 0
}

// identify tells a repeat from a new event. If another event has the id that a new event was sent with, the new event
// gets an id of its own.
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
		own := ownID(id, m.Place(), n)
		if k, err = f.known(st, a.Project, a.Agent, own); err != nil || k.intake == 0 {
			return identity{id: own, reuses: id}, err
		}
	}
}

// ownID returns the n-th candidate for the new id of an event that was sent with another event's id.
func ownID(id string, place uint64, n int) string {
	tag := "-r" + placeName(place)
	if n > 0 {
		tag += fmt.Sprintf("-%d", n)
	}
	return id[:min(len(id), streams.MaxIDLen-len(tag))] + tag
}

// noteEvent stores an event's id and fingerprint.
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

// noteOrigin stores an observation's origin with its id.
func (f *Fold) noteOrigin(st *stage.State, project string, e *streams.ObservationEntry) error {
	k, err := f.known(st, project, e.Agent, e.ID)
	if err != nil {
		return err
	}
	k.origin = e.Origin
	return st.Set(eventKey(project, e.Agent, e.ID), k.bytes())
}

// originOf returns the origin of the observation with an id. ok is false if there is no such observation.
func (f *Fold) originOf(st *stage.State, project, agent, id string) (o beliefs.Origin, ok bool, err error) {
	k, err := f.known(st, project, agent, id)
	return k.origin, k.origin != "", err
}
