package arbiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"lazaret/internal/query"
	"lazaret/internal/stage"
	"lazaret/pkg/approval"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// Limits of the front.
const (
	// DefaultAnswerTimeout is how long a request waits for its verdict. It is longer than the deadlines of most
	// policies, so that the verdict on silent groups arrives in time. If a policy waits longer (at most five minutes),
	// the reply says that the verdict is pending, and until when. Without a reply, a client could not tell a long wait
	// from a dead pipeline.
	DefaultAnswerTimeout = 15 * time.Second
	// maxAnswerTimeout is the maximum of FrontConfig.Timeout. nats-server drops an answer to an agent 2 minutes after
	// the request (docs/decisions/0042).
	maxAnswerTimeout = 110 * time.Second
	// MaxWaiting is the maximum number of requests that wait at the same time.
	MaxWaiting = 4096
)

// FrontConfig configures the request services.
type FrontConfig struct {
	// Intake is the connection that publishes events for callers and reads the ledger.
	Intake *nats.Conn
	// Service is the connection that answers requests. Its credential may publish only answers, so that no request
	// can make it publish to another subject.
	Service *nats.Conn
	Feed    *stage.Feed   // as in stage.Config
	Joint   *stage.Joint  // as in stage.Config
	Timeout time.Duration // at most 110 s; 0: DefaultAnswerTimeout
	MaxSize int           // maximum size of an event in bytes; 0: streams.DefaultMaxEvent
	Version string
	Log     *slog.Logger
	// Pending returns the time until which an undecided proposal waits for its sentinel groups. ok is false if the
	// proposal does not wait, or if the time is unknown. intake is the place of the request's message in the intake.
	// If Pending is nil, the time is always unknown.
	Pending func(ctx context.Context, project, agent, id string, intake uint64) (until time.Time, ok bool)
}

// pendingWait is the timeout of a call of Pending.
const pendingWait = time.Second

// Front converts requests to proposals, and verdicts to replies. Its state may be lost: each verdict that it sends
// comes from the ledger, and a request with the same id gets the same reply.
type Front struct {
	cfg  FrontConfig
	js   jetstream.JetStream
	stop func()

	mu      sync.Mutex
	waiting map[requestKey][]*waiter // requests without an answer so far
	count   int

	admitted admissions
}

// requestKey is the key under which a request waits for its answer: the project, the agent, and the id that the client
// sent. Several waiting requests may have the same key, because a client may send an id again. A signed resolution has
// no such id. For it only id is set, to an id that the front generates.
type requestKey struct{ project, agent, id string }

// answered is an entry of the arbiter, and the places in the intake of the messages that it answers.
type answered struct {
	entry  streams.Entry
	intake []uint64
}

// maxEarly is the maximum number of answers that are stored for a request before the server acknowledges its intake
// message.
const maxEarly = 64

// waiter is a request that waits for its answer.
type waiter struct {
	answer chan streams.Entry
	// intake is the place of the request's message in the intake, or 0 until the server acknowledges the message. early
	// has the answers that arrived before that. Both are guarded by Front.mu.
	intake uint64
	early  []answered
	// recall is the ledger entry of a recall request, and recallSeq its sequence. recall is nil until the arbiter in
	// this process has read the entry. Both are guarded by Front.mu.
	recall    *streams.RecallEntry
	recallSeq uint64
}

