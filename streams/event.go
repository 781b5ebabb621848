package streams

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/pkg/beliefs"
)

// Limits of one event. The sender splits larger content into several events with the same call.
const (
	// DefaultMaxEvent is the maximum size of an event body, in bytes, unless configured otherwise.
	DefaultMaxEvent = 1 << 20
	// MaxBlocks is the maximum number of content blocks in an observation.
	MaxBlocks = 256
	// MaxRefs is the maximum number of belief ids or parent ids that an event may cite.
	MaxRefs = 256
	// MaxNameLen is the maximum length of tool names, keys, sources and other short strings, in
	// bytes.
	MaxNameLen = 1024
)

// Head has the fields that all events have in common. Unknown JSON fields are ignored everywhere in
// events, so that a client may be newer than its server.
type Head struct {
	// ID is the client's identifier of the event, unique within (project,
	// agent). The same event published again is recorded as a repeat and has no
	// other effect. The CloudEvents header ce-id may carry it instead.
	ID string `json:"id"`
	// Session groups the events of one run of the agent.
	Session string `json:"session,omitzero"`
	// User is the person of the project whom the event is about, if a host serves several.
	// Memories about one user are not served to another. Like the session, the user is
	// stated by the host and not verified.
	User string `json:"user,omitzero"`
	// DataSubject is a pseudonym of the person whom the event concerns. The event can be
	// forgotten under it within the project (docs/forgetting.md). If it is empty, User is
	// the data subject. It must not be a name, an address or anything else that identifies
	// the person, because it stays in statements and in the log after the event is forgotten.
	DataSubject string `json:"data_subject,omitzero"`
	// Time is the event's own time. It is used only in projects whose name starts with
	// SyntheticPrefix, where it must not run backwards. In all other projects the server's time
	// stamp is used.
	Time time.Time `json:"time,omitzero"`

	// Stream and Seq are fields of a JetStream acknowledgement. A client may name any subject as
	// its reply subject, even an intake subject of someone else, and the server's acknowledgement
	// then arrives there. These fields detect that.
	Stream string `json:"stream,omitzero"`
	Seq    uint64 `json:"seq,omitzero"`
}

func (h *Head) isReply() bool { return h.Stream != "" && h.Seq != 0 }

// Block is one piece of content, in the form that MCP and most model APIs use.
type Block struct {
	Type string `json:"type,omitzero"` // "text" if empty; other types are stored but not read
	Text string `json:"text"`
}

// Observation (kind obs) is something the agent was shown.
type Observation struct {
	Head
	Tool    string         `json:"tool,omitzero"`
	Call    string         `json:"call,omitzero"`    // id of the answered tool call
	Args    jsontext.Value `json:"args,omitzero"`    // arguments of the call
	Content string         `json:"content,omitzero"` // shorthand for one text block
	Blocks  []Block        `json:"blocks,omitzero"`
	// Source is where the content came from: a URL, a path, a sender. Empty means the tool itself.
	Source string `json:"source,omitzero"`
}

// Memory (kind mem) is a write to the agent's memory, or a proposal of one.
type Memory struct {
	Head
	Key         string              `json:"key,omitzero"`
	Content     string              `json:"content"`
	Category    string              `json:"category,omitzero"`
	Channel     string              `json:"channel,omitzero"`      // write (default), compaction, skill, import
	DerivedFrom []string            `json:"derived_from,omitzero"` // ids of observations or beliefs
	Source      string              `json:"source,omitzero"`
	Sensitivity beliefs.Sensitivity `json:"sensitivity,omitzero"`
	ValidFrom   time.Time           `json:"valid_from,omitzero"`
	ValidTo     time.Time           `json:"valid_to,omitzero"`
	// Scope is where the memory applies: project, user or session. If it is empty, the
	// memory applies to the event's user, or to the project if the event names no user.
	Scope string `json:"scope,omitzero"`
	// Triples are the statements of the content that the writer has extracted. Content that
	// is a flat JSON object with a subject needs none.
	Triples []beliefs.Triple `json:"triples,omitzero"`
	// Home is set if the memory is shared from another project.
	Home *beliefs.Home `json:"home,omitzero"`
	// TTL is how long the memory may be served without a new confirmation, in seconds of
	// ledger time. If it is zero, the policy decides.
	TTL   int64  `json:"ttl,omitzero"`
	After uint64 `json:"after,omitzero"` // last acknowledged intake sequence
}

