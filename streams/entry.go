package streams

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
)

// Headers of ledger entries and of live copies. With them, a reader can route an entry without decoding its body.
// HeaderType to HeaderSalt have the field of Entry with that name.
const (
	HeaderType    = "Lz-Type"
	HeaderProject = "Lz-Project"
	HeaderSrc     = "Lz-Src"
	HeaderAt      = "Lz-At"
	HeaderSalt    = "Lz-Salt"
	// HeaderCount is the number of entries of a frame. Only frames have it.
	HeaderCount = "Lz-Count"
	// HeaderEncoding is the compression of a frame's body. Frames without it are not compressed.
	HeaderEncoding = "Lz-Encoding"
	// HeaderFormat is the ledger format of the entry. Entries without it have format 1.
	HeaderFormat = "Lz-Format"
	// HeaderTime is the time of the entries of a joint frame. Only joint frames have it.
	HeaderTime = "Lz-Time"
	// HeaderOpen is set on an entry of ingest while the process that wrote it may publish joint frames
	// in the partition.
	HeaderOpen = "Lz-Open"
	// HeaderSeq is set on live copies only. It is the ledger sequence of the copied entry.
	HeaderSeq = "Lz-Seq"
	// HeaderCloudEventID is the event id in the CloudEvents binary mode.
	HeaderCloudEventID = "ce-id"
)

// LedgerFormat is the format of the entries that this version writes, and the latest format that it reads. In format 1,
// each message has one entry. Format 2 adds frames. In format 3, entries are in the order of the intake only within
// each project. Format 4 adds joint frames. Format 5 adds proposals that did not come through the intake. Format 6
// compresses frames. A change that earlier versions would misread gets a new format.
const LedgerFormat = 6

// LaterError reports data that a later version of lazaret wrote.
type LaterError struct {
	What       string // names the data
	Have, Read int    // format of the data, and the latest format that this version reads
}

func (e *LaterError) Error() string {
	return fmt.Sprintf("%s has format %d, and this version of lazaret reads formats up to %d. A later version wrote "+
		"it: start "+
		"that version or a newer one", e.What, e.Have, e.Read)
}

// checkFormat returns an error for a message that a later version wrote.
func checkFormat(subject string, h map[string][]string, seq uint64) error {
	v := first(h, HeaderFormat)
	if v == "" {
		return nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		return fmt.Errorf("ledger entry %d on %s: header %s is %q, want a number from 1 on", seq, subject, HeaderFormat,
			clip(v))
	}
	if n > LedgerFormat {
		return &LaterError{What: fmt.Sprintf("ledger entry %d on %s", seq, subject), Have: n, Read: LedgerFormat}
	}
	return nil
}

// SaltSize is the size of the random salt of an entry, in bytes. The audit log commits to SHA-256(salt || body). Once
// salt and body are forgotten, nobody can find out the body from the commitment, even if the body is short.
const SaltSize = 16

// Type is the type of a ledger entry.
type Type string

// The types of ledger entries, by the stage that writes them.
const (
	// Ingest writes these. The types of entries for clients' events are in the files of their kinds, such as
	// session.go.
	TypeRejected   Type = "rejected"
	TypeRepeat     Type = "repeat"
	TypeChunk      Type = "chunk"
	TypeActivation Type = "activation"
	TypeResolution Type = "resolution"
	TypeBelief     Type = "belief" // a chunk of a re-audit
	// TypeConfirmation is a signed attestation of a belief. TypeRevision is a change of beliefs, see RevisionsEntry.
	TypeConfirmation Type = "confirmation"
	TypeRevision     Type = "revision"
	// TypeIncident is a change of an incident. TypeOrder is a signed order that was refused.
	TypeIncident Type = "incident"
	TypeOrder    Type = "order"
	// TypePoint is a restore point that a signed order recorded. TypeRestore is a rollback to a restore point.
	TypePoint   Type = "point"
	TypeRestore Type = "restore"
	// TypeDisclosure is a privileged recall with its result, or a privileged look.
	TypeDisclosure Type = "disclosure"
	// TypeSilence begins or ends a silence of alerts.
	TypeSilence Type = "silence"
	// TypeForgotten and TypeLegalHold are statements about the data of a project.
	TypeForgotten Type = "forgotten"
	TypeLegalHold Type = "legalhold"
	// TypeErased is a statement that lists the entries about one data subject and orders to forget them.
	TypeErased Type = "erased"
	// TypeExpired is a statement to expire. It says that the payloads of entries up to a sequence, and beliefs from old
	// observations, are too old to be kept. It is written to every partition.
	TypeExpired Type = "expired"
	// TypeDropped reports that a stage has removed everything that it derived from a forgotten project. Every
	// stage writes it.
	TypeDropped Type = "dropped"
	// TypeClaim takes from another process the right to publish joint frames in the partition. It changes no state.
	TypeClaim Type = "claim"
	// TypeTrim announces that old entries will be removed. TypeTrimmed says that the announced entries may be missing
	// from now on. The process that trims the ledger writes both (see Retention).
	TypeTrim    Type = "trim"
	TypeTrimmed Type = "trimmed"
	// TypeSecured is every stage's answer to TypeTrim.
	TypeSecured Type = "secured"
	// Written by sentinels.
	TypeAlerts     Type = "alerts"
	TypeAssessment Type = "assessment"
	// Written by the arbiter.
	TypeVerdict   Type = "verdict"
	TypeDue       Type = "due"
	TypeHoldState Type = "holdstate"
	// TypeCalibration compares an agent's confidence with the outcomes of its actions.
	TypeCalibration Type = "calibration"
)

