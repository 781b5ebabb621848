package rules

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"math"
	"math/bits"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"lazaret/pkg/intent"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// Signal is one name for state from earlier entries, with what whoever uses it
// has to know.
type Signal struct {
	Name   string `json:"name"`
	Doc    string `json:"doc"`
	Key    string `json:"key"`    // what it is kept by
	Window string `json:"window"` // how far back it sees
	Bound  string `json:"bound"`  // what it keeps at most, for each project
	Cost   string `json:"cost"`   // look-ups to read it
}

// signalDef is a signal and how it is read. Reading sees the entry itself as
// already noted.
type signalDef struct {
	Signal
	typ  reflect.Type
	read func(s *signals) any
	// evaluates says that reading it evaluates an expression.
	evaluates bool
}

// The structures of signals.

// Lineage says where a value of an action or memory was first met in the
// project.
type Lineage struct {
	Carried     string  `cel:"carried" doc:"email, host, url, path, iban and the like, or phrase"`
	Value       string  `cel:"value"`
	FirstOrigin string  `cel:"first_origin" doc:"user, system, external or agent: who named it first"`
	Origin      string  `cel:"origin" doc:"the same as the credential's origin"`
	Observation string  `cel:"observation" doc:"event that named it first"`
	Source      string  `cel:"source"`
	Session     string  `cel:"session"`
	Agent       string  `cel:"agent"`
	Age         float64 `cel:"age" doc:"seconds since"`
	User        bool    `cel:"user" doc:"the user has named it too, at any time, or its owner in this session"`
	SourceNamed bool    `cel:"source_named" doc:"the user named in the session where it came from: a file, an address, a sender"`
	New         bool    `cel:"new" doc:"nobody named it before this entry"`
	Target      bool    `cel:"target" doc:"of an action: it stands in an argument of few words, and is not only the host of a mail address"`
}

// Served is an instruction in untrusted content that a pending action would
// carry out.
type Served struct {
	Observation  string  `cel:"observation" doc:"event that carried the instruction"`
	By           string  `cel:"by" doc:"tool, carrier or value: what both name"`
	Value        string  `cel:"value"`
	Source       string  `cel:"source"`
	SameSession  bool    `cel:"same_session"`
	UserNamed    bool    `cel:"user_named" doc:"the user's own words in this session name the act or the value"`
	UserDocument bool    `cel:"user_document" doc:"the user's own words name where it came from"`
	Memory       bool    `cel:"memory" doc:"it stands in a memory that neither user nor operator wrote"`
	Commands     bool    `cel:"commands" doc:"it carries more than a request: an override, a demand to obey, secrecy"`
	Age          float64 `cel:"age" doc:"seconds since it was read"`
}

// Push is a target that one source brings up again and again.
type Push struct {
	Source string `cel:"source"`
	Target string `cel:"target" doc:"a host, address, handle or name, as kind:value"`
	Count  int64  `cel:"count" doc:"different contents in which it does"`
}

// Fragment is a value that was put together from pieces which came separately.
type Fragment struct {
	Value  string   `cel:"value"`
	Pieces []string `cel:"pieces"`
	Events []string `cel:"events" doc:"observations that brought the pieces"`
}

// Sleeper is a memory that comes to use for the first time long after it was
// written.
type Sleeper struct {
	Belief   string  `cel:"belief"`
	Dormant  float64 `cel:"dormant" doc:"seconds between its writing and its first use"`
	Origin   string  `cel:"origin"`
	External bool    `cel:"external"`
	Session  string  `cel:"session" doc:"in which it was written"`
}

const (
	minValue    = 12 // length from which an argument is distinctive, in bytes
	minPiece    = 4  // length of a piece that a value may be put together from
	maxPiece    = 64
	maxJoined   = 96 // length of a value that is put together
	maxNotes    = 32 // directives remembered of one session, word or target
	maxUserWord = 4000
	maxSeen     = 64 // sources, sessions and agents told apart in a cluster
	noteText    = 2 << 10
	planNames   = 16 // identifiers up to which a document may be a plan
	sampleOf    = 4  // one phrase in so many is kept
	maxSample   = 32 // of one content
	maxPieces   = 64 // of one content
)

// builtinSignals are those that need more than counting. A pack declares the
// others itself.
var builtinSignals = []signalDef{
	{Signal{"content.entropy", "Shannon entropy of the content, bits a byte, 0 to 8", "", "", "", "0"}, reflect.TypeFor[float64](), func(s *signals) any { return s.entropy() }, false},
	{Signal{"signal.partial", "tables out of which keys have fallen: what a signal says of old keys is then a lower bound", "project", "all", "16", "0"}, reflect.TypeFor[[]string](), func(s *signals) any { return s.t.partial() }, false},
	{Signal{"action.lineage", "where the addresses, hosts, accounts, paths and phrases of the arguments were first met in the project", "carrier", "all", "100000 carriers, 100000 phrases", "1 a carrier"}, reflect.TypeFor[[]*Lineage](), (*signals).lineage, false},
	{Signal{"memory.lineage", "the same of a memory write", "carrier", "all", "as action.lineage", "1 a carrier"}, reflect.TypeFor[[]*Lineage](), (*signals).lineage, false},
	{Signal{"signal.echo", "instructions in untrusted content of the project that this action would carry out", "session, tool word, carrier", "all", "4000 instructions", "1 a word of the tool's name and a carrier"}, reflect.TypeFor[[]*Served](), func(s *signals) any { return s.echo() }, false},
	{Signal{"signal.user_named", "the user's own words in this session ask for what the tool does and name everybody whom the action reaches, or else every carrier of the arguments", "session", "session", "4000 words", "0"}, reflect.TypeFor[bool](), func(s *signals) any { return s.userNamed() }, false},
	{Signal{"signal.novel", "carriers of the arguments that nobody named before in the project, as kind:value", "carrier", "all", "as action.lineage", "1 a carrier"}, reflect.TypeFor[[]string](), (*signals).novel, false},
	{Signal{"signal.cluster_size", "contents of the project that are almost the same as this one, it included", "fingerprint", "all", "20000 clusters", "10"}, reflect.TypeFor[int64](), func(s *signals) any { return s.cluster().size }, false},
	{Signal{"signal.cluster_sources", "different sources among them, at most 64", "fingerprint", "all", "as cluster_size", "10"}, reflect.TypeFor[int64](), func(s *signals) any { return int64(len(s.cluster().sources)) }, false},
	{Signal{"signal.cluster_sessions", "different sessions among them, at most 64", "fingerprint", "all", "as cluster_size", "10"}, reflect.TypeFor[int64](), func(s *signals) any { return int64(len(s.cluster().sessions)) }, false},
	{Signal{"signal.cluster_agents", "different agents among them, at most 64", "fingerprint", "all", "as cluster_size", "10"}, reflect.TypeFor[int64](), func(s *signals) any { return int64(len(s.cluster().agents)) }, false},
	{Signal{"signal.cluster_age", "seconds since the first of them", "fingerprint", "all", "as cluster_size", "10"}, reflect.TypeFor[float64](), func(s *signals) any { return s.since(s.cluster().first) }, false},
	{Signal{"signal.pushes", "targets in this content that its source has brought up in three or more different contents", "source and target", "all", "50000", "1 a target"}, reflect.TypeFor[[]*Push](), (*signals).pushes, false},
	{Signal{"signal.fragments", "values of the arguments that were put together from pieces of different observations", "piece", "all", "100000 pieces", "up to 2000 a value"}, reflect.TypeFor[[]*Fragment](), (*signals).fragments, false},
	{Signal{"signal.sleepers", "memories of other sessions, over a day old, that this action cites for the first time, or that were recalled in its session and hold an address or a value of it that the user did not name", "belief", "all", "50000 beliefs", "1 a belief"}, reflect.TypeFor[[]*Sleeper](), (*signals).sleepers, false},
	{Signal{"signal.recalled_external", "memories of external origin that were recalled in this session", "session", "session", "32 a session", "1"}, reflect.TypeFor[[]string](), (*signals).recalledExternal, false},
	{Signal{"signal.key_writes", "writes of this memory key, this one included", "key", "all", "20000 keys", "1"}, reflect.TypeFor[int64](), func(s *signals) any { return s.keyHistory().writes }, false},
	{Signal{"signal.key_growth", "size of the value as a multiple of its first size", "key", "all", "20000 keys", "1"}, reflect.TypeFor[float64](), func(s *signals) any { return s.keyHistory().growth(s.in) }, false},
	{Signal{"signal.key_entropy_rise", "entropy of the value less that of its first, bits a byte", "key", "all", "20000 keys", "1"}, reflect.TypeFor[float64](), func(s *signals) any { return s.keyHistory().rise(s) }, false},
	{Signal{"signal.tool_drift", "the tool that is called has another description or schema than in the first catalogue of its server, or the last one that a person accepted", "tool", "all", "5000 tools", "1"}, reflect.TypeFor[bool](), (*signals).toolDrift, false},
}

