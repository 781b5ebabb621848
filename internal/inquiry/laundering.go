package inquiry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// Laundered is a belief that was supported although its lineage contains untrusted content.
type Laundered struct {
	Project string    `json:"project"`
	Belief  string    `json:"belief"`
	Content string    `json:"content,omitzero"` // beginning of the content, inert
	Index   int64     `json:"index"`            // the leaf that records the support
	Seq     uint64    `json:"seq"`
	Time    time.Time `json:"time"`
	// Path leads from the belief to the untrusted content.
	Path []string `json:"path"`
	// Promotion is the logged act that made the belief supported, or nil.
	Promotion *Promotion `json:"promotion,omitzero"`
}

// Promotion is a logged act by which an authorized person or policy vouched for a belief or an action.
type Promotion struct {
	By     string    `json:"by"`
	How    string    `json:"how"`
	Reason string    `json:"reason,omitzero"`
	Index  int64     `json:"index"`
	Seq    uint64    `json:"seq"`
	Time   time.Time `json:"time"`
}

// Laundering is the answer to the question whether untrusted input ever became trusted.
type Laundering struct {
	// Supported is the number of beliefs that were ever supported. Beliefs which only say that a tool was called and
	// returned do not count.
	Supported int         `json:"supported"`
	Unread    int         `json:"unread"`   // entries about beliefs whose payloads were erased or are not held
	Findings  []Laundered `json:"findings"` // beliefs without a logged promotion
	Promoted  []Laundered `json:"promoted"` // beliefs with a logged promotion
	Integrity Integrity   `json:"integrity"`
}

// source is an observation or memory write that introduced content.
type source struct {
	agent, id string
	origin    beliefs.Origin
	from      []string // ids of the events that it was derived from, as declared or found by ingest
	inherited beliefs.Origin
	userWord  bool
	content   string
}

type named struct{ project, name string }

// lineage indexes the log's content by the origin of the credential or writer that brought the content in. It does not
// use ingest's classification.
type lineage struct {
	events  map[[3]string]*source // by project, agent, id
	beliefs map[named][]*source   // sources that introduced a belief
	texts   map[named]*source     // project, normalized content → the external source that contained it first
}

