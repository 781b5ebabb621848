package ingest

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Nearly all beliefs were read once and have not changed. As JSON, the record of such a belief would contain the same
// values two or three times: as evidence, as adoption and as state. So it is stored in a short form. All other records
// are stored as JSON.

const (
	shortRecord  = 0x01 // first byte of a short record; JSON begins with a brace
	shortReading = 0x01 // first byte of a stored reading
)

var errBadRecord = errors.New(
	"a record of a belief or a reading is damaged: remove the state folder; the state is then rebuilt from the ledger")

// adopt sets those fields of a new record that follow from its other fields.
func (r *record) adopt() {
	r.Evidence, r.Adopted = beliefs.EvidenceSet{r.evidence()}, r.adoption()
}

// evidence and adoption return what adopt sets.
func (r *record) evidence() beliefs.Evidence {
	return beliefs.Evidence{Observation: r.Ref.Observation, Quality: r.Ref.Quality, Source: r.Ref.Source, At: r.At}
}

func (r *record) adoption() beliefs.Adoption {
	return beliefs.Adoption{Adopted: true, Axes: r.Ref.Axes, Quality: r.Ref.Quality, Confidence: r.Ref.Confidence,
		Scope: r.Ref.Scope}
}

// plain reports whether the short form can represent a record. A nil list counts as an empty one, and times are
// compared without their zones.
func (r *record) plain() bool {
	ref := &r.Ref
	if r.Memory || ref.Home != (beliefs.Home{}) || ref.Grade != beliefs.NoGrade || ref.Staged || ref.Procedure ||
		len(r.Evidence) != 1 || r.Count != 1 || !ref.Found ||
		len(r.Parents) > 0 || len(r.Triples) > 0 || len(r.Conflicts) > 0 || len(r.Cleared) > 0 ||
		r.Writer != "" || r.Inherited != "" {
		return false
	}
	for _, s := range [...]string{ref.Key, ref.Agent, ref.Via, r.Category, r.Channel, r.Print, r.DataSubject, r.About,
		r.StagedFor, r.Signed, r.Successor, r.Flag} {
		if s != "" {
			return false
		}
	}
	for _, t := range [...]time.Time{r.From, r.To, r.Stale, r.Expires, r.Since} {
		if !t.IsZero() {
			return false
		}
	}
	have, want := r.Evidence[0], r.evidence()
	if !have.At.Equal(want.At) || !time.Unix(0, r.At.UnixNano()).Equal(r.At) {
		return false
	}
	have.At = want.At
	if have != want || r.Adopted != r.adoption() {
		return false
	}
	sum, ok := strings.CutPrefix(r.Digest, "sha256:")
	return ok && isHex(sum, 32) && (r.Seal == "" || isHex(r.Seal, sealSize)) && (ref.Class == "" ||
		ref.Class == beliefs.Class(ref.Kind, ref.Quality, ""))
}

// sealSize is the size of a belief's seal in bytes, and shortHead that of the fixed part of a short record, before its
// strings.
const (
	sealSize  = 16
	shortHead = 66 + sealSize
)

// Flags of a short record for its optional parts.
const (
	shortSealed  = 1
	shortClassed = 2
	shortIndexed = 4 // Doc, after the strings
)

// isHex reports whether s is the lower-case hex form of n bytes.
func isHex(s string, n int) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == 2*n
}

// putRecord stores a belief's record.
func putRecord(st *stage.State, project string, r *record) error {
	key := stage.Key(keyBelief, project, r.Ref.ID)
	if !r.plain() {
		return st.Put(key, r)
	}
	ref := &r.Ref
	b := make([]byte, 0, 144+len(r.Content)+len(ref.Source))
	b = append(b, shortRecord, byte(ref.Kind), byte(ref.Axes.Truth), byte(ref.Axes.Retrieval), byte(ref.Axes.Security),
		byte(ref.Axes.Freshness), byte(ref.Sensitivity), byte(ref.Scope), byte(ref.Quality))
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(ref.Confidence))
	b = binary.BigEndian.AppendUint64(b, uint64(r.At.UnixNano()))
	b = binary.BigEndian.AppendUint64(b, r.Intake)
	b, err := hex.AppendDecode(b, []byte(r.Digest[len("sha256:"):]))
	if err != nil {
		return err
	}
	var flags byte
	var seal [sealSize]byte
	if r.Seal != "" {
		flags |= shortSealed
		if _, err := hex.Decode(seal[:], []byte(r.Seal)); err != nil {
			return err
		}
	}
	if ref.Class != "" {
		flags |= shortClassed
	}
	if r.Doc != 0 {
		flags |= shortIndexed
	}
	b = append(append(b, flags), seal[:]...)
	for _, s := range [...]string{string(ref.Origin), ref.Source, ref.Observation, ref.Namespace.User,
		ref.Namespace.Session, r.Agent, r.Session, r.Tool, r.Content} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	if r.Doc != 0 {
		b = binary.BigEndian.AppendUint32(b, r.Doc)
	}
	return st.Give(key, b)
}

