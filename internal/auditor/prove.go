package auditor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"lazaret/internal/query"
	"lazaret/pkg/chain"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// Limits of requests for proofs. The search for an id starts at the log's end and reads the
// project's payloads.
const (
	provers      = 2   // proofs that are made at the same time
	provingMost  = 256 // requests that may wait
	proveTimeout = 5 * time.Second
)

// prover answers requests for proofs.
type prover struct {
	a       *Auditor
	svc     *nats.Conn
	waiting chan struct{}
	working chan struct{}
	answers *query.Answers
}

// serveProofs serves lz.svc.prove.<project>.<agent> on a connection that may publish to inboxes
// only. If several auditors run, one of them answers each request.
func (a *Auditor) serveProofs(svc *nats.Conn) (stop func(), err error) {
	p := &prover{a, svc, make(chan struct{}, provingMost), make(chan struct{}, provers), query.NewAnswers()}
	s, err := micro.AddService(svc, micro.Config{Name: "lazaret-prove", Version: "0.1.0",
		Description: "Proofs that entries are in the audit log"})
	if err != nil {
		return nil, fmt.Errorf("starting the service of proofs: %w", err)
	}
	if err := s.AddEndpoint(string(streams.SvcProve), micro.HandlerFunc(p.serve),
		micro.WithEndpointSubject(streams.ServiceFilter(streams.SvcProve))); err != nil {
		return nil, errors.Join(fmt.Errorf("serving proofs: %w", err), s.Stop())
	}
	if err := svc.Flush(); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return func() {
		_ = s.Stop()
		p.answers.Stop()
	}, nil
}

func (p *prover) serve(r micro.Request) {
	if !query.Answerable(r.Reply()) {
		p.a.cfg.Log.Warn("request dropped: its reply subject is not an inbox", "subject", r.Subject(), "code",
			streams.CodeBadReply)
		return
	}
	select {
	case p.waiting <- struct{}{}:
	default:
		p.respond(r, unproven(streams.CodeShedding, "too many requests: %d wait already", provingMost))
		return
	}
	p.answers.Go(func(ctx context.Context) {
		defer func() { <-p.waiting }()
		p.working <- struct{}{}
		defer func() { <-p.working }()
		ctx, cancel := context.WithTimeout(ctx, proveTimeout)
		defer cancel()
		p.respond(r, p.a.prove(ctx, r.Subject(), r.Data()))
	})
}

func (p *prover) respond(r micro.Request, rep *streams.ProveReply) {
	body, err := streams.Marshal(rep)
	if err == nil {
		err = query.Reply(p.svc, r, body, rep.Error)
	}
	if err != nil {
		p.a.cfg.Log.Warn("reply not sent", "subject", r.Subject(), "err", err)
	}
}

func unproven(code streams.Code, format string, args ...any) *streams.ProveReply {
	return &streams.ProveReply{Error: &streams.ReplyError{Code: code, Message: fmt.Sprintf(format, args...)}}
}

// prove answers one request. An entry of another project gets the same answer as one that does not
// exist.
func (a *Auditor) prove(ctx context.Context, subject string, body []byte) *streams.ProveReply {
	_, who, err := streams.ParseService(subject)
	if err != nil {
		return unproven(streams.CodeBadSubject, "%v", err)
	}
	var req streams.ProveRequest
	if err := streams.Unmarshal(body, &req); err != nil {
		return unproven(streams.CodeMalformed, "%v", err)
	}
	if err := req.Check(); err != nil {
		var rej *streams.RejectError
		errors.As(err, &rej)
		return unproven(rej.Code, "%s", rej.Reason)
	}
	i, err := a.entryOf(ctx, who.Project, who.Agent, &req)
	switch {
	case errors.Is(err, ErrNoEvent):
		return unproven(streams.CodeNoEntry,
			"the log has no such entry of project %s that can be read; a new entry may not be in the log yet", who.Project)
	case ctx.Err() != nil:
		return unproven(streams.CodeUnavailable, "the entry was not found within %v: name its ledger_seq", proveTimeout)
	case err != nil:
		return unproven(streams.CodeUnavailable, "%v", err)
	}
	proof, err := a.log.Prove(i)
	if errors.Is(err, chain.ErrRange) || errors.Is(err, chain.ErrNoCheckpoint) {
		return unproven(streams.CodeUncovered, "leaf %d is in the log, but no signed checkpoint covers it yet", i)
	}
	if err != nil {
		return unproven(streams.CodeUnavailable, "%v", err)
	}
	if req.Payload {
		proof.Salt, proof.Payload, err = a.log.Salted(i)
		if errors.Is(err, chain.ErrForgotten) || errors.Is(err, chain.ErrNotHeld) {
			return unproven(streams.CodeGone, "%v", err)
		}
		if err != nil {
			return unproven(streams.CodeUnavailable, "%v", err)
		}
		if _, body, _ := bytes.Cut(proof.Payload, []byte("\n")); aboutOf(body).Agent != who.Agent {
			return unproven(streams.CodeNoEntry, "the entry's payload is about another agent: ask for the proof without the "+
				"payload")
		}
	}
	text, err := proof.MarshalText()
	if err != nil {
		return unproven(streams.CodeUnavailable, "%v", err)
	}
	return &streams.ProveReply{Proof: string(text), Index: i, Seq: proof.Leaf.Seq}
}

// entryOf finds the leaf that a request names among those of a project.
func (a *Auditor) entryOf(ctx context.Context, project, agent string, req *streams.ProveRequest) (int64, error) {
	if req.Seq == 0 {
		if req.Agent != "" {
			agent = req.Agent
		}
		return findEvent(ctx, a.log, req.ID, func(l *chain.Leaf) bool { return l.Project == project }, agent)
	}
	if position.Sequence(req.Seq) > a.log.Head().LastSeq {
		return 0, ErrNoEvent
	}
	i, err := a.log.FindSeq(req.Seq)
	if err != nil {
		return 0, err
	}
	leaf, err := a.log.Leaf(i)
	if err == nil && (leaf.Kind != chain.KindEntry || leaf.Seq != req.Seq || leaf.Project != project) {
		err = ErrNoEvent
	}
	return i, err
}
