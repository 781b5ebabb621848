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
	"lazaret/pkg/position"
	"lazaret/streams"
)

// This file finds earlier alerts that apply to a proposal. These are alerts on the beliefs that the
// proposal or its decision cites, on the beliefs recalled in its session, on untrusted content in
// its arguments, and on the ancestors of all these. When and where they were ingested makes no
// difference. Content that the session only read does not count.
//
// All tables are bounded, and the oldest entry is evicted first. Findings that ask for nothing
// never evict findings that ask for a hold. If a sentinel restricts a belief, ingest records the
// restriction with the belief, and every later action that cites the belief carries it.
const (
	maxAlerted  = 20_000  // subjects with findings that ask for nothing, per project
	maxBinding  = 200_000 // subjects with findings that ask for a hold or a deny, per project
	maxFindings = 8       // per subject
	maxSessions = 10_000  // sessions with recalls, per project
	maxRecalled = 128     // beliefs recalled, per session
	maxParents  = 50_000  // beliefs that derive from other beliefs, per project
	maxFrom     = 16      // parents, per belief
	maxBearing  = 32      // reasons, per proposal
	maxSteps    = 32      // ancestors examined, per dependency
)

// The ways in which a proposal depends on something (dependency.Rel).
const (
	relCited    = "cited"
	relDecision = "decision"
	relFound    = "found" // a recall found the belief and would return it
	relRecalled = "recalled"
	relArgument = "argument"
)

// dependency is one thing that a proposal depends on: a decision, a belief or an observation.
type dependency struct {
	Rel         string `json:"rel"`
	Decision    string `json:"decision,omitzero"`
	Belief      string `json:"belief,omitzero"`
	Agent       string `json:"agent,omitzero"` // the agent that sent the observation
	Observation string `json:"observation,omitzero"`
	Source      string `json:"source,omitzero"`
	Value       string `json:"value,omitzero"` // the value in the arguments
}

func ref(b streams.BeliefRef) dependency {
	return dependency{Decision: b.Via, Belief: b.ID, Agent: b.Agent, Observation: b.Observation, Source: b.Source}
}

func (p *proposal) dependsOn(rel string, b streams.BeliefRef, decision string) {
	r := ref(b)
	r.Rel, r.Decision = rel, cmp.Or(r.Decision, decision)
	if r.Belief != "" || r.Decision != "" {
		p.Rests = append(p.Rests, r)
	}
}

// pathTo returns the path from the proposal to the origin of r. An observation of another agent has that
// agent before its id, because two agents may use the same id.
func (p *proposal) pathTo(r dependency) []string {
	path := []string{string(p.Type) + ":" + p.ID}
	if r.Observation != "" && r.Agent != "" && r.Agent != p.Agent {
		r.Observation = r.Agent + "/" + r.Observation
	}
	for _, step := range [][2]string{{"decision", r.Decision}, {"belief", r.Belief}, {"observation", r.Observation},
		{"source", r.Source}} {
		if step[1] != "" {
			path = append(path, streams.Clip(step[0]+":"+step[1], maxStep))
		}
	}
	return path
}

// finding is an alert in the form in which it is stored under a subject.
type finding struct {
	Agent  string         `json:"agent,omitzero"` // the agent whose events the alert is about
	Reason streams.Reason `json:"reason"`
}

