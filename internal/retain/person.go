package retain

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/inquiry"
	"lazaret/internal/stage"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// Subject is what is to be forgotten: a project, or one data subject within it,
// PROJECT/DATA-SUBJECT.
type Subject struct {
	Project string
	Person  string // pseudonym; empty: the whole project
}

// ParseSubject reads a subject.
func ParseSubject(s string) (Subject, error) {
	project, person, within := strings.Cut(s, "/")
	if err := streams.CheckID("project", project); err != nil {
		return Subject{}, err
	}
	if within {
		if err := streams.CheckID("data subject", person); err != nil {
			return Subject{}, err
		}
		if project == streams.SystemProject {
			return Subject{}, errors.New("the pipeline's own project is about nobody")
		}
	}
	return Subject{project, person}, nil
}

func (s Subject) String() string {
	if s.Person == "" {
		return s.Project
	}
	return s.Project + "/" + s.Person
}

// AlsoForgotten is an entry that is forgotten with somebody although it was not
// written about them alone.
type AlsoForgotten struct {
	Seq   uint64 `json:"ledger_seq"`
	Stage string `json:"stage"`
	Type  string `json:"type"`
	ID    string `json:"id,omitzero"`
	// Persons are others of whom it says something, as far as entries name them.
	Persons []string `json:"persons,omitzero"`
	Why     string   `json:"why"`
	// Person is whom it names itself.
	Person string `json:"-"`
}

// Decision reports whether it is a person's decision or a finding, which no longer
// holds once it is forgotten.
func (a *AlsoForgotten) Decision() bool {
	switch streams.Type(a.Type) {
	case streams.TypeConfirmation, streams.TypeIncident, streams.TypeOrder, streams.TypeRestore, streams.TypeDisclosure, streams.TypePoint, streams.TypeResolution,
		streams.TypeSilence:
		return true
	}
	return false
}

// An entry is about somebody if it names the pseudonym as data_subject or user, if it was
// made from such an entry (src, but for timers, whose src only says when), or if it names
// something that such an entry introduced: its id, the beliefs, findings and holds in it,
// its place in the ledger. A proposal and its verdicts go together. The rules apply
// transitively, so that no remaining entry refers to a removed one. They err on the side
// of too much: an id counts wherever it occurs.

// A trace finds the entries about a person in a partition.
type trace struct {
	subject Subject
	before  uint64 // entries that name the pseudonym count below it; 0: all

	listed map[uint64]bool   // sequences of messages, which go with all of their entries
	taken  map[uint64]bool   // positions of entries
	wanted map[uint64]bool   // proposals whose verdicts are listed
	names  map[string]int    // ids that listed entries brought in, events' with their agent; in which round
	bare   map[string]bareID // ids of events, without
	own    map[string]bool   // events of others that have such an id, with their agent
	others map[string]bool
	also   map[uint64]AlsoForgotten
	alone  map[uint64]bool   // entries that were made from those that name the pseudonym
	owner  map[string]string // ids that entries about others brought in → whom those are about
	end    uint64            // up to here it was followed
	round  int               // each is followed by statements
	pass   int               // over the partition
}

func newTrace(s Subject) *trace {
	return &trace{subject: s, listed: make(map[uint64]bool), taken: make(map[uint64]bool), wanted: make(map[uint64]bool),
		names: make(map[string]int), bare: make(map[string]bareID),
		own: make(map[string]bool), others: make(map[string]bool), also: make(map[uint64]AlsoForgotten),
		alone: make(map[uint64]bool), owner: make(map[string]string)}
}

// traceHead is what is read of every body.
type traceHead struct {
	ID          string `json:"id"`
	Agent       string `json:"agent"`
	User        string `json:"user"`
	DataSubject string `json:"data_subject"`
	Raw         []byte `json:"raw"`
}

func eventName(agent, id string) string { return agent + "/" + id }

