package streams

import (
	"cmp"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/calibration"
	"lazaret/pkg/intent"
	"lazaret/pkg/text"
)

// Bodies of ledger entries. A stage decides on an entry only by the entry's body and by earlier ledger entries.

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
	// Time is the event's time. It is the time stamp of the intake stream, or virtual time in
	// synthetic projects. It never runs backwards within a partition.
	Time time.Time `json:"time"`
	// Intake is the event's sequence in LZ_INTAKE. A proposal that the front offered to ingest directly is not in the
	// intake. For this, Intake is the sequence of the intake's last message plus an index (stage.Message.Place).
	Intake uint64 `json:"intake"`
	// Print and Print2 are hashes of the event. They distinguish a repeat of the event from a
	// different event with the same id.
	Print  uint64 `json:"print,omitzero"`
	Print2 uint64 `json:"print2,omitzero"`
	// Trace is the traceparent that the event was sent with.
	Trace string `json:"traceparent,omitzero"`
	// Reuses is empty unless an earlier event had the same id. Then Reuses is the id that the event
	// was sent with, and ID is an id that ingest made.
	Reuses string `json:"reuses,omitzero"`
}

// Common returns h itself, so that the head of any body that embeds EntryHead can be read.
func (h *EntryHead) Common() *EntryHead { return h }

// Sent returns the id that the event was sent with.
func (h *EntryHead) Sent() string { return cmp.Or(h.Reuses, h.ID) }

// BeliefRef is the state of a belief when an entry was written.
type BeliefRef = beliefs.Belief

// ClaimEntry is a claim that an event made, and the belief it became.
type ClaimEntry = beliefs.Claim

// DisclosureEntry is the body of a privileged recall that an authorized key signed, and the result of this recall. The
// result is for people and is not put into an agent's context. If Look is set, the entry is an unsigned privileged look
// instead.
type DisclosureEntry struct {
	RecallEntry
	Text   string     `json:"text"` // the signer's reason
	Signed *Signature `json:"signed"`
	Look   *Look      `json:"look,omitzero"`
}

// Unseen is a rejected observation. The agent may have been shown its content although no sentinel
// judged it.
type Unseen struct {
	ID     string         `json:"id,omitzero"` // the id as sent, if it could be read
	Origin beliefs.Origin `json:"origin,omitzero"`
	Intake uint64         `json:"intake"`
	Code   Code           `json:"code"`
	Reason string         `json:"reason"` // clipped
	// Scope says which sessions are held because of the observation: UnseenSession, UnseenAgent or UnseenExpired. It is
	// empty in entries of earlier versions.
	Scope string `json:"scope,omitzero"`
}

// The values of Unseen.Scope. UnseenSession means that further proposals of one session are held,
// because the rejected observation names this session. UnseenAgent means that the proposals of all
// sessions of the agent are held, because no session could be read from the observation.
const (
	UnseenSession = "session"
	UnseenAgent   = "agent"
	// UnseenExpired means that there is no rejected observation. The session was silent for so long that an expiry
	// dropped its user's words.
	UnseenExpired = "expired"
)

// Limits of one chunk of a re-audit.
const (
	MaxAudited      = 256
	MaxAuditedBytes = 256 << 10 // a chunk ends with the belief that reaches this encoded size
)

// BeliefsEntry is a chunk of a re-audit: beliefs of one project that may be served, which sentinels judge again by the
// rules in force. It is not a proposal.
type BeliefsEntry struct {
	EntryHead
	// Run identifies the re-audit by its cause: "rules " and a digest, or "schedule " and a time.
	Run   string `json:"run"`
	Index int    `json:"index"`         // number of the chunk, from 0, over all projects of the partition
	Last  bool   `json:"last,omitzero"` // this is the partition's last chunk
	// Next is the project and the belief after which the next chunk begins.
	Next [2]string `json:"next"`
	// Named is set in the second of two passes. The first pass audits the beliefs without a data
	// subject. The second audits those of one data subject after another. Of is the data subject of
	// Next.
	Named   bool            `json:"named,omitzero"`
	Of      Person          `json:"of,omitzero"`
	Beliefs []AuditedBelief `json:"beliefs,omitzero"`
}

