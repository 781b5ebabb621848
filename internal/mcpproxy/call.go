package mcpproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"lazaret/client"
	"lazaret/streams"
)

// reportTime is the maximum time by which the proxy delays a tool's result in order to record the outcome.
const reportTime = 5 * time.Second

// callTool proposes a tools/call to the arbiter. If the verdict is allow, it passes the call on and records the result
// as an observation. It returns nil if the client has cancelled the call.
func (p *Proxy) callTool(ctx context.Context, c *call, r *jsonrpc.Request) *jsonrpc.Response {
	var params struct {
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
		inputs
	}
	if json.Unmarshal(r.Params, &params) != nil || params.Name == "" {
		return fault(r.ID, jsonrpc.CodeInvalidParams, "tools/call needs a name and arguments")
	}
	offered, binding, why := p.tools.offered(ctx, metaOf(r.Params), false, min(listWait, p.cfg.Wait))
	if why != nil {
		return why.result(r.ID, params.Name)
	}
	if !offered[params.Name] {
		return fault(r.ID, jsonrpc.CodeInvalidParams, fmt.Sprintf("the server offers no tool %q",
			streams.Clip(params.Name, 100)))
	}
	args := params.Arguments
	if len(args) == 0 || args.Kind() == 'n' {
		args = jsontext.Value("{}")
	}
	args = canonical(args)
	again, shown := p.answeredInput(params.inputs)
	wait, asks := p.cfg.Wait, p.takesInput(r.Params)
	if asks && !shown {
		wait = 0 // the client will wait while it shows the page of the hold, or it has refused to show it
	}
	a, passes, rep, err := p.proposeCall(ctx, &streams.Action{Head: streams.Head{Session: p.cfg.Session},
		Tool: params.Name, Args: args, Catalogue: binding}, params.inputs, wait)
	switch v := client.VerdictOf(rep, err); {
	case ctx.Err() != nil:
		p.withdraw(a, rep)
		return nil
	case v == streams.Hold && (err != nil || client.Open(rep)):
		if err == nil && asks && !again {
			return p.askForInput(r.ID, a, rep)
		}
		return (&refusal{rep: rep, err: err, action: a.ID}).result(r.ID, params.Name)
	case v != streams.Allow:
		return (&refusal{rep: rep, action: a.ID}).result(r.ID, params.Name)
	}
	p.mu.Lock()
	c.passed = true
	p.mu.Unlock()
	if again {
		passed, err := withInputs(r, passes)
		if err != nil {
			p.report(a, rep, "skipped")
			return fault(r.ID, jsonrpc.CodeInvalidParams, "the call cannot be passed on: "+err.Error())
		}
		r = passed
	}
	if err := p.down.Write(ctx, r); err != nil {
		p.report(a, rep, "error")
		return fault(r.ID, jsonrpc.CodeInternalError, "the server cannot be reached: "+err.Error())
	}
	var m *jsonrpc.Response
	select {
	case <-ctx.Done():
		p.report(a, rep, "error") // the server may have executed it
		return nil
	case m = <-c.answer:
	}
	if err := vetResponse(m); err != nil {
		err = p.refused(ctx, params.Name, a.ID, err)
		p.report(a, rep, "error")
		return (&refusal{err: err, done: true, action: a.ID}).result(r.ID, params.Name)
	}
	blocks, status := resultBlocks(m.Result), "ok"
	var said struct {
		IsError bool `json:"isError"`
	}
	if m.Error != nil {
		blocks = []streams.Block{{Text: errorText(m.Error)}}
	}
	if m.Error != nil || json.Unmarshal(m.Result, &said) == nil && said.IsError {
		status = "error"
	}
	if err = p.recordServerInfo(ctx, m.Result); err == nil {
		err = p.publish(ctx, params.Name, a.ID, "", json.RawMessage(args), blocks)
	}
	p.report(a, rep, status)
	if err != nil {
		return (&refusal{err: err, done: true, action: a.ID}).result(r.ID, params.Name)
	}
	return m
}

// propose asks for a verdict. If it is a hold, propose waits until the hold is resolved, but at most for the time wait.
func (p *Proxy) propose(ctx context.Context, a *streams.Action, wait time.Duration) (*client.Reply, error) {
	return reach(ctx, p, func(ctx context.Context) (*client.Reply, error) {
		rep, err := p.host.Decide(ctx, a)
		if err != nil || !client.Open(rep) || wait <= 0 {
			return rep, err
		}
		p.cfg.Log.Info("held", "tool", a.Tool, "hold", rep.Entry.Hold.ID, "wait", wait)
		patience, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		over := p.page(patience, a, rep)
		then, err := p.host.Await(patience, a, rep)
		over(then)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			return then, nil // the hold is still open
		}
		return then, err
	})
}

