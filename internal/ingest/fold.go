package ingest

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/activation"
	"lazaret/internal/metrics"
	"lazaret/internal/stage"
	"lazaret/pkg/keys"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// Fold is ingest's fold. Create it with New. Only the stage's loop may call its methods, except Prepare, which other
// goroutines may call.
type Fold struct {
	maxSize  int
	log      *slog.Logger
	pinned   note.Verifiers
	policies *activation.Cache[*policy.Policy]
	trust    *activation.Cache[*keys.Trust]
	rules    *activation.Cache[struct{}] // rule sets that compile

	// Apply sets wakes for a partition when there is work that needs an entry although no message asks for it. Wakes
	// reads and clears wakes. dues caches when the next belief becomes stale or expires. virtual names the clock (see
	// clockName) by which Apply last found a belief of the partition to be stale or expired.
	wakes   [streams.Partitions]bool
	dues    dues
	virtual [streams.Partitions]string

	analyses analyses // used by Prepare
	wordings wordings
}

// Config configures ingest.
type Config struct {
	MaxEvent int              // maximum size of an event in bytes; 0: streams.DefaultMaxEvent
	Pinned   note.Verifiers   // keys that may sign operators' statements and commands
	Log      *slog.Logger     // nil: no log
	Metrics  *metrics.Process // may be nil
}

// New returns ingest's fold.
func New(cfg Config) *Fold {
	if cfg.MaxEvent <= 0 {
		cfg.MaxEvent = streams.DefaultMaxEvent
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Fold{maxSize: cfg.MaxEvent, log: cfg.Log, pinned: cfg.Pinned,
		policies: activation.NewCache(func(b []byte) (*policy.Policy, error) { return policy.Compile("policy", b) }),
		trust:    activation.NewCache(func(b []byte) (*keys.Trust, error) { return keys.ParseTrust(keys.TrustFile, b) }),
		rules:    activation.NewCache(compiles)}
}

// Reset implements stage.IntakeFold. It drops the caches. Everything else is in the state.
func (f *Fold) Reset() {
	f.dues = dues{}
	f.dropTexts()
}

// Admit implements stage.IntakeFold.
func (f *Fold) Admit(st *stage.State, m *stage.Message) (*stage.Admission, error) {
	a := m.Address
	if m.BadSubject != nil {
		return f.reject(st, m, &streams.RejectError{Code: streams.CodeBadSubject, Reason: m.BadSubject.Error()})
	}
	if a.Kind == streams.KindCtl {
		return f.control(st, m)
	}
	if m.Bad != nil {
		return f.reject(st, m, m.Bad)
	}
	ready := f.prepared(m)
	if ready.err != nil {
		return f.reject(st, m, ready.err)
	}
	ev := ready.event
	h := streams.HeadOf(ev)
	is, err := f.identify(st, m, h.ID)
	if err != nil {
		return nil, err
	}
	now, err := f.now(st, m, h)
	if is.first != 0 && err != nil {
		// The message repeats an earlier event, and its time is refused because time has advanced since. So the entry
		// of the repeat gets the clock's present time.
		now, err = f.clock(st, a.Project)
	}
	if err != nil {
		return f.reject(st, m, err)
	}
	print := printOf(a, m.Data)
	head := streams.EntryHead{ID: is.id, Reuses: is.reuses, Agent: a.Agent, Session: h.Session, User: h.User,
		DataSubject: h.DataSubject, Time: now, Intake: m.Place(),
		Print: print.hi, Print2: print.lo, Trace: streams.Traceparent(m.Header.Get(streams.HeaderTraceparent))}
	if is.first != 0 {
		return admission(streams.TypeRepeat, a.Project, &streams.RepeatEntry{EntryHead: head, Kind: a.Kind, First: is.first})
	}
	if admit := admitters[a.Kind]; admit != nil {
		return admit(f, st, m, head, ev)
	}
	return nil, fmt.Errorf("no file of ingest admits events of kind %q: register one with admits", a.Kind)
}

// Relevant implements stage.IntakeFold.
func (f *Fold) Relevant(e *streams.Entry) bool {
	switch e.Type {
	case streams.TypeAlerts, streams.TypeAssessment, streams.TypeVerdict:
		return true
	case streams.TypeDue:
		return reauditDue(e)
	case streams.TypeTrim:
		return e.Stage == streams.StageRetention
	}
	return false
}

// Apply implements stage.IntakeFold.
func (f *Fold) Apply(st *stage.State, e *streams.Entry, decided any) error {
	if g, ok := streams.SentinelGroup(e.Stage); ok {
		if err := noteCursor(st, g, e); err != nil {
			return err
		}
		return f.applyAlerts(st, e)
	}
	if e.Stage == streams.StageRetention {
		return noteTrim(st, e)
	}
	if e.Stage == streams.StageArbiter {
		if e.Type == streams.TypeDue {
			return f.applyDue(st, e)
		}
		if e.Type == streams.TypeAlerts {
			return f.applyArbiterAlerts(st, e)
		}
		return f.applyVerdict(st, e)
	}
	body := decided
	if body == nil {
		if body = newBody(e.Type); body == nil {
			f.log.Error("an entry on ingest's own subject has an unknown type", "type", e.Type)
			return nil
		}
		if err := streams.Unmarshal(e.Body, body); err != nil {
			return fmt.Errorf("decoding own %s entry: %w", e.Type, err)
		}
	}
	if d, ok := body.(*streams.DisclosureEntry); ok && d.Look != nil {
		return nil // a privileged look changes nothing in the state, not even the clock
	}
	if e.Type == streams.TypeSilence {
		return nil
	}
	h := headOf(body)
	if err := f.applyHead(st, e, h); err != nil {
		return err
	}
	if due, err := f.ages(st, e.Project, h.Time); err != nil {
		return err
	} else if due {
		f.wakes[st.Partition()], f.virtual[st.Partition()] = true, clockName(e.Project)
	}
	if apply := own[e.Type].apply; apply != nil {
		return apply(f, st, e, body)
	}
	return nil
}

// entryBody is implemented by all entry bodies of ingest.
type entryBody interface{ Common() *streams.EntryHead }

func headOf(body any) *streams.EntryHead { return body.(entryBody).Common() }

func admission(t streams.Type, project string, body any, live ...stage.Live) (*stage.Admission, error) {
	b, err := streams.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", t, err)
	}
	return &stage.Admission{Decided: body, Together: together(project, body),
		Output: stage.Output{Type: t, Project: project, Body: b, Live: live}}, nil
}