// AuditedBelief is a belief as it is at the time of a re-audit.
type AuditedBelief struct {
	BeliefRef
	Agent     string         `json:"agent,omitzero"`
	Session   string         `json:"session,omitzero"`
	Tool      string         `json:"tool,omitzero"`
	Category  string         `json:"category,omitzero"`
	Channel   string         `json:"channel,omitzero"`
	Writer    beliefs.Origin `json:"writer,omitzero"` // origin of the write, if the belief is a memory
	Inherited beliefs.Origin `json:"inherited,omitzero"`
	Content   string         `json:"content"`
	Features  text.Features  `json:"features,omitzero"`
	// Partial is set if Content is not the whole text. Only the beginning of texts that were read
	// long ago is kept.
	Partial bool `json:"partial,omitzero"`
}

// RejectedEntry is the body of the entry of an event that was not admitted. It has the event's
// original bytes.
type RejectedEntry struct {
	EntryHead
	Subject string         `json:"subject"`
	Kind    Kind           `json:"event_kind,omitzero"`
	Origin  beliefs.Origin `json:"origin,omitzero"`
	Code    Code           `json:"code"`
	Reason  string         `json:"reason"`
	Unseen  bool           `json:"unseen"`           // further proposals of the session are held
	Raw     []byte         `json:"raw,omitzero"`     // base64
	Headers string         `json:"headers,omitzero"` // the message's headers, one per line
	// Size is the size of the message's data in bytes, and Digest the digest of all of it. They are
	// set if Raw is only the beginning of the data, or left out.
	Size   int    `json:"size,omitzero"`
	Digest string `json:"digest,omitzero"`
}

// RepeatEntry is the body of the entry of an event that arrived before with the same id and bytes.
type RepeatEntry struct {
	EntryHead
	Kind  Kind   `json:"event_kind"`
	First uint64 `json:"first"` // intake sequence of the first event
	// Differs is set in entries of earlier versions if the repeat differed from the first event.
	// This version accepts such an event under an id that ingest makes, see EntryHead.Reuses.
	Differs bool `json:"differs,omitzero"`
}

// AlertSubject is the object that an alert is about.
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
	Effect     string         `json:"effect"` // alert, hold, deny, restrict, quarantine, mask, annotate or spotlight
	Mode       string         `json:"mode"`   // enforce or shadow
	// Exception is the id of the exception that cancels the effect. It is empty if none applies.
	Exception string `json:"exception,omitzero"`
	// Path leads from a proposal to the content that caused the finding.
	Path  []string  `json:"path,omitzero"`
	Error string    `json:"error,omitzero"` // set if the rule failed and its on_error effect applied
	Count uint64    `json:"count"`          // how often the rule has found this so far
	Time  time.Time `json:"time"`
}

// AlertsEntry is the body of a sentinel's findings on an entry that is not a proposal. The entry's
// Src is the position of the entry that was judged.
type AlertsEntry struct {
	Group  string  `json:"group"`
	Digest string  `json:"digest"` // of the rule set
	Alerts []Alert `json:"alerts"`
	// Answers and Intake are set in the arbiter's alerts about a resolution. Answers is the id of the
	// resolution, and Intake is the resolution's sequence in the intake.
	Answers string `json:"answers,omitzero"`
	Intake  uint64 `json:"intake,omitzero"`
}

// AssessmentEntry is the one answer of a sentinel group to a proposal. The entry's Src is the
// position of the proposal's entry.
type AssessmentEntry struct {
	Group   string  `json:"group"`
	Digest  string  `json:"digest"`
	Verdict Verdict `json:"verdict"`
	Alerts  []Alert `json:"alerts,omitzero"`
	// Rests is the untrusted content from which, according to the group, the action's arguments come. A group may list
	// such content even if its verdict is allow: earlier alerts on the content then apply to the action.
	Rests []Rest `json:"rests,omitzero"`
}