// Signals lists the signals that every rule set knows.
func Signals() []Signal {
	var out []Signal
	for _, d := range builtinSignals {
		out = append(out, d.Signal)
	}
	return out
}

// signals is the state of one project while one input is judged.
type signals struct {
	t   *tables
	in  *Input
	act *activation
	// done holds the sequences that this input completes.
	done map[string][]string
	// swaps are the sequences that it goes into, see noteSwaps.
	swaps enc

	// Of the input's own head: whose content it is, the cluster that it founds,
	// and the head's ref once there is one.
	origin string
	extern bool
	noted  bool
	founds uint64
	ownRef uint32

	clusterRec *cluster
	metBy      []met
	lastHead   *headRec
	lastRef    uint32
	servedBy   []*Served
	servedOn   []streams.Rest // the contents behind servedBy
	servedRead bool
	pushed     []*Push
	pushesRead bool
	contents   []uint32 // scratch
	usedBy     []used
	counted    [4]counted // what declared signals made of this input
	counts     int
	keyRec     keyRec
	keyRead    bool
	bits       float64 // the content's entropy, when measured
	measured   bool
}

func (s *signals) entropy() float64 {
	if !s.measured {
		s.bits, s.measured = entropy(s.in.Content.Text), true
	}
	return s.bits
}

func (s *signals) since(t time.Time) float64 {
	if t.IsZero() {
		return -1
	}
	return s.in.Event.Time.Sub(t).Seconds()
}

// note folds an input into the state. State is kept whether a rule reads it or
// not, so that a rule that is switched on finds it; what a pack declares
// starts empty with it. only says which state somebody may read; an evaluator of
// a whole group keeps all.
func (s *signals) note(only notes) {
	in := s.in
	switch in.Event.Kind {
	case "observation":
		s.noteContent(in.Event.External, only)
	case "memory":
		s.noteContent(in.Memory.External, only)
		if only&noteKeys != 0 {
			s.noteKey()
		}
		if only&noteBeliefs != 0 {
			s.noteBelief()
		}
	case "action":
		if only&noteCarriers != 0 {
			s.noteCarriers("agent", false)
		}
		if only&noteBeliefs != 0 {
			for _, b := range in.Action.Beliefs {
				s.use(b.ID)
			}
		}
		if only&noteTools != 0 && s.accepts() {
			s.noteProposed()
		}
	case "recall":
		if only&noteRecalls != 0 {
			s.noteRecall()
		}
	case "tools":
		if only&noteTools != 0 {
			s.noteTools()
			s.noteOffer()
		}
	}
}

// notes are the kinds of state that signals read.
type notes uint16

const (
	noteClusters notes = 1 << iota
	noteCarriers
	notePhrases
	notePieces
	notePushes
	noteDirectives
	noteKeys
	noteBeliefs
	noteRecalls
	noteTools

	allNotes notes = 1<<iota - 1
)

// notesOf says which state a name reads. Names that are not here read none.
var notesOf = map[string]notes{
	"signal.partial":           allNotes,
	"action.lineage":           noteCarriers | notePhrases,
	"memory.lineage":           noteCarriers | notePhrases,
	"signal.echo":              noteDirectives | noteCarriers,
	"signal.novel":             noteCarriers,
	"signal.cluster_size":      noteClusters,
	"signal.cluster_sources":   noteClusters,
	"signal.cluster_sessions":  noteClusters,
	"signal.cluster_agents":    noteClusters,
	"signal.cluster_age":       noteClusters,
	"signal.pushes":            notePushes,
	"signal.fragments":         notePieces,
	"signal.sleepers":          noteBeliefs | noteRecalls,
	"signal.recalled_external": noteRecalls,
	"signal.key_writes":        noteKeys,
	"signal.key_growth":        noteKeys,
	"signal.key_entropy_rise":  noteKeys,
	"signal.tool_drift":        noteTools,
	"tools.items":              noteTools, // drift and shadows
}

// noteContent keeps what content brings into the project.
func (s *signals) noteContent(external bool, only notes) {
	in := s.in
	if in.Content.Text == "" {
		return
	}
	origin := in.Event.Origin
	if external {
		origin = "external"
		if in.Memory.Inherited != "" {
			origin = in.Memory.Inherited
		}
	}
	s.origin, s.extern = cmp.Or(origin, in.Event.Origin), external
	if only&noteClusters != 0 {
		s.noteCluster()
	}
	if only&noteCarriers != 0 {
		s.noteCarriers(cmp.Or(origin, in.Event.Origin), external)
	}
	if in.Event.Kind == "memory" && !external && origin == "agent" && only&noteDirectives != 0 {
		s.noteDirective() // what the model wrote steers it again
	}
	if !external {
		return
	}
	if only&notePhrases != 0 {
		s.notePhrases()
	}
	if only&notePieces != 0 {
		s.notePieces()
	}
	if only&notePushes != 0 {
		s.notePushes()
	}
	if only&noteDirectives != 0 {
		s.noteDirective()
	}
}

// ---- carriers and lineage

// headRec says whose content it was that brought something into the project.
type headRec struct {
	origin, event, src, session, agent, belief string
	external                                   bool
	userNamed                                  bool // the user named where it came from
	at                                         time.Time
	// What tells clusters' members apart, and the cluster that this founds.
	source, in, by uint32
	cluster        uint64
}

