package arbiter

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lazaret/internal/stage"
	"lazaret/streams"
)

// This file finds earlier alerts that apply to a proposal: alerts on beliefs that it or
// its decision cites, on beliefs recalled in its session, on untrusted content in its
// arguments, and on the ancestors of these. It does not matter when or where any of it
// was ingested. Content that its session merely read does not count.
//
// All tables are bounded. The oldest entry is evicted. An alert that asks for nothing
// never evicts one that asks for a hold. A sentinel's restriction of a belief stays in
// ingest's own record, which every later action that cites the belief carries.
const (
	maxAlerted  = 20_000  // subjects with findings that ask for nothing, of a project
	maxBinding  = 200_000 // subjects with findings that ask for something
	maxFindings = 8       // of a subject
	maxSessions = 10_000  // sessions with recalls, of a project
	maxRecalled = 128     // beliefs recalled in a session
	maxParents  = 50_000  // beliefs that derive from something, of a project
	maxFrom     = 16      // of a belief
	maxBearing  = 32      // reasons of a proposal
	maxSteps    = 32      // ancestors that are looked at for one of its rests
)

// How a proposal depends on something.
const (
	relCited    = "cited"
	relDecision = "decision"
	relFound    = "found" // a recall would bring it into the context
	relRecalled = "recalled"
	relArgument = "argument"
)

// rest is one dependency of a proposal.
type rest struct {
	Rel         string `json:"rel"`
	Decision    string `json:"decision,omitzero"`
	Belief      string `json:"belief,omitzero"`
	Agent       string `json:"agent,omitzero"` // whose event the observation is
	Observation string `json:"observation,omitzero"`
	Source      string `json:"source,omitzero"`
	Value       string `json:"value,omitzero"` // of the arguments
}

func ref(b streams.BeliefRef) rest {
	return rest{Decision: b.Via, Belief: b.ID, Agent: b.Agent, Observation: b.Observation, Source: b.Source}
}

func (p *proposal) rest(rel string, b streams.BeliefRef, decision string) {
	r := ref(b)
	r.Rel, r.Decision = rel, cmp.Or(r.Decision, decision)
	if r.Belief != "" || r.Decision != "" {
		p.Rests = append(p.Rests, r)
	}
}

// pathTo is the path from the proposal to the origin of a rest.
func (p *proposal) pathTo(r rest) []string {
	path := []string{string(p.Type) + ":" + p.ID}
	for _, step := range [][2]string{{"decision", r.Decision}, {"belief", r.Belief}, {"observation", r.Observation},
		{"source", r.Source}} {
		if step[1] != "" {
			path = append(path, streams.Clip(step[0]+":"+step[1], maxStep))
		}
	}
	return path
}

// finding is an alert, kept under a subject.
type finding struct {
	Agent  string         `json:"agent,omitzero"` // whose events it saw
	Reason streams.Reason `json:"reason"`
}

