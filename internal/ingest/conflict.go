package ingest

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/policy"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// Two memories are compared if they have the same scope, subject and predicate, as their writers stated them, or the
// same scope and content. If their objects differ, they contradict each other. If the objects are equal, each can
// support the other, provided that its source is independent and of a stronger class. Both beliefs remain. Package
// beliefs decides by the class of the evidence which of the two beliefs loses.

// maxStated is the maximum number of beliefs that are stored for one scope, subject and predicate, or for one scope and
// content. Beliefs of a stronger class are kept first, then older ones. So many weak beliefs cannot displace a strong
// one.
const maxStated = 32

// stated is one statement of a belief, under the key for its scope, subject and predicate.
type stated struct {
	Belief string          `json:"b"`
	Object string          `json:"o"`
	Many   bool            `json:"m,omitzero"` // see beliefs.Triple
	Class  beliefs.Quality `json:"c"`
}

// stateKey returns the key of the beliefs with a subject and predicate in one scope.
func stateKey(project string, in beliefs.Namespace, subject, predicate string) []byte {
	sum := sha256.Sum256([]byte(in.String() + "\x00" + text.Normalize(subject) + "\x00" + text.Normalize(predicate)))
	return append(stage.Key(keyStated, project, "t"), sum[:16]...)
}

// sameKey returns the key of the beliefs with a content in one scope. print is the digest of the normalized content.
func sameKey(project string, in beliefs.Namespace, print string) []byte {
	return stage.Key(keyStated, project, "c"+in.String(), print)
}

// flatTriples returns the triples of a content that is a flat JSON object with the member subject. Each other member
// with a string, number or boolean value becomes a triple.
func flatTriples(content string) []beliefs.Triple {
	content = strings.TrimSpace(content)
	if len(content) == 0 || content[0] != '{' || len(content) > 16<<10 {
		return nil
	}
	var members map[string]jsontext.Value
	if streams.Unmarshal([]byte(content), &members) != nil || len(members) > beliefs.MaxTriples+1 {
		return nil
	}
	var subject string
	if v, ok := members["subject"]; !ok || v.Kind() != '"' || streams.Unmarshal(v, &subject) != nil {
		return nil
	}
	var out []beliefs.Triple
	for name, v := range members {
		if name == "subject" {
			continue
		}
		t := beliefs.Triple{Subject: subject, Predicate: name}
		switch v.Kind() {
		case '"':
			if streams.Unmarshal(v, &t.Object) != nil {
				return nil
			}
		case '0', 't', 'f':
			t.Object = string(v)
		case 'n':
			continue
		default:
			return nil // not flat
		}
		if t.Check() != nil {
			continue
		}
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b beliefs.Triple) int { return strings.Compare(a.Predicate, b.Predicate) })
	return out
}

// compareStatements compares the statements of an admitted or confirmed belief with those of other beliefs. It applies
// the resulting revisions and queues them for the ledger.
func (f *Fold) compareStatements(st *stage.State, project, id string, at time.Time) error {
	r, err := f.belief(st, project, id)
	if err != nil || r == nil || r.Ref.Axes.Security != beliefs.Clean || r.Ref.Axes.Truth == beliefs.Superseded {
		return err
	}
	var log []beliefs.Revision
	do := func(rv beliefs.Revision) error {
		log = append(log, rv)
		return f.revise(st, project, &rv)
	}
	for _, t := range r.Triples {
		if err := f.compareStatement(st, project, id, stateKey(project, r.Ref.Namespace, t.Subject, t.Predicate), t, at,
			do); err != nil {
			return err
		}
	}
	if r.Print != "" {
		if err := f.compareStatement(st, project, id, sameKey(project, r.Ref.Namespace, r.Print), beliefs.Triple{}, at,
			do); err != nil {
			return err
		}
	}
	return f.queueRevisions(st, project, "conflict", log, at)
}

