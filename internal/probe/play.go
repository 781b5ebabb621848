package probe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"lazaret/client"
	"lazaret/internal/ingest"
	"lazaret/internal/replay"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/position"
	"lazaret/streams"
)

const (
	stepTime  = 5 * time.Second // virtual time between two steps
	awaitTime = 5 * time.Second // real time to wait for a hold to end
)

// played is the result of a step.
type played struct {
	project, agent string
	event          streams.Event
	kind           string
	seq            uint64 // intake sequence
	rep            *streams.Reply
	verdict        streams.Verdict
	code           streams.Code // code of the error
	permitted      *bool
	resolved       *streams.ResolveReply
	belief         *streams.BeliefRef
	envelope       *streams.BeliefRef
	inForce        *bool
	exported       *exported
	lessons        []ingest.Lesson
	proposed       []ingest.Supersession
}

// play is one run of a scenario.
type play struct {
	*Scenario
	site    *site
	off     *Contrast // nil except in contrast mode
	project string
	now     map[string]time.Time
	conns   map[string]*nats.Conn
	clients map[string]*client.Client
	done    map[string]*played
	failed  []string
}

// run plays a scenario and returns the failed assertions. It returns an error if the scenario could not
// be run.
func (s *Scenario) run(ctx context.Context, at *site, off *Contrast) (failed []string, err error) {
	p := &play{Scenario: s, site: at, off: off, project: projectName(s.Name) + at.tag, now: make(map[string]time.Time),
		done: make(map[string]*played)}
	defer func() { p.disconnect() }()
	p.disconnect()
	for i := range s.Steps {
		st := &s.Steps[i]
		for range st.Times {
			if err := p.step(ctx, st); err != nil {
				return p.failed, fmt.Errorf("step %s: %w", st.ID, err)
			}
		}
		if st.Expect != nil {
			if err := p.check(ctx, st); err != nil {
				return p.failed, fmt.Errorf("step %s: %w", st.ID, err)
			}
		}
		if off != nil && st.ID == off.Fails {
			break // without the defense, the step failed as required
		}
	}
	return p.failed, nil
}

func (p *play) disconnect() {
	for _, nc := range p.conns {
		nc.Close()
	}
	p.conns, p.clients = make(map[string]*nats.Conn), make(map[string]*client.Client)
}

func (p *play) fail(st *Step, format string, args ...any) {
	p.failed = append(p.failed, fmt.Sprintf("step %s: %s", st.ID, fmt.Sprintf(format, args...)))
}

// projectName returns the name of a scenario's project. It shortens long names: an agent's credential
// repeats the project in each subject, and a server refuses a credential of more than 4 KiB.
func projectName(name string) string {
	if len(name) > 20 {
		sum := sha256.Sum256([]byte(name))
		name = name[:13] + "-" + hex.EncodeToString(sum[:3])
	}
	return projectPrefix + name
}

func (p *play) projectOf(st *Step) string {
	if st.Project == "" {
		return p.project
	}
	return p.project + "-" + st.Project
}

// client returns a client of an agent with the agent's own credential.
func (p *play) client(project, agent string) (*client.Client, *nats.Conn, error) {
	key := project + "/" + agent
	if c := p.clients[key]; c != nil {
		return c, p.conns[key], nil
	}
	origins := beliefs.Origins()
	if own := p.Agents[agent]; own != nil && !(p.off != nil && p.off.Grant) {
		origins = nil
		for _, o := range own {
			origins = append(origins, beliefs.Origin(o))
		}
	}
	nc, err := p.site.agent(project, agent, origins)
	if err != nil {
		return nil, nil, err
	}
	p.conns[key] = nc
	c, err := client.New(nc, project, agent, client.WithRetry(client.Retry{Tries: 1}))
	if err != nil {
		return nil, nil, err
	}
	p.clients[key] = c
	return c, nc, nil
}

// tick advances virtual time and returns it.
func (p *play) tick(project string, d time.Duration) time.Time {
	t := p.now[project]
	if t.IsZero() {
		t = replay.Epoch
	}
	t = t.Add(d)
	p.now[project] = t
	return t
}

var reference = regexp.MustCompile(`^\$([A-Za-z0-9_-]+)(?:\.(envelope|digest))?$`)