// ownGroup is the ref of the input's own head.
func (s *signals) ownGroup(b *book) uint32 {
	if s.noted {
		return s.ownRef
	}
	in := s.in
	e := enc(s.t.take())
	flags := uint64(0)
	if s.extern {
		flags = 1
	}
	if in.userNamed {
		flags |= 2
	}
	e.num(flags)
	e.num(uint64(in.Event.Time.UnixNano()))
	for _, v := range [...]string{s.origin, in.Event.ID, streams.Clip(cmp.Or(in.Event.Source, in.Event.Tool), 120), in.Event.Session, in.Event.Agent, in.belief} {
		e.str(v)
	}
	source, session, agent := s.member()
	for _, h := range [...]uint32{source, session, agent} {
		e = binary.BigEndian.AppendUint32(e, h)
	}
	e = binary.BigEndian.AppendUint64(e, s.founds)
	s.ownRef, s.noted = b.newGroup(s.t.give(e), maxRef).ref, true
	return s.ownRef
}

// member is what tells the input apart from others of its cluster.
func (s *signals) member() (source, session, agent uint32) {
	in := s.in
	return hash32(cmp.Or(in.Event.Source, in.Event.Tool, in.Event.Origin)), hash32(in.Event.Agent + "\x00" + in.Event.Session), hash32(in.Event.Agent)
}

func readHead(b []byte) *headRec {
	d := dec(b)
	flags := d.num()
	h := &headRec{external: flags&1 != 0, userNamed: flags&2 != 0, at: time.Unix(0, int64(d.num())).UTC()}
	for _, v := range [...]*string{&h.origin, &h.event, &h.src, &h.session, &h.agent, &h.belief} {
		*v = d.str()
	}
	if len(d) == 20 {
		h.source, h.in, h.by, h.cluster = binary.BigEndian.Uint32(d), binary.BigEndian.Uint32(d[4:]), binary.BigEndian.Uint32(d[8:]), binary.BigEndian.Uint64(d[12:])
	}
	return h
}

// headOf is the head that a ref leads to.
func (s *signals) headOf(ref uint32) *headRec {
	ref &^= refNamed
	if s.lastHead == nil || s.lastRef != ref {
		s.lastHead, s.lastRef = readHead(s.t.posts.head(ref)), ref
	}
	return s.lastHead
}

// hash64 tells carriers and pieces apart. Who writes a document must not be
// able to make one that hashes like another.
func hash64(v string) uint64 {
	sum := sha256.Sum256([]byte(v))
	return max(binary.BigEndian.Uint64(sum[:]), 1)
}

// met is a carrier of the input that somebody named before or names now.
type met struct {
	carrier string
	ref     uint32
	ok      bool
	head    *headRec // nil until asked for
}

// headOfMet is whose it is.
func (s *signals) headOfMet(m *met) *headRec {
	if m.head == nil {
		m.head = s.headOf(m.ref)
	}
	return m.head
}

func (s *signals) noteCarriers(origin string, external bool) {
	in := s.in
	if !s.noted {
		s.origin, s.extern = origin, external
	}
	b := s.t.book()
	if b == nil {
		return
	}
	user := in.Event.Origin == "user" && !external && in.Event.Kind == "observation"
	s.metBy = make([]met, len(in.carried))
	b.warm(postCarriers, in.carriedBy)
	for i, c := range in.carried {
		h := in.carriedBy[i]
		ref, ok := b.get(postCarriers, h)
		switch {
		case !ok:
			ref = s.ownGroup(b)
			if user {
				ref |= refNamed
			}
			ref = b.put(postCarriers, h, ref)
		case user && ref&refNamed == 0:
			ref = b.put(postCarriers, h, ref|refNamed)
		}
		s.metBy[i] = met{carrier: c, ref: ref, ok: true}
	}
}

// met are the carriers of the input, with whose they are.
func (s *signals) met() []met {
	if s.metBy == nil {
		for i, c := range s.in.carried {
			ref, ok := s.t.find(postCarriers, s.in.carriedBy[i])
			s.metBy = append(s.metBy, met{carrier: c, ref: ref, ok: ok && s.t.err == nil})
		}
	}
	return s.metBy
}

// maxProper is how many proper names of a content are kept.
const maxProper = 24