// canonical returns the arguments in a canonical form, so that equal arguments have the same form. Numbers stay as they
// are written, because two different integers may be the same float64.
func canonical(args jsontext.Value) jsontext.Value {
	c := args.Clone()
	if c.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)) != nil {
		return args
	}
	return c
}

// callKey returns a key that is the same for all calls of a tool with the same arguments.
func callKey(tool string, args jsontext.Value) string {
	return streams.Digest([]byte(tool + "\x00" + string(canonical(args))))
}

// proposed is a held proposal that the proxy remembers. It has the parts that a repeat of the call does not have.
type proposed struct {
	id, catalogue string
	hold          string // id of the hold, if the verdict named one
	after         uint64
	inputs        // the client's answers and state with which the call is passed on
}

// proposeCall proposes a call, and waits until a hold is resolved. If equal calls were held before, it proposes one of
// them again instead of the new one, so that an approval of its hold applies. It chooses the one whose hold the client
// showed on its page, or else the first one whose hold is resolved. It returns the action and the inputs of the
// proposal. As long as the hold is open, the proxy remembers the proposal.
func (p *Proxy) proposeCall(ctx context.Context, call *streams.Action, in inputs, wait time.Duration) (
	a *streams.Action, passes inputs, rep *client.Reply, err error) {
	key := callKey(call.Tool, call.Args)
	again, _ := p.answeredInput(in)
	hold := ""
	if again {
		hold = strings.TrimPrefix(in.State, p.statePrefix())
	}
	var open []proposed
	defer func() { p.put(key, open...) }()
	for tries := 1; ; tries++ {
		held, more := p.take(key, hold)
		if held.id == "" {
			if a != nil {
				return a, passes, rep, err // another call has taken the other held proposals at the same time
			}
			held = proposed{id: client.NewID(), catalogue: call.Catalogue, after: p.host.LastAcknowledged()}
		}
		if !again {
			held.inputs = in
		}
		more = more && tries < maxEqual
		patience := wait
		if more {
			patience = 0
		}
		next := *call
		next.ID, next.Catalogue, next.After = held.id, held.catalogue, held.after
		a, passes = &next, held.inputs
		rep, err = p.propose(ctx, a, patience)
		if ctx.Err() != nil || client.VerdictOf(rep, err) != streams.Hold {
			return a, passes, rep, err
		}
		if err != nil || client.Open(rep) {
			if rep != nil && rep.Entry != nil && rep.Entry.Hold != nil {
				held.hold = rep.Entry.Hold.ID
			}
			open = append(open, held)
		}
		if err != nil || !more {
			return a, passes, rep, err
		}
	}
}

// take returns a remembered proposal of an equal call, and removes it so that one approval lets only one call through.
// hold is the id of a hold: if it is that of one of the proposals, take returns this proposal, and otherwise the
// oldest. more reports whether the caller should also try the other remembered proposals.
func (p *Proxy) take(key, hold string) (held proposed, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.pending[key]
	if len(all) == 0 {
		return proposed{}, false
	}
	i := slices.IndexFunc(all, func(h proposed) bool { return hold != "" && h.hold == hold })
	shown := i >= 0
	i = max(i, 0)
	held = all[i]
	p.remembered--
	if all = slices.Delete(all, i, i+1); len(all) == 0 {
		delete(p.pending, key)
	} else {
		p.pending[key] = all
	}
	return held, len(all) > 0 && !shown
}

// Limits of remembered held calls.
const (
	maxPending = 1 << 18 // number of held proposals of all calls; together they need about 60 MB of memory
	maxEqual   = 8       // held proposals of equal calls
)

// put remembers held proposals that take has returned. It puts them before the other proposals of the same call,
// because they are older.
func (p *Proxy) put(key string, held ...proposed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.pending[key]
	if len(held) == 0 || p.remembered+len(held) > maxPending {
		return
	}
	all := slices.Concat(held, before)
	all = all[:min(len(all), maxEqual)]
	p.pending[key] = all
	p.remembered += len(all) - len(before)
}

// withdraw cancels a proposal because its caller does not wait any more.
func (p *Proxy) withdraw(a *streams.Action, rep *client.Reply) {
	if rep != nil && !client.Open(rep) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), reportTime)
	defer cancel()
	if err := p.host.Withdraw(ctx, a.Session, a.ID); err != nil {
		p.cfg.Log.Warn("a proposal was not withdrawn", "action", a.ID, "err", err)
	}
}