// take reports whether an entry is newly found to be about the person.
func (t *trace) take(e *streams.Entry) bool {
	t.end = max(t.end, e.Seq)
	if e.Project != t.subject.Project || e.Type.Statement() || t.taken[e.Position()] {
		return false
	}
	var h traceHead
	_ = streams.Unmarshal(e.Body, &h) // a body that is no JSON refers to nothing
	ingest := e.Stage == streams.StageIngest
	event := ingest && e.Type.Event()
	person := streams.Person{DataSubject: h.DataSubject, User: h.User}
	if e.Type == streams.TypeRejected {
		// A rejected event may have named somebody, too.
		var r traceHead
		if streams.Unmarshal(h.Raw, &r) == nil {
			person = streams.Person{DataSubject: r.DataSubject, User: r.User}
		}
	}
	direct := person.Is(t.subject.Person) && (t.before == 0 || e.Seq < t.before)
	if e.Type == streams.TypeRejected && !direct && (t.before == 0 || e.Seq < t.before) {
		direct = bytes.Contains(h.Raw, []byte(`"`+t.subject.Person+`"`))
	}
	why := ""
	switch {
	case direct:
		why = "names the data subject"
	case t.wanted[e.Seq]:
		why = "was answered by a verdict that goes"
	case !ingest && t.listed[position.Sequence(e.Src)] && e.Type != streams.TypeDue:
		why = fmt.Sprintf("was made from entry %d", e.Src)
	case ingest && (event || e.Type == streams.TypeRepeat || e.Type == streams.TypeRejected) && h.ID != "" &&
		t.names[eventName(h.Agent, h.ID)] > 0 && (t.before == 0 || e.Seq < t.before):
		why = "sends event " + h.ID + " again"
	default:
		why = t.refers(e, &h)
	}
	if why == "" && t.listed[e.Seq] {
		why = fmt.Sprintf("is in one message of the ledger with what goes, %d", e.Seq)
	}
	if why == "" {
		if _, ok := t.bare[h.ID]; ok && event {
			t.own[eventName(h.Agent, h.ID)] = true
		}
		return false
	}
	t.listed[e.Seq], t.taken[e.Position()] = true, true
	if direct || !ingest && t.alone[e.Src] {
		t.alone[e.Position()] = true
	}
	if !direct {
		name := cmp.Or(person.DataSubject, person.User)
		t.also[e.Position()] = AlsoForgotten{Seq: e.Position(), Stage: e.Stage, Type: string(e.Type), ID: h.ID,
			Person: name, Why: why}
	}
	for _, o := range []string{person.DataSubject, person.User} {
		if o != "" && o != t.subject.Person {
			t.others[o] = true
		}
	}
	if event {
		t.brought(eventName(h.Agent, h.ID))
		if _, ok := t.bare[h.ID]; !ok {
			t.bare[h.ID] = bareID{t.round, t.pass}
		}
	}
	t.brings(e)
	return true
}

// brought notes an id that a listed entry brought in.
func (t *trace) brought(id string) {
	if t.names[id] == 0 && id != "" {
		t.names[id] = t.round
	}
}

// brings notes the ids that a listed entry brought in, and the proposal that a
// listed verdict answers.
func (t *trace) brings(e *streams.Entry) {
	broughtIn(e, t.brought)
	switch e.Type {
	case streams.TypeAssessment:
		t.wanted[e.Src] = true
	case streams.TypeVerdict, streams.TypeHoldState:
		var b struct {
			Proposal uint64 `json:"proposal"`
		}
		if streams.Unmarshal(e.Body, &b) == nil {
			t.wanted[b.Proposal] = true
		}
	}
}