// Recall (kind recall) asks which memories may enter a context. Without candidates, they are
// searched by query, key and filter. With candidates, the results of another store are
// checked.
type Recall struct {
	Head
	Query   string       `json:"query,omitzero"`
	Key     string       `json:"key,omitzero"`
	Filter  RecallFilter `json:"filter,omitzero"`
	Purpose string       `json:"purpose,omitzero"` // extraction, planning (default), decision, explanation
	Limit   int          `json:"limit,omitzero"`   // entries wanted, 1 to 100, default 10
	// Offset is the byte at which each returned content begins. Use it to read the rest of a
	// content that an earlier recall returned in part.
	Offset int `json:"offset,omitzero"`
	// Candidates are the contents to check. If there are any, nothing is searched.
	Candidates []GateCandidate `json:"candidates,omitzero"`
	// Spotlight asks to wrap untrusted contents in markers that the contents cannot forge.
	Spotlight bool   `json:"spotlight,omitzero"`
	After     uint64 `json:"after,omitzero"`
}

// RecallFilter narrows a recall. A belief must match every field that is set.
type RecallFilter struct {
	Kind     string         `json:"kind,omitzero"` // memory, or content for what was read
	Agent    string         `json:"agent,omitzero"`
	Session  string         `json:"session,omitzero"`
	Origin   beliefs.Origin `json:"origin,omitzero"`
	Category string         `json:"category,omitzero"`
	Tool     string         `json:"tool,omitzero"`
	Source   string         `json:"source,omitzero"`
	// Since (inclusive) and Until (exclusive) bound the ledger time at which the belief was last
	// confirmed.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// GateCandidate is a result of another store that may enter a context. It names a belief's id
// or has the content itself. Content that was never observed or remembered in this project
// counts as external.
type GateCandidate struct {
	ID      string `json:"id,omitzero"`      // of a belief
	Content string `json:"content,omitzero"` // verbatim
	Source  string `json:"source,omitzero"`
	// Score is the other store's score, 0 to 1. It is recorded, and does not make the content
	// trusted.
	Score *float64 `json:"score,omitzero"`
}

// MaxCandidates is the maximum number of candidates in one request to the gate.
const MaxCandidates = 100

// Tool is one entry of a tool catalogue, with the field names of MCP.
type Tool struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	InputSchema jsontext.Value `json:"inputSchema,omitzero"`
	Annotations jsontext.Value `json:"annotations,omitzero"`
}

// Tools (kind tools) is a tool catalogue as a server offered it.
type Tools struct {
	Head
	Server       string `json:"server,omitzero"`
	Instructions string `json:"instructions,omitzero"` // the server's instructions to a model on its tools
	Tools        []Tool `json:"tools"`
}

// Session (kind session) marks the start or end of a session.
type Session struct {
	Head
	Phase  string `json:"phase"` // "start" or "end"
	Prompt string `json:"prompt,omitzero"`
}

// Decision (kind dec) is what the agent decided, and the beliefs that it cites for it.
type Decision struct {
	Head
	beliefs.Decision
}

// Action (kind act) is an action that waits for a verdict.
type Action struct {
	Head
	Tool          string                `json:"tool"`
	Args          jsontext.Value        `json:"args,omitzero"` // a JSON object
	Decision      string                `json:"decision,omitzero"`
	Beliefs       []string              `json:"beliefs,omitzero"`
	Confidence    *float64              `json:"confidence,omitzero"` // the agent's confidence, 0 to 1
	Level         *beliefs.Level        `json:"level,omitzero"`      // may raise the policy's level, never lower it
	Blast         beliefs.BlastRadius   `json:"blast_radius,omitzero"`
	Reversibility beliefs.Reversibility `json:"reversibility,omitzero"`
	// Sensitivity is the sensitivity of the data that the action handles. Cited beliefs of
	// a higher sensitivity raise it.
	Sensitivity beliefs.Sensitivity `json:"sensitivity,omitzero"`
	// Preconditions are conditions that, according to the proposer, must be true when the
	// action is carried out. They are recorded. The host that carries it out checks them.
	Preconditions []beliefs.Precondition `json:"preconditions,omitzero"`
	Host          string                 `json:"host_verdict,omitzero"` // the host's verdict: allow, hold or deny
	// Replaces is the id of a held proposal of the same agent, which this proposal edits.
	// The hold is cancelled. No decision about that proposal applies to this one.
	Replaces string `json:"replaces,omitzero"`
	// After is the last intake sequence that was acknowledged to the host before the agent proposed
	// this action.
	After uint64 `json:"after,omitzero"`
	// Catalogue is where the host took the tool from. It is the ApproveToolsArgs.Binding of an
	// accepted catalogue, or the name of a host's own tools, such as claude-code.
	Catalogue string `json:"catalogue,omitzero"`
}