// note stores a group's findings for later actions that depend on their subjects. belief
// is the candidate of the memory write that they are about. reading is set when they are
// about content read or written, and not about a proposal that depends on it.
func (f *Fold) note(st *stage.State, e *streams.Entry, group string, alerts []streams.Alert, belief string,
	reading bool, now time.Time) error {
	for _, al := range alerts {
		v, named := alertVerdict(&al, "")
		if !named {
			continue
		}
		fd := finding{Agent: streams.Clip(al.Agent, maxStep), Reason: alertReason(streams.CodeRests, v, group, al)}
		fd.Reason.Entry, fd.Reason.Path = e.Seq, nil
		var under []string
		if al.Subject.Kind == "belief" {
			under = append(under, beliefSubject(al.Subject.ID))
		}
		if belief != "" {
			under = append(under, beliefSubject(belief))
		}
		if reading {
			for _, ev := range al.Events[:min(len(al.Events), 4)] {
				under = append(under, eventSubject(ev))
			}
			if al.Subject.Kind == "source" {
				under = append(under, sourceSubject(al.Subject.ID))
			}
		}
		slices.Sort(under)
		for _, s := range slices.Compact(under) {
			if err := f.noteFinding(st, e.Project, s, fd, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// subject is a key under which findings are stored. An id that is no legal name is
// hashed.
func subject(kind byte, id string) string {
	if !streams.ValidID(id) {
		sum := sha256.Sum256([]byte(id))
		return string(kind) + "#" + hex.EncodeToString(sum[:16])
	}
	return string(kind) + ":" + id
}

func beliefSubject(id string) string { return subject('b', id) }
func eventSubject(id string) string  { return subject('e', id) }

// A source is a URL or a sender, and in what the sentinels keep of it clipped.
func sourceSubject(id string) string { return subject('s', streams.Clip(id, 120)) }

// noteFinding stores a finding under a subject. If the finding asks for something, open
// holds that depend on the subject are checked again.
func (f *Fold) noteFinding(st *stage.State, project, under string, fd finding, now time.Time) error {
	var fs []finding
	known, err := st.Load(stage.Key(keyAlerted, project, under), &fs)
	if err != nil {
		return err
	}
	was := binds(fs)
	// The strictest findings are kept, in whatever order they come. Of equal findings of
	// one rule the first written is kept.
	for i, x := range fs {
		if x.Agent == fd.Agent && x.Reason.Group == fd.Reason.Group && x.Reason.Rule == fd.Reason.Rule &&
			x.Reason.Verdict == fd.Reason.Verdict {
			if x.Reason.Entry <= fd.Reason.Entry {
				return nil
			}
			fs = slices.Delete(fs, i, i+1)
			break
		}
	}
	if fd.Reason.Verdict > streams.Allow {
		if err := f.touch(st, project, under, now); err != nil {
			return err
		}
	}
	fs = append(fs, fd)
	slices.SortFunc(fs, func(a, b finding) int {
		return cmp.Or(compareReasons(a.Reason, b.Reason), cmp.Compare(a.Agent, b.Agent))
	})
	fs = fs[:min(len(fs), maxFindings)]
	b, err := streams.Marshal(fs)
	if err != nil {
		return fmt.Errorf("encoding state: %w", err)
	}
	if binds(fs) {
		return keepRaw(st, keyBinding, keyAlerted, project, under, known && was, maxBinding, b, nil)
	}
	return keepRaw(st, keyAlerted, keyAlerted, project, under, known, maxAlerted, b, func(old []byte) bool {
		// Findings that have become binding are in the other order too.
		var fs []finding
		return streams.Unmarshal(old, &fs) == nil && binds(fs)
	})
}

// binds reports whether findings ask for something. The strictest comes first.
func binds(fs []finding) bool { return len(fs) > 0 && fs[0].Reason.Verdict > streams.Allow }

// keep stores a value in a table that holds limit keys per project. One key more evicts
// the oldest.
func keep(st *stage.State, table byte, project, key string, known bool, limit uint64, v any) error {
	b, err := streams.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding state: %w", err)
	}
	return keepRaw(st, table, table, project, key, known, limit, b, nil)
}

// keepRaw stores a value in a table with an eviction order of its own. Nobody may change
// v afterwards. spare, if not nil, can exempt a value from eviction.
func keepRaw(st *stage.State, order, table byte, project, key string, known bool, limit uint64, v []byte,
	spare func(old []byte) bool) error {
	if !known {
		count := append([]byte{keyFilled, order}, project...)
		n := uint64(0)
		if b, ok, err := st.Get(count); err != nil {
			return err
		} else if ok && len(b) == 8 {
			n = binary.BigEndian.Uint64(b)
		}
		ring := func(n uint64) []byte {
			k := append([]byte{keyRing, order}, project...)
			return binary.BigEndian.AppendUint64(append(k, 0), n%limit)
		}
		if old, ok, err := st.Get(ring(n)); err != nil {
			return err
		} else if ok {
			out := stage.Key(table, project, string(old))
			kept := false
			if spare != nil {
				v, _, err := st.Get(out)
				if err != nil {
					return err
				}
				kept = spare(v)
			}
			if !kept {
				if err := st.Delete(out); err != nil {
					return err
				}
			}
		}
		if err := st.Set(ring(n), []byte(key)); err != nil {
			return err
		}
		if err := st.Set(count, binary.BigEndian.AppendUint64(nil, n+1)); err != nil {
			return err
		}
	}
	return st.Give(stage.Key(table, project, key), v)
}

// served records the beliefs that an allowed recall brought into its session, the latest
// maxRecalled. Every recall writes the list, so it holds only the strings of its rests,
// and present ones are copied unchanged.
func served(st *stage.State, p *proposal) error {
	key := p.Agent + "\x00" + p.Session
	have, _, err := st.Get(stage.Key(keyRecalled, p.Project, key))
	if err != nil {
		return err
	}
	var more []rest
	for _, r := range p.Rests {
		if !slices.ContainsFunc(more, func(x rest) bool { return x.Belief == r.Belief }) {
			more = append(more, r)
		}
	}
	var ends []int // the end of each rest in have
	for at := 0; at < len(have); ends = append(ends, at) {
		fs, n, err := nextServed(have[at:])
		if err != nil {
			return err
		}
		at += n
		if i := slices.IndexFunc(more, func(x rest) bool { return x.Belief == string(fs[servedBelief]) }); i >= 0 {
			more = slices.Delete(more, i, i+1)
		}
	}
	if len(more) == 0 {
		return nil
	}
	if out := len(ends) + len(more) - maxRecalled; out > 0 {
		if n := min(out, len(ends)); n > 0 {
			have = have[ends[n-1]:]
		}
		more = more[max(0, out-len(ends)):]
	}
	b := append(make([]byte, 0, len(have)+192*len(more)), have...)
	for i := range more {
		for _, s := range more[i].fields() {
			b = append(binary.AppendUvarint(b, uint64(len(*s))), *s...)
		}
	}
	return keepRaw(st, keyRecalled, keyRecalled, p.Project, key, len(ends) > 0, maxSessions, b, nil)
}

// servedTo is the list of a proposal's session.
func servedTo(st *stage.State, p *proposal) ([]rest, error) {
	v, _, err := st.Get(stage.Key(keyRecalled, p.Project, p.Agent+"\x00"+p.Session))
	if err != nil {
		return nil, err
	}
	var out []rest
	for len(v) > 0 {
		fs, n, err := nextServed(v)
		if err != nil {
			return nil, err
		}
		r := rest{Rel: relRecalled}
		for i, s := range r.fields() {
			*s = string(fs[i])
		}
		out, v = append(out, r), v[n:]
	}
	return out, nil
}

// fields are the stored fields of a relRecalled rest.
func (r *rest) fields() [5]*string {
	return [...]*string{&r.Decision, &r.Belief, &r.Agent, &r.Observation, &r.Source}
}

// servedBelief is the index of the belief in fields.
const servedBelief = 1

// nextServed decodes the first rest of a list: its fields and its length.
func nextServed(v []byte) (fs [5][]byte, n int, err error) {
	for i := range fs {
		size, m := binary.Uvarint(v[n:])
		if m <= 0 || size > uint64(len(v)-n-m) {
			return fs, 0, errors.New(
				"decoding state: a session's recalls are damaged: remove the state folder, it is rebuilt from the ledger")
		}
		n += m
		fs[i] = v[n : n+int(size)]
		n += int(size)
	}
	return fs, n, nil
}

// parents is what a memory's candidate derives from.
type parents struct {
	Agent string   `json:"agent"`
	Event string   `json:"event"`
	From  []string `json:"from,omitzero"`
}

// derive records the parents of a memory write, whatever its verdict.
func (f *Fold) derive(st *stage.State, p *proposal, now time.Time) error {
	if p.Belief == nil || len(p.From) == 0 {
		return nil
	}
	known, err := st.Load(stage.Key(keyParents, p.Project, p.Belief.ID), new(parents))
	if err != nil {
		return err
	}
	// A hold that cites it depends on these now, too.
	if err := f.touch(st, p.Project, beliefSubject(p.Belief.ID), now); err != nil {
		return err
	}
	return keep(st, keyParents, p.Project, p.Belief.ID, known, maxParents,
		parents{p.Agent, p.ID, p.From[:min(len(p.From), maxFrom)]})
}

// bearing returns the reasons from earlier findings on a proposal's dependencies. A
// finding can hold a proposal, never deny it. A finding on a belief that an action cites,
// or that a recall finds, applies at every level. Other findings do not hold actions at L0 and L1.
func (f *Fold) bearing(st *stage.State, p *proposal) ([]streams.Reason, error) {
	rests := p.leans()
	if p.Type == streams.TypeAction {
		recalled, err := servedTo(st, p)
		if err != nil {
			return nil, err
		}
		rests = append(rests, recalled...)
	}
	var out []streams.Reason
	for _, r := range rests {
		rs, err := p.findings(st, r)
		if err != nil {
			return nil, err
		}
		// Allow reasons that a group's answer already gives are dropped.
		rs = slices.DeleteFunc(rs, func(r streams.Reason) bool { return r.Verdict == streams.Allow && p.said(r) })
		out = joinReasons(maxBearing, out, rs)
	}
	return out, nil
}

// leans returns the dependencies that a proposal declares and those that groups found.
func (p *proposal) leans() []rest {
	rests := slices.Clone(p.Rests)
	for _, a := range p.Answers {
		for _, r := range a.Rests {
			// One of several values from the same content is enough.
			if !slices.ContainsFunc(rests, func(x rest) bool {
				return x.Rel == relArgument && x.Agent == r.Agent && x.Observation == r.Observation
			}) {
				rests = append(rests, rest{relArgument, "", r.Belief, r.Agent, r.Observation, r.Source, r.Value})
			}
		}
	}
	return rests
}

// said reports whether a group's answer holds the alert behind a reason.
func (p *proposal) said(r streams.Reason) bool {
	return slices.ContainsFunc(p.Answers, func(a answer) bool {
		return a.Group == r.Group && slices.ContainsFunc(a.Reasons, func(x streams.Reason) bool {
			return x.Rule == r.Rule && x.Alert == r.Alert
		})
	})
}

// step is one ancestor of a rest.
type step struct {
	id, agent string
	path      []string // from the rest on
}

// findings returns the reasons from one rest and its ancestors.
func (p *proposal) findings(st *stage.State, r rest) ([]streams.Reason, error) {
	var out []streams.Reason
	look := func(under, agent string, path []string, named bool) error {
		var fs []finding
		if _, err := st.Load(stage.Key(keyAlerted, p.Project, under), &fs); err != nil {
			return err
		}
		for _, fd := range fs {
			if agent != "" && fd.Agent != "" && fd.Agent != agent {
				continue // another agent's event of the same name
			}
			if r.Rel != relCited && strings.HasPrefix(fd.Reason.Rule, fellRule) {
				continue // the context policy judges what a recall finds
			}
			out = append(out, p.because(r, fd.Reason, path, named))
		}
		return nil
	}
	err := walk(st, p.Project, p.Agent, r, p.pathTo(r), look)
	return out, err
}

// sourceOf is the source name that findings are stored under.
func sourceOf(r rest) string { return strings.TrimPrefix(r.Source, "tool:") }

// because turns a finding into a reason of this proposal.
func (p *proposal) because(r rest, found streams.Reason, path []string, named bool) streams.Reason {
	found.Verdict, found.Path = min(found.Verdict, streams.Hold), path
	direct := named && (r.Rel == relCited || r.Rel == relFound)
	if direct {
		found.Code = streams.CodeBelief
	} else if p.Type == streams.TypeAction && !p.Weighty {
		found.Verdict = streams.Allow
	}
	how := ""
	switch r.Rel {
	case relCited:
		how = "it cites belief " + r.Belief
	case relDecision:
		how = "it carries out decision " + r.Decision
	case relFound:
		how = "it finds belief " + r.Belief
	case relRecalled:
		how = "its session recalled belief " + r.Belief
	case relArgument:
		how = fmt.Sprintf("its arguments lean on observation %s for %q", r.Observation, r.Value)
	}
	found.Text = streams.Clip(how+": "+found.Text, maxReasonText)
	return found
}