// broughtIn calls fn for the ids that an entry brings in, but for its own.
func broughtIn(e *streams.Entry, fn func(id string)) {
	switch e.Type {
	case streams.TypeObservation:
		b := new(streams.ObservationEntry)
		if streams.Unmarshal(e.Body, b) == nil {
			for i := range b.Claims {
				fn(b.Claims[i].Belief.ID)
			}
		}
	case streams.TypeMemory:
		b := new(streams.MemoryEntry)
		if streams.Unmarshal(e.Body, b) == nil {
			fn(b.Belief.ID)
		}
	case streams.TypeRevision:
		b := new(streams.RevisionsEntry)
		if streams.Unmarshal(e.Body, b) == nil {
			for i := range b.Revisions {
				if b.Revisions[i].Anew != "" {
					fn(b.Revisions[i].Belief)
				}
			}
		}
	case streams.TypeAlerts, streams.TypeAssessment:
		b := new(streams.AlertsEntry)
		if streams.Unmarshal(e.Body, b) == nil {
			for i := range b.Alerts {
				fn(b.Alerts[i].ID)
			}
		}
	case streams.TypeVerdict, streams.TypeCalibration:
		var b struct {
			Alert *streams.Alert   `json:"alert"`
			Hold  *streams.HoldRef `json:"hold"`
		}
		if streams.Unmarshal(e.Body, &b) == nil {
			if b.Alert != nil {
				fn(b.Alert.ID)
			}
			if b.Hold != nil {
				fn(b.Hold.ID)
			}
		}
	case streams.TypeHoldState:
		b := new(streams.HoldStateEntry)
		if streams.Unmarshal(e.Body, b) == nil {
			fn(b.Hold)
		}
	}
}

// notIDs are fields that never hold the id of an event, belief, finding or hold.
var notIDs = map[string]bool{"agent": true, "session": true, "user": true, "data_subject": true, "project": true,
	"tool": true, "rule": true, "rule_digest": true,
	"group": true, "digest": true, "type": true, "kind": true, "stage": true, "severity": true, "mode": true,
	"origin": true, "event_kind": true, "status": true,
	"verdict": true, "level": true, "code": true, "quality": true, "truth": true, "retrieval": true, "security": true,
	"freshness": true, "sensitivity": true}

// idLike is the least length of an id that is found within a longer text. The pipeline's
// ids are longer.
const idLike = 8

// refers describes a reference to something that a listed entry introduced.
func (t *trace) refers(e *streams.Entry, h *traceHead) (why string) {
	if len(t.names) == 0 {
		return ""
	}
	mentions(e, func(field, s string) bool {
		if field == "" { // a number
			if seq, err := strconv.ParseUint(s, 10, 64); err == nil && t.listed[position.Sequence(seq)] {
				why = "names entry " + s
			}
		} else if t.isName(s, e, h) {
			why = "names " + streams.Clip(s, 80)
		}
		return why == ""
	})
	return why
}

// mentions calls fn for what may be an id in an entry's body, until it returns
// false: texts that name neither the entry itself nor what is no event, belief,
// finding or hold; the words of a text that may be ids; names of members; and, with
// no field, numbers of ledger entries.
func mentions(e *streams.Entry, fn func(field, s string) bool) {
	d := jsontext.NewDecoder(bytes.NewReader(e.Body))
	var fields []string // of the objects that the decoder is in; empty for arrays
	for {
		tok, err := d.ReadToken()
		if err != nil {
			return
		}
		depth := d.StackDepth()
		switch tok.Kind() {
		case '{', '[':
			fields = append(fields[:depth-1], "")
			continue
		case '}', ']':
			fields = fields[:depth]
			continue
		}
		if depth == 0 {
			return // no object
		}
		if kind, n := d.StackIndex(depth); kind == '{' && n%2 == 1 { // a member's name
			fields[depth-1] = tok.String()
			if !fn("name", tok.String()) {
				return
			}
			continue
		}
		name := ""
		for i := depth - 1; i >= 0 && name == ""; i-- {
			name = fields[i]
		}
		switch tok.Kind() {
		case '0':
			if (name == "proposal" || name == "entry") && !fn("", tok.String()) {
				return
			}
		case '"':
			s := tok.String()
			if depth == 1 && name == "id" && e.Stage == streams.StageIngest || notIDs[name] {
				continue
			}
			if !fn(name, s) {
				return
			}
			for word := range strings.FieldsFuncSeq(s, notInID) {
				if len(word) < len(s) && (len(word) >= idLike || name == "path") && !fn(name, word) {
					return
				}
			}
		}
	}
}