// together returns Admission.Together. Observations that name the same data subject and user, and that change no
// beliefs, may share a ledger message.
func together(project string, body any) string {
	o, ok := body.(*streams.ObservationEntry)
	if !ok || len(o.Revisions) > 0 {
		return ""
	}
	return strings.Join([]string{project, o.DataSubject, o.User}, "\x00")
}

// The first bytes of the keys of the state. Each comment lists the parts of the key after the first byte, and then,
// after the arrow, the value.
const (
	keyClock      = 't' // project that has a virtual clock, or empty for the partition's clock → time
	keyEvent      = 'i' // project, agent, id → intake sequence, fingerprint, origin; id+"~": see the function others
	keySession    = 's' // project, agent, session → flags
	keyBelief     = 'b' // project, belief → record of the belief
	keyAgain      = 'e' // project, belief → how often the content was read again, and when last
	keyContent    = 'c' // project, content digest → when first seen, count, belief
	keyText       = 'x' // project, belief → the text that was read, cut to keptText
	keyPlace      = 'l' // project, place → nothing: the place (a user or session) has an index
	keyIndex      = 'w' // project, place, byte of a shelf and volume → word index for recalls, see index.go
	keyVolume     = 'm' // project, place, byte of a shelf → number of its last volume
	keySwept      = 'o' // the same parts as keyIndex → nothing: the word index has postings of dropped beliefs
	keyName       = 'k' // project, memory key → belief that has the key
	keyDecision   = 'd' // project, agent, decision id → beliefs
	keyHints      = 'h' // project, normalised tool name → hints that raise the tool's level
	keyCursor     = 'G' // sentinel group → ledger sequence that the group has reached
	keyDecided    = 'V' // → ledger sequences of the latest decided proposals, eight bytes each
	keyReaudit    = 'a' // → progress of a re-audit
	keyReading    = 'r' // project, agent, event id → text that the agent was shown
	keyReadings   = 'n' // project, agent, slot → event id; without a slot → number of readings
	keyExternal   = 'f' // project, phrase or carrier of external content → number in keyBrought
	keyBrought    = 'q' // project, number → event that brought the content in; without a number → the next number
	keyOwn        = 'O' // project, phrase or carrier of the user's or operator's own words → nothing
	keyPhrases    = 'p' // project, agent, event id → event that brought it in, and all phrases of the shown text
	keyActive     = '3' // project, agent, session → about when the session was last active, see noteActive
	keySaid       = 'v' // project, agent, session, number → message of the user
	keyIntent     = 'A' // project, agent, session → words and requests of the user; with a tool → calls, see noteCall
	keyCall       = 'W' // project, agent, kind, id → calls that may become precedents, see callRecord
	keyShown      = 'F' // project, agent, session → summary of the foreign content it was shown; see foreign_text.go
	keyOffer      = '4' // project, part, see offerLatest → catalogues of tools that are not accepted, and acceptances
	keyMarked     = 'S' // project, term → nothing: words of memories whose sensitivity is above internal
	keyAccepted   = 'H' // project, catalogue → levels at which a person accepted its tools
	keyPrompt     = 'Y' // project, name → registered versions of the prompt, the latest last
	keyPasskey    = 'g' // project, digest of a passkey → its highest counter in an accepted attestation
	keyNonce      = 'z' // project, nonce → time from which it may be forgotten
	keyNonceEnd   = 'Z' // time, key of the nonce → nothing
	keyStated     = 'T' // project, digest of scope, subject and predicate, or of content → beliefs that state it
	keyPending    = 'Q' // number → pending revisions; without a number → the last number
	keyDue        = 'D' // clock, time, project, belief → nothing: the belief becomes stale or expires at that time
	keyTomb       = 'X' // project, belief → tombstone of its content
	keyGrave      = 'y' // project, digest or band of a content, see maxGraves → beliefs with it that have a tombstone
	keyIncident   = 'I' // project, incident → record
	keyOpenCase   = 'J' // project, key of findings → open incident for findings with the key
	keyCase       = 'N' // project, incident, event → nothing: an entry about this event of the incident is pending
	keyTouched    = 'j' // project, incident, belief → what the incident did to the belief, see touched
	keyStanding   = 'C' // project → quarantines that apply to later beliefs
	keyPoint      = 'P' // project, number → restore point
	keyLatest     = 'L' // project → number and intake sequence of the latest restore point
	keyMoved      = 'M' // project → nothing: a belief changed since the latest restore point
	keyBatch      = 'B' // project → latest run of external memory writes, see batchOf
	keyBefore     = 'U' // project, belief, number of a restore point → state of the belief at the point
	keyClass      = 'K' // project, calibration class → calibration.Window
	keyRollback   = 'R' // project → progress of a rollback
	keyPerson     = 'E' // project, data subject, user, belief → nothing: the belief concerns this person
	keyProvenance = '1' // project, belief, digest → provenance of a later reading, empty if it is that of the record
	keyProvenBy   = '2' // project, provenance field, value, belief → nothing: a later reading has this value
	keyImpact     = 'u' // project, belief, kind, agent, event → nothing: the belief influenced the event
)