// refer returns v with each reference to an earlier step ("$ID") replaced by the value that it names.
func (p *play) refer(v any) (any, error) {
	switch v := v.(type) {
	case string:
		if !reference.MatchString(v) {
			return v, nil
		}
		return p.lookUp(v)
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			y, err := p.refer(x)
			if err != nil {
				return nil, err
			}
			out[i] = y
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			y, err := p.refer(x)
			if err != nil {
				return nil, err
			}
			out[k] = y
		}
		return out, nil
	}
	return v, nil
}

func (p *play) lookUp(ref string) (string, error) {
	m := reference.FindStringSubmatch(ref)
	if m == nil {
		return "", fmt.Errorf("%q is not a reference to a step", ref)
	}
	d := p.done[m[1]]
	switch {
	case d == nil:
		return "", fmt.Errorf("%s: no earlier step has the id %s", ref, m[1])
	case m[2] == "digest" && d.rep != nil && d.rep.Entry != nil:
		return d.rep.Entry.Digest, nil
	case m[2] == "envelope" && d.envelope != nil:
		return d.envelope.ID, nil
	case m[2] == "" && d.belief != nil:
		return d.belief.ID, nil
	}
	return "", fmt.Errorf("%s: step %s has no such value", ref, m[1])
}

// fill sets an event's fields from the body of a step.
func (p *play) fill(body map[string]any, e streams.Event) error {
	v, err := p.refer(body)
	if err != nil {
		return err
	}
	m := v.(map[string]any)
	delete(m, "origin")
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, e, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("the event: %w", err)
	}
	return nil
}

func (p *play) origin(body map[string]any) beliefs.Origin {
	o, _ := body["origin"].(string)
	if p.off != nil && p.off.Label[o] != "" {
		o = p.off.Label[o]
	}
	return beliefs.Origin(o)
}

func (p *play) step(ctx context.Context, st *Step) error {
	kind := st.kinds()[0]
	d := &played{project: p.projectOf(st), agent: st.As, kind: kind}
	p.done[st.ID] = d
	events := map[string]struct {
		body  map[string]any
		event streams.Event
		kind  streams.Kind // empty: a proposal
	}{
		"observe":  {st.Observe, new(streams.Observation), streams.KindObs},
		"tools":    {st.Tools, new(streams.Tools), streams.KindTools},
		"start":    {st.Start, &streams.Session{Phase: "start"}, streams.KindSession},
		"decision": {st.Decision, new(streams.Decision), streams.KindDec},
		"outcome":  {st.Outcome, new(streams.Outcome), streams.KindOut},
		"remember": {st.Remember, new(streams.Memory), ""},
		"recall":   {st.Recall, new(streams.Recall), ""},
		"gate":     {st.Gate, new(streams.Recall), ""},
		"decide":   {st.Decide, new(streams.Action), ""},
	}
	if x, ok := events[kind]; ok {
		if err := p.fill(x.body, x.event); err != nil {
			return err
		}
		d.event = x.event
		h := streams.HeadOf(d.event)
		if h.ID == "" && st.Times == 1 { // otherwise the client generates the ids
			h.ID = st.ID
		}
		h.Session, h.Time = st.Session, p.tick(d.project, stepTime+st.after)
		if x.kind == "" {
			return p.ask(ctx, st, d, p.origin(x.body))
		}
		return p.publish(ctx, st, d, x.kind, p.origin(x.body))
	}
	switch kind {
	case "again":
		was := p.done[st.Again]
		if was == nil {
			return fmt.Errorf("again: no earlier step has the id %s", st.Again)
		}
		d.event, d.project, d.agent, d.kind = was.event, was.project, was.agent, was.kind
		return p.ask(ctx, st, d, "")
	case "resolve":
		return p.resolve(ctx, st, d)
	case "await":
		return p.await(ctx, st)
	case "activate":
		return p.activate(ctx, st, d)
	case "belief":
		return nil
	case "attempt":
		return p.attempt(ctx, st, d)
	case "export":
		return p.export(ctx, st, d)
	case "lessons":
		return p.harvest(ctx, st, d)
	case "reflect":
		return p.reflect(ctx, d)
	case "restart":
		p.disconnect()
		return p.site.restart(ctx)
	}
	return fmt.Errorf("unknown step %q", kind)
}

