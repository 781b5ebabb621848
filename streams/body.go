package streams

import (
	"cmp"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/calibration"
	"lazaret/pkg/intent"
	"lazaret/pkg/text"
)

// Bodies of ledger entries. Each is complete: a reader that starts at any
// entry learns from it, and from what came before it in the ledger, all that a
// stage may decide on.

// EntryHead has the fields that the bodies of all ingest entries have in common.
type EntryHead struct {
	ID      string `json:"id,omitzero"`
	Agent   string `json:"agent,omitzero"`
	Session string `json:"session,omitzero"`
	User    string `json:"user,omitzero"`
	// DataSubject is the data subject of the entry, besides User. An entry that ingest
	// writes about beliefs without an event names the data subject of the beliefs. Such an
	// entry never concerns two data subjects.
	DataSubject string `json:"data_subject,omitzero"`
	// Time is the event's time: the intake stream's stamp, never earlier than
	// the event before it in the partition, or virtual time in synthetic
	// projects.
	Time   time.Time `json:"time"`
	Intake uint64    `json:"intake"` // sequence in LZ_INTAKE
	// Print and Print2 tell a repeat of the event from another one under its id.
	Print  uint64 `json:"print,omitzero"`
	Print2 uint64 `json:"print2,omitzero"`
	// Trace is the traceparent that the event was sent with.
	Trace string `json:"traceparent,omitzero"`
	// Reuses is the id that the event was sent under, where another event had it
	// before; ID is ingest's then.
	Reuses string `json:"reuses,omitzero"`
}

// Common returns the head itself.
func (h *EntryHead) Common() *EntryHead { return h }

// Sent is the id that the event was sent under.
func (h *EntryHead) Sent() string { return cmp.Or(h.Reuses, h.ID) }

// BeliefRef is a belief as it stood when an entry was written.
type BeliefRef = beliefs.Belief

// ClaimEntry is a claim that an event made, and the belief it became.
type ClaimEntry = beliefs.Claim

// BlockEntry is one content block with its text features.
type BlockEntry struct {
	Type     string        `json:"type,omitzero"`
	Text     string        `json:"text"`
	Features text.Features `json:"features,omitzero"`
}

// ObservationEntry is the body of an observation.
type ObservationEntry struct {
	EntryHead
	beliefs.Observation
	Args   jsontext.Value `json:"args,omitzero"`
	Blocks []BlockEntry   `json:"blocks,omitzero"`
	Claims []ClaimEntry   `json:"claims,omitzero"`
	// UserNamed says that the user's words in the session name where it came from.
	UserNamed bool `json:"user_named,omitzero"`
	// Revisions are the beliefs that it corroborates or contradicts.
	Revisions []beliefs.Revision `json:"revisions,omitzero"`
}

// MemoryEntry is the body of a memory write: a candidate, hidden until the
// arbiter's verdict.
type MemoryEntry struct {
	EntryHead
	Origin      beliefs.Origin `json:"origin"`             // who wrote it
	Inherited   beliefs.Origin `json:"inherited,omitzero"` // weakest origin it derives from, when weaker
	Via         string         `json:"via,omitzero"`       // the event that it inherits from
	UserWord    bool           `json:"user_word,omitzero"` // verbatim from the user in this session
	Key         string         `json:"key,omitzero"`
	Content     string         `json:"content"`
	Category    string         `json:"category,omitzero"`
	Channel     string         `json:"channel,omitzero"`
	DerivedFrom []string       `json:"derived_from,omitzero"`
	Source      string         `json:"source,omitzero"`
	ValidFrom   time.Time      `json:"valid_from,omitzero"`
	ValidTo     time.Time      `json:"valid_to,omitzero"`
	Features    text.Features  `json:"features,omitzero"`
	Belief      BeliefRef      `json:"belief"`
	Repeats     uint64         `json:"repeats,omitzero"`
	FirstSeen   time.Time      `json:"first_seen,omitzero"` // identical content, any key
	// KeyHolder is who wrote the value that this write would replace.
	KeyHolder beliefs.Origin `json:"key_holder,omitzero"`
	Unseen    bool           `json:"unseen,omitzero"`
	// UnseenBy is the first rejected observation that the session is held for.
	UnseenBy *Unseen `json:"unseen_by,omitzero"`
	Restored bool    `json:"restored,omitzero"`
	// Parents are what it derives from: those that it declares, then those that
	// were found by what it shares with them.
	Parents []Parent         `json:"parents,omitzero"`
	Triples []beliefs.Triple `json:"triples,omitzero"`
	// Stale and Expires are when it ceases to be fresh, and to be served.
	Stale   time.Time `json:"stale,omitzero"`
	Expires time.Time `json:"expires,omitzero"`
	// StagedFor says why it is staged.
	StagedFor string `json:"staged_for,omitzero"`
	// Tombstone is the refused value that it repeats.
	Tombstone *Tombstone `json:"tombstone,omitzero"`
	// Point names the restore point that was taken before it.
	Point string `json:"point,omitzero"`
}