func notInID(r rune) bool {
	return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' || r == '-')
}

// isName reports whether a text is an id that a listed entry introduced. Event ids belong
// to their agent: the same id of another agent is another event.
//
// Entries behind the statement were decided without the listed ones, so that a name in
// them refers to none of these, except in entries made from earlier ones.
func (t *trace) isName(s string, e *streams.Entry, h *traceHead) bool {
	late := t.before > 0 && e.Seq > t.before && (e.Stage == streams.StageIngest || position.Sequence(e.Src) > t.before)
	counts := func(round int) bool { return round > 0 && (!late || round > 1) }
	if counts(t.names[s]) || counts(t.names[eventName(h.Agent, s)]) {
		return true
	}
	// The owner of an id is known after a full pass since it came up.
	b, ok := t.bare[s]
	return ok && counts(b.round) && t.pass >= b.pass+2 && !t.own[eventName(h.Agent, s)]
}

// bareID is when an event's id came up.
type bareID struct{ round, pass int }

// follow reads the partition until nothing more is found.
func (t *trace) follow(ctx context.Context, js jetstream.JetStream) error {
	filter := streams.LedgerFilter(streams.PartitionOf(t.subject.Project))
	return t.passes(func(fn func(e *streams.Entry)) error {
		return stage.Each(ctx, js, stage.Span{Stream: streams.LedgerStream, Filters: []string{filter}},
			func(m jetstream.Msg, seq uint64, at time.Time) error {
				if entries, err := streams.ParseEntries(m.Subject(), m.Headers(), m.Data(), seq, at); err == nil {
					for i := range entries {
						fn(&entries[i])
					}
				}
				return nil
			})
	})
}

// quoted looks at an entry once all is listed: in a first pass for what brought in
// ids about others, in a second for which of the listed ones name those.
func (t *trace) quoted(e *streams.Entry, first bool) {
	if e.Project != t.subject.Project || e.Type.Statement() {
		return
	}
	var h traceHead
	_ = streams.Unmarshal(e.Body, &h)
	if first {
		who := cmp.Or(h.DataSubject, h.User)
		if who == "" || who == t.subject.Person || t.listed[e.Seq] || e.Stage != streams.StageIngest {
			return
		}
		if e.Type.Event() {
			t.owner[eventName(h.Agent, h.ID)] = who
		}
		broughtIn(e, func(id string) { t.owner[id] = who })
		return
	}
	a, ok := t.also[e.Position()]
	if !ok && !t.listed[e.Seq] {
		return
	}
	found := make(map[string]bool)
	mentions(e, func(_, s string) bool {
		if who := cmp.Or(t.owner[s], t.owner[eventName(h.Agent, s)]); who != "" {
			found[who], t.others[who] = true, true
		}
		return true
	})
	if a.Person != "" {
		found[a.Person] = true
	}
	if !ok {
		if len(found) == 0 {
			return
		}
		a = AlsoForgotten{Seq: e.Position(), Stage: e.Stage, Type: string(e.Type), ID: h.ID, Why: "names the data subject"}
	}
	if a.Persons = slices.Sorted(maps.Keys(found)); len(a.Persons) > 0 || !t.alone[e.Position()] {
		t.also[e.Position()] = a
	} else {
		delete(t.also, e.Position()) // it is about them alone
	}
}

// passes takes all entries again and again, until nothing more is found.
func (t *trace) passes(all func(fn func(e *streams.Entry)) error) error {
	t.round++
	for idle := 0; idle < 3; {
		t.pass++
		found := len(t.taken)
		if err := all(func(e *streams.Entry) { t.take(e) }); err != nil || len(t.listed) == 0 {
			return err
		}
		if idle++; len(t.taken) > found {
			idle = 0
		}
	}
	for _, first := range []bool{true, false} {
		if err := all(func(e *streams.Entry) { t.quoted(e, first) }); err != nil {
			return err
		}
	}
	return nil
}

