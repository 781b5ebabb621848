package ingest

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/intent"
	"lazaret/pkg/policy"
	"lazaret/pkg/text"
	"lazaret/streams"
)

func init() {
	admits(streams.KindMem, (*Fold).remember)
	writesIn(streams.TypeMemory, (*Fold).applyMemory)
}

// remember records a memory write as a candidate. A candidate stays hidden until the sentinels have judged it and the
// arbiter has answered. The memory is at most as trusted as the least trusted text that it derives from.
func (f *Fold) remember(st *stage.State, msg *stage.Message, head streams.EntryHead,
	m *streams.Memory) (*stage.Admission, error) {
	a := msg.Address
	e := &streams.MemoryEntry{EntryHead: head, Origin: a.Origin, Key: m.Key, Content: m.Content, Category: m.Category,
		Channel: m.Channel, DerivedFrom: m.DerivedFrom, Source: m.Source, ValidFrom: m.ValidFrom, ValidTo: m.ValidTo}
	var err error
	if e.UnseenBy, e.Restored, err = f.sessionState(st, a, head, m.After); err != nil {
		return nil, err
	}
	e.Unseen = e.UnseenBy != nil
	e.Features = text.Analyze(m.Content)
	weakest, shares, err := f.lineage(st, a, m, e)
	if err != nil {
		return nil, err
	}
	if file, ok := strings.CutPrefix(m.Key, streams.FileKey); ok {
		weakest = ofFile(weakest, e)
		said, err := f.userSaid(st, a.Project, a.Agent, e.Session)
		if err != nil {
			return nil, err
		}
		if said.Texts, err = f.saidTexts(st, a.Project, a.Agent, e.Session); err != nil {
			return nil, err
		}
		e.Asked = said.AsksToChange([]intent.File{{Path: file, Loaded: true}})
	}
	if m.Home != nil {
		weakest, e.UserWord, e.Via = m.Home.Shared(weakest), false, m.Home.Belief
	}
	if weakest != a.Origin && !e.UserWord {
		e.Inherited = weakest
	}
	source := m.Source
	if source == "" {
		source = string(a.Origin) + ":" + a.Agent
	}
	if e.UserWord {
		source = string(beliefs.OriginUser) + ":" + a.Agent
	}
	if m.Home != nil {
		source = "project:" + m.Home.Project
	}
	pol, _, err := f.policies.Active(st, streams.DoActivatePolicy)
	if err != nil {
		return nil, err
	}
	e.StagedFor = staged(pol, a, m, weakest)
	e.Stale, e.Expires = lifetime(pol, m, head.Time)
	if e.Triples = m.Triples; len(e.Triples) == 0 {
		e.Triples = flatTriples(m.Content)
	}
	quality := beliefs.QualityOf(weakest)
	ad := beliefs.EvidenceSet{{Observation: head.ID, Quality: quality, Source: source, At: head.Time}}.Adopt()
	e.Belief = streams.BeliefRef{ID: beliefID("memory", a.Project, a.Agent, head.ID), Found: true,
		Kind: beliefs.MemoryClaim, Key: m.Key, Axes: beliefs.Axes{}, Sensitivity: m.Sensitivity, Scope: ad.Scope,
		Quality: quality, Origin: weakest, Confidence: ad.Confidence, Source: source, Observation: head.ID,
		Namespace: m.Namespace(), Staged: e.StagedFor != "", Procedure: m.Channel == streams.ChannelSkill,
		Class: beliefs.Class(beliefs.MemoryClaim, quality, streams.Clip(m.Category, 80))}
	if m.Home != nil {
		e.Belief.Home = *m.Home
	}
	if e.Belief.Staged || e.Belief.Procedure {
		e.Belief.Scope = beliefs.ContextOnly
	}
	if e.Belief.Grade, err = f.gradeNote(st, a, m, e, shares); err != nil {
		return nil, err
	}
	seen, err := f.content(st, a.Project, sha256.Sum256([]byte(m.Content)))
	if err != nil {
		return nil, err
	}
	e.Repeats, e.FirstSeen = seen.count, seen.first
	if e.Tombstone, err = f.recognise(st, a.Project, &e.Features); err != nil {
		return nil, err
	}
	if m.Key != "" {
		if e.KeyHolder, err = f.keyHolder(st, a.Project, m.Namespace(), m.Key); err != nil {
			return nil, err
		}
	}
	if e.Point, err = f.pointBeforeWrite(st, a.Project, e); err != nil {
		return nil, err
	}
	return admission(streams.TypeMemory, a.Project, e)
}