// compareStatement compares one statement of a belief with the statements of other beliefs under the same key, and adds
// it to them.
func (f *Fold) compareStatement(st *stage.State, project, id string, key []byte, t beliefs.Triple, at time.Time,
	do func(beliefs.Revision) error) error {
	var all []stated
	if _, err := st.Load(key, &all); err != nil {
		return err
	}
	object := text.Normalize(t.Object)
	for _, s := range all {
		if s.Belief == id {
			continue
		}
		mine, err := f.belief(st, project, id)
		if err != nil {
			return err
		}
		other, err := f.belief(st, project, s.Belief)
		if err != nil {
			return err
		}
		if other == nil || other.Ref.Axes.Security != beliefs.Clean || other.Ref.Axes.Truth == beliefs.Superseded ||
			mine.Ref.Axes.Truth == beliefs.Superseded {
			continue
		}
		switch {
		case s.Object == object:
			err = corroborate(mine, other, at, do)
		case !s.Many && !t.Many:
			err = f.contradict(st, project, mine, other, t, at, do)
		}
		if err != nil {
			return err
		}
	}
	r, err := f.belief(st, project, id)
	if err != nil {
		return err
	}
	me := stated{id, object, t.Many, r.Ref.Quality}
	all = slices.DeleteFunc(all, func(s stated) bool { return s.Belief == id })
	at2, _ := slices.BinarySearchFunc(all, me, func(s, me stated) int {
		if me.Class.Stronger(s.Class) {
			return 1
		}
		return -1
	})
	all = slices.Insert(all, at2, me)
	return st.Put(key, all[:min(len(all), maxStated)])
}

// asEvidence returns the belief as evidence about another belief.
func (r *record) asEvidence(at time.Time) beliefs.Evidence {
	return beliefs.Evidence{Observation: r.Ref.Observation, Quality: r.Ref.Quality, Source: r.Ref.Source, At: at}
}

// corroborate lets two beliefs that state the same thing support each other. A belief gains support only from an
// independent source of a stronger class.
func corroborate(mine, other *record, at time.Time, do func(beliefs.Revision) error) error {
	for _, p := range [2][2]*record{{mine, other}, {other, mine}} {
		r, by := p[0], p[1]
		if by.Ref.Axes.Truth != beliefs.Supported {
			continue // only a supported belief can support another
		}
		e := by.asEvidence(at)
		s := r.standing()
		if !s.Independent(e) {
			continue
		}
		next, moves := s.Corroborate(e, 1)
		if err := do(beliefs.Revision{Belief: r.Ref.ID, Moves: moves, By: beliefs.ByAutoObservation, Who: whoCorrob,
			Why:      "an independent source of a stronger class states the same",
			Evidence: beliefs.EvidenceSet{e}, Scope: next.Scope, Other: by.Ref.ID, At: at}); err != nil {
			return err
		}
	}
	return nil
}

// contradict records two beliefs that state different things as evidence against each other. A
// user's new statement supersedes the same user's earlier one.
func (f *Fold) contradict(st *stage.State, project string, mine, other *record, t beliefs.Triple, at time.Time,
	do func(beliefs.Revision) error) error {
	why := fmt.Sprintf("%s %s: %s", streams.Clip(t.Subject, 80), streams.Clip(t.Predicate, 80), streams.Clip(t.Object, 80))
	fall := func(r *record, rv beliefs.Revision) error {
		was := r.Ref.Axes.Truth
		if err := do(rv); err != nil || len(rv.Moves) == 0 || was == beliefs.Contradicted {
			return err
		}
		return f.flagContradicted(st, project, r.Ref.ID, rv.Other, at, do)
	}
	if mine.ownWord() && other.ownWord() && mine.Ref.Axes.Truth == beliefs.Supported &&
		other.Ref.Axes.Truth == beliefs.Supported && mine.Ref.Source == other.Ref.Source {
		_, moves, err := other.standing().Supersede(mine.Ref.ID, beliefs.ByUser)
		if err == nil {
			return fall(other, beliefs.Revision{Belief: other.Ref.ID, Moves: moves, By: beliefs.ByUser, Who: other.Ref.Source,
				Why: "said anew: " + why, Other: mine.Ref.ID, At: at})
		}
	}
	a, b := *mine, *other // the states before either belief changes
	for _, p := range [2][2]*record{{&a, &b}, {&b, &a}} {
		r, by := p[0], p[1]
		if by.Ref.Axes.Truth == beliefs.Contradicted {
			continue // a belief that is itself contradicted cannot contradict another
		}
		e := by.asEvidence(at)
		e.Relation = beliefs.Contradicts
		_, moves := r.standing().Contradict(e)
		if err := fall(r, beliefs.Revision{Belief: r.Ref.ID, Moves: moves, By: beliefs.BySentinel, Who: whoConflict,
			Why: why, Evidence: beliefs.EvidenceSet{e}, Other: by.Ref.ID, At: at}); err != nil {
			return err
		}
	}
	return nil
}