// statement are the parts of a statement's list, each short enough, and the others
// whom it names.
func (t *trace) statement(done map[uint64]bool) (parts [][]uint64, others []string) {
	var seqs []uint64
	for seq := range t.listed {
		if !done[seq] {
			seqs = append(seqs, seq)
		}
	}
	slices.Sort(seqs)
	for len(seqs) > 0 {
		n := min(len(seqs), streams.MaxListed)
		for len(streams.FormatSeqs(seqs[:n])) > streams.MaxSeqs/2 {
			n /= 2
		}
		parts, seqs = append(parts, seqs[:n]), seqs[n:]
	}
	for o := range t.others {
		others = append(others, o)
	}
	if sort.Strings(others); len(others) > streams.MaxOthers {
		others = []string{streams.AllOthers}
	}
	return parts, others
}

func (t *trace) alsoForgotten() []AlsoForgotten {
	out := make([]AlsoForgotten, 0, len(t.also))
	for _, a := range t.also {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b AlsoForgotten) int {
		return position.Compare(a.Seq, b.Seq)
	})
	return out
}

// canFoldAnew says why one person cannot be forgotten, or nil.
func canFoldAnew(ctx context.Context, js jetstream.JetStream, s Subject) error {
	trimmed, err := stage.Hole(ctx, js, 1)
	if err != nil {
		return err
	}
	if trimmed > 0 {
		return fmt.Errorf("the ledger was trimmed up to %d, so that no stage can fold project %s anew without %s: forget "+
			"the whole project (--subject %s), in which nothing has to be folded anew", trimmed, s.Project, s.Person, s.Project)
	}
	return nil
}

// SurveyPerson says what would be forgotten with one data subject, and changes
// nothing.
func (c *Config) SurveyPerson(ctx context.Context, s Subject, shards string) (*Record, error) {
	js, err := jetstream.New(c.Conn)
	if err != nil {
		return nil, err
	}
	if err := canFoldAnew(ctx, js, s); err != nil {
		return nil, err
	}
	t := newTrace(s)
	if err := t.follow(ctx, js); err != nil {
		return nil, err
	}
	return c.surveyPerson(ctx, js, t, shards)
}

func (c *Config) surveyPerson(ctx context.Context, js jetstream.JetStream, t *trace, shards string) (*Record, error) {
	r := &Record{Project: t.subject.Project, DataSubject: t.subject.Person, Also: t.alsoForgotten()}
	var err error
	if r.Places, err = ledgerPlaces(ctx, js, r.Project, func(h header) bool { return t.listed[h.seq] }); err != nil {
		return nil, err
	}
	live := 0
	if err := liveCopies(ctx, js, r.Project, t.listed, func(uint64) error { live++; return nil }); err != nil {
		return nil, err
	}
	r.Places = append(r.Places, Place{Where: streams.LiveStream, What: "live copies", Count: live})
	writers, err := c.writers(ctx, js)
	if err != nil {
		return nil, err
	}
	for _, s := range writers {
		r.Places = append(r.Places,
			Place{Where: stateOf + s, What: "what it derived: the project's partition folded anew from the rest", Count: 1})
	}
	_, others := t.statement(nil)
	err = c.Log(ctx, func(l *inquiry.Log) error {
		n, err := l.HoldingListed(ctx, r.Project, t.listed)
		if err != nil {
			return err
		}
		r.Places = append(r.Places, Place{Where: "the log", What: "payloads, one by one", Count: n})
		if r.LegalHold, err = l.HeldFrom(ctx, r.Project, r.DataSubject, others); err != nil {
			return err
		}
		files, err := l.ShardsListed(ctx, shards, r.Project, t.listed)
		for _, f := range files {
			r.Places = append(r.Places, Place{Where: f, What: "a sealed shard that holds payloads, made anew without them",
				Count: 1})
		}
		return err
	})
	return r, err
}

