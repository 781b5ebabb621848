package ingest

import (
	"errors"
	"fmt"
	"sort"
	"strings"

	"lazaret/internal/activation"
	"lazaret/internal/stage"
	"lazaret/pkg/rules"
	"lazaret/streams"
)

func init() {
	writesIn(streams.TypeRejected, (*Fold).applyRejected)
	writesIn(streams.TypeRepeat, (*Fold).applyRepeat)
	writes(streams.TypeChunk, func(f *Fold, st *stage.State, e *streams.Entry, _ *streams.ChunkEntry) error {
		return activation.Apply(st, e, f.pinned, f.log)
	})
	writes(streams.TypeActivation, (*Fold).applyActivation)
}

// Limits in bytes on those parts of a message that its rejection repeats. streams.IntakeMsgSize limits the others. So a
// rejection always fits into a ledger message.
const (
	maxReason  = 2 << 10
	maxHeaders = 64 << 10 // as JSON
)

// Reject implements stage.IntakeFold.
func (f *Fold) Reject(st *stage.State, m *stage.Message, why *streams.RejectError) (*stage.Admission, error) {
	if h, err := streams.ParseEvent(m.Address, m.Header.Get(streams.HeaderCloudEventID), m.Data, f.maxSize); err == nil {
		why.ID, why.Session = streams.HeadOf(h).ID, streams.HeadOf(h).Session
	}
	return f.reject(st, m, why)
}

// Shed implements stage.IntakeFold.
func (*Fold) Shed(m *stage.Message, reason string) *streams.RejectError {
	r := &streams.RejectError{Code: streams.CodeAgentFull, Reason: reason, Size: len(m.Data),
		Digest: streams.Digest(m.Data)}
	if m.Bad != nil {
		r.ID, r.Session = m.Bad.ID, m.Bad.Session
	} else {
		r.ID, r.Session = streams.Peek(m.Data)
	}
	if id := m.Header.Get(streams.HeaderCloudEventID); streams.ValidID(id) {
		r.ID = id
	}
	return r
}

// reject records a rejection of a message. If cause is not a *streams.RejectError, it is a fault of the program, and
// reject returns it.
func (f *Fold) reject(st *stage.State, m *stage.Message, cause error) (*stage.Admission, error) {
	var r *streams.RejectError
	if !errors.As(cause, &r) {
		return nil, cause
	}
	a := m.Address
	now, err := f.now(st, m, &streams.Head{})
	if err != nil {
		return nil, err
	}
	// Headers and subjects can contain any bytes. An entry that cannot be encoded would stop the partition.
	valid := func(s string) string { return streams.Clip(strings.ToValidUTF8(s, "\uFFFD"), maxReason) }
	e := &streams.RejectedEntry{
		EntryHead: streams.EntryHead{ID: valid(r.ID), Agent: valid(a.Agent), Session: valid(r.Session), Time: now,
			Intake: m.Place()},
		Subject: valid(m.Subject), Kind: streams.Kind(valid(string(a.Kind))), Origin: a.Origin, Code: r.Code,
		Reason: valid(r.Reason),
		// After a rejected observation, the proposals of its session are held, because the agent may have been shown
		// it. A message that is no event, such as an acknowledgement of NATS, is shown to no agent.
		Unseen:  a.Kind == streams.KindObs && r.Code != streams.CodeNotEvent,
		Raw:     m.Data,
		Headers: excerpt(headerLines(m), maxHeaders),
	}
	if n := len(m.Data); n > streams.IntakeMsgSize { // possible only if somebody changed the stream's limits
		e.Raw, e.Size, e.Digest = m.Data[:streams.IntakeMsgSize], n, streams.Digest(m.Data)
	} else if r.Digest != "" {
		e.Size, e.Digest = r.Size, r.Digest
	}
	project := a.Project
	if !streams.ValidID(project) {
		project = streams.SystemProject
	}
	var live []stage.Live
	// A rejection without a project has no live copy, unless it is of an operator's command.
	if project != streams.SystemProject || a.Kind == streams.KindCtl {
		copied := &liveRejected{e.EntryHead, e.Subject, e.Code, e.Reason, e.Unseen}
		live = stage.LiveCopy(copied, project, "rejected")
		if a.Kind != streams.KindCtl {
			// An agent may subscribe to the rejections of its own events.
			live = append(live, stage.LiveCopy(copied, project, "rejected", e.Agent)...)
		}
	}
	return admission(streams.TypeRejected, project, e, live...)
}

// liveRejected is the live copy of a rejection. It leaves out the message's bytes, because no sentinel has judged them.
type liveRejected struct {
	streams.EntryHead
	Subject string       `json:"subject"`
	Code    streams.Code `json:"code"`
	Reason  string       `json:"reason"`
	Unseen  bool         `json:"unseen"`
}