func (p *Proxy) report(a *streams.Action, rep *client.Reply, status string) {
	ctx, cancel := context.WithTimeout(context.Background(), reportTime)
	defer cancel()
	if _, err := p.host.Executed(ctx, a, rep, status); err != nil {
		p.cfg.Log.Warn("an outcome was not reported", "action", a.ID, "err", err)
	}
}

// metaOf returns the _meta of a client's request. The proxy uses it in a request of its own. The progress token is left
// out, because it belongs only to the client's request.
func metaOf(params json.RawMessage) map[string]json.RawMessage {
	var p struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	if json.Unmarshal(params, &p) != nil {
		return nil
	}
	delete(p.Meta, "progressToken")
	return p.Meta
}

// refusal says why a call or a list of tools was refused. The reason is for the model.
type refusal struct {
	rep    *client.Reply
	err    error
	action string
	done   bool // the call was carried out, but its result is not shown
	// what names, in the text for the model, the thing that was refused. If it is empty, the name of the tool is used.
	what string
}

// MetaKey is the name of a field in the _meta of results that the proxy itself makes. The field has the verdict. It is
// meant for hosts.
const MetaKey = ownMeta + "verdict"

// verdictMeta is the value of MetaKey.
type verdictMeta struct {
	Verdict streams.Verdict `json:"verdict"`
	Action  string          `json:"action,omitempty"`
	Hold    string          `json:"hold,omitempty"`
	Expires string          `json:"expires,omitempty"`
	Codes   []string        `json:"codes,omitempty"`
}

func (f *refusal) result(id jsonrpc.ID, tool string) *jsonrpc.Response {
	v := client.VerdictOf(f.rep, f.err)
	meta := verdictMeta{Verdict: v, Action: f.action}
	subject := tool
	if f.what != "" {
		subject = f.what
	}
	var b strings.Builder
	var e *client.Error
	switch {
	case f.done:
		fmt.Fprintf(&b, "%s was carried out, but its result is not shown: it could not be recorded (%v). Do not call it "+
			"again without asking the user.", tool, f.err)
	case v == streams.Deny:
		fmt.Fprintf(&b, "DENIED: %s was not carried out, and will not be.", subject)
	case client.Open(f.rep) && f.err == nil:
		h := f.rep.Entry.Hold
		meta.Hold, meta.Expires = h.ID, h.Expires.UTC().Format(time.RFC3339)
		fmt.Fprintf(&b, "HELD: %s was not carried out. It waits for a person to approve hold %s, until %s.", subject,
			meta.Hold, meta.Expires)
	case f.err != nil:
		fmt.Fprintf(&b, "HELD: %s was not carried out, because there is no verdict (%v). Nothing was done.", subject, f.err)
	default:
		fmt.Fprintf(&b, "HELD: %s was not carried out, and its hold ended without an approval.", subject)
	}
	if errors.As(f.err, &e) {
		meta.Codes = append(meta.Codes, string(e.Code))
	}
	if f.rep != nil && f.rep.Entry != nil && !f.done {
		n := 0
		for _, r := range f.rep.Entry.Reasons {
			if r.Verdict == streams.Allow {
				continue
			}
			meta.Codes = append(meta.Codes, string(r.Code))
			if n++; n <= 5 {
				fmt.Fprintf(&b, "\n- %s", r.Code)
				if r.Rule != "" {
					fmt.Fprintf(&b, " %s", r.Rule)
				}
				fmt.Fprintf(&b, ": %s", streams.Clip(r.Text, 300))
			}
		}
	}
	switch {
	case f.done:
	case v == streams.Deny:
		b.WriteString("\nDo not try the same in other words or with another tool. Tell the user, or choose another way.")
	case f.what != "":
		b.WriteString("\nTell the user. The tools can be called once they are approved.")
	case client.Open(f.rep):
		b.WriteString("\nTell the user, and go on with something else. Once it is approved, call the same tool with the " +
			"same arguments again; do not try the same by other means.")
	case f.err != nil && (e == nil || e.Temporary()):
		b.WriteString("\nTell the user, and go on with something else. You may make the same call again later; do not " +
			"try the same by other means.")
	default: // no approval can release this call
		b.WriteString("\nTell the user, and go on with something else; do not try the same by other means.")
	}
	result := map[string]any{
		"content": []map[string]string{{"type": "text", "text": b.String()}},
		"isError": true,
		// Since version 2026-07-28, each result must have this field. Clients of earlier versions ignore it.
		"resultType": "complete",
		"_meta":      map[string]any{MetaKey: meta},
	}
	body, err := json.Marshal(result)
	if err != nil {
		return fault(id, jsonrpc.CodeInternalError, "not carried out")
	}
	return &jsonrpc.Response{ID: id, Result: body}
}