// Statement reports whether entries of this type are statements about a project's data, or a stage's report that it
// carried out such a statement. They contain no content of users or agents and are never forgotten.
func (t Type) Statement() bool {
	switch t {
	case TypeForgotten, TypeErased, TypeLegalHold, TypeExpired, TypeDropped:
		return true
	}
	return false
}

// Entry is one ledger entry.
type Entry struct {
	Seq       uint64    // sequence of the ledger message; 0 until published
	Index     int       `json:",omitzero"` // index within the frame, see Frame
	Time      time.Time // time stamp that the stream gave the message; zero until published
	Partition int
	Stage     string
	Type      Type
	Project   string
	// Src is the position of the input from which this entry was made. For entries of ingest it is a position in
	// LZ_INTAKE, for all others a position in LZ_LEDGER.
	Src uint64
	// At is the ledger sequence up to which ingest had folded the partition when it decided. Other stages do not set
	// it, because they read only the ledger.
	At   uint64
	Salt [SaltSize]byte
	Body []byte
	// Open is set if the message has HeaderOpen.
	Open bool `json:"-"`
	// Joint is set for the entries of a joint frame. A joint frame is on a subject of its own, not on that of the
	// stage.
	Joint bool `json:"-"`
	// Decoded is the value that Body encodes, or nil if another process made the entry. Several stages share the value,
	// so it must not be modified.
	Decoded any `json:"-"`
}

// Read returns the value that the body of an entry encodes. It returns Decoded if that is a
// *T, and decodes Body otherwise. The value may be shared, so it must not be modified.
func Read[T any](e *Entry) (*T, error) {
	if b, ok := e.Decoded.(*T); ok {
		return b, nil
	}
	b := new(T)
	if err := Unmarshal(e.Body, b); err != nil {
		return nil, err
	}
	return b, nil
}

// NewSalt returns a random salt. A stage must not let a decision depend on a salt, so that a replay gives the same
// decisions.
func NewSalt() (s [SaltSize]byte) {
	rand.Read(s[:]) // never fails, see crypto/rand
	return s
}

var ledgerFormat = strconv.Itoa(LedgerFormat)

// Message is a ledger message in the form of NATS. It has one entry or a frame.
type Message struct {
	Subject string
	Header  map[string][]string
	Body    []byte
}

// Message returns the entry as a message on its stage's subject.
func (e *Entry) Message() Message {
	h := make(map[string][]string, 7)
	h[HeaderFormat] = []string{ledgerFormat}
	h[HeaderType] = []string{string(e.Type)}
	h[HeaderProject] = []string{e.Project}
	h[HeaderSrc] = []string{strconv.FormatUint(e.Src, 10)}
	if e.At != 0 {
		h[HeaderAt] = []string{strconv.FormatUint(e.At, 10)}
	}
	h[HeaderSalt] = []string{hex.EncodeToString(e.Salt[:])}
	return Message{Subject: LedgerSubject(e.Partition, e.Stage), Header: h, Body: e.Body}
}

// ParseEntry parses a stored ledger message as one entry. For a frame, it returns an entry with the fields in the
// frame's headers; ParseEntries returns all entries. ParseEntry does not decode the body. It fails only for messages
// that a later version wrote (with a *LaterError) or that no stage of Lazaret wrote.
func ParseEntry(subject string, h map[string][]string, body []byte, seq uint64, stamp time.Time) (Entry, error) {
	e := Entry{Seq: seq, Time: stamp.UTC(), Body: body}
	var err error
	if e.Partition, e.Stage, err = ParseLedger(subject); err != nil {
		return e, fmt.Errorf("ledger entry %d: %w", seq, err)
	}
	if err := checkFormat(subject, h, seq); err != nil {
		return e, err
	}
	// Readers of the ledger store these values, and a third-party sentinel group can write any header. So check them
	// first.
	typ, project := first(h, HeaderType), first(h, HeaderProject)
	if err := CheckID("header "+HeaderType, typ); err != nil {
		return e, fmt.Errorf("ledger entry %d on %s: %w", seq, subject, err)
	}
	if project != "" && !ValidID(project) {
		return e, fmt.Errorf("ledger entry %d on %s: %w", seq, subject, CheckID("header "+HeaderProject, project))
	}
	e.Type, e.Project = Type(typ), project
	if e.Src, err = strconv.ParseUint(first(h, HeaderSrc), 10, 64); err != nil {
		return e, fmt.Errorf("ledger entry %d on %s: header %s: %w", seq, subject, HeaderSrc, err)
	}
	if at := first(h, HeaderAt); at != "" {
		if e.At, err = strconv.ParseUint(at, 10, 64); err != nil {
			return e, fmt.Errorf("ledger entry %d on %s: header %s: %w", seq, subject, HeaderAt, err)
		}
	}
	e.Open = first(h, HeaderOpen) != ""
	salt := first(h, HeaderSalt)
	if len(salt) != 2*SaltSize {
		return e, fmt.Errorf("ledger entry %d on %s: header %s is not %d hex digits", seq, subject, HeaderSalt, 2*SaltSize)
	}
	if _, err := hex.Decode(e.Salt[:], []byte(salt)); err != nil {
		return e, fmt.Errorf("ledger entry %d on %s: header %s is not %d hex digits", seq, subject, HeaderSalt, 2*SaltSize)
	}
	return e, nil
}

func first(h map[string][]string, key string) string {
	if v := h[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}