// StartFront serves requests until Close is called. It returns when the subscriptions are active.
func StartFront(ctx context.Context, cfg FrontConfig) (*Front, error) {
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultAnswerTimeout
	}
	if cfg.Timeout > maxAnswerTimeout {
		return nil, fmt.Errorf("the answer timeout is %v, but nats-server drops an answer to an agent after 2 "+
			"minutes: choose at most %v", cfg.Timeout, maxAnswerTimeout)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	js, err := jetstream.New(cfg.Intake)
	if err != nil {
		return nil, err
	}
	f := &Front{cfg: cfg, js: js, waiting: make(map[requestKey][]*waiter)}
	stopVerdicts, err := stage.TailStage(ctx, cfg.Intake, cfg.Feed, streams.StageArbiter, cfg.Log, f.deliver)
	if err != nil {
		return nil, err
	}
	stopAdmissions, err := f.admitted.tail(ctx, &f.cfg)
	if err != nil {
		stopVerdicts()
		return nil, err
	}
	stopTail := func() { stopVerdicts(); stopAdmissions() }
	version := cfg.Version
	if version == "" {
		version = "0.1.0"
	}
	svc, err := micro.AddService(cfg.Service, micro.Config{Name: "lazaret", Version: version,
		Description: "Verdicts on actions, memory writes and recalls"})
	if err != nil {
		stopTail()
		return nil, fmt.Errorf("starting the request services: %w", err)
	}
	for _, v := range []streams.Service{streams.SvcDecide, streams.SvcRemember, streams.SvcRecall, streams.SvcGate,
		streams.SvcObserve, streams.SvcResolve} {
		answer := f.judged
		switch v {
		case streams.SvcObserve:
			answer = f.observe
		case streams.SvcResolve:
			answer = f.resolved
		}
		err := svc.AddEndpoint(string(v), micro.HandlerFunc(func(r micro.Request) { go f.serve(r, answer) }),
			micro.WithEndpointSubject(streams.ServiceFilter(v)))
		if err != nil {
			stopTail()
			return nil, errors.Join(fmt.Errorf("serving %s: %w", v, err), svc.Stop())
		}
	}
	if err := cfg.Service.Flush(); err != nil {
		stopTail()
		return nil, errors.Join(fmt.Errorf("subscribing the request services: %w", err), svc.Stop())
	}
	f.stop = func() { _ = svc.Stop(); stopTail() }
	return f, nil
}

// Close stops serving. Waiting requests get no reply. Their proposals stay in the ledger.
func (f *Front) Close() { f.stop() }

// answering returns the body of the reply to a request, and the error that the body reports.
type answering func(r micro.Request) (body []byte, failed *streams.ReplyError, err error)

func (f *Front) serve(r micro.Request, answer answering) {
	// The connection may publish only answers, so another reply subject could do no harm. The check makes the
	// attempt visible in the log.
	if !query.Answerable(r.Reply()) {
		f.cfg.Log.Warn("request dropped: its reply subject is not an inbox", "subject", r.Subject(), "code",
			streams.CodeBadReply)
		return
	}
	body, failed, err := answer(r)
	if err == nil {
		err = query.Reply(f.cfg.Service, r, body, failed)
	}
	if err != nil {
		f.cfg.Log.Warn("reply not sent", "subject", r.Subject(), "err", err)
	}
}

// judged answers a proposal.
func (f *Front) judged(r micro.Request) ([]byte, *streams.ReplyError, error) {
	began := time.Now()
	rep := f.answer(r)
	rep.Elapsed = time.Since(began).Microseconds()
	rep, body := encode(rep, int(f.cfg.Service.MaxPayload()))
	return body, rep.Error, nil
}

// notPublished returns the code and the error of the reply if a message could not be published to the intake. what
// names the message.
func notPublished(what string, err error) (streams.Code, error) {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return streams.CodeIntakeFull, fmt.Errorf("the intake refused the %s: %s", what,
			streams.RefusedText(int(api.ErrorCode), api.Description))
	}
	return streams.CodeUnavailable, fmt.Errorf("it is unknown whether the intake stored the %s: %w", what, err)
}

// replyHeaders is the number of bytes that are reserved for the headers of a reply.
const replyHeaders = 16 << 10

// encode returns a reply as JSON. If the reply does not fit into a message of `most` bytes, encode returns an error
// reply instead.
func encode(rep *streams.Reply, most int) (*streams.Reply, []byte) {
	body, err := streams.Marshal(rep)
	if err == nil && len(body) <= most-replyHeaders {
		return rep, body
	}
	why := fail(streams.CodeUnavailable, err)
	if err == nil {
		why = fail(streams.CodeReplySize,
			fmt.Errorf("the answer has %d bytes, and the server takes messages of at most %d: ask for less, under a new id",
				len(body), most))
	}
	why.Seq, why.IntakeSeq, why.Elapsed = rep.Seq, rep.IntakeSeq, rep.Elapsed
	if body, err = streams.Marshal(why); err != nil {
		body = []byte(`{"verdict":"hold"}`)
	}
	return why, body
}

// maxFailure is the maximum length of an error's text in bytes. The text is also sent in a header.
const maxFailure = 2 << 10

func fail(code streams.Code, err error) *streams.Reply {
	return &streams.Reply{Verdict: streams.Hold, Error: &streams.ReplyError{Code: code,
		Message: streams.Clip(fmt.Sprint(err), maxFailure)}}
}