// RecallItem is a belief that a recall found.
type RecallItem struct {
	BeliefRef
	Content string `json:"content"`
	// Score is how well it fits the query, 0 to 1: of a recall the share of the
	// best BM25 score that any text could have, of the gate the other store's
	// own. -1 says that there is none.
	Score float64 `json:"score"`
	// Reason is why it is context only: the code of the context policy.
	Reason string `json:"reason,omitzero"`
	// Partial is set where only a part of the content is served, from the
	// request's offset on. Size is that of the whole content, in bytes, and Digest
	// its digest where it is a memory's.
	Partial bool   `json:"partial,omitzero"`
	Size    int    `json:"size,omitzero"`
	Digest  string `json:"digest,omitzero"`
	// Unknown is set of content that nobody observed or remembered here.
	Unknown bool `json:"unknown,omitzero"`
	// Effects says in an answer what was done to Content: mask, annotate,
	// spotlight. The ledger keeps it as it was remembered.
	Effects []string `json:"effects,omitzero"`
}

// Refusal is a belief that a recall found and did not admit, and why.
type Refusal struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
	Text   string `json:"text,omitzero"`
}

// RecallEntry is the body of a recall: what was asked, and what the context
// policy made of it.
type RecallEntry struct {
	EntryHead
	Query     string       `json:"query,omitzero"`
	Key       string       `json:"key,omitzero"`
	Filter    RecallFilter `json:"filter,omitzero"`
	Gate      int          `json:"gate,omitzero"` // how many candidates another store brought
	Purpose   string       `json:"purpose,omitzero"`
	Limit     int          `json:"limit"`
	Offset    int          `json:"offset,omitzero"` // where in each content the served part begins, in bytes
	Spotlight bool         `json:"spotlight,omitzero"`
	// Privileged is set in a disclosure: everything that fits is admitted,
	// whatever stands against it, to be looked at.
	Privileged     bool         `json:"privileged,omitzero"`
	Admitted       []RecallItem `json:"admitted,omitzero"`
	ContextOnly    []RecallItem `json:"context_only,omitzero"`
	Contradictions []RecallItem `json:"contradictions,omitzero"`
	Refused        []Refusal    `json:"refused,omitzero"`
	// Omitted counts, by channel, the results that are in no list because there were more
	// than the limit. Once context_only is full, content that was only read is not judged
	// any more and counts there.
	Omitted map[string]int `json:"omitted,omitzero"`
	// More is set where something was cut or omitted because the entry has no
	// room for it. With a smaller limit each text has more room.
	More     bool    `json:"more,omitzero"`
	Unseen   bool    `json:"unseen,omitzero"`
	UnseenBy *Unseen `json:"unseen_by,omitzero"`
	Restored bool    `json:"restored,omitzero"`
}

// DisclosureEntry is a privileged recall by somebody with a key that may, and
// what it showed. It is for people and enters no context. With Look set it is a
// privileged look instead, which nobody signed.
type DisclosureEntry struct {
	RecallEntry
	Text   string     `json:"text"` // why it was asked for
	Signed *Signature `json:"signed"`
	Look   *Look      `json:"look,omitzero"`
}

// ToolsEntry is the body of a tool catalogue.
type ToolsEntry struct {
	EntryHead
	Server       string `json:"server,omitzero"`
	Instructions string `json:"instructions,omitzero"`
	Tools        []Tool `json:"tools"`
}

// SessionEntry is the body of a session's start or end.
type SessionEntry struct {
	EntryHead
	Phase  string `json:"phase"`
	Prompt string `json:"prompt,omitzero"`
	// Point names the restore point that was taken before it.
	Point string `json:"point,omitzero"`
}

