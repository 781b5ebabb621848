package duel

import (
	"fmt"
	"log/slog"

	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/activation"
	"lazaret/internal/arbiter"
	"lazaret/internal/ingest"
	"lazaret/internal/replay"
	"lazaret/internal/sentinel"
	"lazaret/internal/stage"
	"lazaret/pkg/rules"
	shipped "lazaret/rules"
	"lazaret/streams"
)

// group is the sentinel group that judges.
const group = "core"

// Pipe is the decision path without a server: the folds of ingest, of one sentinel group and of the arbiter, with
// their states in memory. Each fold gets the entries in ledger order, as in a pipeline.
//
// It is not safe for concurrent use.
type Pipe struct {
	ingest   *ingest.Fold
	sentinel *sentinel.Fold
	arbiter  *arbiter.Fold
	base     states
}

// states are the states of the three folds.
type states struct{ ingest, sentinel, arbiter *stage.State }

func (s states) clone() states {
	return states{s.ingest.Clone(), s.sentinel.Clone(), s.arbiter.Clone()}
}

// NewPipe returns the decision path with the shipped rules and a policy.
func NewPipe(policy []byte) (*Pipe, error) {
	log := slog.New(slog.DiscardHandler)
	none := note.VerifierList()
	p := &Pipe{ingest: ingest.New(ingest.Config{Log: log}), sentinel: sentinel.New(group, none, log),
		arbiter: arbiter.NewFold(none, log)}
	bundle, err := rules.Pack(shipped.FS())
	if err != nil {
		return nil, err
	}
	p.base = states{stage.NewMemState(0), stage.NewMemState(0), stage.NewMemState(0)}
	for _, st := range []*stage.State{p.base.ingest, p.base.sentinel, p.base.arbiter} {
		if err := activation.Put(st, streams.DoActivateRules, bundle); err != nil {
			return nil, err
		}
		if err := activation.Put(st, streams.DoActivatePolicy, policy); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Session is one project in a Pipe.
type Session struct {
	p       *Pipe
	project string
	states
	seq uint64 // last sequence of the ledger
	msg uint64 // last sequence of the intake
	// trace, if set, is called with each entry of ingest.
	trace func(*streams.Entry)
}

// Open starts a session in a new project.
func (p *Pipe) Open(project string) *Session {
	return &Session{p: p, project: project, states: p.base.clone()}
}

// fork returns an independent copy of the session in another pipe.
func (s *Session) fork(p *Pipe) *Session {
	c := *s
	c.p, c.states = p, s.states.clone()
	return &c
}

// Send processes one step and returns the reply to a proposal. The reply is nil if the step is no proposal, or if
// ingest rejects it.
func (s *Session) Send(st replay.Step) (*streams.Reply, error) {
	body, err := streams.Marshal(st.Event)
	if err != nil {
		return nil, err
	}
	s.msg++
	m := &stage.Message{Seq: s.msg, Time: streams.HeadOf(st.Event).Time, Data: body,
		Address: streams.Address{Project: s.project, Agent: streams.ReplayAgent, Kind: st.Kind, Origin: st.Origin}}
	ad, err := s.p.ingest.Admit(s.ingest, m)
	if err != nil {
		return nil, fmt.Errorf("ingest: %w", err)
	}
	own := s.entry(streams.StageIngest, m, &ad.Output)
	own.Src, own.Decoded = m.Seq, ad.Decided
	if err := s.p.ingest.Apply(s.ingest, own, ad.Decided); err != nil {
		return nil, fmt.Errorf("ingest: %w", err)
	}
	if s.trace != nil {
		s.trace(own)
	}
	v, err := s.judge(own, m)
	if v == nil || err != nil {
		return nil, err
	}
	r := &streams.Reply{Verdict: v.Verdict, Entry: v}
	if ad.Type == streams.TypeRecall && v.Verdict == streams.Allow {
		r.Recall = new(streams.RecallEntry)
		if err := streams.Unmarshal(ad.Body, r.Recall); err != nil {
			return nil, err
		}
		arbiter.Show(r.Recall, v)
	}
	return r, nil
}

// judge passes an entry, and the entries that follow from it, to the sentinels and the arbiter.
func (s *Session) judge(own *streams.Entry, m *stage.Message) (verdict *streams.VerdictEntry, err error) {
	todo := []*streams.Entry{own}
	for len(todo) > 0 {
		e := todo[0]
		todo = todo[1:]
		if e != own && s.p.ingest.Relevant(e) {
			if err := s.p.ingest.Apply(s.ingest, e, nil); err != nil {
				return nil, fmt.Errorf("ingest: %w", err)
			}
		}
		for _, f := range []struct {
			stage string
			step  func(*stage.State, *streams.Entry) (*stage.Output, error)
			state *stage.State
		}{{streams.SentinelStage(group), s.p.sentinel.Step, s.sentinel}, {streams.StageArbiter, s.p.arbiter.Step,
			s.arbiter}} {
			out, err := f.step(f.state, e)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.stage, err)
			}
			if out == nil {
				continue
			}
			next := s.entry(f.stage, m, out)
			next.Src = e.Seq
			todo = append(todo, next)
			if next.Type == streams.TypeVerdict && verdict == nil {
				verdict = new(streams.VerdictEntry)
				if err := streams.Unmarshal(next.Body, verdict); err != nil {
					return nil, err
				}
			}
		}
	}
	return verdict, nil
}

func (s *Session) entry(stage string, m *stage.Message, out *stage.Output) *streams.Entry {
	s.seq++
	return &streams.Entry{Seq: s.seq, Time: m.Time, Stage: stage, Type: out.Type, Project: out.Project, Body: out.Body,
		At: s.seq - 1}
}
