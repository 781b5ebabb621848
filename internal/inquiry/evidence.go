package inquiry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"lazaret/internal/statement"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// EvidenceFormat is the first line of the signed statement and the name of the file's format.
// docs/evidence.md specifies the format.
const EvidenceFormat = "lazaret/evidence/v1"

// Evidence is a file with the log's entries about a session or a verdict, and their proofs.
type Evidence struct {
	Format     string `json:"format"`
	Statement  string `json:"statement"`  // signed note
	Checkpoint string `json:"checkpoint"` // signed note, with cosignatures
	// Handovers are the signed checkpoints that handed the log over to a new key, oldest first.
	Handovers []string           `json:"handovers,omitempty"`
	Leaves    []EvidenceLeaf     `json:"leaves"`
	Approvals []EvidenceApproval `json:"approvals"`
}

// EvidenceLeaf is a leaf in the format of bundles, with the proof that the tree includes it.
type EvidenceLeaf struct {
	bundleLine
	Prev string `json:"prev"` // record hash of the previous leaf, hex
	// Withheld is the reason why the payload is missing: forgotten, not-held, not-read, or its
	// sensitivity.
	Withheld string   `json:"withheld,omitempty"`
	Proof    []string `json:"proof"` // inclusion proof, base64
}

// EvidenceApproval lists, by index, the leaves that prove a person's decision and that the deciding key was
// active then.
type EvidenceApproval struct {
	Resolution int64   `json:"resolution"`
	Outcome    int64   `json:"outcome"`
	Activation int64   `json:"activation"`
	Chunks     []int64 `json:"chunks"`
}

// EvidenceOptions select the content of an evidence file.
type EvidenceOptions struct {
	Of      string // session, id of a proposal, or ledger sequence of a proposal or its verdict
	Project string // may be empty if only one project has Of
	Ceiling beliefs.Sensitivity
	Signer  note.Signer // signs the statement; a key that may sign checkpoints
	// Operators are the pinned keys of operators. A trust file counts if it was activated with one of them, or with an
	// operator's key from an earlier trust file that counts. If Operators is nil, every activated file counts.
	Operators note.Verifiers
	Now       time.Time
}

// gathered is the content of an evidence file under construction.
type gathered struct {
	what      string // such as "session s1" or "proposal a1"
	project   string
	entries   map[int64]*Entry
	uncovered int
	approvals []EvidenceApproval
	log       logFacts
}

// logFacts counts what the log itself records as missing, erased or reset.
type logFacts struct {
	gaps, missing, resets uint64
	forgotten, notHeld    int64  // number of entries of the project
	trimmed               uint64 // ledger sequence up to which the ledger was trimmed
	activations           []*trustInForce
}

// trustInForce is an activated trust file.
type trustInForce struct {
	at     *Entry
	chunks []*Entry
	pins   []keys.Pin
}