// MaxCatalogue is the maximum length of Action.Catalogue, in bytes.
const MaxCatalogue = 128

// MaxPreconditions is the maximum number of preconditions of an action.
const MaxPreconditions = 16

// StatusAnswer is the status of an outcome that is the agent's answer.
const StatusAnswer = "answer"

// Outcome (kind out) is the result of an action, or the agent's answer.
type Outcome struct {
	Head
	Action  string `json:"action,omitzero"` // id of the action
	Status  string `json:"status,omitzero"` // ok, error, skipped, answer; cancelled withdraws a held proposal
	Content string `json:"content,omitzero"`
	// Sources are the ids of the agent's observations and recalls, or of beliefs, on which an
	// answer is based.
	Sources []string `json:"sources,omitzero"`
	// Digest is the digest of the executed action, copied from its verdict by the executor. A
	// different digest is an incident.
	Digest string `json:"digest,omitzero"`
}

// RejectError says why an event was not admitted. Its code is stable and
// documented in docs/errors.md.
type RejectError struct {
	Code   Code
	Reason string
	// Session is the session that the event names, if it could be read.
	Session string
	ID      string
}

func (e *RejectError) Error() string { return string(e.Code) + ": " + e.Reason }

func rejectf(code Code, format string, args ...any) *RejectError {
	return &RejectError{Code: code, Reason: fmt.Sprintf(format, args...)}
}

// Event is a parsed intake event. Its dynamic type is the type of its kind, such as *Observation.
type Event interface {
	head() *Head
	isReply() bool
}

func (h *Head) head() *Head { return h }

// HeadOf returns the fields that all events have in common.
func HeadOf(e Event) *Head { return e.head() }

// ParseEvent parses the body of an event of the kind that a names. ceID is the CloudEvents id
// header, if any. A body with a different id is refused. maxSize is in bytes; zero means
// DefaultMaxEvent. Every error is a *RejectError.
func ParseEvent(a Address, ceID string, body []byte, maxSize int) (Event, error) {
	if maxSize <= 0 {
		maxSize = DefaultMaxEvent
	}
	if len(body) > maxSize {
		r := rejectf(CodeTooLarge,
			"the event is %d bytes, at most %d are admitted: split the content over several events with the same call",
			len(body), maxSize)
		r.ID, r.Session = peek(body)
		return nil, r
	}
	e := newEvent(a.Kind)
	if e == nil {
		return nil, rejectf(CodeUnknownKind, "unknown event kind %q", a.Kind)
	}
	if err := UnmarshalExact(body, e); err != nil {
		r := rejectf(CodeMalformed, "the body is not a JSON %s event: %v", a.Kind, DescribeJSON(err))
		r.ID, r.Session = peek(body)
		if ceID != "" {
			r.ID = clip(ceID)
		}
		return nil, r
	}
	h := e.head()
	if err := checkEvent(a, ceID, h, e); err != nil {
		var r *RejectError
		if !errors.As(err, &r) {
			r = rejectf(CodeInvalid, "%v", err)
		}
		if ValidID(h.Session) {
			r.Session = h.Session
		}
		r.ID = clip(h.ID)
		return nil, r
	}
	return e, nil
}

func newEvent(k Kind) Event {
	switch k {
	case KindObs:
		return new(Observation)
	case KindMem:
		return new(Memory)
	case KindRecall:
		return new(Recall)
	case KindTools:
		return new(Tools)
	case KindSession:
		return new(Session)
	case KindDec:
		return new(Decision)
	case KindAct:
		return new(Action)
	case KindOut:
		return new(Outcome)
	}
	return nil
}