// ownWord reports whether a belief is a statement of the user: it came with the user's credential, or repeats the
// user's words verbatim.
func (r *record) ownWord() bool {
	return r.Ref.Origin == beliefs.OriginUser && r.Ref.Quality == beliefs.HumanAssertion
}

// flagContradicted flags the beliefs that derive from belief id, because belief other contradicts it.
func (f *Fold) flagContradicted(st *stage.State, project, id, other string, at time.Time,
	do func(beliefs.Revision) error) error {
	flags, err := f.flagDependants(st, project, id, fmt.Sprintf("it derives from %s, which %s speaks against", id,
		other), at)
	for _, rv := range flags {
		if err := do(rv); err != nil {
			return err
		}
	}
	return err
}

// confirmations returns the revisions that an observation causes. They support memories that say the same as the user's
// message, and memories that a tool's result confirms, if the policy names the tool for this.
func (f *Fold) confirmations(st *stage.State, a streams.Address, pol *policy.Policy,
	e *streams.ObservationEntry) ([]beliefs.Revision, error) {
	var out []beliefs.Revision
	try := func(key []byte, object string, ev beliefs.Evidence, who, why string, sources int, fits func(
		r *record) bool) error {
		var all []stated
		if _, err := st.Load(key, &all); err != nil {
			return err
		}
		for _, s := range all {
			if s.Object != object || slices.ContainsFunc(out, func(rv beliefs.Revision) bool { return rv.Belief == s.Belief }) {
				continue
			}
			r, err := f.belief(st, a.Project, s.Belief)
			if err != nil {
				return err
			}
			if r == nil || r.Ref.Axes.Security != beliefs.Clean || r.Ref.Axes.Truth != beliefs.Unverified || !fits(r) {
				continue
			}
			next, moves := r.standing().Corroborate(ev, sources)
			if len(next.Evidence) == len(r.Evidence) && len(moves) == 0 {
				continue // this evidence is not independent of the evidence that the belief has
			}
			out = append(out, beliefs.Revision{Belief: s.Belief, Moves: moves, By: beliefs.ByAutoObservation, Who: who, Why: why,
				Evidence: beliefs.EvidenceSet{ev}, Scope: next.Scope, Other: e.ID, At: e.Time})
		}
		return nil
	}
	any := func(*record) bool { return true }
	spaces := []beliefs.Namespace{{}}
	if e.User != "" {
		spaces = append(spaces, beliefs.Namespace{User: e.User})
	}
	var promotions []*policy.Promotion
	if e.Tool != "" && pol != nil && a.Origin == beliefs.OriginTool {
		promotions = pol.Promotions(e.Tool)
	}
	for i := range e.Claims {
		c := &e.Claims[i]
		if c.Kind != beliefs.Content {
			continue
		}
		b := &e.Blocks[c.Block]
		if c.Quality.MaySupport() && len(b.Features.Prints) > 0 {
			ev := beliefs.Evidence{Observation: e.ID, Quality: c.Quality, Source: c.Belief.Source, At: e.Time}
			for _, in := range spaces {
				if err := try(sameKey(a.Project, in, b.Features.Prints[0].Exact.String()), "", ev, whoCorrob,
					"an independent source of a stronger class says the same", 1, any); err != nil {
					return nil, err
				}
			}
		}
		if len(promotions) == 0 {
			continue
		}
		for _, t := range flatTriples(b.Text) {
			for _, p := range promotions {
				ev := beliefs.Evidence{Observation: e.ID, Quality: policy.PromotedBy, Source: "tool:" + e.Tool, At: e.Time}
				for _, in := range spaces {
					if err := try(stateKey(a.Project, in, t.Subject, t.Predicate), text.Normalize(t.Object), ev, "policy:"+p.Name,
						"a result of "+e.Tool+" states the same", p.Sources,
						func(r *record) bool { return p.For(r.Category) }); err != nil {
						return nil, err
					}
				}
			}
		}
	}
	return out, nil
}