// DecisionEntry is the body of a decision, with the cited beliefs as they
// stood.
type DecisionEntry struct {
	EntryHead
	Summary string      `json:"summary,omitzero"`
	Beliefs []BeliefRef `json:"beliefs,omitzero"`
	// CitesNone is the agent's word that it rests on nothing that is believed.
	CitesNone bool `json:"cites_none,omitzero"`
	// Uncited says what is wrong with what it cites, where the policy wants that
	// said.
	Uncited string `json:"uncited,omitzero"`
}

// Unseen is an observation that was rejected, so that no sentinel has judged what the
// agent may have been shown.
type Unseen struct {
	ID     string         `json:"id,omitzero"` // as it was sent, as far as it could be read
	Origin beliefs.Origin `json:"origin,omitzero"`
	Intake uint64         `json:"intake"`
	Code   Code           `json:"code"`
	Reason string         `json:"reason"` // clipped
	// Scope is what is held for it: UnseenSession or UnseenAgent. Entries of earlier
	// versions do not say.
	Scope string `json:"scope,omitzero"`
}

// The scopes of Unseen: the session that a rejected observation names, or all sessions
// of its agent, where it names none that can be read.
const (
	UnseenSession = "session"
	UnseenAgent   = "agent"
)

// ActionEntry is the body of a proposed action.
type ActionEntry struct {
	EntryHead
	beliefs.Action
	Args     jsontext.Value `json:"args,omitzero"`
	Text     string         `json:"text,omitzero"` // the arguments' strings, one a line
	Features text.Features  `json:"features,omitzero"`
	Beliefs  []BeliefRef    `json:"beliefs,omitzero"` // cited by it or by its decision
	Matched  string         `json:"matched,omitzero"` // policy entry that gave the level; empty: none
	Host     *Verdict       `json:"host_verdict,omitzero"`
	Replaces string         `json:"replaces,omitzero"`  // id of a held proposal that this is an edit of
	Unseen   bool           `json:"unseen,omitzero"`    // the session holds a rejected observation
	UnseenBy *Unseen        `json:"unseen_by,omitzero"` // the first of them
	Restored bool           `json:"restored,omitzero"`  // names an intake sequence from the future
	// Annotations are the hints of the tool's catalogue entries that raise it.
	Annotations jsontext.Value `json:"annotations,omitzero"`
	// Intent is how it relates to what the user asked for in the session; nil where
	// it does not.
	Intent *intent.Relation `json:"intent,omitzero"`
	// Repeats is the id of an earlier proposal of the same call by the agent in which no rule
	// found fault, in a session whose user had used nearly the same words.
	Repeats string `json:"repeats,omitzero"`
	// Catalogue is what the action says of where its tool is from, and Accepted the
	// level that a person signed for the tool with that catalogue.
	Catalogue string         `json:"catalogue,omitzero"`
	Accepted  *beliefs.Level `json:"accepted,omitzero"`
	// Shown is what the session was shown before; nil where the user said nothing in it.
	Shown *Shown `json:"shown,omitzero"`
}

// Shown is what an agent was shown in a session, as far as it bears on whose will
// an action is.
type Shown struct {
	Foreign int  `json:"foreign,omitzero"` // texts that came from neither the user nor the operator
	Order   int  `json:"order,omitzero"`   // text.CommandScore of the one that reads most like an order
	Unread  bool `json:"unread,omitzero"`  // one of them could not be read whole: an image, hidden or cut text
	// Leans is set where an address or account in the arguments came from foreign
	// content of the project, in any session, and never from the user.
	Leans bool `json:"leans,omitzero"`
	// Marked is set where the arguments have words of a memory that is marked above
	// internal.
	Marked bool `json:"marked,omitzero"`
}

// OutcomeEntry is the body of an outcome.
type OutcomeEntry struct {
	EntryHead
	beliefs.Outcome
	Content  string        `json:"content,omitzero"`
	Features text.Features `json:"features,omitzero"`
	// Sources are those that an answer named, and Grounding how far they support
	// it, 0 to 1; nil when it named none.
	Sources   []string `json:"sources,omitzero"`
	Grounding *float64 `json:"grounding,omitzero"`
	Missing   []string `json:"missing,omitzero"` // sources that nobody knows, or no longer
	Unread    []string `json:"unread,omitzero"`  // beyond the bounds, as a whole or in part
}

// The bounds of one chunk of a re-audit.
const (
	MaxAudited      = 256
	MaxAuditedBytes = 256 << 10 // of the beliefs before the last, as they are encoded
)