func checkEvent(a Address, ceID string, h *Head, e Event) error {
	switch {
	case ceID != "" && h.ID != "" && ceID != h.ID:
		return rejectf(CodeInvalid, "header ce-id is %q but the body's id is %q: send one id", clip(ceID), clip(h.ID))
	case ceID != "":
		h.ID = ceID
	}
	if h.ID == "" && e.isReply() {
		return rejectf(CodeForeign,
			"the body is an acknowledgement of JetStream: somebody published with this subject as reply subject")
	}
	if h.ID == "" {
		return rejectf(CodeInvalid, "the event has no id: set \"id\" in the body or the header ce-id")
	}
	if err := CheckID("id", h.ID); err != nil {
		return err
	}
	if h.Session != "" {
		if err := CheckID("session", h.Session); err != nil {
			return err
		}
	}
	if h.User != "" {
		if err := CheckID("user", h.User); err != nil {
			return err
		}
	}
	if h.DataSubject != "" {
		if err := CheckID("data_subject", h.DataSubject); err != nil {
			return err
		}
	}
	switch e := e.(type) {
	case *Observation:
		if len(e.Blocks) > MaxBlocks {
			return rejectf(CodeInvalid, "%d blocks, at most %d are admitted in one observation", len(e.Blocks), MaxBlocks)
		}
		if e.Content != "" && len(e.Blocks) > 0 {
			return rejectf(CodeInvalid, "an observation has content or blocks, not both")
		}
		return names(e.Tool, "tool", e.Call, "call", e.Source, "source")
	case *Memory:
		if e.Content == "" {
			return rejectf(CodeInvalid, "a memory write needs content")
		}
		if !e.ValidTo.IsZero() && e.ValidTo.Before(e.ValidFrom) {
			return rejectf(CodeInvalid, "valid_to lies before valid_from")
		}
		if err := refs("derived_from", e.DerivedFrom); err != nil {
			return err
		}
		if err := checkStatement(h, e); err != nil {
			return err
		}
		if err := checkHome(a, e.Home); err != nil {
			return err
		}
		return names(e.Key, "key", e.Category, "category", e.Channel, "channel", e.Source, "source")
	case *Recall:
		if err := checkRecall(e); err != nil {
			return err
		}
		if e.Limit < 0 || e.Limit > 100 {
			return rejectf(CodeInvalid, "limit is %d, use 1 to 100", e.Limit)
		}
		if e.Offset < 0 || e.Offset > 0 && len(e.Candidates) > 0 {
			return rejectf(CodeInvalid, "offset is %d, use 0 or more, and none with candidates", e.Offset)
		}
		return names(e.Key, "key", e.Purpose, "purpose")
	case *Tools:
		for i, t := range e.Tools {
			if t.Name == "" {
				return rejectf(CodeInvalid, "tool %d has no name", i)
			}
			if err := names(t.Name, "tool name"); err != nil {
				return err
			}
		}
		return names(e.Server, "server")
	case *Session:
		if h.Session == "" {
			return rejectf(CodeInvalid, "a session event needs a session")
		}
		if e.Phase != "start" && e.Phase != "end" {
			return rejectf(CodeInvalid, "phase is %q, use start or end", clip(e.Phase))
		}
	case *Decision:
		if err := e.Check(); err != nil && !errors.Is(err, beliefs.ErrUncited) {
			return rejectf(CodeInvalid, "the decision is none: %v", err)
		}
		return refs("beliefs", e.Beliefs)
	case *Action:
		if e.Tool == "" {
			return rejectf(CodeInvalid, "an action needs a tool")
		}
		if len(e.Args) > 0 && e.Args.Kind() != '{' && e.Args.Kind() != 'n' {
			return rejectf(CodeInvalid, "args must be a JSON object")
		}
		if c := e.Confidence; c != nil && !(*c >= 0 && *c <= 1) {
			return rejectf(CodeInvalid, "confidence is %v, use 0 to 1", *c)
		}
		if e.Host != "" {
			if _, err := ParseVerdict(e.Host); err != nil {
				return rejectf(CodeInvalid, "host_verdict: %v", err)
			}
		}
		if err := refs("beliefs", e.Beliefs); err != nil {
			return err
		}
		if len(e.Preconditions) > MaxPreconditions {
			return rejectf(CodeInvalid, "%d preconditions, at most %d are admitted", len(e.Preconditions), MaxPreconditions)
		}
		for _, p := range e.Preconditions {
			if p.What == "" {
				return rejectf(CodeInvalid, "a precondition needs what it is about")
			}
			if err := names(p.What, "precondition", p.Digest, "digest of a precondition"); err != nil {
				return err
			}
		}
		if len(e.Catalogue) > MaxCatalogue {
			return rejectf(CodeInvalid, "catalogue has %d bytes, at most %d are admitted", len(e.Catalogue), MaxCatalogue)
		}
		if e.Replaces != "" && !ValidID(e.Replaces) {
			return rejectf(CodeInvalid, "replaces: %v", CheckID("id", e.Replaces))
		}
		return names(e.Tool, "tool", e.Decision, "decision")
	case *Outcome:
		if len(e.Sources) > 0 && e.Status != StatusAnswer {
			return rejectf(CodeInvalid, "sources are for an outcome of status %q, this one's is %q", StatusAnswer,
				clip(e.Status))
		}
		if err := refs("sources", e.Sources); err != nil {
			return err
		}
		return names(e.Action, "action", e.Status, "status", e.Digest, "digest")
	}
	return nil
}

