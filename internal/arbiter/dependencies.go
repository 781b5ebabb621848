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

// This file finds earlier alerts that apply to a proposal. They are about beliefs that the proposal or its decision
// cites, beliefs that were recalled in its session, untrusted content in its arguments, and the beliefs from which
// these beliefs derive. It makes no difference when and in which session a belief or content came in. Content that the
// session only read does not count.
//
// All tables have a maximum size, and the oldest entry is evicted first. Findings that ask for nothing never evict
// findings that ask for a hold. Even if a finding on a belief is evicted, ingest has restricted the belief, and the
// entry of every action that cites the belief says so.
const (
	maxAlerted  = 20_000  // per project: subjects whose findings ask for neither a hold nor a deny
	maxBinding  = 200_000 // per project: subjects with findings that ask for a hold or a deny
	maxFindings = 8       // per subject
	maxTexts    = 4       // per finding: texts besides the first
	maxSessions = 10_000  // per project: sessions with recalls
	maxRecalled = 128     // per session: recalled beliefs
	maxParents  = 50_000  // per project: beliefs that derive from others
	maxFrom     = 16      // per belief: parents
	maxBearing  = 32      // per proposal: reasons
	maxSteps    = 32      // per dependency: ancestors examined
)

// Values of dependency.Rel: how a proposal depends on a belief, decision or observation.
const (
	relCited    = "cited"
	relDecision = "decision"
	relFound    = "found" // a recall found the belief and would return it
	relRecalled = "recalled"
	relArgument = "argument"
)

// dependency is a decision, a belief or an observation on which a proposal depends.
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

// pathTo returns the path from the proposal to the origin of r. If another agent sent the observation, the path names
// it as agent/id, because two agents may use the same id.
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

// finding is an alert as it is stored under its subject: a belief, an event or a source.
type finding struct {
	Agent  string         `json:"agent,omitzero"` // the agent whose events the alert is about
	Reason streams.Reason `json:"reason"`
	// Also are other texts of the rule about the same subject, at most maxTexts.
	Also []string `json:"also,omitzero"`
	// More is set if there was no room for a further text of the rule, or for a further finding on the subject. No
	// signature covers what is not stored, so none clears this finding.
	More bool `json:"more,omitzero"`
}

// with adds the texts of another finding of the same agent, rule and verdict.
func (fd *finding) with(other *finding) {
	fd.More = fd.More || other.More
	for _, text := range append([]string{other.Reason.Text}, other.Also...) {
		switch {
		case text == fd.Reason.Text || slices.Contains(fd.Also, text):
		case len(fd.Also) == maxTexts:
			fd.More = true
		default:
			fd.Also = append(slices.Clip(fd.Also), text)
		}
	}
}

// note stores the findings of a group's alerts, so that they apply to later proposals that depend on the same subjects.
// belief is the belief that an assessed memory write would create, or "" for other entries. reading is set if the
// findings are about content that was read or written. It is not set if they are about a proposal that depends on such
// content.
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

// subject returns the key of a subject of findings. An invalid id is replaced by its hash.
func subject(kind byte, id string) string {
	if !streams.ValidID(id) {
		sum := sha256.Sum256([]byte(id))
		return string(kind) + "#" + hex.EncodeToString(sum[:16])
	}
	return string(kind) + ":" + id
}

// subjectText names a subject of findings to a person.
func subjectText(subject string) string {
	return map[byte]string{'b': "belief ", 'e': "event ", 's': "source "}[subject[0]] + subject[2:]
}

func beliefSubject(id string) string { return subject('b', id) }
func eventSubject(id string) string  { return subject('e', id) }

// sourceSubject clips the source, a URL or a sender, to the length to which the sentinels clip it.
func sourceSubject(id string) string { return subject('s', streams.Clip(id, 120)) }

