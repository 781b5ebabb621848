package ingest

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
	"lazaret/pkg/text/command"
	"lazaret/streams"
)

func init() {
	admits(streams.KindObs, (*Fold).observe)
	writesIn(streams.TypeObservation, (*Fold).applyObservation)
}

// observe turns an observation into claims. One claim is about the envelope: a tool was called and returned something.
// The tool is evidence for that. Each other claim is what one block of the content says. For that, only the content's
// author is evidence.
func (f *Fold) observe(st *stage.State, m *stage.Message, head streams.EntryHead,
	o *streams.Observation) (*stage.Admission, error) {
	a := m.Address
	e := &streams.ObservationEntry{EntryHead: head, Observation: beliefs.Observation{Origin: a.Origin, Tool: o.Tool,
		Call: o.Call, Source: o.Source}, Args: o.Args}
	if a.Origin.External() {
		var err error
		if e.UserNamed, e.Handed, err = f.userNamed(st, a, head.Session, o); err != nil {
			return nil, err
		}
	}
	source := sourceOf(a.Agent, &e.Observation)
	if o.Tool != "" && a.Origin.External() {
		ev := beliefs.EvidenceSet{{Observation: head.ID, Quality: beliefs.ToolResult, Source: "tool:" + o.Tool,
			At: head.Time}}
		ad := ev.Adopt()
		e.Claims = make([]streams.ClaimEntry, 0, 2)
		e.Claims = append(e.Claims, streams.ClaimEntry{Kind: beliefs.Envelope, Quality: beliefs.ToolResult, Block: -1,
			Belief: streams.BeliefRef{ID: beliefID("envelope", a.Project, a.Agent, head.ID), Found: true,
				Kind: beliefs.Envelope, Axes: ad.Axes, Scope: ad.Scope,
				Quality: ad.Quality, Origin: a.Origin, Confidence: ad.Confidence, Source: "tool:" + o.Tool, Observation: head.ID,
				Class: beliefs.Class(beliefs.Envelope, ad.Quality, "")}})
	}
	pol, _, err := f.policies.Active(st, streams.DoActivatePolicy)
	if err != nil {
		return nil, err
	}
	record := pol != nil && a.Origin == beliefs.OriginTool && pol.Record(o.Tool)
	quality, ready := beliefs.QualityOf(a.Origin), f.prepared(m)
	blocks := blocksOf(o)
	if len(blocks) > 0 {
		e.Blocks = make([]streams.BlockEntry, 0, len(blocks))
		e.Claims = slices.Grow(e.Claims, len(blocks))
	}
	for i, b := range blocks {
		be := streams.BlockEntry{Type: b.Type, Text: b.Text}
		if b.Text == "" {
			e.Blocks = append(e.Blocks, be)
			continue
		}
		text := ready.blocks[i]
		be.Features, be.Views, be.Sum, be.Derived = text.features, text.views, text.sum, text.derived
		be.Encoded = text.encoded
		e.Blocks = append(e.Blocks, be)
		from, of, src := a.Origin, quality, source
		var parents []streams.Parent
		if !a.Origin.External() && a.Origin != beliefs.OriginAgent {
			d, err := f.derive(st, a.Project, a.Agent, b.Text, &be.Features)
			if err != nil {
				return nil, err
			}
			if d.pasted() {
				// The credential shows that the user sent the text. It does not show that the user agrees with a text
				// that was pasted.
				parents = d.parents
				from = d.weakest(a.Origin)
				of, src = beliefs.QualityOf(from), "paste:"+source
			}
		}
		c, err := f.contentClaim(st, a, head, from, of, src, be.Sum, i)
		if err != nil {
			return nil, err
		}
		c.Parents = parents
		e.Blocks[i].Instructs = text.instructs && from.External()
		if record && c.Belief.Observation == head.ID && command.Of(b.Text).Points < orderPoints {
			c.Belief.Grade, c.Belief.Scope = beliefs.Record, beliefs.PlanningAllowed
		}
		e.Readings = e.Readings || c.Belief.Observation != head.ID
		e.Claims = append(e.Claims, c)
	}
	if e.Revisions, err = f.confirmations(st, a, pol, e); err != nil {
		return nil, err
	}
	return admission(streams.TypeObservation, a.Project, e)
}