// checkHome checks the fields of the project that a memory is shared from. It cannot check whether
// that project believes the memory, because projects do not see each other.
func checkHome(a Address, h *beliefs.Home) error {
	if h == nil {
		return nil
	}
	if h.Project == a.Project {
		return rejectf(CodeInvalid,
			"home: %s is the project that this is written to: name what it derives from in derived_from", clip(h.Project))
	}
	if err := checkPrincipal(h.Project, h.Belief); err != nil {
		return rejectf(CodeInvalid, "home: %v", err)
	}
	if !h.Origin.Valid() {
		return rejectf(CodeInvalid, "home: unknown origin %q: use one of %v", clip(string(h.Origin)), beliefs.Origins())
	}
	return nil
}

func checkRecall(e *Recall) error {
	asked := e.Query != "" || e.Key != "" || e.Filter != RecallFilter{}
	switch {
	case len(e.Candidates) > 0 && asked:
		return rejectf(CodeInvalid, "a recall names candidates or asks by query, key and filter, not both")
	case len(e.Candidates) == 0 && !asked:
		return rejectf(CodeInvalid, "a recall needs a query, a key, a filter or candidates")
	case len(e.Candidates) > MaxCandidates:
		return rejectf(CodeInvalid, "%d candidates, at most %d are admitted", len(e.Candidates), MaxCandidates)
	}
	for i, c := range e.Candidates {
		switch {
		case (c.ID == "") == (c.Content == ""):
			return rejectf(CodeInvalid, "candidate %d needs an id or a content, and not both", i)
		case c.ID != "" && !ValidID(c.ID):
			return rejectf(CodeInvalid, "candidate %d: %v", i, CheckID("id", clip(c.ID)))
		case c.Score != nil && !(*c.Score >= 0 && *c.Score <= 1):
			return rejectf(CodeInvalid, "candidate %d: score is %v, use 0 to 1", i, *c.Score)
		}
		if err := names(c.Source, "source"); err != nil {
			return err
		}
	}
	f := &e.Filter
	if f.Origin != "" && !f.Origin.Valid() {
		return rejectf(CodeInvalid, "filter: unknown origin %q: use one of %v", clip(string(f.Origin)), beliefs.Origins())
	}
	if f.Kind != "" && f.Kind != beliefs.MemoryClaim.String() && f.Kind != beliefs.Content.String() {
		return rejectf(CodeInvalid, "filter: kind is %q, use memory or content", clip(f.Kind))
	}
	return names(f.Agent, "agent", f.Session, "session", f.Category, "category", f.Tool, "tool", f.Source, "source")
}

// names checks the lengths of values. Its arguments are pairs of value and field name.
func names(pairs ...string) error {
	for i := 0; i+1 < len(pairs); i += 2 {
		if len(pairs[i]) > MaxNameLen {
			return rejectf(CodeInvalid, "%s is %d bytes long, at most %d are admitted", pairs[i+1], len(pairs[i]), MaxNameLen)
		}
	}
	return nil
}

func refs(field string, ids []string) error {
	if len(ids) > MaxRefs {
		return rejectf(CodeInvalid, "%s names %d ids, at most %d are admitted", field, len(ids), MaxRefs)
	}
	for _, id := range ids {
		if !ValidID(id) {
			return rejectf(CodeInvalid, "%s: %v", field, CheckID("id", clip(id)))
		}
	}
	return nil
}

// peek reads id and session from a body that does not parse, so that its session can be marked
// unseen.
func peek(body []byte) (id, session string) {
	var h struct {
		ID      string `json:"id"`
		Session string `json:"session"`
	}
	if Unmarshal(body, &h) != nil {
		h.Session = scanString(body, `"session"`)
		h.ID = scanString(body, `"id"`)
	}
	if !ValidID(h.Session) {
		h.Session = ""
	}
	if !ValidID(h.ID) {
		h.ID = ""
	}
	return h.ID, h.Session
}

// scanString finds `"field" : "value"` in text that is not valid JSON, and returns the value.
func scanString(body []byte, field string) string {
	s := string(body[:min(len(body), 64<<10)])
	_, rest, ok := strings.Cut(s, field)
	if !ok {
		return ""
	}
	rest = strings.TrimLeft(rest, " \t\r\n:")
	if !strings.HasPrefix(rest, `"`) {
		return ""
	}
	v, _, ok := strings.Cut(rest[1:], `"`)
	if !ok {
		return ""
	}
	return v
}

// Clip shortens s to at most n bytes, not inside a rune, and appends an ellipsis if it cut.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

func clip(s string) string { return Clip(s, 80) }