// noteFinding stores a finding under a subject. If the finding asks for a hold or a deny, the open holds that depend on
// the subject are checked again.
func (f *Fold) noteFinding(st *stage.State, project, under string, fd finding, now time.Time) error {
	var fs []finding
	known, err := st.Load(stage.Key(keyAlerted, project, under), &fs)
	if err != nil {
		return err
	}
	was := binds(fs)
	// The strictest findings are kept, in whatever order they came. Of findings with the same agent, rule and verdict,
	// the first in the ledger is kept, with the texts of the others.
	stored := false // set if fd is stored already and only gets another text
	for i, x := range fs {
		if x.Agent == fd.Agent && x.Reason.Group == fd.Reason.Group && x.Reason.Rule == fd.Reason.Rule &&
			x.Reason.Verdict == fd.Reason.Verdict {
			if position.Compare(x.Reason.Entry, fd.Reason.Entry) <= 0 {
				x, fd, stored = fd, x, true
			}
			had, more := len(fd.Also), fd.More
			if fd.with(&x); stored && len(fd.Also) == had && fd.More == more {
				return nil
			}
			fs = slices.Delete(fs, i, i+1)
			break
		}
	}
	if fd.Reason.Verdict > streams.Allow && !stored {
		if err := f.startRecheck(st, project, under, now); err != nil {
			return err
		}
	}
	fs = append(fs, fd)
	slices.SortFunc(fs, func(a, b finding) int {
		return cmp.Or(compareReasons(a.Reason, b.Reason), cmp.Compare(a.Agent, b.Agent))
	})
	for _, x := range fs[min(len(fs), maxFindings):] {
		fs[0].More = fs[0].More || x.Reason.Verdict > streams.Allow
	}
	fs = fs[:min(len(fs), maxFindings)]
	b, err := streams.Marshal(fs)
	if err != nil {
		return fmt.Errorf("encoding state: %w", err)
	}
	if binds(fs) {
		return keepRaw(st, keyBinding, keyAlerted, project, under, known && was, maxBinding, b, nil)
	}
	return keepRaw(st, keyAlerted, keyAlerted, project, under, known, maxAlerted, b, func(old []byte) bool {
		// Spare subjects whose findings ask for a hold or deny. They are evicted in the order of keyBinding.
		var fs []finding
		return streams.Unmarshal(old, &fs) == nil && binds(fs)
	})
}

// binds reports whether one of the findings asks for a hold or a deny. fs is sorted, the strictest first.
func binds(fs []finding) bool { return len(fs) > 0 && fs[0].Reason.Verdict > streams.Allow }

// keep stores a value in a table that has at most limit keys per project. A new key beyond that evicts the oldest one.
// known is set if the table has the key already.
func keep(st *stage.State, table byte, project, key string, known bool, limit uint64, v any) error {
	b, err := streams.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding state: %w", err)
	}
	return keepRaw(st, table, table, project, key, known, limit, b, nil)
}

// keepRaw is like keep for an encoded value. The order in which keys are evicted is stored under the key byte order.
// The caller must not modify v afterwards. If spare is not nil, keys for whose value spare returns true are not
// evicted.
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