// readRecord decodes a record that putRecord stored.
func readRecord(id string, v []byte, r *record) error {
	if len(v) == 0 || v[0] != shortRecord {
		if err := streams.Unmarshal(v, r); err != nil {
			return fmt.Errorf("%w (%v)", errBadRecord, err)
		}
		return nil
	}
	*r = record{Count: 1}
	text, err := readShort(id, v, &r.Ref)
	if err != nil {
		return err
	}
	r.At, r.Intake = time.Unix(0, int64(binary.BigEndian.Uint64(v[17:]))).UTC(), binary.BigEndian.Uint64(v[25:])
	r.Digest = "sha256:" + hex.EncodeToString(v[33:65])
	if v[65]&shortSealed != 0 {
		r.Seal = hex.EncodeToString(v[66:shortHead])
	}
	if text, err = readStrings(text, &r.Agent, &r.Session, &r.Tool, &r.Content); err != nil {
		return err
	}
	if v[65]&shortIndexed != 0 {
		if len(text) < 4 {
			return errBadRecord
		}
		r.Doc = binary.BigEndian.Uint32(v[len(v)-len(text):])
	}
	r.adopt()
	return nil
}

// readShort decodes the belief of a short record, and returns the rest of the record as a string.
func readShort(id string, v []byte, ref *streams.BeliefRef) (rest string, err error) {
	if len(v) < shortHead {
		return "", errBadRecord
	}
	*ref = streams.BeliefRef{ID: id, Found: true, Kind: beliefs.ClaimKind(v[1]),
		Axes: beliefs.Axes{Truth: beliefs.Truth(v[2]), Retrieval: beliefs.Retrieval(v[3]),
			Security: beliefs.Security(v[4]), Freshness: beliefs.Freshness(v[5])},
		Sensitivity: beliefs.Sensitivity(v[6]), Scope: beliefs.Scope(v[7]), Quality: beliefs.Quality(v[8]),
		Confidence: math.Float64frombits(binary.BigEndian.Uint64(v[9:]))}
	if v[65]&shortClassed != 0 {
		ref.Class = beliefs.Class(ref.Kind, ref.Quality, "")
	}
	var origin string
	rest, err = readStrings(string(v[shortHead:]), // one copy, which the fields share
		&origin, &ref.Source, &ref.Observation, &ref.Namespace.User, &ref.Namespace.Session)
	ref.Origin = beliefs.Origin(origin)
	return rest, err
}

// readStrings reads strings with their lengths, and returns the rest of text.
func readStrings(text string, fields ...*string) (rest string, err error) {
	for _, s := range fields {
		n, size := uvarint(text)
		if size <= 0 || n > uint64(len(text)-size) {
			return "", errBadRecord
		}
		*s, text = text[size:size+int(n)], text[size+int(n):]
	}
	return text, nil
}

// uvarint is binary.Uvarint for a string.
func uvarint(s string) (uint64, int) {
	var b [binary.MaxVarintLen64]byte
	return binary.Uvarint(b[:copy(b[:], s)])
}

// noteAgain counts that the content of a belief was read again. The count has its own key, so that the record need not
// be written again.
func (f *Fold) noteAgain(st *stage.State, project, id string, at time.Time) error {
	key := stage.Key(keyAgain, project, id)
	v, ok, err := st.Get(key)
	if err != nil {
		return err
	}
	var n uint64
	if ok && len(v) == 16 {
		n = binary.BigEndian.Uint64(v)
	}
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 16), n+1)
	return st.Give(key, binary.BigEndian.AppendUint64(b, uint64(at.UnixNano())))
}

// again reads what noteAgain counted into the fields again and readAt of r: how often the content was read again, and
// when last. A memory has no such count.
func again(st *stage.State, project string, r *record) error {
	if r.Memory {
		return nil
	}
	v, ok, err := st.Get(stage.Key(keyAgain, project, r.Ref.ID))
	if err != nil || !ok || len(v) != 16 {
		return err
	}
	r.again, r.readAt = binary.BigEndian.Uint64(v), time.Unix(0, int64(binary.BigEndian.Uint64(v[8:]))).UTC()
	return nil
}

// times returns how often the content was read. last returns when it was last read or confirmed.
func (r *record) times() uint64 { return r.Count + r.again }

func (r *record) last() time.Time {
	if r.readAt.After(r.At) {
		return r.readAt
	}
	return r.At
}

// short returns a reading in the form in which it is stored.
func (rd *reading) short() []byte {
	n := 8
	for _, t := range rd.Texts {
		n += len(t) + 4
	}
	b := append(make([]byte, 0, n), shortReading, 0)
	if rd.Cut {
		b[1] = 1
	}
	for _, t := range rd.Texts {
		b = append(binary.AppendUvarint(b, uint64(len(t))), t...)
	}
	return b
}

func readReading(v []byte) (*reading, error) {
	if len(v) < 2 || v[0] != shortReading {
		return nil, errBadRecord
	}
	rd := &reading{Cut: v[1] == 1}
	for v = v[2:]; len(v) > 0; {
		n, size := binary.Uvarint(v)
		if size <= 0 || n > uint64(len(v)-size) {
			return nil, errBadRecord
		}
		rd.Texts, v = append(rd.Texts, string(v[size:size+int(n)])), v[size+int(n):]
	}
	return rd, nil
}