// BeliefsEntry is a chunk of a re-audit: live beliefs of one project, to be
// judged by the rules that are in force at this entry. It is no proposal.
type BeliefsEntry struct {
	EntryHead
	// Run names what started the re-audit: "rules " and a digest, or "schedule "
	// and a time.
	Run   string `json:"run"`
	Index int    `json:"index"`         // of the chunk, from 0, over all projects of the partition
	Last  bool   `json:"last,omitzero"` // with it the partition is through
	// Next is the project and the belief after which the next chunk begins.
	Next [2]string `json:"next"`
	// Named is set once all beliefs without a data subject are audited. The beliefs of the
	// data subjects follow, one data subject after the other. Of is the data subject of Next.
	Named   bool            `json:"named,omitzero"`
	Of      Person          `json:"of,omitzero"`
	Beliefs []AuditedBelief `json:"beliefs,omitzero"`
}

// AuditedBelief is a belief as it stands when it is judged again.
type AuditedBelief struct {
	BeliefRef
	Agent     string         `json:"agent,omitzero"`
	Session   string         `json:"session,omitzero"`
	Tool      string         `json:"tool,omitzero"`
	Category  string         `json:"category,omitzero"`
	Channel   string         `json:"channel,omitzero"`
	Writer    beliefs.Origin `json:"writer,omitzero"` // of a memory
	Inherited beliefs.Origin `json:"inherited,omitzero"`
	Content   string         `json:"content"`
	Features  text.Features  `json:"features,omitzero"`
	// Partial is set when the text is not all there is: of what was read long
	// ago only its beginning is kept.
	Partial bool `json:"partial,omitzero"`
}

// RejectedEntry is the body of an event that was not admitted, with its
// original bytes.
type RejectedEntry struct {
	EntryHead
	Subject string         `json:"subject"`
	Kind    Kind           `json:"event_kind,omitzero"`
	Origin  beliefs.Origin `json:"origin,omitzero"`
	Code    Code           `json:"code"`
	Reason  string         `json:"reason"`
	Unseen  bool           `json:"unseen"`           // its session now counts as unseen
	Raw     []byte         `json:"raw,omitzero"`     // base64
	Headers string         `json:"headers,omitzero"` // the message's headers, a line each
	// Size is that of the message's data, in bytes, where Raw is only its
	// beginning; Digest is that of all of it.
	Size   int    `json:"size,omitzero"`
	Digest string `json:"digest,omitzero"`
}

// RepeatEntry is the body of an event whose id was seen before.
type RepeatEntry struct {
	EntryHead
	Kind  Kind   `json:"event_kind"`
	First uint64 `json:"first"` // intake sequence of the first
	// Differs is set when the repeat does not say what the first said. Earlier
	// versions wrote it; such an event is now one of its own, see Reuses.
	Differs bool `json:"differs,omitzero"`
}

// AlertSubject is what an alert names.
type AlertSubject struct {
	Kind string `json:"kind"` // action, belief, decision, session, source, memory, observation
	ID   string `json:"id"`
}

// Alert is one finding of one rule.
type Alert struct {
	ID         string         `json:"id"`
	Rule       string         `json:"rule"`
	RuleDigest string         `json:"rule_digest"`
	Group      string         `json:"group"`
	Severity   string         `json:"severity"`
	Subject    AlertSubject   `json:"subject"`
	Project    string         `json:"project"`
	Agent      string         `json:"agent,omitzero"`
	Session    string         `json:"session,omitzero"`
	Message    string         `json:"message"`
	Events     []string       `json:"observed_event_ids,omitzero"`
	Detail     map[string]any `json:"detail,omitzero"`
	Effect     string         `json:"effect"` // alert, hold, deny, restrict, quarantine, mask, annotate, spotlight
	Mode       string         `json:"mode"`   // enforce or shadow
	// Exception names the exception that takes the effect away.
	Exception string `json:"exception,omitzero"`
	// Path leads from a proposal to what the finding rests on.
	Path  []string  `json:"path,omitzero"`
	Error string    `json:"error,omitzero"` // the rule failed and its on_error applied
	Count uint64    `json:"count"`          // how often so far, folded into one
	Time  time.Time `json:"time"`
}