func headerLines(m *stage.Message) string {
	var lines []string
	for k, vs := range m.Header {
		for _, v := range vs {
			lines = append(lines, strings.ToValidUTF8(k+": "+v, "\uFFFD"))
		}
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

func (f *Fold) applyRejected(st *stage.State, project string, e *streams.RejectedEntry) error {
	if !e.Unseen || project == streams.SystemProject {
		return nil
	}
	// Without a session, the observation may have been shown in any session of the agent.
	u := streams.Unseen{ID: e.ID, Origin: e.Origin, Intake: e.Intake, Code: e.Code, Reason: streams.Clip(e.Reason,
		maxHoleReason)}
	if !streams.ValidID(u.ID) {
		u.ID = ""
	}
	return f.setUnseen(st, project, e.Agent, e.Session, u)
}

// control decides on a message on a control subject, such as a part of a bundle or a signed command.
func (f *Fold) control(st *stage.State, m *stage.Message) (*stage.Admission, error) {
	c := new(streams.Control)
	if err := streams.Unmarshal(m.Data, c); err != nil {
		return f.reject(st, m, &streams.RejectError{Code: streams.CodeMalformed,
			Reason: fmt.Sprintf("the control message is not JSON: %v", err)})
	}
	now, err := f.now(st, m, &streams.Head{})
	if err != nil {
		return nil, err
	}
	head := streams.EntryHead{ID: c.ID, Time: now, Intake: m.Seq}
	if c.Custody != "" {
		return f.custody(st, m, c, head)
	}
	if c.Look != nil {
		return f.admitLook(st, m, c, head)
	}
	if c.Silence != nil {
		return f.silence(st, m, c, head)
	}
	if c.Project != "" && c.Order != "" {
		return f.order(st, m, c, head)
	}
	if c.Project != "" && c.Belief != "" {
		return f.confirmation(st, m, c, head)
	}
	if c.Project != "" {
		return f.resolution(st, m, c, head)
	}
	if c.Note == "" {
		if c.Count < 1 || c.Count > streams.MaxChunks || c.Index < 0 || c.Index >= c.Count ||
			len(c.Chunk) > streams.ChunkSize || !strings.HasPrefix(c.Digest, "sha256:") || len(c.Digest) != 71 {
			return f.reject(st, m, &streams.RejectError{Code: streams.CodeBundle,
				Reason: "the control message is not a valid chunk of a bundle"})
		}
		return admission(streams.TypeChunk, streams.SystemProject, &streams.ChunkEntry{EntryHead: head, Digest: c.Digest,
			Index: c.Index, Count: c.Count, Chunk: c.Chunk})
	}
	cmd, signer, err := streams.OpenCommand([]byte(c.Note), f.pinned)
	if err != nil {
		return f.reject(st, m, err)
	}
	if cmd.First {
		active, err := activation.Digest(st, cmd.Do)
		if err != nil {
			return nil, err
		}
		if active != "" {
			return f.reject(st, m, &streams.RejectError{Code: streams.CodeCommand,
				Reason: fmt.Sprintf("%s %s is signed for a pipeline in which nothing is in force yet, but %s is in force: "+
					"nothing was changed", cmd.Do, cmd.Digest, active)})
		}
	}
	bundle, err := activation.Assemble(st, cmd.Digest)
	if err != nil {
		return f.reject(st, m, &streams.RejectError{Code: streams.CodeBundle, Reason: err.Error()})
	}
	if err := f.check(cmd.Do, cmd.Digest, bundle); err != nil {
		return f.reject(st, m, &streams.RejectError{Code: streams.CodeBundle, Reason: err.Error()})
	}
	if cmd.Do == streams.DoActivatePolicy {
		if late, err := f.behind(st, cmd.Digest, bundle); err != nil {
			return nil, err
		} else if late != nil {
			return f.reject(st, m, late)
		}
	}
	return admission(streams.TypeActivation, streams.SystemProject, &streams.ActivationEntry{EntryHead: head, Do: cmd.Do,
		Digest: cmd.Digest, Engine: cmd.Engine, Signer: signer, Note: c.Note})
}

// check compiles a bundle as the stages will, before it is put in force. Each partition admits the same bundle, and
// only the first one compiles it.
func (f *Fold) check(do, digest string, bundle []byte) (err error) {
	switch do {
	case streams.DoActivatePolicy:
		_, err = f.policies.Compiled(digest, bundle)
	case streams.DoActivateTrust:
		_, err = f.trust.Compiled(digest, bundle)
	default:
		_, err = f.rules.Compiled(digest, bundle)
	}
	return err
}

// compiles returns an error if a rule set does not compile.
func compiles(bundle []byte) (struct{}, error) {
	_, err := rules.CompileBundle(bundle)
	return struct{}{}, err
}

func (f *Fold) applyActivation(st *stage.State, e *streams.Entry, b *streams.ActivationEntry) error {
	if err := activation.Apply(st, e, f.pinned, f.log); err != nil {
		return err
	}
	if d, err := activation.Digest(st, streams.DoActivateRules); err != nil || b.Do != streams.DoActivateRules ||
		d != b.Digest {
		return err
	}
	return f.startReaudit(st, "rules "+b.Digest)
}