func (f *Front) answer(r micro.Request) *streams.Reply {
	svc, a, err := streams.ParseService(r.Subject())
	if err != nil {
		return fail(streams.CodeBadSubject, err)
	}
	ceID := r.Headers().Get(streams.HeaderCloudEventID)
	ev, err := streams.ParseEvent(a, ceID, r.Data(), f.cfg.MaxSize)
	if err != nil {
		var rej *streams.RejectError
		errors.As(err, &rej)
		return fail(rej.Code, errors.New(rej.Reason))
	}
	if rec, ok := ev.(*streams.Recall); ok && (svc == streams.SvcGate) != (len(rec.Candidates) > 0) {
		return fail(streams.CodeInvalid, fmt.Errorf("a request to %s must have candidates, and no other request may have "+
			"them", streams.SvcGate))
	}
	who := requestKey{a.Project, a.Agent, streams.HeadOf(ev).ID}
	w, ok := f.await(who)
	if !ok {
		return fail(streams.CodeShedding, fmt.Errorf("too many requests: %d wait already", MaxWaiting))
	}
	defer f.forget(who, w)
	subject, err := streams.IntakeSubject(a.Project, a.Agent, a.Kind, a.Origin)
	if err != nil {
		return fail(streams.CodeBadSubject, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), f.cfg.Timeout)
	defer cancel()
	var seq uint64
	f.admitted.proposed()
	defer func() { f.admitted.answered(seq) }()
	m := &nats.Msg{Subject: subject, Data: r.Data(), Header: forwarded(r.Headers())}
	if offer := f.cfg.Joint.Offer(a, m); offer != nil {
		var rep *streams.Reply
		if seq, rep = f.offered(ctx, offer, m, w, a, ev); rep != nil {
			return rep
		}
		if seq != 0 {
			f.acknowledged(w, seq)
			return f.verdictOn(ctx, who, seq, w, a, ev)
		}
	}
	ack, err := f.js.PublishMsg(ctx, m)
	if err != nil {
		return fail(notPublished("proposal", err))
	}
	seq = ack.Sequence
	f.acknowledged(w, seq)
	return f.verdictOn(ctx, who, seq, w, a, ev)
}

// jointOffer has the methods of stage.Offer that the front uses.
type jointOffer interface {
	Answers() <-chan []streams.Entry
	Decided() <-chan uint64
}

// offered waits until ingest has decided on an offered proposal or declined it. If the stages decided jointly, it
// returns the reply. Otherwise it returns the proposal's place in the order of ingest's inputs, or 0 if the proposal
// must be published to the intake.
func (f *Front) offered(ctx context.Context, offer jointOffer, m *nats.Msg, w *waiter, a streams.Address,
	ev streams.Event) (uint64, *streams.Reply) {
	var early *streams.Reply // the reply to send once the ledger has the entries of the joint decision
	prepare := func(es []streams.Entry) { early = f.prepared(ctx, es, w, a, ev) }
	for {
		select {
		case es := <-offer.Answers():
			prepare(es)
		case at := <-offer.Decided():
			select {
			case es := <-offer.Answers():
				prepare(es)
			default:
			}
			if at == 0 || early == nil {
				return at, nil
			}
			early.IntakeSeq = position.Sequence(at)
			return at, early
		case <-ctx.Done():
			go f.publishLate(offer, m)
			return 0, fail(streams.CodeTimeout, fmt.Errorf("no verdict within %v", f.cfg.Timeout))
		}
	}
}

// publishLate is for an offered proposal whose request has timed out. If ingest then declines the offer, publishLate
// publishes the proposal to the intake. So the proposal is decided and recorded, like every proposal whose client no
// longer waits.
func (f *Front) publishLate(offer jointOffer, m *nats.Msg) {
	if <-offer.Decided() != 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), f.cfg.Timeout)
	defer cancel()
	if _, err := f.js.PublishMsg(ctx, m); err != nil {
		f.cfg.Log.Warn("a proposal without a verdict is perhaps lost: it is not in the ledger, and the intake did not "+
			"acknowledge it; its client must send it again with the same id", "subject", m.Subject, "err", err)
	}
}

// verdictOn waits for the verdict on a proposal, or for its rejection. seq is the proposal's place in the intake.
func (f *Front) verdictOn(ctx context.Context, who requestKey, seq uint64, w *waiter, a streams.Address,
	ev streams.Event) *streams.Reply {
	rep := f.waitOn(ctx, who, seq, w, a, ev)
	rep.IntakeSeq = position.Sequence(seq)
	return rep
}