// Evidence returns the log's entries about a session or a verdict. It returns a NoSessionError if there
// are none.
func (l *Log) Evidence(ctx context.Context, o EvidenceOptions) (*Evidence, error) {
	if l.size == 0 {
		return nil, errors.New("no signed checkpoint covers the log yet: try again in a second")
	}
	g, err := l.gather(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := l.facts(ctx, g, o.Operators); err != nil {
		return nil, err
	}
	if err := g.approve(); err != nil {
		return nil, err
	}
	redact, err := l.Ceiling(ctx, o.Ceiling)
	if err != nil {
		return nil, err
	}
	ev := &Evidence{Format: EvidenceFormat, Checkpoint: string(l.cp), Leaves: []EvidenceLeaf{},
		Approvals: []EvidenceApproval{}}
	hs, err := l.Handovers()
	if err != nil {
		return nil, err
	}
	for _, h := range hs {
		ev.Handovers = append(ev.Handovers, string(h))
	}
	sum := sha256.New()
	for _, i := range g.indexes() {
		leaf, hash, err := l.evidenceLeaf(g.entries[i], redact)
		if err != nil {
			return nil, err
		}
		sum.Write(hash[:])
		ev.Leaves = append(ev.Leaves, leaf)
	}
	for _, a := range g.approvals {
		if ev.shows(&a) {
			ev.Approvals = append(ev.Approvals, a)
		}
	}
	signed, err := note.Sign(&note.Note{Text: l.evidenceText(g, ev, sum.Sum(nil), o.Now)}, o.Signer)
	ev.Statement = string(signed)
	return ev, err
}

// Project returns the project of the evidence.
func (ev *Evidence) Project() string {
	for l := range strings.Lines(ev.Statement) {
		if p, ok := strings.CutPrefix(l, "project: "); ok {
			return strings.TrimSpace(p)
		}
	}
	return ""
}

// Write writes the file.
func (ev *Evidence) Write(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	return enc.Encode(ev)
}

// gather collects the entries of a session, or of one proposal in it.
func (l *Log) gather(ctx context.Context, o EvidenceOptions) (*gathered, error) {
	g := &gathered{what: "session " + o.Of, entries: make(map[int64]*Entry)}
	s, err := l.Session(ctx, Select{Session: o.Of, Project: o.Project})
	var none *NoSessionError
	if errors.As(err, &none) {
		p, perr := l.proposal(ctx, o)
		if perr != nil {
			return nil, perr
		}
		if s, err = l.Session(ctx, Select{Session: p.Session, Project: p.Project, Agent: p.Agent}); err == nil {
			g.what = fmt.Sprintf("proposal %s of %s in session %s, ledger entry %s", p.ID, p.Agent, p.Session,
				position.Text(p.Seq))
			s.Entries, err = about(s.Entries, p)
		}
	}
	if err != nil {
		return nil, err
	}
	g.project = s.Project
	for _, e := range s.Entries {
		g.add(e)
	}
	if len(g.entries) == 0 {
		return nil, fmt.Errorf("none of the %d entries is covered by a signed checkpoint yet: try again in a second",
			g.uncovered)
	}
	return g, nil
}

func (g *gathered) add(e *Entry) {
	if !e.Covered {
		g.uncovered++
		return
	}
	g.entries[e.Index] = e
}

func (g *gathered) indexes() []int64 {
	return slices.Sorted(maps.Keys(g.entries))
}

// proposal finds the proposal that o.Of names by its id, its ledger position, or the ledger position of its
// verdict.
func (l *Log) proposal(ctx context.Context, o EvidenceOptions) (*Entry, error) {
	seq, _ := position.Parse(o.Of)
	var found []*Entry
	var answers uint64 // the proposal whose verdict is at seq
	pick := func(e *Entry) error {
		switch {
		case e.Stage == streams.StageArbiter && streams.Type(e.Type) == streams.TypeVerdict && e.Seq == seq && seq > 0:
			v := new(streams.VerdictEntry)
			err := e.decode(v)
			answers = v.Proposal
			return err
		case e.Stage != streams.StageIngest:
			return nil
		}
		switch streams.Type(e.Type) {
		case streams.TypeAction, streams.TypeMemory, streams.TypeRecall:
			if e.ID == o.Of || seq > 0 && e.Seq == seq || answers > 0 && e.Seq == answers {
				found = append(found, e)
			}
		}
		return nil
	}
	wanted := func(e *Entry) bool { return o.Project == "" || e.Project == o.Project }
	for pass := range 2 { // a verdict comes after its proposal, so the second pass finds the proposal
		if err := l.Range(ctx, 0, l.Size(), wanted, func(e *Entry) error {
			if e.Body == nil {
				return nil
			}
			return pick(e)
		}); err != nil {
			return nil, err
		}
		if pass == 0 && (answers == 0 || len(found) > 0) {
			break
		}
	}
	switch len(found) {
	case 0:
		return nil, &NoSessionError{o.Of}
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("%d proposals have the id %q: name the ledger entry of one, such as %s", len(found), o.Of,
		position.Text(found[0].Seq))
}

// about returns the entries about one proposal.
func about(all []*Entry, p *Entry) (out []*Entry, err error) {
	holds := make(map[string]bool)
	for _, e := range all {
		var b struct {
			Proposal uint64 `json:"proposal"`
			Hold     string `json:"hold"`
			Action   string `json:"action"`
		}
		mine := e.Seq == p.Seq || e.Stage != streams.StageIngest && e.Src == p.Seq
		switch streams.Type(e.Type) {
		case streams.TypeVerdict:
			v := new(streams.VerdictEntry)
			if err := e.decode(v); err != nil {
				return nil, err
			}
			if mine = v.Proposal == p.Seq; mine && v.Hold != nil {
				holds[v.Hold.ID] = true
			}
		case streams.TypeHoldState, streams.TypeOutcome, streams.TypeResolution:
			if err := e.decode(&b); err != nil {
				return nil, err
			}
			mine = mine || b.Proposal == p.Seq || holds[b.Hold] || streams.Type(e.Type) == streams.TypeOutcome &&
				b.Action == p.ID && e.Agent == p.Agent
		}
		if mine {
			out = append(out, e)
		}
	}
	return out, nil
}

// facts reads from the log its gaps, resets, erasures and trims, and the activated trust files.
func (l *Log) facts(ctx context.Context, g *gathered, operators note.Verifiers) error {
	active := statement.NewKeys(operators)
	chunks := make(map[string]map[int]*Entry)
	told := l.told // this search must not change the counts
	defer func() { l.told = told }()
	return l.Range(ctx, 0, l.size, func(e *Entry) bool {
		switch streams.Type(e.Type) {
		case streams.TypeChunk, streams.TypeActivation, streams.TypeTrimmed:
			return true
		}
		return e.Project == g.project
	}, func(e *Entry) error {
		leaf, err := l.chain.Leaf(e.Index)
		if err != nil {
			return err
		}
		switch {
		case leaf.Kind == chain.KindGap:
			g.log.gaps, g.log.missing = g.log.gaps+1, g.log.missing+leaf.Length
			return nil
		case leaf.Kind == chain.KindReset:
			g.log.resets++
			return nil
		case e.Project == g.project && e.Forgotten:
			g.log.forgotten++
		case e.Project == g.project && e.NotHeld:
			g.log.notHeld++
		}
		if e.Body == nil {
			return nil
		}
		switch streams.Type(e.Type) {
		case streams.TypeTrimmed:
			r := new(streams.Retention)
			if err := e.decode(r); err == nil {
				g.log.trimmed = max(g.log.trimmed, r.Trimmed)
			}
		case streams.TypeChunk:
			c := new(streams.ChunkEntry)
			if e.Stage != streams.StageIngest || e.Project != streams.SystemProject || e.decode(c) != nil || c.Count < 1 ||
				c.Count > streams.MaxChunks || c.Index < 0 || c.Index >= c.Count {
				return nil
			}
			if chunks[c.Digest] == nil {
				chunks[c.Digest] = make(map[int]*Entry)
			}
			chunks[c.Digest][c.Index] = e
		case streams.TypeActivation:
			a := new(streams.ActivationEntry)
			if e.Stage == streams.StageIngest && e.Project == streams.SystemProject && e.decode(a) == nil &&
				a.Do == streams.DoActivateTrust {
				t, err := trustOf(e, a, chunks[a.Digest], operators, active)
				if t != nil {
					g.log.activations = append(g.log.activations, t)
				}
				return err
			}
		}
		return nil
	})
}

// trustOf assembles the trust file of an activation from its parts. It returns nil if the log lacks a part,
// if the file cannot be parsed, or if no operator activated it. The stages ignore such a file too.
func trustOf(e *Entry, a *streams.ActivationEntry, parts map[int]*Entry, operators note.Verifiers,
	active *statement.Keys) (*trustInForce, error) {
	t := &trustInForce{at: e}
	var text []byte
	for i := range len(parts) {
		p := parts[i]
		if p == nil {
			return nil, nil
		}
		c := new(streams.ChunkEntry)
		if err := p.decode(c); err != nil {
			return nil, err
		}
		text, t.chunks = append(text, c.Chunk...), append(t.chunks, p)
	}
	if streams.Digest(text) != a.Digest {
		return nil, nil
	}
	trust, err := keys.ParseTrust("trust", text)
	if operators != nil {
		trust = active.Activate(a.Note, text)
	}
	if err != nil || trust == nil {
		return nil, nil
	}
	t.pins = trust.Pins()
	return t, nil
}

// approve lists, for each person's decision among the entries, the leaves which prove that the person's key
// was active. evidenceText counts the decisions whose leaves are not in the log.
func (g *gathered) approve() error {
	bySeq := make(map[uint64]*Entry)
	for _, e := range g.entries {
		bySeq[e.Seq] = e
	}
	for _, i := range g.indexes() {
		e := g.entries[i]
		if t := streams.Type(e.Type); e.Stage != streams.StageArbiter || t != streams.TypeVerdict &&
			t != streams.TypeHoldState {
			continue
		}
		var b struct {
			Resolved *streams.Resolved `json:"resolved"`
		}
		if err := e.decode(&b); err != nil {
			return err
		}
		if b.Resolved == nil || slices.ContainsFunc(g.approvals, func(a EvidenceApproval) bool {
			return a.Resolution == index(bySeq[b.Resolved.Entry])
		}) {
			continue
		}
		a := EvidenceApproval{Resolution: index(bySeq[b.Resolved.Entry]), Outcome: i, Activation: -1, Chunks: []int64{}}
		for _, t := range slices.Backward(g.log.activations) {
			if t.at.Index < a.Resolution && slices.ContainsFunc(t.pins, func(p keys.Pin) bool {
				return p.Key == b.Resolved.Key
			}) {
				g.add(t.at)
				a.Activation = t.at.Index
				for _, c := range t.chunks {
					g.add(c)
					a.Chunks = append(a.Chunks, c.Index)
				}
				break
			}
		}
		g.approvals = append(g.approvals, a)
	}
	return nil
}

// index returns the index of an entry, or -1 for nil.
func index(e *Entry) int64 {
	if e == nil {
		return -1
	}
	return e.Index
}

// evidenceLeaf returns a leaf with its proof, and with its payload unless that must be withheld.
func (l *Log) evidenceLeaf(e *Entry, redact *Redactor) (x EvidenceLeaf, hash tlog.Hash, err error) {
	leaf, err := l.chain.Leaf(e.Index)
	if err != nil {
		return x, hash, err
	}
	raw, err := chain.AppendLeaf(nil, &leaf)
	if err != nil {
		return x, hash, err
	}
	hash = tlog.RecordHash(raw)
	x.bundleLine = *lineOf(&leaf)
	x.Prev = hex.EncodeToString(leaf.Prev[:])
	proof, err := l.Prove(e)
	if err != nil {
		return x, hash, err
	}
	x.Proof = []string{}
	for _, h := range proof {
		x.Proof = append(x.Proof, h.String())
	}
	shown := *e
	redact.Redact(&shown)
	if x.Withheld = shown.Redacted; x.Withheld != "" {
		return x, hash, nil
	}
	if e.Body == nil && !beliefs.Secret.Within(redact.to) {
		x.Withheld = "not-read" // its sensitivity is unknown
		return x, hash, nil
	}
	salt, payload, err := l.chain.Salted(e.Index)
	if err != nil {
		return x, hash, err
	}
	x.put(salt, payload)
	return x, hash, nil
}

// shows reports whether all leaves of an approval are included with their payloads.
func (ev *Evidence) shows(a *EvidenceApproval) bool {
	for _, i := range append([]int64{a.Resolution, a.Outcome, a.Activation}, a.Chunks...) {
		if !slices.ContainsFunc(ev.Leaves, func(x EvidenceLeaf) bool { return x.Index == i && x.Payload != nil }) {
			return false
		}
	}
	return true
}

// evidenceText returns the statement to be signed.
func (l *Log) evidenceText(g *gathered, ev *Evidence, leaves []byte, now time.Time) string {
	var withheld []string
	for _, x := range ev.Leaves {
		if x.Withheld != "" {
			withheld = append(withheld, fmt.Sprintf("%d %s", x.Index, x.Withheld))
		}
	}
	stamp := func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
	var b strings.Builder
	b.WriteString(EvidenceFormat + "\n")
	line := func(name, format string, args ...any) { fmt.Fprintf(&b, name+": "+format+"\n", args...) }
	line("of", "%s", g.what)
	line("project", "%s", g.project)
	line("origin", "%s", l.told.Signer)
	line("size", "%d", l.size)
	line("root", "%s", l.root)
	line("leaves", "%d sha256:%x", len(ev.Leaves), leaves)
	line("withheld", "%s", orNone(strings.Join(withheld, ", ")))
	line("approvals", "%d", len(ev.Approvals))
	line("approvals not shown", "%d", len(g.approvals)-len(ev.Approvals))
	line("first", "%s", stamp(ev.Leaves[0].Time))
	line("last", "%s", stamp(ev.Leaves[len(ev.Leaves)-1].Time))
	line("not covered yet", "%d", g.uncovered)
	line("forgotten in the project", "%d", g.log.forgotten)
	line("not held in the project", "%d", g.log.notHeld)
	line("gaps in the log", "%d, %d ledger entries missing", g.log.gaps, g.log.missing)
	line("resets in the log", "%d", g.log.resets)
	line("ledger trimmed up to", "%d", g.log.trimmed)
	line("made", "%s", now.UTC().Format(time.RFC3339))
	return b.String()
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