// publish stores an event, and finds the beliefs that came from an observation.
func (p *play) publish(ctx context.Context, st *Step, d *played, kind streams.Kind, origin beliefs.Origin) error {
	c, nc, err := p.client(d.project, d.agent)
	if err != nil {
		return err
	}
	if st.Expect != nil && st.Expect.Permitted != nil {
		project, agent := p.posing(st, d)
		subject, err := streams.IntakeSubject(project, agent, kind, origin)
		if err != nil {
			return err
		}
		return p.try(ctx, d, nc, subject)
	}
	if d.seq, err = c.Publish(ctx, kind, origin, d.event); err != nil {
		return err
	}
	if kind != streams.KindObs || st.Times > 1 {
		return nil
	}
	return p.site.ledger.await(ctx, d.project, func(entries []streams.Entry, _ uint64) (bool, error) {
		for _, e := range entries {
			if e.Stage != streams.StageIngest || e.Src != d.seq {
				continue
			}
			switch e.Type {
			case streams.TypeObservation:
				var o streams.ObservationEntry
				if err := streams.Unmarshal(e.Body, &o); err != nil {
					return false, err
				}
				for i := range o.Claims {
					b := &o.Claims[i].Belief
					switch {
					case o.Claims[i].Kind == beliefs.Envelope:
						d.envelope = b
					case d.belief == nil:
						d.belief = b
					}
				}
				return true, nil
			case streams.TypeRejected:
				var r streams.RejectedEntry
				if err := streams.Unmarshal(e.Body, &r); err != nil {
					return false, err
				}
				d.code = r.Code
				return true, nil
			}
		}
		return false, nil
	})
}

// posing returns the project and agent that a step claims to be.
func (p *play) posing(st *Step, d *played) (project, agent string) {
	project, agent = d.project, d.agent
	if st.Posing != "" {
		agent = st.Posing
	}
	if st.Into != "" {
		project = p.project + "-" + st.Into
	}
	return project, agent
}

// try publishes without waiting for an acknowledgment, and records whether the server permitted it.
func (p *play) try(ctx context.Context, d *played, nc *nats.Conn, subject string) error {
	body, err := streams.Marshal(d.event)
	if err != nil {
		return err
	}
	if err := nc.Publish(subject, body); err != nil {
		return err
	}
	d.permitted, err = permitted(ctx, nc)
	return err
}

// permitted reports whether the server permitted what a connection published. The server reports a denied publish
// before it answers a ping, so permitted sends a ping.
func permitted(ctx context.Context, nc *nats.Conn) (*bool, error) {
	if err := nc.FlushWithContext(ctx); err != nil {
		return nil, err
	}
	ok := !errors.Is(nc.LastError(), nats.ErrPermissionViolation)
	return &ok, nil
}

// ask sends a proposal and stores the reply.
func (p *play) ask(ctx context.Context, st *Step, d *played, origin beliefs.Origin) error {
	c, nc, err := p.client(d.project, d.agent)
	if err != nil {
		return err
	}
	if st.Expect != nil && st.Expect.Permitted != nil {
		svc := map[string]streams.Service{"remember": streams.SvcRemember, "recall": streams.SvcRecall,
			"gate": streams.SvcGate, "decide": streams.SvcDecide}[d.kind]
		project, agent := p.posing(st, d)
		subject, err := streams.ServiceSubject(svc, project, agent, origin)
		if err != nil {
			return err
		}
		return p.try(ctx, d, nc, subject)
	}
	switch e := d.event.(type) {
	case *streams.Memory:
		d.rep, err = c.Remember(ctx, origin, e)
	case *streams.Action:
		d.rep, err = c.Decide(ctx, e)
	case *streams.Recall:
		if len(e.Candidates) > 0 {
			d.rep, err = c.Gate(ctx, e)
		} else {
			d.rep, err = c.Recall(ctx, e)
		}
	}
	d.verdict = client.VerdictOf(d.rep, err)
	var le *client.Error
	switch {
	case errors.As(err, &le) && le.Code < streams.CodeTimeout:
		d.code = le.Code
	case err != nil:
		return err
	case d.rep.Entry != nil && d.rep.Entry.Belief != nil:
		d.belief = d.rep.Entry.Belief
	}
	return nil
}

// settle waits until every group has judged all published events: it makes a proposal and waits for the verdict.
// A group answers in order, and its findings precede its answer in the ledger.
func (p *play) settle(ctx context.Context, project string) error {
	c, _, err := p.client(project, "barrier")
	if err != nil {
		return err
	}
	rep, err := c.Decide(ctx, &streams.Action{Head: streams.Head{Session: "barrier", Time: p.tick(project, 0)},
		Tool: "think"})
	if err != nil {
		return fmt.Errorf("waiting for the sentinels: %w", err)
	}
	return p.site.ledger.await(ctx, project, func(_ []streams.Entry, seq uint64) (bool, error) {
		return seq >= position.Sequence(rep.Seq), nil
	})
}