// ForgetPerson forgets one data subject of a project. Unlike Forget, its statement lists
// the entries. Entries written while it is signed are found afterwards and take another
// statement.
func (c *Config) ForgetPerson(ctx context.Context, signer note.Signer, s Subject, reason, shards, records string,
	trust []byte) (*Record, error) {
	js, err := jetstream.New(c.Conn)
	if err != nil {
		return nil, err
	}
	if err := canFoldAnew(ctx, js, s); err != nil {
		return nil, err
	}
	st, err := js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		return nil, err
	}
	if st.CachedInfo().Config.DenyDelete {
		return nil, fmt.Errorf("%s was made by a version whose ledger forbids deleting, which no server takes back: what "+
			"stands in it cannot be forgotten", streams.LedgerStream)
	}
	writers, err := c.writers(ctx, js)
	if err != nil {
		return nil, err
	}
	r := &Record{Project: s.Project, DataSubject: s.Person}
	t := newTrace(s)
	// Stages have dropped the entries that an interrupted attempt listed, so references
	// to them can no longer be followed. They are removed with the rest.
	done, id, entry, err := statedBefore(ctx, js, s)
	if err != nil {
		return nil, err
	}
	acks := make(map[string]uint64)
	for round := 0; ; round++ {
		if err := t.follow(ctx, js); err != nil {
			return nil, err
		}
		parts, others := t.statement(done)
		if len(parts) == 0 {
			break
		}
		if round == maxRounds {
			return nil, fmt.Errorf("after %d statements there are still new entries that say something of %s: stop what "+
				"writes about them and try again", round, s)
		}
		if round == 0 {
			before, err := c.surveyPerson(ctx, js, t, shards)
			if err != nil {
				return nil, err
			}
			if before.LegalHold != "" {
				return before, fmt.Errorf("%w: statement %s", ErrLegalHold, before.LegalHold)
			}
		}
		if err := c.awaitAuditors(ctx, js, t.end); err != nil {
			return nil, err
		}
		for _, part := range parts {
			if r.Statement, r.Entry, err = c.state(ctx, signer, streams.Custody{Do: streams.DoForget, Project: s.Project,
				DataSubject: s.Person, Others: others, Entries: part, Reason: reason}); err != nil {
				return nil, err
			}
			if t.before == 0 {
				t.before = r.Entry // later entries about them are new
			}
			r.Statements = append(r.Statements, r.Statement)
			for _, seq := range part {
				done[seq] = true
			}
			var last uint64
			if acks, last, err = c.awaitDropped(ctx, js, s.Project, r, writers); err != nil {
				return nil, err
			}
			if err := c.awaitAuditors(ctx, js, last); err != nil {
				return nil, err
			}
		}
	}
	if len(r.Statements) == 0 {
		if entry == 0 {
			return nil, fmt.Errorf("nothing in project %s says anything of data subject %s", s.Project, s.Person)
		}
		r.Again, r.Statement, r.Entry = true, id, entry
		var last uint64
		if acks, last, err = c.awaitDropped(ctx, js, s.Project, r, writers); err != nil {
			return nil, err
		}
		if err := c.awaitAuditors(ctx, js, last); err != nil {
			return nil, err
		}
	}
	r.Also = t.alsoForgotten()
	if err := c.deleteListed(ctx, js, r, done, writers); err != nil {
		return nil, err
	}
	n := 0
	err = liveCopies(ctx, js, s.Project, done, func(seq uint64) error {
		n++
		live, err := js.Stream(ctx, streams.LiveStream)
		if err == nil {
			err = live.SecureDeleteMsg(ctx, seq)
		}
		if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return fmt.Errorf("deleting live copy %d: %w", seq, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	r.Places = append(r.Places, Place{Where: streams.LiveStream, What: "live copies, deleted", Count: n})
	if err := c.awaitIntake(ctx, js, r); err != nil {
		return nil, err
	}
	if err := c.eraseFiles(ctx, r); err != nil {
		return nil, err
	}
	for _, w := range writers {
		p := Place{Where: stateOf + w, What: "what it derived: the project's partition folded anew from the rest", Count: 1}
		if acks[w] == 0 {
			p.Count, p.Left = 0, "it has not said that it dropped it"
		}
		r.Places = append(r.Places, p)
	}
	if err := c.checkListed(ctx, r, done, shards, trust); err != nil {
		return nil, err
	}
	return r, c.sign(r, signer, records)
}

// maxRounds bounds the searches for entries that came in meanwhile. After the first
// statement only stages at work on the very last entries still write about listed ones.
const maxRounds = 8

// statedBefore is what earlier statements about a data subject list, and the last of
// them.
func statedBefore(ctx context.Context, js jetstream.JetStream, s Subject) (listed map[uint64]bool, id string,
	entry uint64, err error) {
	listed = make(map[uint64]bool)
	var at []uint64
	err = scan(ctx, js, streams.LedgerSubject(streams.PartitionOf(s.Project), streams.StageIngest), 1,
		func(h header) error {
			if h.typ == streams.TypeErased && h.project == s.Project {
				at = append(at, h.seq)
			}
			return nil
		})
	if err != nil || len(at) == 0 {
		return listed, "", 0, err
	}
	st, err := js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		return nil, "", 0, err
	}
	for _, seq := range at {
		m, err := st.GetMsg(ctx, seq)
		if err != nil {
			return nil, "", 0, fmt.Errorf("reading ledger entry %d: %w", seq, err)
		}
		if c := streams.Erasure(m.Data); c != nil && c.DataSubject == s.Person {
			id, entry = c.ID, seq
			for _, q := range c.Entries {
				listed[q] = true
			}
		}
	}
	return listed, id, entry, nil
}

// deleteListed deletes listed entries of the ledger.
func (c *Config) deleteListed(ctx context.Context, js jetstream.JetStream, r *Record, listed map[uint64]bool,
	writers []string) error {
	st, err := js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		return err
	}
	p := streams.PartitionOf(r.Project)
	fences := make(map[string]uint64)
	var gone []header
	err = scan(ctx, js, streams.LedgerFilter(p), 1, func(h header) error {
		fences[h.stage] = h.seq
		if listed[h.seq] && h.project == r.Project && !kept(h.typ) {
			gone = append(gone, h)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.deleteFrom(ctx, st, r, gone, fences, writers)
}

// liveCopies calls fn for the live copies of listed entries.
func liveCopies(ctx context.Context, js jetstream.JetStream, project string, listed map[uint64]bool,
	fn func(seq uint64) error) error {
	return stage.Each(ctx, js, stage.Span{Stream: streams.LiveStream, Filters: []string{"lz.live." + project + ".>"},
		Headers: true}, func(m jetstream.Msg, seq uint64, _ time.Time) error {
		at, err := strconv.ParseUint(m.Headers().Get(streams.HeaderSeq), 10, 64)
		if err != nil || !listed[position.Sequence(at)] {
			return nil
		}
		return fn(seq)
	})
}

// checkListed checks that the log can no longer read the listed entries.
func (c *Config) checkListed(ctx context.Context, r *Record, listed map[uint64]bool, shards string,
	trust []byte) error {
	return c.Log(ctx, func(l *inquiry.Log) error {
		n, err := l.HoldingListed(ctx, r.Project, listed)
		if err != nil {
			return err
		}
		place := Place{Where: "the log", What: "payloads, erased one by one", Count: len(listed) - n}
		if n > 0 {
			place.Left = fmt.Sprintf("%d payloads can still be read", n)
		}
		r.Places = append(r.Places, place)
		for _, a := range slices.Sorted(maps.Keys(c.auditors())) {
			r.Places = append(r.Places,
				Place{Where: "auditor " + a,
					What: "has signed for the ledger behind the statement, at which it erases what that lists", Count: 1})
		}
		files, err := l.ShardsListed(ctx, shards, r.Project, listed)
		if err != nil {
			return err
		}
		return remake(ctx, l, r, files, trust)
	})
}