// AlertsEntry is the body of a sentinel's findings on an entry that is no
// proposal. Src names that entry.
type AlertsEntry struct {
	Group  string  `json:"group"`
	Digest string  `json:"digest"` // of the rule set
	Alerts []Alert `json:"alerts"`
	// Answers is set in the arbiter's alerts about a resolution: its id, and Intake
	// to its sequence in the intake.
	Answers string `json:"answers,omitzero"`
	Intake  uint64 `json:"intake,omitzero"`
}

// AssessmentEntry is a group's one answer to a proposal. Src names the
// proposal's entry.
type AssessmentEntry struct {
	Group   string  `json:"group"`
	Digest  string  `json:"digest"`
	Verdict Verdict `json:"verdict"`
	Alerts  []Alert `json:"alerts,omitzero"`
	// Rests are the untrusted contents that the group found an action's
	// arguments to lean on, whether it objects or not.
	Rests []Rest `json:"rests,omitzero"`
}

// Rest is untrusted content that an action leans on by evidence: it was the
// first to name a value of the arguments, or it asks for what the action does.
type Rest struct {
	Agent       string `json:"agent,omitzero"` // who brought it in
	Observation string `json:"observation"`    // event that brought it in
	Belief      string `json:"belief,omitzero"`
	Source      string `json:"source,omitzero"`
	By          string `json:"by,omitzero"` // email, host, phrase and the like, or instruction
	Value       string `json:"value,omitzero"`
}

// Reason is one part of a verdict.
type Reason struct {
	Code    Code    `json:"code"`
	Verdict Verdict `json:"verdict"`
	Text    string  `json:"text"`
	Rule    string  `json:"rule,omitzero"`
	Digest  string  `json:"digest,omitzero"`
	Group   string  `json:"group,omitzero"`
	Alert   string  `json:"alert,omitzero"`
	// Path leads from the action to what it rests on: action, belief,
	// observation, source.
	Path []string `json:"path,omitzero"`
	// Entry is the ledger sequence of the finding, when it is older than the
	// proposal.
	Entry uint64 `json:"entry,omitzero"`
}

// HoldRef is a hold that a verdict opened.
type HoldRef struct {
	ID       string    `json:"id"`
	Revision string    `json:"revision"`
	Expires  time.Time `json:"expires"`
}

// TextEffect is what is done to a recalled text before it is handed out.
type TextEffect struct {
	Belief  string   `json:"belief,omitzero"` // empty: every entry of the answer
	Effects []string `json:"effects"`         // in the order in which they are applied
	Note    string   `json:"note,omitzero"`   // what annotate puts before the text
	Rules   []string `json:"rules,omitzero"`  // that asked for it, the first few by name
}

// VerdictEntry is the arbiter's answer to a proposal.
type VerdictEntry struct {
	Proposal uint64 `json:"proposal"` // ledger sequence
	// Intake is the intake message that is answered: the proposal, a repeat of it
	// or the resolution of its hold. Also are the repeats that came before.
	Intake   uint64     `json:"intake,omitzero"`
	Also     []uint64   `json:"also,omitzero"`
	Type     Type       `json:"type"`
	ID       string     `json:"id"`
	Reuses   string     `json:"reuses,omitzero"` // the id that it was sent under, where another event had it before
	Agent    string     `json:"agent"`
	Session  string     `json:"session,omitzero"`
	Tool     string     `json:"tool,omitzero"`
	Summary  string     `json:"summary,omitzero"` // arguments or content, clipped
	Verdict  Verdict    `json:"verdict"`
	Reasons  []Reason   `json:"reasons,omitzero"`
	Hold     *HoldRef   `json:"hold,omitzero"`
	Policy   string     `json:"policy"` // digest
	Rules    string     `json:"rules"`  // digest
	Level    string     `json:"level,omitzero"`
	Class    string     `json:"class,omitzero"`    // of an action: the policy entry that gave the level
	Degraded []string   `json:"degraded,omitzero"` // what was missing
	Learn    bool       `json:"learn,omitzero"`    // recorded, not enforced
	Would    *Verdict   `json:"would,omitzero"`    // in learn mode: what it would have been
	Belief   *BeliefRef `json:"belief,omitzero"`   // memory writes: as the verdict left it
	// Texts are the effects on what a recall hands out. In learn mode they are
	// recorded and not applied.
	Texts []TextEffect `json:"texts,omitzero"`
	// Withheld are beliefs that a recall found and that are not what the ledger
	// says of them. They are in no answer, also in learn mode.
	Withheld []Refusal `json:"withheld,omitzero"`
	Digest   string    `json:"digest,omitzero"` // SHA-256 over the action's JCS
	Again    bool      `json:"again,omitzero"`  // answers a proposal that was sent again
	Late     bool      `json:"late,omitzero"`   // tightened after it was given
	// Alert is raised when a finding came too late to stop anything, and when
	// something was withheld.
	Alert *Alert    `json:"alert,omitzero"`
	Time  time.Time `json:"time"` // ledger time of the deciding input
	// Resolved is set once a person has resolved the hold.
	Resolved *Resolved `json:"resolved,omitzero"`
	// Replaces is the hold that the proposal cancelled as its edit.
	Replaces string `json:"replaces,omitzero"`
	// Answers is the id of the resolution that this entry is the outcome of.
	Answers string `json:"answers,omitzero"`
	// Confidence is what the agent said of the action, 0 to 1.
	Confidence *float64 `json:"confidence,omitzero"`
}