// note stores a group's findings, so that they apply to later actions that depend on the same
// subjects. belief is the belief that the assessed memory write would create; it is empty for other
// entries. reading is true if the findings are about content that was read or written, and false if
// they are about a proposal that depends on such content.
func (f *Fold) note(st *stage.State, e *streams.Entry, group string, alerts []streams.Alert, belief string,
	reading bool, now time.Time) error {
	for _, al := range alerts {
		v, named := alertVerdict(&al, "")
		if !named {
			continue
		}
		fd := finding{Agent: streams.Clip(al.Agent, maxStep), Reason: alertReason(streams.CodeRests, v, group, al)}
		fd.Reason.Entry, fd.Reason.Path = e.Position(), nil
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

// subject returns a key under which findings are stored. An invalid id is replaced by its hash.
func subject(kind byte, id string) string {
	if !streams.ValidID(id) {
		sum := sha256.Sum256([]byte(id))
		return string(kind) + "#" + hex.EncodeToString(sum[:16])
	}
	return string(kind) + ":" + id
}

func beliefSubject(id string) string { return subject('b', id) }
func eventSubject(id string) string  { return subject('e', id) }

// sourceSubject clips the source (a URL or a sender) as the sentinels do.
func sourceSubject(id string) string { return subject('s', streams.Clip(id, 120)) }

// noteFinding stores a finding under a subject. If the finding asks for a hold or a deny, the open
// holds that depend on the subject are rechecked.
func (f *Fold) noteFinding(st *stage.State, project, under string, fd finding, now time.Time) error {
	var fs []finding
	known, err := st.Load(stage.Key(keyAlerted, project, under), &fs)
	if err != nil {
		return err
	}
	was := binds(fs)
	// The strictest findings are kept, independent of their order. Of equal findings of one rule,
	// the first one in the ledger is kept.
	for i, x := range fs {
		if x.Agent == fd.Agent && x.Reason.Group == fd.Reason.Group && x.Reason.Rule == fd.Reason.Rule &&
			x.Reason.Verdict == fd.Reason.Verdict {
			if position.Compare(x.Reason.Entry, fd.Reason.Entry) <= 0 {
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
		// Findings that bind are also in the eviction order of keyBinding.
		var fs []finding
		return streams.Unmarshal(old, &fs) == nil && binds(fs)
	})
}

// binds reports whether any finding asks for a hold or a deny. fs is sorted, strictest first.
func binds(fs []finding) bool { return len(fs) > 0 && fs[0].Reason.Verdict > streams.Allow }

// keep stores a value in a table that holds at most limit keys per project. A new key beyond the
// limit evicts the oldest.
func keep(st *stage.State, table byte, project, key string, known bool, limit uint64, v any) error {
	b, err := streams.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding state: %w", err)
	}
	return keepRaw(st, table, table, project, key, known, limit, b, nil)
}

// keepRaw stores v in a table, with order as the table's eviction order. The caller must not change
// v afterwards. If spare is not nil, keys for whose value it returns true are not evicted.
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

// served records the beliefs that an allowed recall returned to its session. It keeps the latest
// maxRecalled. The list is rewritten at every recall. To make that cheap, it contains only the
// strings of the dependencies, and the existing bytes are copied unchanged.
func served(st *stage.State, p *proposal) error {
	key := p.Agent + "\x00" + p.Session
	have, _, err := st.Get(stage.Key(keyRecalled, p.Project, key))
	if err != nil {
		return err
	}
	var more []dependency
	for _, r := range p.Rests {
		if !slices.ContainsFunc(more, func(x dependency) bool { return x.Belief == r.Belief }) {
			more = append(more, r)
		}
	}
	var ends []int // the offset at which each dependency in have ends
	for at := 0; at < len(have); ends = append(ends, at) {
		fs, n, err := nextServed(have[at:])
		if err != nil {
			return err
		}
		at += n
		if i := slices.IndexFunc(more, func(x dependency) bool { return x.Belief == string(fs[servedBelief]) }); i >= 0 {
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

// servedTo returns the recalled beliefs of the proposal's session.
func servedTo(st *stage.State, p *proposal) ([]dependency, error) {
	v, _, err := st.Get(stage.Key(keyRecalled, p.Project, p.Agent+"\x00"+p.Session))
	if err != nil {
		return nil, err
	}
	var out []dependency
	for len(v) > 0 {
		fs, n, err := nextServed(v)
		if err != nil {
			return nil, err
		}
		r := dependency{Rel: relRecalled}
		for i, s := range r.fields() {
			*s = string(fs[i])
		}
		out, v = append(out, r), v[n:]
	}
	return out, nil
}

// fields returns the fields of a relRecalled dependency that are stored.
func (r *dependency) fields() [5]*string {
	return [...]*string{&r.Decision, &r.Belief, &r.Agent, &r.Observation, &r.Source}
}

// servedBelief is the index of the belief in fields.
const servedBelief = 1

// nextServed decodes the first dependency of a list. It returns its fields and its encoded length.
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

// parents records which beliefs a memory write derives from.
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
	// Open holds that cite the belief now depend on its parents too.
	if err := f.touch(st, p.Project, beliefSubject(p.Belief.ID), now); err != nil {
		return err
	}
	return keep(st, keyParents, p.Project, p.Belief.ID, known, maxParents,
		parents{p.Agent, p.ID, p.From[:min(len(p.From), maxFrom)]})
}

// earlierFindings returns the earlier findings on a proposal's dependencies as reasons. Such a reason can
// hold a proposal, and never denies it. A finding on a belief that an action cites, or that a
// recall finds, applies at every level. Other findings do not hold actions at L0 and L1.
func (f *Fold) earlierFindings(st *stage.State, p *proposal) ([]streams.Reason, error) {
	deps := p.dependencies()
	if p.Type == streams.TypeAction {
		recalled, err := servedTo(st, p)
		if err != nil {
			return nil, err
		}
		deps = append(deps, recalled...)
	}
	var out []streams.Reason
	for _, r := range deps {
		rs, err := p.findings(st, r)
		if err != nil {
			return nil, err
		}
		// An allow reason that a group's answer already contains is dropped.
		rs = slices.DeleteFunc(rs, func(r streams.Reason) bool { return r.Verdict == streams.Allow && p.said(r) })
		out = joinReasons(maxBearing, out, rs)
	}
	return out, nil
}

// dependencies returns the dependencies that the proposal declares and those that groups found.
func (p *proposal) dependencies() []dependency {
	deps := slices.Clone(p.Rests)
	for _, a := range p.Answers {
		for _, r := range a.Rests {
			// One value per observation is enough.
			if !slices.ContainsFunc(deps, func(x dependency) bool {
				return x.Rel == relArgument && x.Agent == r.Agent && x.Observation == r.Observation
			}) {
				deps = append(deps, dependency{relArgument, "", r.Belief, r.Agent, r.Observation, r.Source, r.Value})
			}
		}
	}
	return deps
}

// said reports whether a group's answer contains the alert that r is about.
func (p *proposal) said(r streams.Reason) bool {
	return slices.ContainsFunc(p.Answers, func(a answer) bool {
		return a.Group == r.Group && slices.ContainsFunc(a.Reasons, func(x streams.Reason) bool {
			return x.Rule == r.Rule && x.Alert == r.Alert
		})
	})
}

// step is one ancestor of a dependency.
type step struct {
	id, agent string
	path      []string // from the dependency to this ancestor
}

// findings returns the findings on r and its ancestors as reasons.
func (p *proposal) findings(st *stage.State, r dependency) ([]streams.Reason, error) {
	var out []streams.Reason
	look := func(under, agent string, path []string, named bool) error {
		var fs []finding
		if _, err := st.Load(stage.Key(keyAlerted, p.Project, under), &fs); err != nil {
			return err
		}
		for _, fd := range fs {
			if agent != "" && fd.Agent != "" && fd.Agent != agent {
				continue // an event with the same id, of another agent
			}
			if r.Rel != relCited && strings.HasPrefix(fd.Reason.Rule, fellRule) {
				continue // only citing counts; in a recall, the context policy refuses beliefs that are no longer reliable
			}
			out = append(out, p.because(r, fd.Reason, path, named))
		}
		return nil
	}
	err := walk(st, p.Project, p.Agent, r, p.pathTo(r), look)
	return out, err
}

// sourceOf returns the source as it is named in the keys of findings.
func sourceOf(r dependency) string { return strings.TrimPrefix(r.Source, "tool:") }

// because converts a finding to a reason against this proposal.
func (p *proposal) because(r dependency, found streams.Reason, path []string, named bool) streams.Reason {
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