// ofFile returns the origin of a text that is written into a file which a host loads. The documents that an agent reads
// are mostly other files of the same project. So if the text derives from a document and from a tool's result, its
// origin here is the tool, although a document is less trusted elsewhere.
func ofFile(weakest beliefs.Origin, e *streams.MemoryEntry) beliefs.Origin {
	i := slices.IndexFunc(e.Parents, func(p streams.Parent) bool { return p.Origin == beliefs.OriginTool })
	if weakest != beliefs.OriginDocument || i < 0 {
		return weakest
	}
	e.Via = e.Parents[i].ID
	return beliefs.OriginTool
}

// lineage finds the declared and undeclared parents of a memory write. weakest is the write's origin: that of its
// writer, or a less trusted one of a parent. A text that repeats words of the user verbatim, from the same session, has
// the user's origin. shares is set if any part of the text is in external content, however small.
func (f *Fold) lineage(st *stage.State, a streams.Address, m *streams.Memory, e *streams.MemoryEntry) (
	weakest beliefs.Origin, shares bool, err error,
) {
	weakest = a.Origin
	inherit := func(p streams.Parent) {
		e.Parents = append(e.Parents, p)
		if w := beliefs.Weakest(weakest, p.Origin); w != weakest {
			weakest, e.Via = w, p.ID
		}
	}
	for _, id := range m.DerivedFrom {
		all, err := others(st, a.Project, a.Agent, id)
		if err != nil {
			return "", false, err
		}
		for _, id := range append([]string{id}, all...) {
			p, err := f.parent(st, a, id)
			if err != nil {
				return "", false, err
			}
			inherit(p)
		}
		if len(all) == maxOthers { // further events with this id may have been dropped: count them as web content
			inherit(streams.Parent{ID: id, Origin: beliefs.OriginWeb, Declared: true})
		}
	}
	if a.Origin.External() {
		return weakest, true, nil
	}
	content := m.Content
	if a.Origin == beliefs.OriginAgent {
		if e.UserWord, err = f.saidByUser(st, a, e.Session, m.Content); err != nil {
			return "", false, err
		}
		if !e.UserWord {
			content = "" // a text that does not repeat the user is compared only by its phrases
		}
	}
	d, err := f.derive(st, a.Project, a.Agent, content, &e.Features)
	if err != nil {
		return "", false, err
	}
	switch {
	case a.Origin == beliefs.OriginAgent:
		if e.UserWord = e.UserWord && !d.any() && weakest == beliefs.OriginAgent; e.UserWord {
			return beliefs.OriginUser, false, nil
		}
		if !d.written(&e.Features) {
			return weakest, d.any(), nil
		}
	case !d.pasted():
		return weakest, d.any(), nil
	}
	for _, p := range d.parents {
		if i := slices.IndexFunc(e.Parents, func(have streams.Parent) bool { return have.ID == p.ID }); i >= 0 {
			e.Parents[i].Phrases, e.Parents[i].Share, e.Parents[i].Carrier = p.Phrases, p.Share, p.Carrier
			continue
		}
		inherit(p)
	}
	return weakest, true, nil
}

// staged returns the reason why a memory is only context until a person confirms it, or "".
func staged(pol *policy.Policy, a streams.Address, m *streams.Memory, origin beliefs.Origin) string {
	switch {
	case m.Home != nil:
		return fmt.Sprintf("it is shared from project %s, where its origin is %s", m.Home.Project, m.Home.Origin)
	case origin.External():
		return "it comes from outside (" + string(origin) + ")"
	case m.Channel == streams.ChannelCompaction:
		return "it is the summary of a compaction"
	case pol != nil && !pol.Writable(a.Project, a.Agent, m.Category):
		return fmt.Sprintf("the policy does not let %s write category %q", a.Agent, streams.Clip(m.Category, 80))
	}
	return ""
}