// CalibrationEntry is how an agent's confidence stood to the outcomes of its
// actions of one class, as of the entry's input.
type CalibrationEntry struct {
	Agent string    `json:"agent"`
	Class string    `json:"class"` // policy entry that gave the actions' level
	Total uint64    `json:"total"` // outcomes so far; the report is of the latest
	Was   bool      `json:"was_over_confident,omitzero"`
	Time  time.Time `json:"time"`
	Alert *Alert    `json:"alert,omitzero"` // raised when the class became over-confident
	calibration.Report
}

// DueEntry says that a timer of the arbiter passed.
type DueEntry struct {
	Until    time.Time `json:"until"`
	Proposal uint64    `json:"proposal,omitzero"` // a deadline
	Hold     string    `json:"hold,omitzero"`     // an expiry
	Reaudit  bool      `json:"reaudit,omitzero"`  // the live beliefs are to be judged again
	// Recheck is something with a new finding: the next open hold that depends on it, in
	// the order of their ids after After, is checked again.
	Recheck string `json:"recheck,omitzero"`
	After   string `json:"after,omitzero"`
}

// HoldStateEntry is a change of a hold's state.
type HoldStateEntry struct {
	Hold     string    `json:"hold"`
	Proposal uint64    `json:"proposal"`
	Agent    string    `json:"agent"`
	State    string    `json:"state"` // expired, approved, rejected, cancelled
	Reason   Reason    `json:"reason"`
	Time     time.Time `json:"time"`
	ID       string    `json:"id,omitzero"` // of the proposal, as the agent named it
	// Resolved is set where a person decided.
	Resolved *Resolved `json:"resolved,omitzero"`
}

// Resolved says who resolved a hold, and how.
type Resolved struct {
	Hold     string    `json:"hold"`
	Revision string    `json:"revision"` // as the signer saw it
	State    string    `json:"state"`    // approved, rejected
	By       string    `json:"by"`       // name of the key
	Key      string    `json:"key"`      // the pinned key itself
	Reason   string    `json:"reason,omitzero"`
	Entry    uint64    `json:"entry"` // ledger sequence of the signed resolution
	Time     time.Time `json:"time"`
	// Accepted is what was signed of a catalogue of tools.
	Accepted *AcceptedTools `json:"accepted,omitzero"`
}

// AcceptedTools is a catalogue of tools that a person accepted, with the levels that
// they signed for.
type AcceptedTools struct {
	Server    string                   `json:"server"`
	Catalogue string                   `json:"catalogue"` // ApproveToolsArgs.Binding
	Levels    map[string]beliefs.Level `json:"levels"`    // by tool
}

// The states of a hold.
const (
	HoldOpen      = "open"
	HoldApproved  = "approved"
	HoldRejected  = "rejected"
	HoldExpired   = "expired"   // nobody decided: not denied
	HoldCancelled = "cancelled" // withdrawn by the agent, or edited
	HoldDenied    = "denied"    // tightened while it waited
)

// ResolutionEntry is the body of a signed resolution of a hold as it came in.
// Nothing of it has been verified: the arbiter does, and answers with a verdict
// or an alert.
type ResolutionEntry struct {
	EntryHead
	Hold string `json:"hold"`
	Note string `json:"note"`          // clipped to MaxResolution
	Size int    `json:"size,omitzero"` // of the note, where it was clipped
}

// MaxResolution is how much of a signed resolution the ledger takes, in bytes.
const MaxResolution = 40 << 10