func (f *Front) waitOn(ctx context.Context, who requestKey, seq uint64, w *waiter, a streams.Address,
	ev streams.Event) *streams.Reply {
	made := f.admitted.ask(seq)
	for {
		select {
		case e := <-w.answer:
			return f.reply(ctx, e, w, a, ev)
		case r := <-made:
			if r.Error == nil {
				made = nil // a repeat, on which the arbiter gives the verdict
				continue
			}
			rep := fail(r.Error.Code, errors.New(r.Error.Message))
			rep.Seq = r.Seq
			return rep
		case <-ctx.Done():
			rep := f.unanswered(who, seq)
			rep.Error.Message += fmt.Sprintf("; the proposal is intake message %s", position.Text(seq))
			return rep
		}
	}
}

// forwarded returns the request headers that are copied to the event.
func forwarded(h micro.Headers) nats.Header {
	out := make(nats.Header)
	if id := h.Get(streams.HeaderCloudEventID); id != "" {
		out.Set(streams.HeaderCloudEventID, id)
	}
	if t := streams.Traceparent(h.Get(streams.HeaderTraceparent)); t != "" {
		out.Set(streams.HeaderTraceparent, t)
	}
	return out
}

// unanswered returns the reply for a proposal without a verdict: either its groups have time left, or the timeout has
// passed.
func (f *Front) unanswered(who requestKey, intake uint64) *streams.Reply {
	if f.cfg.Pending != nil {
		ctx, cancel := context.WithTimeout(context.Background(), pendingWait)
		defer cancel()
		if until, ok := f.cfg.Pending(ctx, who.project, who.agent, who.id, intake); ok {
			rep := fail(streams.CodePending, fmt.Errorf("sentinel groups have until %s to answer", until.Format(time.RFC3339)))
			rep.Until = until
			return rep
		}
	}
	return fail(streams.CodeTimeout, fmt.Errorf("no verdict within %v", f.cfg.Timeout))
}

// reply converts a verdict's entry to the reply to an event.
func (f *Front) reply(ctx context.Context, e streams.Entry, w *waiter, a streams.Address,
	ev streams.Event) *streams.Reply {
	v := new(streams.VerdictEntry)
	if err := streams.Unmarshal(e.Body, v); err != nil {
		return fail(streams.CodeUnavailable, fmt.Errorf("ledger entry %d: %w", e.Seq, err))
	}
	return f.replyOf(ctx, &e, v, w, a, ev)
}

// prepared returns the reply for the entries of a joint decision that are being published, so that it can be sent as
// soon as the ledger has them. It returns nil if the reply needs a recall that is not in memory.
func (f *Front) prepared(ctx context.Context, es []streams.Entry, w *waiter, a streams.Address,
	ev streams.Event) *streams.Reply {
	for i := range es {
		e, v := &es[i], new(streams.VerdictEntry)
		if e.Type != streams.TypeVerdict || streams.Unmarshal(e.Body, v) != nil || v.Intake != es[0].Src {
			continue
		}
		if v.Type == streams.TypeRecall && f.remembered(w, v.Proposal) == nil {
			return nil
		}
		return f.replyOf(ctx, e, v, w, a, ev)
	}
	return nil
}

// replyOf is like reply, for a decoded verdict.
func (f *Front) replyOf(ctx context.Context, e *streams.Entry, v *streams.VerdictEntry, w *waiter, a streams.Address,
	ev streams.Event) *streams.Reply {
	if err := approval.CheckVerdict(v, a.Project, a.Agent, ev); err != nil {
		rep := fail(streams.CodeTaken, err)
		rep.Seq = e.Position()
		return rep
	}
	rep := &streams.Reply{Verdict: v.Verdict, Seq: e.Position(), Entry: v}
	if v.Type == streams.TypeRecall && v.Verdict == streams.Allow {
		var err error
		if rep.Recall, err = f.recallOf(ctx, w, v.Proposal); err != nil {
			return fail(streams.CodeUnavailable, err)
		}
		Show(rep.Recall, v)
	}
	return rep
}

// Show applies a verdict to a recall: it removes withheld beliefs, and applies text effects and spotlighting. The
// result is what the agent gets.
func Show(r *streams.RecallEntry, v *streams.VerdictEntry) {
	dropWithheld(r, v.Withheld)
	if !v.Learn {
		applyTexts(r, v.Texts)
	}
	if r.Spotlight {
		spotlight(r)
	}
}