// applyHead folds the head of an entry of ingest: it advances the clock to the entry's time, and stores the id of the
// entry's event.
func (f *Fold) applyHead(st *stage.State, e *streams.Entry, h *streams.EntryHead) error {
	clock := clockKey(e.Project)
	switch e.Type {
	case streams.TypeResolution, streams.TypeConfirmation, streams.TypeForgotten, streams.TypeErased,
		streams.TypeLegalHold, streams.TypeExpired, streams.TypeDropped, streams.TypeIncident, streams.TypeOrder,
		streams.TypePoint, streams.TypeRestore, streams.TypeDisclosure:
		clock = clockKey(streams.SystemProject) // a signed order uses the partition's clock, never virtual time
	}
	if err := st.Set(clock, binary.BigEndian.AppendUint64(nil, uint64(h.Time.UnixNano()))); err != nil {
		return err
	}
	if !e.Type.Event() {
		return nil // no id is stored: the client may correct a rejected event and send it again under the same id
	}
	if err := noteActive(st, e.Project, h); err != nil {
		return err
	}
	// The fingerprint is computed over the bytes that the client sent. Entries carry it, because other processes do not
	// have these bytes.
	return f.noteEvent(st, e.Project, h)
}

// clockKey returns the key of a project's clock: that of the partition, or that of the project if its time is virtual.
func clockKey(project string) []byte {
	if streams.IsSynthetic(project) {
		return stage.Key(keyClock, project)
	}
	return []byte{keyClock}
}

// now returns the time of an event: the stream's time stamp, but not before the previous event's time. In a project
// with virtual time, it is the time that the event states.
func (f *Fold) now(st *stage.State, m *stage.Message, h *streams.Head) (time.Time, error) {
	last, err := f.clock(st, m.Address.Project)
	if err != nil {
		return time.Time{}, err
	}
	now := m.Time
	if streams.IsSynthetic(m.Address.Project) && !h.Time.IsZero() {
		if now = h.Time.UTC(); now.Before(last) {
			return now, &streams.RejectError{Code: streams.CodeTimeTravel, ID: h.ID, Session: h.Session,
				Reason: fmt.Sprintf("time %s lies before %s, the last event's in this project", now.Format(time.RFC3339Nano),
					last.Format(time.RFC3339Nano))}
		}
	}
	if now.Before(last) {
		now = last
	}
	return now, nil
}

func (f *Fold) clock(st *stage.State, project string) (time.Time, error) {
	v, ok, err := st.Get(clockKey(project))
	if err != nil || !ok || len(v) != 8 {
		return time.Time{}, err
	}
	return time.Unix(0, int64(binary.BigEndian.Uint64(v))).UTC(), nil
}