// parent returns the observation or belief that a write names as its parent. An unknown parent counts as web content.
func (f *Fold) parent(st *stage.State, a streams.Address, id string) (streams.Parent, error) {
	p := streams.Parent{ID: id, Origin: beliefs.OriginWeb, Declared: true}
	r, err := f.belief(st, a.Project, id)
	if err != nil {
		return p, err
	}
	if r != nil {
		p.Origin = r.Ref.Origin
		return p, nil
	}
	o, ok, err := f.originOf(st, a.Project, a.Agent, id)
	if ok {
		p.Agent, p.Origin = a.Agent, o
	}
	return p, err
}

// parentKey returns the key of a parent in keyImpact: a belief's id, or agent/id for an event.
func parentKey(p streams.Parent) string {
	if p.Agent == "" {
		return p.ID
	}
	return p.Agent + "/" + p.ID
}

// keyHolder returns the origin of the belief that holds a memory key, or "".
func (f *Fold) keyHolder(st *stage.State, project string, in beliefs.Namespace, key string) (beliefs.Origin, error) {
	id, ok, err := st.Get(nameKey(project, in, key))
	if err != nil || !ok {
		return "", err
	}
	r, err := f.belief(st, project, string(id))
	if err != nil || r == nil {
		return "", err
	}
	return r.Ref.Origin, nil
}

func (f *Fold) applyMemory(st *stage.State, project string, e *streams.MemoryEntry) error {
	if err := f.takeAuto(st, project, e.Point, &e.EntryHead); err != nil {
		return err
	}
	if err := f.noteBatch(st, project, e); err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(e.Content))
	if err := f.noteContent(st, project, sum, e.Time, false); err != nil {
		return err
	}
	ev := beliefs.EvidenceSet{{Observation: e.ID, Quality: e.Belief.Quality, Source: e.Belief.Source, At: e.Time}}
	ad := ev.Adopt()
	ad.Staged, ad.Procedure = e.Belief.Staged, e.Belief.Procedure
	r := &record{Ref: e.Belief, Content: e.Content, Agent: e.Agent, Session: e.Session, Adopted: ad, At: e.Time,
		From: e.ValidFrom, To: e.ValidTo, Intake: e.Intake, Count: 1, Memory: true,
		Writer: e.Origin, Inherited: e.Inherited, Category: e.Category, Channel: e.Channel,
		Evidence: ev, Parents: e.Parents, Triples: e.Triples, Stale: e.Stale, Expires: e.Expires, StagedFor: e.StagedFor,
		Digest: streams.DigestOf(sum), Since: e.Time}
	r.about(&e.EntryHead)
	r.Seal = r.Ref.Seal(r.Digest)
	if len(e.Features.Prints) > 0 {
		r.Print = e.Features.Prints[0].Exact.String()
	}
	if err := f.noteDue(st, project, r); err != nil {
		return err
	}
	if err := putRecord(st, project, r); err != nil {
		return err
	}
	if err := notePerson(st, project, r); err != nil {
		return err
	}
	if err := f.noteMemoryWords(st, project, e); err != nil {
		return err
	}
	if err := noteMarked(st, project, e); err != nil {
		return err
	}
	for _, p := range e.Parents {
		if err := f.influence(st, project, parentKey(p), impactMemory, e.Agent, e.Belief.ID); err != nil {
			return err
		}
	}
	if err := indexBelief(st, project, r, e.Content, sum); err != nil {
		return err
	}
	return f.applyStanding(st, project, r, e.Time)
}

// noteMemoryWords adds the words of a memory to the index of external content or to the user's own, because later
// sessions may read the memory.
func (f *Fold) noteMemoryWords(st *stage.State, project string, e *streams.MemoryEntry) error {
	switch from := e.Belief.Origin; {
	case from.External():
		if e.Repeats > 0 {
			if ok, err := f.indexed(st, project, &e.Features); err != nil || ok {
				return err
			}
		}
		return f.noteExternal(st, project, brought{e.Agent, e.ID, from}, &e.Features)
	case e.Origin == beliefs.OriginUser, e.Origin == beliefs.OriginSystem:
		return f.noteOwn(st, project, e.Agent, e.Content, &e.Features)
	}
	return nil
}