// properNames are runs of two to four words with capitals, as name:a b.
func properNames(text string) []string {
	var out, run []string
	add := func(words []string) {
		if n := len(words); n >= 2 && n <= 4 && len(out) < maxProper {
			if v := "name:" + strings.ToLower(strings.Join(words, " ")); !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
	}
	flush := func() {
		add(run)
		if len(run) > 2 {
			add(run[1:]) // the first word may only begin a sentence
		}
		run = run[:0]
	}
	for line := range strings.Lines(streams.Clip(text, 4<<10)) {
		for w := range strings.FieldsSeq(line) {
			if w[0] >= 'a' && w[0] <= 'z' { // most words
				if len(run) > 0 {
					flush()
				}
				continue
			}
			bare := namesEnd.trim(w)
			capital := len(bare) > 1 && bare[0] >= 'A' && bare[0] <= 'Z'
			if !capital || w[0] != bare[0] {
				flush()
			}
			if capital {
				run = append(run, bare)
			}
			if len(bare) == 0 || w[len(w)-1] != bare[len(bare)-1] {
				flush()
			}
		}
		flush()
	}
	return out
}

// sampled are the phrases that both sides keep: chosen by their own value, so
// that an extract has the same ones.
func sampled(p text.Phrases) []uint64 {
	var out []uint64
	for _, h := range p.Hashes {
		if h%sampleOf == 0 && len(out) < maxSample {
			out = append(out, h)
		}
	}
	return out
}

func (s *signals) notePhrases() {
	b := s.t.book()
	if b == nil {
		return
	}
	b.warm(postPhrases, s.in.sample)
	for _, h := range s.in.sample {
		if _, ok := b.get(postPhrases, h); !ok {
			b.put(postPhrases, h, s.ownGroup(b))
		}
	}
}

func (s *signals) lineage() any {
	in := s.in
	var out []*Lineage
	var all []Lineage
	for i := range s.met() {
		m := &s.metBy[i]
		if !m.ok {
			continue
		}
		kind, value, _ := strings.Cut(m.carrier, ":")
		r := s.headOfMet(m)
		if out == nil {
			out, all = make([]*Lineage, 0, len(s.metBy)), make([]Lineage, len(s.metBy))
		}
		l := &all[i]
		*l = Lineage{Carried: kind, Value: value, Origin: r.origin, FirstOrigin: r.origin, Observation: r.event, Source: r.src, Session: r.session, Agent: r.agent,
			Age: s.since(r.at), User: m.ref&refNamed != 0 || in.byUser(m.carrier), SourceNamed: r.userNamed, New: r.event == in.Event.ID, Target: in.isTarget(kind, value)}
		if r.external {
			l.FirstOrigin = "external"
		}
		out = append(out, l)
	}
	// A phrase counts when one external content holds a third of what is said.
	var hits map[string]int
	var first map[string]*Lineage
	mine := in.sample
	for _, h := range mine {
		ref, ok := s.t.find(postPhrases, h)
		if !ok || s.noted && ref == s.ownRef {
			continue
		}
		r := s.headOf(ref)
		if r.event == in.Event.ID {
			continue
		}
		if hits == nil {
			hits, first = make(map[string]int), make(map[string]*Lineage)
		}
		if hits[r.event]++; first[r.event] == nil {
			first[r.event] = &Lineage{Carried: "phrase", FirstOrigin: "external", Origin: "external", Observation: r.event, Source: r.src, Session: r.session, Age: s.since(r.at)}
		}
	}
	for _, ev := range sortedKeys(hits) {
		if hits[ev] >= 2 && 3*hits[ev] >= len(mine) {
			l := first[ev]
			l.Value = streams.Clip(in.Content.Text, 80)
			out = append(out, l)
		}
	}
	return out
}

func (s *signals) novel() any {
	var out []string
	for i := range s.met()[:min(len(s.met()), len(s.in.Content.Carriers))] {
		if m := &s.metBy[i]; m.ok && s.headOfMet(m).event == s.in.Event.ID {
			out = append(out, m.carrier)
		}
	}
	return out
}

// ---- what the user said

// sessionKey is what a session keeps of a kind: n notes, r recalls, u the user's
// words.
func (s *signals) sessionKey(kind string) []byte {
	return s.t.named(kind, s.in.Event.Agent, "\x00", s.in.Event.Session)
}

// userNamed reports whether the user asked for what the tool does and named
// everybody whom it reaches; where it reaches nobody, all carriers.
func (s *signals) userNamed() bool {
	if !s.in.intent.Asked {
		return false
	}
	some := false
	s.in.targets(func(int) bool { some = true; return false })
	if some {
		return s.in.targetsNamed()
	}
	for _, c := range s.in.Content.Carriers {
		if !s.in.byUser(c) {
			return false
		}
	}
	return true
}

// byUser reports whether the user named a carrier of the action in the session.
func (in *Input) byUser(carrier string) bool { return slices.Contains(in.intent.Carriers, carrier) }

// ---- instructions of untrusted content, and what would carry them out

// directive is what is kept of an instruction.
type directive struct {
	sum                                []byte // of kind and text
	event, source, text, agent, belief []byte
	at                                 time.Time
	memory                             bool // it was written to memory
	commands                           bool // it carries more than a request
	userNamed                          bool // the user named where it came from
	carriers, names                    []uint32
	sentences                          [][]uint32
	named                              [][]uint32 // carriers, by sentence
}

func (n *directive) bytes(e enc) enc {
	for _, v := range [...][]byte{n.sum, n.event, n.source, n.text, n.agent, n.belief} {
		e.bytes(v)
	}
	e.num(uint64(n.at.UnixNano()))
	e.hashes(n.carriers)
	e.hashes(n.names)
	flags := uint64(0)
	if n.memory {
		flags |= 1
	}
	if n.commands {
		flags |= 2
	}
	if n.userNamed {
		flags |= 4
	}
	e.num(flags)
	e.num(uint64(len(n.sentences)))
	for _, st := range n.sentences {
		e.hashes(st)
	}
	for _, cs := range n.named {
		e.hashes(cs)
	}
	return e
}

// readDirective reads a record into n. It points into b, and its hashes into
// the buffer, so that looking through many of them allocates nothing.
func (n *directive) read(b []byte, buf []uint32) []uint32 {
	d := dec(b)
	n.sum, n.event, n.source, n.text, n.agent, n.belief = d.raw(), d.raw(), d.raw(), d.raw(), d.raw(), d.raw()
	n.at = time.Unix(0, int64(d.num())).UTC()
	n.carriers, buf = d.into(buf)
	n.names, buf = d.into(buf)
	flags := d.num()
	n.memory, n.commands, n.userNamed = flags&1 != 0, flags&2 != 0, flags&4 != 0
	n.sentences = n.sentences[:0]
	for range min(d.num(), maxSentences) {
		var st []uint32
		st, buf = d.into(buf)
		n.sentences = append(n.sentences, st)
	}
	n.named = n.named[:0]
	for range n.sentences {
		var cs []uint32
		cs, buf = d.into(buf)
		n.named = append(n.named, cs)
	}
	return buf
}

// noteDirective keeps untrusted content that carries an instruction, under its
// session, the words of its sentences and its carriers.
func (s *signals) noteDirective() {
	in := s.in
	names := in.names
	if len(in.Content.Markers) == 0 && len(in.directives.sentences) == 0 {
		// A note that names a few tools is a plan, if it asks or not.
		if in.Event.Origin != "document" && in.Event.Kind != "memory" || len(names) == 0 || len(names) > planNames && in.Event.Kind != "memory" {
			return
		}
	}
	buf := append(append(s.t.text[:0], in.Event.Kind...), 0)
	kind := len(buf)
	for i, v := range in.Content.Views {
		if i > 0 {
			buf = append(buf, '\n')
		}
		if buf = append(buf, v...); len(buf) > kind+noteText {
			break
		}
	}
	text := clipBytes(buf[kind:], noteText)
	s.t.text = buf
	sum := sha256.Sum256(buf[:kind+len(text)])
	n := &directive{memory: in.Event.Kind == "memory", event: []byte(in.Event.ID), agent: []byte(in.Event.Agent), belief: []byte(in.belief), source: []byte(streams.Clip(cmp.Or(in.Event.Source, in.Event.Tool), 120)),
		at: in.Event.Time, sum: sum[:8], sentences: in.directives.sentences,
		names: names, userNamed: in.userNamed, commands: in.directives.found&^(1<<mRequest|1<<mPlea|1<<mTool) != 0}
	if n.commands {
		n.text = text // what asks and commands nothing is compared by its words
	}
	n.named = in.directives.carriers(in)
	for _, cs := range n.named {
		n.carriers = append(n.carriers, cs...)
	}
	n.carriers = distinct(n.carriers)
	// The same text is one note, however often it is read, and never another
	// one's: a number that another text has is taken for neither.
	id := binary.BigEndian.Uint32(sum[8:])
	for b := s.t.get(tableNotes, s.t.numbered(id)); b != nil; b = s.t.get(tableNotes, s.t.numbered(id)) {
		if d := dec(b); string(d.raw()) == string(n.sum) {
			s.noteHere(id)
			return
		}
		id++
	}
	s.t.put(tableNotes, s.t.numbered(id), s.t.give(n.bytes(s.t.take())))
	s.noteHere(id)
	b := s.t.book()
	if b == nil {
		return
	}
	b.linkAll(linkTargets, n.carriers, id)
	words := append(s.t.words[:0], n.names...)
	for _, st := range n.sentences {
		words = append(words, st...)
	}
	s.t.words = words
	b.linkAll(linkWords, distinct(words), id)
}

// clipBytes cuts a text before the rune that goes beyond n bytes.
func clipBytes(b []byte, n int) []byte {
	if len(b) <= n {
		return b
	}
	for n > 0 && !utf8.RuneStart(b[n]) {
		n--
	}
	return b[:n]
}

// noteHere adds a note to those of the session; the oldest falls out.
func (s *signals) noteHere(id uint32) {
	k := s.sessionKey("n")
	ids := s.t.get(tableSessions, k)
	for b := ids; len(b) >= 4; b = b[4:] {
		if binary.BigEndian.Uint32(b) == id {
			return
		}
	}
	e := append(s.t.take(), ids[max(0, len(ids)-4*(maxNotes-1)):]...)
	s.t.put(tableSessions, k, s.t.give(binary.BigEndian.AppendUint32(e, id)))
}

// echo finds the instructions that the action would carry out: dependence by
// evidence, not by everything that was seen.
func (s *signals) echo() []*Served {
	if s.servedRead {
		return s.servedBy
	}
	s.servedRead = true
	in := s.in
	if in.call == nil {
		return nil // no action
	}
	c := s.in.call
	book := s.t.book()
	if book == nil {
		return nil
	}
	var memory [2 * maxNotes]uint32
	ids := memory[:0]
	add := func(id linkID, h uint32) {
		n := len(ids)
		ids = book.linked(id, linkKey(h), ids)
		more := ids[n:]
		ids = ids[:n]
		for _, id := range more {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	for b := s.t.get(tableSessions, s.sessionKey("n")); len(b) >= 4; b = b[:len(b)-4] { // the latest first
		ids = append(ids, binary.BigEndian.Uint32(b[len(b)-4:]))
	}
	here := ids[:len(ids):len(ids)]
	for _, h := range in.carriers {
		add(linkTargets, h)
	}
	for _, h := range c.Things {
		add(linkWords, h)
	}
	add(linkWords, c.Whole)
	if len(ids) == 0 {
		return nil
	}
	var n directive
	var buf []uint32
	for _, id := range ids {
		b := s.t.get(tableNotes, s.t.numbered(id))
		if b == nil {
			continue
		}
		buf = n.read(b, buf[:0])
		same := slices.Contains(here, id)
		sv := s.match(&n, same)
		if sv == nil {
			continue
		}
		sv.Observation, sv.Source, sv.SameSession, sv.Memory, sv.Commands, sv.Age = string(n.event), string(n.source), same, n.memory, n.commands, s.since(n.at)
		sv.UserDocument = n.userNamed
		s.servedBy = append(s.servedBy, sv)
		s.servedOn = append(s.servedOn, streams.Rest{Agent: string(n.agent), Observation: sv.Observation, Belief: string(n.belief), Source: sv.Source, By: "instruction", Value: sv.Value})
	}
	return s.servedBy
}

// match is how the action serves one of the note's sentences; of several the
// one that the user accounts for least.
func (s *signals) match(n *directive, same bool) (best *Served) {
	in, c := s.in, s.in.call
	for i, words := range n.sentences {
		if sv := s.serves(n.named[i], words, n.commands, same); sv != nil {
			if !sv.UserNamed {
				return sv
			}
			best = cmp.Or(best, sv)
		}
	}
	if hasHash(n.names, c.Whole) {
		sv := &Served{By: "tool", Value: in.Action.Tool, UserNamed: in.intent.Asked && in.intent.Closeness >= 100}
		if !sv.UserNamed {
			return sv
		}
		best = cmp.Or(best, sv)
	}
	if best != nil || !n.commands {
		return best
	}
	for _, line := range strings.Split(in.Action.Text, "\n") {
		if v := text.Normalize(line); len(v) >= minValue && strings.Count(v, " ") >= 1 && bytes.Contains(n.text, []byte(v)) {
			named := slices.ContainsFunc(c.Values, func(x intent.Value) bool {
				return slices.Contains(in.intent.Values, x.Path) && strings.Contains(x.Text, line)
			})
			return &Served{By: "value", Value: streams.Clip(line, 120), UserNamed: named}
		}
	}
	return nil
}

// serves compares the action with one sentence that asks for something: carriers
// that are its own, words of the sentence, and the values of the action's
// arguments. A value that the user named, or that somebody inside named first, is
// no evidence.
func (s *signals) serves(carriers, words []uint32, commands, same bool) *Served {
	in, c := s.in, s.in.call
	for i, v := range in.Content.Carriers {
		if !hasHash(carriers, in.carriers[i]) || !commands && !reaches(v) || in.hostOfAddress(v) || s.inside(i) {
			continue
		}
		if !in.byUser(v) {
			return &Served{By: "carrier", Value: v}
		}
	}
	asks, act := c.Asks(words, same), count(words, c.Act) > 0
	if !asks && !act || in.elsewhere(carriers) {
		return nil
	}
	shared, foreign := 0, 0
	var strong *intent.Value
	for i := range c.Values {
		v := &c.Values[i]
		if !v.In(words) {
			continue
		}
		if shared++; slices.Contains(in.intent.Values, v.Path) || s.known(v) {
			continue
		}
		foreign++
		if strong == nil && (v.Marks > 0 || len(v.Tokens) > 1 && v.Date == nil) {
			strong = v
		}
	}
	asked := in.intent.Asked
	named := asked && in.targetsNamed() // whom it reaches, too
	switch {
	case strong != nil:
		return &Served{By: "value", Value: streams.Clip(strong.Text, 120), UserNamed: named}
	case same && foreign > 1:
		return &Served{By: "value", Value: streams.Clip(c.Values[0].Text, 120), UserNamed: named}
	case !asks:
		return nil
	}
	// The user accounts for an action whose receivers they named, or of which the
	// sentence names nothing that they did not, or that their own words name as
	// closely.
	return &Served{By: "tool", Value: in.Action.Tool,
		UserNamed: named || asked && (len(c.Values) > 0 && foreign == 0 || in.intent.Closeness >= c.Strength(words))}
}

// isTarget reports whether a carrier of an action stands in an argument of few
// words. The host of a mail address does not.
func (in *Input) isTarget(kind, v string) bool {
	if in.call == nil || kind == "host" && in.hostOfAddress("host:"+v) {
		return false
	}
	v = strings.ToLower(v)
	return slices.ContainsFunc(in.call.Values, func(x intent.Value) bool {
		return !x.Prose && (strings.Contains(strings.ToLower(x.Text), v) || strings.Contains(wholeName(x.Text), wholeName(v)))
	})
}

// targets calls f with the place of each carrier that leads from the arguments to
// somebody.
func (in *Input) targets(f func(i int) bool) {
	for i, c := range in.Content.Carriers {
		kind, v, _ := strings.Cut(c, ":")
		if reaches(c) && in.isTarget(kind, v) && !f(i) {
			return
		}
	}
}

// targetsNamed reports whether the user named everybody whom the action reaches,
// and that it reaches somebody.
func (in *Input) targetsNamed() bool {
	some, all := false, true
	in.targets(func(i int) bool {
		some, all = true, in.byUser(in.Content.Carriers[i])
		return all
	})
	return some && all
}

// elsewhere reports whether a sentence names receivers, and the action has others:
// it is then not what the sentence asks for.
func (in *Input) elsewhere(carriers []uint32) bool {
	if len(carriers) == 0 {
		return false
	}
	some, shared := false, false
	in.targets(func(i int) bool {
		some, shared = true, hasHash(carriers, in.carriers[i])
		return !shared
	})
	return some && !shared
}

// known reports whether a value is a carrier that somebody inside named first.
func (s *signals) known(v *intent.Value) bool {
	i := slices.IndexFunc(s.in.Content.Carriers, func(c string) bool {
		_, x, _ := strings.Cut(c, ":")
		return strings.EqualFold(x, v.Text)
	})
	return i >= 0 && s.inside(i)
}

// inside reports whether the user, the operator or the agent named a carrier of
// the action before anything from outside did.
func (s *signals) inside(i int) bool {
	m := &s.met()[i]
	return m.ok && !(s.noted && m.ref&^refNamed == s.ownRef) && !s.headOfMet(m).external
}

// hostOfAddress reports whether a carrier is but the host of a mail address that
// the content holds.
func (in *Input) hostOfAddress(carrier string) bool {
	host, ok := strings.CutPrefix(carrier, "host:")
	return ok && slices.ContainsFunc(in.Content.Carriers, func(c string) bool {
		return strings.HasPrefix(c, "email:") && strings.HasSuffix(c, "@"+host)
	})
}

// reaches reports whether a carrier leads out of the project to somebody: an
// address, and not the number or path of a record that many requests name.
func reaches(carrier string) bool {
	switch kind, _, _ := strings.Cut(carrier, ":"); text.Kind(kind) {
	case text.Email, text.URL, text.Host, text.IP, text.IBAN, text.Card, text.Phone, text.Crypto, text.Handle:
		return true
	}
	return false
}

// ---- near-duplicates

type cluster struct {
	first                     time.Time
	size                      int64
	sources, sessions, agents []uint32
}

func (c *cluster) bytes(e enc) enc {
	e.num(uint64(c.first.UnixNano()))
	e.num(uint64(c.size))
	e.hashes(c.sources)
	e.hashes(c.sessions)
	e.hashes(c.agents)
	return e
}

func readCluster(b []byte) *cluster {
	d := dec(b)
	return &cluster{first: time.Unix(0, int64(d.num())).UTC(), size: int64(d.num()), sources: d.hashes(), sessions: d.hashes(), agents: d.hashes()}
}

// noteCluster puts the content into the cluster of the first fingerprint band
// that is known, and makes all of its bands known. Of a content with few words
// only the same one counts. A cluster of one is its head and nothing else.
func (s *signals) noteCluster() {
	in := s.in
	if len(in.features.Prints) == 0 || in.features.Words < 4 {
		s.clusterRec = new(cluster)
		return
	}
	b := s.t.book()
	if b == nil {
		return
	}
	bands := in.features.Prints[0].Bands()
	b.warm(postBands, bands)
	var first uint32
	known := -1
	for i, h := range bands {
		if ref, ok := b.get(postBands, h); ok {
			known, first = i, ref
			break
		}
	}
	c := &cluster{first: in.Event.Time}
	if known < 0 {
		s.founds = bands[0]
		first = s.ownGroup(b)
	} else {
		h := readHead(b.head(first))
		id := h.cluster
		if v := s.t.get(tableClusters, s.t.hashed(id)); v != nil {
			c = readCluster(v)
		} else {
			c = &cluster{first: h.at, size: 1, sources: []uint32{h.source}, sessions: []uint32{h.in}, agents: []uint32{h.by}}
		}
		defer func() { s.t.put(tableClusters, s.t.hashed(id), s.t.give(c.bytes(s.t.take()))) }()
	}
	c.size++
	source, session, agent := s.member()
	for _, add := range [...]struct {
		set *[]uint32
		h   uint32
	}{{&c.sources, source}, {&c.sessions, session}, {&c.agents, agent}} {
		if len(*add.set) < maxSeen && !slices.Contains(*add.set, add.h) {
			*add.set = append(*add.set, add.h)
		}
	}
	for i, h := range bands {
		if i > known && known >= 0 {
			if _, ok := b.get(postBands, h); ok {
				continue
			}
		}
		if i != known {
			first = b.put(postBands, h, first)
		}
	}
	s.clusterRec = c
}

func (s *signals) cluster() *cluster {
	if s.clusterRec == nil {
		return new(cluster)
	}
	return s.clusterRec
}

// ---- one source, one target

// targets are what a source may push: hosts, addresses and handles, and names
// in the text, by their capitals.
func (in *Input) findTargets() []string {
	var out []string
	for _, c := range in.Content.Carriers {
		switch kind, _, _ := strings.Cut(c, ":"); kind {
		case "host", "email", "handle", "iban", "crypto", "command":
			out = append(out, c)
		}
	}
	prev := "."
	for w := range strings.FieldsSeq(streams.Clip(in.Content.Text, 4<<10)) {
		name := edges.trim(w)
		// A capital at the beginning of a sentence says nothing.
		if len(name) > 2 && name[0] >= 'A' && name[0] <= 'Z' && !strings.ContainsAny(prev[len(prev)-1:], ".:!?") && len(out) < 24 {
			out = append(out, "name:"+strings.ToLower(name))
		}
		prev = w
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (in *Input) sourceOf() string {
	if s := cmp.Or(in.Event.Source, in.Event.Tool); s != "" {
		return streams.Clip(s, 120)
	}
	return streams.Clip(in.Event.Origin+":"+in.Event.Agent, 120)
}

func (s *signals) notePushes() {
	if s.in.Event.Kind != "memory" || len(s.in.pushes) == 0 {
		return
	}
	s.pushesRead = true
	var h uint32
	if ps := s.in.features.Prints; len(ps) > 0 {
		h = binary.BigEndian.Uint32(ps[0].Exact[:]) // of the normal form
	} else {
		h = hash32(text.Normalize(s.in.Content.Text))
	}
	b := s.t.book()
	if b == nil {
		return
	}
	for i, k := range s.in.targetsBy {
		s.contents = b.linked(linkPushes, k, s.contents[:0])
		n := len(s.contents)
		if n < maxSeen && !slices.Contains(s.contents, h) {
			b.link(linkPushes, k, h)
			n++
		}
		s.push(i, n)
	}
}

func (s *signals) push(target, contents int) {
	if contents >= minPushes {
		s.pushed = append(s.pushed, &Push{Source: s.in.sourceOf(), Target: s.in.pushes[target], Count: int64(contents)})
	}
}

// minPushes is in how many contents a source brings a target up that it pushes.
const minPushes = 3

func (s *signals) pushes() any {
	if s.pushesRead {
		return s.pushed // noted with the event itself
	}
	s.pushesRead = true
	b := s.t.book()
	if b == nil {
		return s.pushed
	}
	for i, k := range s.in.targetsBy {
		s.contents = b.linked(linkPushes, k, s.contents[:0])
		s.push(i, len(s.contents))
	}
	return s.pushed
}

// ---- values put together from pieces

// trimmed are what stands around a word and is none of it, and unusual what
// only unusual words hold.
var (
	trimmed = byteSet(`.,;:!?"'()[]{}<>`)
	edges   = byteSet(`.,;:!?"'()[]`)
	unusual = byteSet("0123456789@./:_-=+")
	// namesEnd is what may follow a proper name.
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

// trim cuts bytes of a set off both ends.
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

// oddFields are the words that may be unusual ones: all of a text that is not
// ASCII.
func oddFields(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		start, odd := 0, false
		for i := 0; i <= len(s); i++ {
			if i == len(s) || s[i] == ' ' || s[i] >= '\t' && s[i] <= '\r' {
				if odd && !yield(s[start:i]) {
					return
				}
				start, odd = i+1, false
				continue
			}
			if s[i] >= utf8.RuneSelf {
				for w := range strings.FieldsSeq(s[start:]) { // other spaces may follow
					if !yield(w) {
						return
					}
				}
				return
			}
			odd = odd || unusual[s[i]]
		}
	}
}

// pieces are the unusual words of a content: what a value might be cut into.
func pieces(s string) []string {
	s = streams.Clip(s, 16<<10)
	var out []string
	add := func(w string) (more bool) {
		if w = trimmed.trim(w); len(w) >= minPiece && len(w) <= maxPiece && unusual.in(w) {
			// Lower case may take more bytes, or fewer.
			if w = strings.ToLower(w); len(w) >= minPiece && len(w) <= maxPiece {
				out = append(out, w)
			}
		}
		return len(out) < maxPieces
	}
	// Words are cut at ASCII spaces here, and only those with something
	// unusual in them are looked at again.
	start, odd := 0, false
	for i := range len(s) {
		switch c := s[i]; {
		case c >= utf8.RuneSelf:
			// Other spaces may follow: begin again.
			out = nil
			for w := range strings.FieldsSeq(s) {
				if !add(w) {
					break
				}
			}
			return out
		case c == ' ' || c >= '\t' && c <= '\r':
			if odd && !add(s[start:i]) {
				return out
			}
			start, odd = i+1, false
		default:
			odd = odd || unusual[c]
		}
	}
	if odd {
		add(s[start:])
	}
	return out
}

// notePieces keeps the pieces. The book knows how long those may be that a value
// begins with: where no piece is known that is found out by one look-up instead of
// one for each of its prefixes.
func (s *signals) notePieces() {
	b := s.t.book()
	if b == nil {
		return
	}
	b.warm(postPieces, s.in.piecesBy)
	for i, p := range s.in.pieces {
		if h := s.in.piecesBy[i]; !b.hasPiece(p, h) {
			b.putPiece(p, h, s.ownGroup(b))
		}
	}
}

// pieceBit is the bit of a length, minPiece to maxPiece bytes.
func pieceBit(n int) uint64 { return 1 << (n - minPiece) }

// pieceLengths says which lengths the pieces have that begin as v does.
func (s *signals) pieceLengths(v string) uint64 {
	if b := s.t.book(); b != nil {
		return b.lengths(v)
	}
	return 0
}

// pieceFrom is the event that brought a piece.
func (s *signals) pieceFrom(v string) (event string, ok bool) {
	b := s.t.book()
	if b == nil {
		return "", false
	}
	ref, ok := b.piece(v, hash64(v))
	if !ok {
		return "", false
	}
	return readHead(b.head(ref)).event, true
}

// values are the words of an action's arguments that may have been put together.
func values(s string) []string {
	var out []string
	for v := range oddFields(s) {
		if v = trimmed.trim(v); len(v) < minValue || len(v) > maxJoined || !unusual.in(v) {
			continue
		}
		if v = strings.ToLower(v); len(v) >= minValue && len(v) <= maxJoined {
			out = append(out, v)
		}
	}
	return out
}

// hashesOf are the hashes of some texts.
func hashesOf(texts []string) []uint64 {
	if len(texts) == 0 {
		return nil
	}
	out := make([]uint64, len(texts))
	for i, s := range texts {
		out[i] = hash64(s)
	}
	return out
}

func (s *signals) fragments() any {
	var out []*Fragment
	b := s.t.book()
	if b == nil || b.tabs[postPieces].young.n+b.tabs[postPieces].elder.n == 0 {
		return out
	}
	for _, v := range s.in.values {
		lengths := s.pieceLengths(v)
		if lengths == 0 {
			continue
		}
		if len(v) <= maxPiece && lengths&pieceBit(len(v)) != 0 {
			if _, whole := s.pieceFrom(v); whole {
				continue
			}
		}
		if f := s.assemble(v); f != nil {
			out = append(out, f)
		}
	}
	return out
}

// assemble cuts a value into pieces that are known, two to four of them, from
// two observations at least.
func (s *signals) assemble(v string) *Fragment {
	type way struct {
		pieces, events []string
	}
	ways := make([]*way, len(v)+1)
	ways[0] = new(way)
	for i := range v {
		if ways[i] == nil || len(ways[i].pieces) == 4 {
			continue
		}
		if len(v)-i < minPiece {
			break
		}
		for lengths := s.pieceLengths(v[i:]); lengths != 0; {
			n := 63 - bits.LeadingZeros64(lengths)
			lengths &^= 1 << n
			j := i + minPiece + n
			if j > len(v) || ways[j] != nil || i == 0 && j == len(v) {
				continue
			}
			if ev, ok := s.pieceFrom(v[i:j]); ok {
				ways[j] = &way{append(slices.Clone(ways[i].pieces), v[i:j]), append(slices.Clone(ways[i].events), ev)}
			}
		}
	}
	w := ways[len(v)]
	if w == nil || len(w.pieces) < 2 {
		return nil
	}
	evs := slices.Clone(w.events)
	slices.Sort(evs)
	if len(slices.Compact(evs)) < 2 {
		return nil
	}
	return &Fragment{Value: v, Pieces: w.pieces, Events: w.events}
}

// ---- memory keys

type keyRec struct {
	writes    int64
	firstSize float64
	firstH    float64
}

func (s *signals) noteKey() {
	if s.in.Memory.Key == "" {
		return
	}
	r := s.keyHistory()
	if r.writes == 0 {
		r.firstSize, r.firstH = float64(len(s.in.Content.Text)), s.entropy()
	}
	r.writes++
	e := enc(s.t.take())
	e.num(uint64(r.writes))
	e.num(math.Float64bits(r.firstSize))
	e.num(math.Float64bits(r.firstH))
	s.t.put(tableKeys, s.t.named(s.in.Memory.Key), s.t.give(e))
}

func (s *signals) keyHistory() *keyRec {
	if !s.keyRead && s.in.Memory.Key != "" {
		d := dec(s.t.get(tableKeys, s.t.named(s.in.Memory.Key)))
		s.keyRec = keyRec{int64(d.num()), math.Float64frombits(d.num()), math.Float64frombits(d.num())}
	}
	s.keyRead = true
	return &s.keyRec
}

func (r *keyRec) growth(in *Input) float64 {
	if r.firstSize == 0 {
		return 1
	}
	return float64(len(in.Content.Text)) / r.firstSize
}

func (r *keyRec) rise(s *signals) float64 { return s.entropy() - r.firstH }

// ---- beliefs over time

type beliefRec struct {
	written time.Time
	origin  string
	extern  bool
	session string
	used    time.Time // first recall or citation; zero when there was none
	usedBy  string    // its session
	// words are those of the memory, carriers included; known says that they were kept.
	words []uint32
	known bool
}

func (r *beliefRec) bytes(e enc) enc {
	e.num(uint64(r.written.UnixNano()))
	if r.used.IsZero() {
		e.num(0)
	} else {
		e.num(uint64(r.used.UnixNano()))
	}
	if r.extern {
		e.num(1)
	} else {
		e.num(0)
	}
	e.str(r.origin)
	e.str(r.session)
	e.str(r.usedBy)
	if r.known {
		e.num(1)
		e.hashes(r.words)
	}
	return e
}

func readBelief(b []byte) *beliefRec {
	d := dec(b)
	r := &beliefRec{written: time.Unix(0, int64(d.num())).UTC()}
	if n := d.num(); n > 0 {
		r.used = time.Unix(0, int64(n)).UTC()
	}
	r.extern = d.num() == 1
	r.origin, r.session, r.usedBy = d.str(), d.str(), d.str()
	if r.known = d.num() == 1; r.known {
		r.words = d.hashes()
	}
	return r
}

func (s *signals) noteBelief() {
	in := s.in
	id := in.Memory.Belief.ID
	if id == "" || s.t.get(tableBeliefs, s.t.named(id)) != nil {
		return
	}
	r := beliefRec{written: in.Event.Time, origin: cmp.Or(in.Memory.Inherited, in.Memory.Origin), extern: in.Memory.External, session: in.Event.Session, known: true}
	if len(in.Content.Views) > 0 {
		words := append(s.t.words[:0], in.carriers...)
		for w := range strings.FieldsFuncSeq(streams.Clip(in.Content.Views[0], sleepText), notWord) {
			words = append(words, hash32(stem(w)))
		}
		s.t.words = words
		r.words = distinct(words)
	}
	s.t.put(tableBeliefs, s.t.named(id), s.t.give(r.bytes(s.t.take())))
}

// sleepAfter is how long a memory has to have been unused to be a sleeper.
const sleepAfter = 24 * time.Hour

// sleepText is how much of a memory is compared with actions, in bytes.
const sleepText = 512

// use notes the first use of a belief, and reports it if it came late.
func (s *signals) use(id string) *Sleeper {
	for i := range s.usedBy {
		if u := &s.usedBy[i]; u.id == id {
			return u.sleeper
		}
	}
	u := used{id, s.firstUse(id)}
	if len(s.usedBy) < maxSeen {
		s.usedBy = append(s.usedBy, u)
	}
	return u.sleeper
}

// counted is what a declared signal counts with this input.
type counted struct {
	by *declared
	n  int64
}

// used is a belief that this input uses.
type used struct {
	id      string
	sleeper *Sleeper
}

func (s *signals) firstUse(id string) *Sleeper {
	b := s.t.get(tableBeliefs, s.t.named(id))
	if b == nil {
		return nil
	}
	r := readBelief(b)
	if r.used.IsZero() {
		r.used, r.usedBy = s.in.Event.Time, s.in.Event.Session
		s.t.put(tableBeliefs, s.t.named(id), s.t.give(r.bytes(s.t.take())))
	}
	if r.usedBy != s.in.Event.Session {
		return nil
	}
	return r.sleeper(id, s.in, r.used)
}

// sleeper is the memory if it comes from another session and was written more than
// a day before.
func (r *beliefRec) sleeper(id string, in *Input, used time.Time) *Sleeper {
	if r.session == in.Event.Session || used.Sub(r.written) < sleepAfter {
		return nil
	}
	return &Sleeper{Belief: id, Dormant: used.Sub(r.written).Seconds(), Origin: r.origin, External: r.extern, Session: r.session}
}

// recalledSleeper is a memory that was recalled in this session, however often
// before, if the action shares something with it that is not the user's.
func (s *signals) recalledSleeper(id string) *Sleeper {
	b := s.t.get(tableBeliefs, s.t.named(id))
	if b == nil {
		return nil
	}
	r := readBelief(b)
	if r.known && !s.in.shares(r.words) {
		return nil
	}
	return r.sleeper(id, s.in, s.in.Event.Time)
}

// shares reports whether words hold an address or a value of the action that the
// user did not name; where the action has neither, whether they hold a thing of the
// tool's name and the user did not ask for it.
func (in *Input) shares(words []uint32) bool {
	c := in.call
	for i, x := range in.Content.Carriers {
		if hasHash(words, in.carriers[i]) && !in.byUser(x) {
			return true
		}
	}
	for i := range c.Values {
		if v := &c.Values[i]; v.In(words) && !slices.Contains(in.intent.Values, v.Path) {
			return true
		}
	}
	return len(c.Values) == 0 && !in.intent.Asked && count(words, c.Things) > 0
}

func (s *signals) noteRecall() {
	d := dec(s.t.get(tableSessions, s.sessionKey("r")))
	var ids []string
	for range min(d.num(), maxNotes) {
		ids = append(ids, d.str())
	}
	for _, it := range s.in.Recall.Items {
		s.use(it.ID)
		v := it.ID
		if it.External {
			v = "!" + v
		}
		if !slices.Contains(ids, v) {
			ids = append(ids, v)
		}
	}
	ids = ids[max(0, len(ids)-maxNotes):]
	var e enc
	e.num(uint64(len(ids)))
	for _, id := range ids {
		e.str(id)
	}
	s.t.put(tableSessions, s.sessionKey("r"), e)
}

func (s *signals) recalled() []string {
	d := dec(s.t.get(tableSessions, s.sessionKey("r")))
	var ids []string
	for range min(d.num(), maxNotes) {
		ids = append(ids, d.str())
	}
	return ids
}

func (s *signals) recalledExternal() any {
	var out []string
	for _, id := range s.recalled() {
		if v, ok := strings.CutPrefix(id, "!"); ok {
			out = append(out, v)
		}
	}
	return out
}

func (s *signals) sleepers() any {
	var out []*Sleeper
	seen := make(map[string]bool)
	add := func(id string, sl *Sleeper) {
		if sl != nil && !seen[id] {
			seen[id] = true
			out = append(out, sl)
		}
	}
	for _, b := range s.in.Action.Beliefs {
		add(b.ID, s.use(b.ID))
	}
	if s.in.call == nil {
		return out
	}
	for _, id := range s.recalled() {
		id = strings.TrimPrefix(id, "!")
		add(id, s.recalledSleeper(id))
	}
	return out
}

// ---- tool catalogues

// noteTools compares a catalogue with the first one of its server, or with the
// last one that a person accepted.
func (s *signals) noteTools() {
	for _, it := range s.in.Tools.Items {
		it.Drift, it.Shadows = false, ""
		base := s.t.get(tableTools, s.t.named(s.in.Tools.Server, "\x00", it.Name))
		if base == nil {
			s.t.put(tableTools, s.t.named(s.in.Tools.Server, "\x00", it.Name), []byte(it.print))
		} else if string(base) != it.print {
			it.Drift = true
		}
		// By the bare name: who offers it, and whether it drifted.
		first := s.in.Tools.Server
		if b := s.t.get(tableTools, s.t.named("\x01", it.Name)); b != nil {
			d := dec(b)
			if first = d.str(); first != s.in.Tools.Server {
				it.Shadows = cmp.Or(first, "(unnamed)")
			}
		}
		drift := uint64(0)
		if it.Drift || it.Shadows != "" {
			drift = 1
		}
		var e enc
		e.str(first)
		e.num(drift)
		s.t.put(tableTools, s.t.named("\x01", it.Name), e)
	}
}

func (s *signals) toolDrift() any {
	d := dec(s.t.get(tableTools, s.t.named("\x01", s.in.Action.Tool)))
	d.raw()
	return d.num() == 1
}