// Launder searches the whole log for beliefs that were ever supported and whose lineage contains
// untrusted content. It does not rely on ingest: it reconstructs the lineage from the origins of
// credentials, the declared sources of each write, and texts that repeat earlier external content.
func (l *Log) Launder(ctx context.Context, project string) (*Laundering, error) {
	lin := &lineage{events: make(map[[3]string]*source), beliefs: make(map[named][]*source),
		texts: make(map[named]*source)}
	supported := make(map[named]*Laundered)
	var order []named
	promoted := make(map[named]*Promotion)
	note := func(e *Entry, b *streams.BeliefRef) {
		k := named{e.Project, b.ID}
		if b.Kind == beliefs.Envelope || b.Axes.Truth != beliefs.Supported || supported[k] != nil {
			return
		}
		supported[k] = &Laundered{Project: e.Project, Belief: b.ID, Index: e.Index, Seq: e.Seq, Time: e.Time}
		order = append(order, k)
	}
	unread := 0
	err := l.Range(ctx, 0, l.Size(), func(e *Entry) bool {
		switch streams.Type(e.Type) {
		case streams.TypeObservation, streams.TypeMemory, streams.TypeRecall, streams.TypeConfirmation, streams.TypeVerdict,
			streams.TypeRevision:
			return project == "" || e.Project == project
		}
		return false
	},
		func(e *Entry) error {
			if e.Body == nil {
				unread += e.unread()
				return nil
			}
			switch {
			case e.Stage == streams.StageIngest && streams.Type(e.Type) == streams.TypeObservation:
				o := new(streams.ObservationEntry)
				if err := e.decode(o); err != nil {
					return err
				}
				s := &source{agent: o.Agent, id: o.ID, origin: o.Origin}
				lin.events[[3]string{e.Project, o.Agent, o.ID}] = s
				for _, c := range o.Claims {
					if c.Block >= 0 && c.Block < len(o.Blocks) {
						part := *s
						part.content = o.Blocks[c.Block].Text
						lin.beliefs[named{e.Project, c.Belief.ID}] = append(lin.beliefs[named{e.Project, c.Belief.ID}], &part)
						lin.read(e.Project, &part)
					}
					note(e, &c.Belief)
				}
			case e.Stage == streams.StageIngest && streams.Type(e.Type) == streams.TypeMemory:
				m := new(streams.MemoryEntry)
				if err := e.decode(m); err != nil {
					return err
				}
				s := &source{agent: m.Agent, id: m.ID, origin: m.Origin, from: parents(m), inherited: m.Inherited,
					userWord: m.UserWord, content: m.Content}
				lin.events[[3]string{e.Project, m.Agent, m.ID}] = s
				lin.beliefs[named{e.Project, m.Belief.ID}] = append(lin.beliefs[named{e.Project, m.Belief.ID}], s)
				note(e, &m.Belief)
			case e.Stage == streams.StageIngest && streams.Type(e.Type) == streams.TypeRecall:
				r := new(streams.RecallEntry)
				if err := e.decode(r); err != nil {
					return err
				}
				for i := range r.Admitted {
					note(e, &r.Admitted[i].BeliefRef)
				}
			case e.Stage == streams.StageIngest && streams.Type(e.Type) == streams.TypeConfirmation:
				c := new(streams.ConfirmationEntry)
				if err := e.decode(c); err != nil {
					return err
				}
				if k := (named{e.Project, c.Belief}); c.Check == "" && c.Signer != "" && promoted[k] == nil {
					promoted[k] = &Promotion{By: c.Signer, How: "signed confirmation", Reason: c.Decision, Index: e.Index, Seq: e.Seq,
						Time: e.Time}
				}
			case e.Stage == streams.StageIngest && streams.Type(e.Type) == streams.TypeRevision:
				r := new(streams.RevisionsEntry)
				if err := e.decode(r); err != nil {
					return err
				}
				for _, rv := range r.Revisions {
					if rv.Anew == "" {
						continue
					}
					// A rollback copied a superseded belief. The copy comes from what the original comes from.
					was, is := named{e.Project, rv.Anew}, named{e.Project, rv.Belief}
					lin.beliefs[is] = append(lin.beliefs[is], lin.beliefs[was]...)
					if promoted[is] == nil && promoted[was] != nil {
						promoted[is] = promoted[was]
					}
				}
			case e.Stage == streams.StageArbiter && streams.Type(e.Type) == streams.TypeVerdict:
				v := new(streams.VerdictEntry)
				if err := e.decode(v); err != nil {
					return err
				}
				if v.Belief == nil {
					return nil
				}
				k := named{e.Project, v.Belief.ID}
				if v.Resolved != nil && v.Resolved.State == streams.HoldApproved && promoted[k] == nil {
					promoted[k] = &Promotion{By: v.Resolved.By, How: "signed approval of hold " + v.Resolved.Hold,
						Reason: v.Resolved.Reason, Index: e.Index, Seq: e.Seq, Time: e.Time}
				}
				note(e, v.Belief)
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	out, err := l.laundered(ctx, lin, order, supported, promoted)
	if err != nil {
		return nil, err
	}
	out.Unread = unread
	return out, nil
}

// laundered reports the supported beliefs whose lineage contains untrusted content.
func (l *Log) laundered(ctx context.Context, lin *lineage, order []named, supported map[named]*Laundered,
	promoted map[named]*Promotion) (*Laundering, error) {
	out := &Laundering{Supported: len(supported), Findings: []Laundered{}, Promoted: []Laundered{}}
	for _, k := range order {
		s := supported[k]
		path := lin.untrusted(k)
		if path == nil {
			continue
		}
		if src := lin.beliefs[k]; len(src) > 0 {
			s.Content = text.InertLine(src[0].content, 120)
		}
		s.Path, s.Promotion = path, promoted[k]
		if err := l.proveLeaf(ctx, s.Index); err != nil {
			return nil, err
		}
		if s.Promotion != nil {
			out.Promoted = append(out.Promoted, *s)
		} else {
			out.Findings = append(out.Findings, *s)
		}
	}
	out.Integrity = l.told
	return out, nil
}

// parents returns the sources of a memory write, both declared and found by ingest.
func parents(m *streams.MemoryEntry) []string {
	from := slices.Clone(m.DerivedFrom)
	for _, p := range m.Parents {
		if !slices.Contains(from, p.ID) {
			from = append(from, p.ID)
		}
	}
	return from
}

// proveLeaf proves one leaf by its index.
func (l *Log) proveLeaf(ctx context.Context, index int64) error {
	return l.Range(ctx, index, index+1, func(*Entry) bool {
		return false
	}, func(e *Entry) error { _, err := l.Prove(e); return err })
}

// minCopied is the length in bytes from which equal texts are taken for copies. Shorter texts may be equal by
// coincidence.
const minCopied = 40

func (lin *lineage) read(project string, s *source) {
	if !s.origin.External() || len(s.content) < minCopied {
		return
	}
	k := named{project, text.Normalize(s.content)}
	if lin.texts[k] == nil {
		lin.texts[k] = s
	}
}

// trusted reports whether content of this origin can be believed without an attestation.
func trusted(o beliefs.Origin) bool { return o == beliefs.OriginUser || o == beliefs.OriginSystem }

// untrusted returns the path from a belief to untrusted content, or nil.
func (lin *lineage) untrusted(k named) []string {
	srcs := lin.beliefs[k]
	if len(srcs) == 0 {
		return []string{"belief " + k.name, "nothing in the log introduces it"}
	}
	for _, s := range srcs {
		if p := lin.walk(k.project, s, []string{"belief " + k.name}, make(map[*source]bool)); p != nil {
			return p
		}
	}
	return nil
}

func (lin *lineage) walk(project string, s *source, path []string, seen map[*source]bool) []string {
	if seen[s] || len(path) > 64 {
		return nil
	}
	seen[s] = true
	path = append(slices.Clip(path), fmt.Sprintf("%s of %s", s.id, s.agent))
	if !trusted(s.origin) && !(s.origin == beliefs.OriginAgent && s.userWord) {
		return append(path, "origin "+string(s.origin))
	}
	if s.inherited != "" && !trusted(s.inherited) {
		return append(path, "inherited origin "+string(s.inherited))
	}
	if len(s.content) >= minCopied {
		if o := lin.texts[named{project, text.Normalize(s.content)}]; o != nil && !seen[o] {
			return append(path, fmt.Sprintf("same text as %s of %s", o.id, o.agent), "origin "+string(o.origin))
		}
	}
	for _, id := range s.from {
		if e := lin.events[[3]string{project, s.agent, id}]; e != nil {
			if p := lin.walk(project, e, path, seen); p != nil {
				return p
			}
			continue
		}
		if bs := lin.beliefs[named{project, id}]; len(bs) > 0 {
			for _, b := range bs {
				if p := lin.walk(project, b, append(slices.Clip(path), "belief "+id), seen); p != nil {
					return p
				}
			}
			continue
		}
		return append(path, strings.TrimSpace("derives from "+id), "which the log does not know")
	}
	return nil
}