// storeRecalled stores the beliefs that an allowed recall returned to its session, the latest maxRecalled. The list is
// written at every recall. To make that cheap, it consists of the strings of the dependencies only, and the existing
// bytes are copied unchanged.
func storeRecalled(st *stage.State, p *proposal) error {
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
		fs, n, err := nextRecalled(have[at:])
		if err != nil {
			return err
		}
		at += n
		if i := slices.IndexFunc(more, func(x dependency) bool { return x.Belief == string(fs[recalledBelief]) }); i >= 0 {
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

// recalledIn returns the beliefs that were recalled in the proposal's session.
func recalledIn(st *stage.State, p *proposal) ([]dependency, error) {
	v, _, err := st.Get(stage.Key(keyRecalled, p.Project, p.Agent+"\x00"+p.Session))
	if err != nil {
		return nil, err
	}
	var out []dependency
	for len(v) > 0 {
		fs, n, err := nextRecalled(v)
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

// fields returns those fields of a dependency that are stored for relRecalled.
func (r *dependency) fields() [5]*string {
	return [...]*string{&r.Decision, &r.Belief, &r.Agent, &r.Observation, &r.Source}
}

// recalledBelief is the index of Belief in fields.
const recalledBelief = 1

// nextRecalled decodes the first dependency of a list. It returns the dependency's fields and its encoded length.
func nextRecalled(v []byte) (fs [5][]byte, n int, err error) {
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

// parents are the beliefs from which a memory write derives.
type parents struct {
	Agent string   `json:"agent"`
	Event string   `json:"event"`
	From  []string `json:"from,omitzero"`
}

// derive stores the parents of a memory write, even if the write is not allowed.
func (f *Fold) derive(st *stage.State, p *proposal, now time.Time) error {
	if p.Belief == nil || len(p.From) == 0 {
		return nil
	}
	known, err := st.Load(stage.Key(keyParents, p.Project, p.Belief.ID), new(parents))
	if err != nil {
		return err
	}
	// Open holds that cite the belief now depend on its parents too.
	if err := f.startRecheck(st, p.Project, beliefSubject(p.Belief.ID), now); err != nil {
		return err
	}
	return keep(st, keyParents, p.Project, p.Belief.ID, known, maxParents,
		parents{p.Agent, p.ID, p.From[:min(len(p.From), maxFrom)]})
}

// earlierFindings returns the earlier findings on a proposal's dependencies as reasons. Such a reason can hold a
// proposal, but does not deny it. A finding on a belief that an action cites applies at every level. Other findings do
// not hold actions at L0 and L1. Findings on beliefs that a recall found are left to refuseFound.
func (f *Fold) earlierFindings(st *stage.State, p *proposal) ([]streams.Reason, error) {
	deps := p.dependencies()
	if p.Type == streams.TypeAction {
		recalled, err := recalledIn(st, p)
		if err != nil {
			return nil, err
		}
		deps = append(deps, recalled...)
	}
	var out []streams.Reason
	for _, r := range deps {
		if r.Rel == relFound {
			continue
		}
		rs, err := p.findings(st, r)
		if err != nil {
			return nil, err
		}
		// Drop each reason for allow that the answer of a group has too.
		rs = slices.DeleteFunc(rs, func(r streams.Reason) bool { return r.Verdict == streams.Allow && p.said(r) })
		out = joinReasons(maxBearing, out, rs)
	}
	return out, nil
}

// dependencies returns the dependencies that the proposal declares, and those that groups found in its arguments.
func (p *proposal) dependencies() []dependency {
	deps := slices.Clone(p.Rests)
	for _, a := range p.Answers {
		for _, r := range a.Rests {
			// One value is enough for each observation.
			if !slices.ContainsFunc(deps, func(x dependency) bool {
				return x.Rel == relArgument && x.Agent == r.Agent && x.Observation == r.Observation
			}) {
				deps = append(deps, dependency{relArgument, "", r.Belief, r.Agent, r.Observation, r.Source, r.Value})
			}
		}
	}
	return deps
}

// said reports whether a group's answer has the alert of reason r.
func (p *proposal) said(r streams.Reason) bool {
	return slices.ContainsFunc(p.Answers, func(a answer) bool {
		return a.Group == r.Group && slices.ContainsFunc(a.Reasons, func(x streams.Reason) bool {
			return x.Rule == r.Rule && x.Alert == r.Alert
		})
	})
}

// step is an ancestor of a dependency.
type step struct {
	id, agent string
	path      []string // from the dependency to this ancestor
}

// findings returns the findings on r and on its ancestors as reasons. If r is a belief that a recall found, and a
// person cleared a finding on it, the reason's verdict is allow, and its text names the person.
func (p *proposal) findings(st *stage.State, r dependency) ([]streams.Reason, error) {
	var out []streams.Reason
	err := p.bearing(st, r, func(fd finding, _ string, path []string, named bool, by *clearance) {
		found := p.because(r, fd.Reason, path, named)
		if by != nil {
			if fd.Reason.Verdict == streams.Allow {
				return
			}
			found.Verdict = streams.Allow
			found.Text = streams.Clip(fmt.Sprintf("cleared by %s (entry %s): %s", by.By, position.Text(by.Entry), found.Text),
				maxReasonText)
		}
		out = append(out, found)
	})
	return out, err
}

// bearing calls visit for each finding on r and on its ancestors. under is the subject of the finding. path and named
// are those of walk. by is the clearance that covers the finding, or nil.
func (p *proposal) bearing(st *stage.State, r dependency,
	visit func(fd finding, under string, path []string, named bool, by *clearance)) error {
	var cleared []clearance
	if r.Rel == relFound {
		var err error
		if cleared, err = clearances(st, p.Project, r.Belief); err != nil {
			return err
		}
	}
	look := func(under, agent string, path []string, named bool) error {
		var fs []finding
		if _, err := st.Load(stage.Key(keyAlerted, p.Project, under), &fs); err != nil {
			return err
		}
		for _, fd := range fs {
			if agent != "" && fd.Agent != "" && fd.Agent != agent {
				continue // an event of another agent with the same id
			}
			// A finding that a belief became unreliable counts only against proposals that cite it. In a recall, the
			// context policy refuses unreliable beliefs.
			if r.Rel != relCited && strings.HasPrefix(fd.Reason.Rule, fellRule) {
				continue
			}
			visit(fd, under, path, named, clears(cleared, under, fd))
		}
		return nil
	}
	return walk(st, p.Project, p.Agent, r, p.pathTo(r), look)
}

// sourceOf returns the source of r as the keys of findings name it.
func sourceOf(r dependency) string { return strings.TrimPrefix(r.Source, "tool:") }

// because returns a finding as a reason against this proposal. path leads from the proposal to the finding's subject.
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