// contentClaim returns the claim that the content of a block makes; sum is the content's SHA-256. In one project, the
// same words of the same quality always give the same belief. If the words are read again, only the count of readings
// and the provenance are recorded.
func (f *Fold) contentClaim(st *stage.State, a streams.Address, head streams.EntryHead, from beliefs.Origin,
	q beliefs.Quality, source string, sum [sha256.Size]byte, block int) (streams.ClaimEntry, error) {
	in := beliefs.Namespace{User: head.User}
	id := beliefID("content", a.Project, q.String(), string(sum[:]))
	if in != (beliefs.Namespace{}) {
		id = beliefID("content", a.Project, q.String(), string(sum[:]), in.String())
	}
	if head.DataSubject != "" {
		// The same words about another person are another belief, because the two may have to be forgotten separately.
		id = beliefID("content", a.Project, q.String(), string(sum[:]), in.String(), head.DataSubject)
	}
	seen, err := f.content(st, a.Project, sum)
	if err != nil {
		return streams.ClaimEntry{}, err
	}
	c := streams.ClaimEntry{Kind: beliefs.Content, Quality: q, Block: block, Repeats: seen.count, FirstSeen: seen.first}
	old, ok, err := f.beliefRef(st, a.Project, id)
	if err != nil {
		return c, err
	}
	if ok {
		c.Belief = old
		c.Belief.Found = true
		return c, nil
	}
	ad := beliefs.EvidenceSet{{Observation: head.ID, Quality: q, Source: source, At: head.Time}}.Adopt()
	c.Belief = streams.BeliefRef{ID: id, Found: true, Kind: beliefs.Content, Axes: ad.Axes, Scope: ad.Scope,
		Quality: ad.Quality, Origin: from, Confidence: ad.Confidence, Source: source, Observation: head.ID, Namespace: in,
		Class: beliefs.Class(beliefs.Content, ad.Quality, "")}
	return c, nil
}

func (f *Fold) applyObservation(st *stage.State, project string, e *streams.ObservationEntry) error {
	if err := f.noteOrigin(st, project, e); err != nil {
		return err
	}
	if err := f.nowSeen(st, project, &e.EntryHead, e.Origin); err != nil {
		return err
	}
	if err := f.noteIntent(st, project, e); err != nil {
		return err
	}
	if err := f.noteSource(st, project, e); err != nil {
		return err
	}
	if err := f.noteFound(st, project, e); err != nil {
		return err
	}
	if err := f.hear(st, project, e); err != nil {
		return err
	}
	if err := f.noteShown(st, project, e); err != nil {
		return err
	}
	texts := make([]string, len(e.Blocks))
	for i := range e.Blocks {
		texts[i] = e.Blocks[i].Text
	}
	if err := f.noteReading(st, project, &e.EntryHead, texts); err != nil {
		return err
	}
	sums := contentSums(e)
	if err := f.noteWords(st, project, e, sums); err != nil {
		return err
	}
	for i := range e.Revisions {
		if err := f.revise(st, project, &e.Revisions[i]); err != nil {
			return err
		}
	}
	for i := range e.Claims {
		c := &e.Claims[i]
		var content, digest string
		if c.Kind == beliefs.Content {
			body, sum := e.Blocks[c.Block].Text, sums[c.Block]
			if err := f.noteContent(st, project, sum, e.Time, c.Belief.Origin.External() || e.Origin.External()); err != nil {
				return err
			}
			if _, ok, err := st.Get(stage.Key(keyBelief, project, c.Belief.ID)); err != nil {
				return err
			} else if ok {
				if err := f.noteAgain(st, project, c.Belief.ID, e.Time); err != nil {
					return err
				}
				if e.Readings {
					pasted := !e.Origin.External() && c.Belief.Origin.External()
					from := provenanceOf(e, pasted)
					if err := f.noteProvenance(st, project, c.Belief.ID, from); err != nil {
						return err
					}
				}
				continue
			}
			content, digest = streams.Clip(body, previewLen), streams.DigestOf(sum)
			if err := keepText(st, project, c.Belief.ID, body); err != nil {
				return err
			}
		} else {
			content = "tool " + e.Tool + " returned, content blocks: " + strconv.Itoa(len(e.Blocks))
			digest = streams.Digest([]byte(content))
		}
		r := &record{Ref: c.Belief, Agent: e.Agent, Session: e.Session, Tool: e.Tool, At: e.Time, Intake: e.Intake, Count: 1,
			Content: content, Digest: digest}
		if c.Kind == beliefs.Content {
			if err := indexBelief(st, project, r, e.Blocks[c.Block].Text, sums[c.Block]); err != nil {
				return err
			}
		}
		r.Seal = r.Ref.Seal(r.Digest)
		r.adopt()
		r.about(&e.EntryHead)
		if err := putRecord(st, project, r); err != nil {
			return err
		}
		if err := notePerson(st, project, r); err != nil {
			return err
		}
		if err := f.applyStanding(st, project, r, e.Time); err != nil {
			return err
		}
	}
	return nil
}