// Rest is untrusted content that an action depends on. The content was the first to name a value of
// the arguments, or it asks for what the action does.
type Rest struct {
	Agent       string `json:"agent,omitzero"` // agent that observed it
	Observation string `json:"observation"`    // event that observed it
	Belief      string `json:"belief,omitzero"`
	Source      string `json:"source,omitzero"`
	By          string `json:"by,omitzero"` // kind of the value (email, host, phrase, …), or instruction
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
	// Path leads from the action to the content that caused the reason: action, belief, observation, source.
	Path []string `json:"path,omitzero"`
	// Entry is the ledger sequence of the finding that caused the reason, if the finding is older than the proposal.
	Entry uint64 `json:"entry,omitzero"`
}

// HoldRef refers to a hold that a verdict opened.
type HoldRef struct {
	ID       string    `json:"id"`
	Revision string    `json:"revision"`
	Expires  time.Time `json:"expires"`
}

// TextEffect is a change to a recalled text before it is returned.
type TextEffect struct {
	Belief  string   `json:"belief,omitzero"` // empty: every item of the answer
	Effects []string `json:"effects"`         // in the order of application
	Note    string   `json:"note,omitzero"`   // text that annotate puts before the content
	Rules   []string `json:"rules,omitzero"`  // names of the first few rules that asked for the change
}

// VerdictEntry is the arbiter's answer to a proposal.
type VerdictEntry struct {
	Proposal uint64 `json:"proposal"` // ledger sequence
	// Intake is the sequence of the intake message that this entry answers: the proposal, a later repeat of the
	// proposal (Again), or the resolution of its hold. Also has the sequences of the repeats that arrived before the
	// first verdict, at most 64. This entry answers them too.
	Intake uint64   `json:"intake,omitzero"`
	Also   []uint64 `json:"also,omitzero"`
	Type   Type     `json:"type"`
	ID     string   `json:"id"`
	// Reuses is empty unless an earlier event had the same id. Then it is the id that the proposal was sent with, and
	// ID is an id that ingest made.
	Reuses   string     `json:"reuses,omitzero"`
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
	Class    string     `json:"class,omitzero"`    // for an action: the policy entry that set the level
	Degraded []string   `json:"degraded,omitzero"` // sentinel groups that did not answer in time
	Learn    bool       `json:"learn,omitzero"`    // the verdict is recorded, not enforced
	Would    *Verdict   `json:"would,omitzero"`    // in learn mode: the verdict that would have been enforced
	Belief   *BeliefRef `json:"belief,omitzero"`   // for a memory write: the belief after the verdict
	// Texts are the effects on the texts that a recall returns. In learn mode they are recorded but
	// not applied.
	Texts []TextEffect `json:"texts,omitzero"`
	// Withheld are beliefs that a recall found and that are left out of the answer, for one of two reasons: the belief
	// differs from its ledger entry (such a belief is left out in learn mode too), or a finding that nobody cleared
	// applies to it.
	Withheld []Refusal `json:"withheld,omitzero"`
	Digest   string    `json:"digest,omitzero"` // SHA-256 over the action's JCS
	Again    bool      `json:"again,omitzero"`  // the entry answers a repeat that came after the verdict
	Late     bool      `json:"late,omitzero"`   // the entry tightens a verdict that was already given
	Denied   string    `json:"denied,omitzero"` // the open hold that this late verdict ended
	// Alert is raised if a finding came too late to stop anything, or if beliefs were withheld.
	Alert *Alert    `json:"alert,omitzero"`
	Time  time.Time `json:"time"` // ledger time of the entry that led to this verdict
	// Resolved is set once a person has resolved the hold.
	Resolved *Resolved `json:"resolved,omitzero"`
	// Replaces is the hold that was cancelled because this proposal edits its action.
	Replaces string `json:"replaces,omitzero"`
	// Answers is the id of the signed resolution that caused this entry. It is empty for other entries.
	Answers string `json:"answers,omitzero"`
	// Confidence is the agent's stated confidence in the action, from 0 to 1.
	Confidence *float64 `json:"confidence,omitzero"`
	// Sources are the sources that the user named and whose text the held action follows. A person may approve one of
	// these sources together with the hold.
	Sources []intent.Grounds `json:"sources,omitzero"`
	// Covered is the approval of a source that allows the action.
	Covered *SourceUse `json:"covered,omitzero"`
}