// acknowledged sets the place of the request's message in the intake. If the answer has already arrived, it delivers
// the answer.
func (f *Front) acknowledged(w *waiter, intake uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.intake = intake
	for _, a := range w.early {
		w.hear(a)
	}
	w.early = nil
}

// hear delivers an answer if it answers this request's message. The caller must hold Front.mu.
func (w *waiter) hear(a answered) {
	switch {
	case w.intake == 0:
		if len(w.early) < maxEarly {
			w.early = append(w.early, a)
		}
	case slices.Contains(a.intake, w.intake):
		select {
		case w.answer <- a.entry:
		default: // a second answer
		}
	}
}

// recalled stores the entry of a recall, as the arbiter read it, for the request that waits for the verdict. So the
// front need not read the entry from the ledger. A later entry replaces an earlier one: if a joint decision is
// dropped, the entry that is written in its place has the same sequence.
func (f *Front) recalled(project string, seq uint64, r *streams.RecallEntry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.waiting[requestKey{project, r.Agent, r.Sent()}] {
		w.recall, w.recallSeq = r, seq
	}
}

// dropRecalls drops the entries of recalls, because the arbiter dropped what it had folded.
func (f *Front) dropRecalls() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, ws := range f.waiting {
		for _, w := range ws {
			w.recall, w.recallSeq = nil, 0
		}
	}
}

// remembered returns the stored entry of a recall, or nil.
func (f *Front) remembered(w *waiter, seq uint64) *streams.RecallEntry {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w.recallSeq != seq {
		return nil
	}
	return w.recall
}

// recallOf returns the entry of a recall, stored or read from the ledger. The caller may modify it.
func (f *Front) recallOf(ctx context.Context, w *waiter, seq uint64) (*streams.RecallEntry, error) {
	r := f.remembered(w, seq)
	if r != nil {
		own := *r // the stages of this process share the original
		own.Admitted, own.ContextOnly, own.Contradictions = slices.Clone(r.Admitted), slices.Clone(
			r.ContextOnly), slices.Clone(r.Contradictions)
		own.Refused = slices.Clip(r.Refused)
		return &own, nil
	}
	// This is a repeat, or the arbiter runs in another process.
	e, err := stage.ReadEntry(ctx, f.js, seq)
	if err != nil {
		return nil, err
	}
	r = new(streams.RecallEntry)
	if err := streams.Unmarshal(e.Body, r); err != nil {
		return nil, fmt.Errorf("ledger entry %d: %w", seq, err)
	}
	return r, nil
}

// deliver passes an entry of the arbiter to the requests that it answers. The goroutine of stage.TailStage calls it, in
// ledger order.
func (f *Front) deliver(e streams.Entry) {
	if e.Type != streams.TypeVerdict && e.Type != streams.TypeAlerts {
		return
	}
	f.mu.Lock()
	idle := f.count == 0
	f.mu.Unlock()
	if idle {
		return
	}
	var v struct {
		ID      string   `json:"id"`
		Reuses  string   `json:"reuses"`
		Agent   string   `json:"agent"`
		Intake  uint64   `json:"intake"`
		Also    []uint64 `json:"also"`
		Answers string   `json:"answers"`
	}
	if err := streams.Unmarshal(e.Body, &v); err != nil {
		f.cfg.Log.Error("unreadable entry of the arbiter", "seq", e.Seq, "err", err)
		return
	}
	who := requestKey{e.Project, v.Agent, cmp.Or(v.Reuses, v.ID)} // the id that the client sent
	if v.Answers != "" {
		who = requestKey{id: v.Answers}
	}
	if v.Intake == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.waiting[who] {
		w.hear(answered{e, append(v.Also, v.Intake)})
	}
}

func (f *Front) await(who requestKey) (*waiter, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count >= MaxWaiting {
		return nil, false
	}
	w := &waiter{answer: make(chan streams.Entry, 1)}
	f.waiting[who] = append(f.waiting[who], w)
	f.count++
	return w, true
}

func (f *Front) forget(who requestKey, w *waiter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := f.waiting[who]
	for i, x := range list {
		if x == w {
			list = append(list[:i], list[i+1:]...)
			break
		}
	}
	if len(list) == 0 {
		delete(f.waiting, who)
	} else {
		f.waiting[who] = list
	}
	f.count--
}