// contentSums returns the SHA-256 sums of the blocks that have a content claim, by block.
func contentSums(e *streams.ObservationEntry) [][sha256.Size]byte {
	sums := make([][sha256.Size]byte, len(e.Blocks))
	for i := range e.Claims {
		c := &e.Claims[i]
		if c.Kind != beliefs.Content {
			continue
		}
		b := &e.Blocks[c.Block]
		if sums[c.Block] = b.Sum; b.Sum == [sha256.Size]byte{} {
			sums[c.Block] = sha256.Sum256([]byte(b.Text))
		}
	}
	return sums
}

// noteWords adds the texts of an observation to the index of external content, or to the user's or operator's own
// phrases and carriers.
func (f *Fold) noteWords(st *stage.State, project string, e *streams.ObservationEntry, sums [][sha256.Size]byte) error {
	var foreign []*text.Features
	weakest := e.Origin
	for i := range e.Claims {
		c := &e.Claims[i]
		if c.Kind != beliefs.Content {
			continue
		}
		b := &e.Blocks[c.Block]
		switch from := c.Belief.Origin; {
		case from.External() || e.Origin.External():
			foreign, weakest = append(foreign, &b.Features), beliefs.Weakest(weakest, from)
			if c.Repeats > 0 {
				if s, err := f.content(st, project, sums[c.Block]); err != nil {
					return err
				} else if s.foreign {
					continue
				}
				if ok, err := f.indexed(st, project, &b.Features); err != nil {
					return err
				} else if ok {
					continue
				}
			}
			if err := f.noteExternal(st, project, brought{e.Agent, e.ID, beliefs.Weakest(from, e.Origin)},
				&b.Features); err != nil {
				return err
			}
		case e.Origin == beliefs.OriginUser, e.Origin == beliefs.OriginSystem:
			if err := f.noteOwn(st, project, e.Agent, b.Text, &b.Features); err != nil {
				return err
			}
		}
		if e.Origin == beliefs.OriginUser && !c.Belief.Origin.External() {
			if err := f.noteSaid(st, project, &e.EntryHead, b.Text); err != nil {
				return err
			}
		}
	}
	if len(foreign) == 0 {
		return nil
	}
	return f.notePhrases(st, project, brought{e.Agent, e.ID, weakest}, foreign)
}

// sighting records when a content was first observed in a project, and how often.
type sighting struct {
	first time.Time
	count uint64
	// foreign is set if the content is external and its phrases and carriers are in the index. It is not set in states
	// of earlier versions.
	foreign bool
}

func contentKey(project string, sum [32]byte) []byte {
	k := append(make([]byte, 0, 2+len(project)+16), keyContent)
	return append(append(append(k, project...), 0), sum[:16]...)
}

// content returns the sighting of a content, or a zero one. It is stored in 16 bytes, or 17 if foreign is set.
func (f *Fold) content(st *stage.State, project string, sum [32]byte) (s sighting, err error) {
	v, ok, err := st.Get(contentKey(project, sum))
	if err != nil || !ok || len(v) != 16 && len(v) != 17 {
		return s, err
	}
	at := time.Unix(0, int64(binary.BigEndian.Uint64(v))).UTC()
	return sighting{at, binary.BigEndian.Uint64(v[8:]), len(v) > 16}, nil
}

// noteContent counts a sighting of a content. foreign must be set if noteWords added it to the index of external
// content.
func (f *Fold) noteContent(st *stage.State, project string, sum [32]byte, now time.Time, foreign bool) error {
	s, err := f.content(st, project, sum)
	if err != nil {
		return err
	}
	if s.count == 0 {
		s.first = now
	}
	v := binary.BigEndian.AppendUint64(make([]byte, 0, 17), uint64(s.first.UnixNano()))
	v = binary.BigEndian.AppendUint64(v, s.count+1)
	if s.foreign || foreign {
		v = append(v, 1)
	}
	return st.Give(contentKey(project, sum), v)
}