// CalibrationEntry compares an agent's stated confidence with the outcomes of its actions of one
// class. It takes into account the outcomes up to the entry from which it was made.
type CalibrationEntry struct {
	Agent string `json:"agent"`
	Class string `json:"class"` // policy entry that set the actions' level
	Total uint64 `json:"total"` // outcomes so far; the report covers the latest of them
	// Was is set if the agent was over-confident in this class by the previous calibration entry.
	Was   bool      `json:"was_over_confident,omitzero"`
	Time  time.Time `json:"time"`
	Alert *Alert    `json:"alert,omitzero"` // raised if the agent became over-confident in this class with this outcome
	calibration.Report
}

// DueEntry records that a timer of the arbiter expired.
type DueEntry struct {
	Until    time.Time `json:"until"`
	Proposal uint64    `json:"proposal,omitzero"` // proposal whose deadline passed
	Hold     string    `json:"hold,omitzero"`     // hold that expires
	Reaudit  bool      `json:"reaudit,omitzero"`  // a scheduled re-audit is due
	// Recheck is a belief or source with a new finding. The next open hold that depends on it is checked again. The holds
	// are checked in the order of their ids; After is the last one that was checked.
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
	ID       string    `json:"id,omitzero"` // the proposal's id, as the agent sent it
	// Resolved is set if a person decided.
	Resolved *Resolved `json:"resolved,omitzero"`
}

// Resolved records who resolved a hold, and how.
type Resolved struct {
	Hold     string    `json:"hold"`
	Revision string    `json:"revision"` // the hold's revision that the signer saw
	State    string    `json:"state"`    // approved, rejected
	By       string    `json:"by"`       // name of the signing key
	Key      string    `json:"key"`      // the pinned key that verified the signature
	Reason   string    `json:"reason,omitzero"`
	Entry    uint64    `json:"entry"` // ledger sequence of the signed resolution
	Time     time.Time `json:"time"`
	// Accepted is the tool catalogue that the signer accepted.
	Accepted *AcceptedTools `json:"accepted,omitzero"`
	// Prompt is the prompt that the signer approved.
	Prompt *ApprovedPrompt `json:"prompt,omitzero"`
	// Source is the source that the signer approved for the session.
	Source *ApprovedSource `json:"source,omitzero"`
}

// ApprovedSource is a source that a person approved for a session, together with a hold.
type ApprovedSource struct {
	Digest  string    `json:"digest"` // of the content
	Source  string    `json:"source,omitzero"`
	Session string    `json:"session"`
	Actions int       `json:"actions"` // maximum number of later actions
	Expires time.Time `json:"expires"`
}

// SourceUse says by which approval of a source an action is allowed.
type SourceUse struct {
	Hold   string `json:"hold"`   // the hold with which the source was approved
	Digest string `json:"digest"` // of the source's content
	By     string `json:"by"`     // name of the signing key
	Key    string `json:"key"`    // the pinned key
	Entry  uint64 `json:"entry"`  // ledger sequence of the signed resolution
	Number int    `json:"number"` // how many actions the approval has covered, with this one
	// Actions is the maximum number of actions of the approval.
	Actions int `json:"actions"`
}

// AcceptedTools is a tool catalogue that a person accepted, with the signed level of each tool.
type AcceptedTools struct {
	Server    string                   `json:"server"`
	Catalogue string                   `json:"catalogue"` // ApproveToolsArgs.Binding
	Levels    map[string]beliefs.Level `json:"levels"`    // by tool name
}

// The states of a hold.
const (
	HoldOpen      = "open"
	HoldApproved  = "approved"
	HoldRejected  = "rejected"
	HoldExpired   = "expired"   // not resolved in time; the verdict stays hold
	HoldCancelled = "cancelled" // withdrawn or edited by the agent
	HoldDenied    = "denied"    // a later finding denied the action
)

// ResolutionEntry is the body of a signed resolution of a hold, as ingest received it. Ingest has
// verified nothing in it. The arbiter verifies it and answers with a verdict or an alert.
type ResolutionEntry struct {
	EntryHead
	Hold string `json:"hold"`
	Note string `json:"note"`          // clipped to MaxResolution
	Size int    `json:"size,omitzero"` // size of the note, if it was clipped
}

// MaxResolution is the maximum size of a signed resolution in the ledger, in bytes.
const MaxResolution = 40 << 10
