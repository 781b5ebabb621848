package streams

import (
	"cmp"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/calibration"
	"lazaret/pkg/intent"
	"lazaret/pkg/text"
)

// This file has the bodies of ledger entries. When a stage decides on an entry, it uses only the entry's body and
// earlier ledger entries.

// EntryHead has the fields that the bodies of all ingest entries have in common.
type EntryHead struct {
	ID      string `json:"id,omitzero"`
	Agent   string `json:"agent,omitzero"`
	Session string `json:"session,omitzero"`
	User    string `json:"user,omitzero"`
	// DataSubject is the data subject of the entry, in addition to User. If ingest writes an entry about beliefs that
	// no event asked for, all these beliefs have the same data subject, and the entry names it.
	DataSubject string `json:"data_subject,omitzero"`
	// Time is the event's time. It is the time stamp of the intake stream or, in a synthetic project, the time that the
	// event states (virtual time). It never runs backwards within a partition.
	Time time.Time `json:"time"`
	// Intake is the event's sequence in LZ_INTAKE. A proposal that the front offered to ingest directly is not in the
	// intake. Its Intake is one number made from the sequence of the intake's last message and an index
	// (stage.Message.Place).
	Intake uint64 `json:"intake"`
	// Print and Print2 are hashes of the event. If a later event has the same id, they tell whether it is a repeat of
	// this event or a different one.
	Print  uint64 `json:"print,omitzero"`
	Print2 uint64 `json:"print2,omitzero"`
	// Trace is the W3C traceparent header that the event was sent with.
	Trace string `json:"traceparent,omitzero"`
	// Reuses is empty unless an earlier event had the same id. Then Reuses is the id that the event
	// was sent with, and ID is an id that ingest made.
	Reuses string `json:"reuses,omitzero"`
}

// Common returns h itself, so that code can read the head of any body that embeds EntryHead.
func (h *EntryHead) Common() *EntryHead { return h }

// Sent returns the id that the event was sent with.
func (h *EntryHead) Sent() string { return cmp.Or(h.Reuses, h.ID) }

// BeliefRef is the state of a belief when an entry was written.
type BeliefRef = beliefs.Belief

// ClaimEntry is a claim that an event made, and the belief that was made from the claim.
type ClaimEntry = beliefs.Claim

// DisclosureEntry is the body of a privileged recall that an authorized key signed, and the result of this recall. The
// result is for people and is not put into an agent's context. If Look is set, the entry is a privileged look instead
// (see Look), which is not signed.
type DisclosureEntry struct {
	RecallEntry
	Text   string     `json:"text"` // the signer's reason
	Signed *Signature `json:"signed"`
	Look   *Look      `json:"look,omitzero"`
}

// Unseen describes a rejected observation. No sentinel judged its content, but the agent may have been shown it.
type Unseen struct {
	ID     string         `json:"id,omitzero"` // the event's id as it was sent, if it could be read
	Origin beliefs.Origin `json:"origin,omitzero"`
	Intake uint64         `json:"intake"`
	Code   Code           `json:"code"`
	Reason string         `json:"reason"` // clipped
	// Scope says which sessions are held because of the observation: UnseenSession, UnseenAgent or UnseenExpired. It is
	// empty in entries of earlier versions.
	Scope string `json:"scope,omitzero"`
}

// The values of Unseen.Scope. UnseenSession means that later proposals of one session are held, because the rejected
// observation names that session. UnseenAgent means that later proposals of all sessions of the agent are held, because
// no session could be read from the observation.
const (
	UnseenSession = "session"
	UnseenAgent   = "agent"
	// UnseenExpired means that there is no rejected observation. Later proposals of a session are held, because it was
	// silent for so long that an expiry dropped its user's words.
	UnseenExpired = "expired"
)

// Limits of one chunk of a re-audit.
const (
	MaxAudited      = 256
	MaxAuditedBytes = 256 << 10 // encoded size in bytes; a chunk ends with the belief that reaches it
)

// BeliefsEntry is a chunk of a re-audit: servable beliefs of one project, which sentinels judge again by the rules in
// force. It is not a proposal.
type BeliefsEntry struct {
	EntryHead
	// Run identifies the re-audit by its cause: "rules " and a digest, or "schedule " and a time.
	Run   string `json:"run"`
	Index int    `json:"index"`         // number of the chunk, from 0, over all projects of the partition
	Last  bool   `json:"last,omitzero"` // this is the partition's last chunk
	// Next names the project and the belief after which the next chunk begins.
	Next [2]string `json:"next"`
	// A re-audit has two passes. The first one audits the beliefs without a data subject. The second one audits the
	// beliefs of one data subject after another. Named is set in the second pass. Of is then the data subject of the
	// belief in Next.
	Named   bool            `json:"named,omitzero"`
	Of      Person          `json:"of,omitzero"`
	Beliefs []AuditedBelief `json:"beliefs,omitzero"`
}

// AuditedBelief is a belief as it is at the time of a re-audit.
type AuditedBelief struct {
	BeliefRef
	Agent    string `json:"agent,omitzero"`
	Session  string `json:"session,omitzero"`
	Tool     string `json:"tool,omitzero"`
	Category string `json:"category,omitzero"`
	Channel  string `json:"channel,omitzero"`
	// Origin of the memory write from which the belief was made; empty if the belief is not a memory.
	Writer    beliefs.Origin `json:"writer,omitzero"`
	Inherited beliefs.Origin `json:"inherited,omitzero"`
	Content   string         `json:"content"`
	Features  text.Features  `json:"features,omitzero"`
	// Partial is set if Content is not the whole text. Of texts that were read long ago, the pipeline keeps only the
	// beginning.
	Partial bool `json:"partial,omitzero"`
}

// RejectedEntry is the body of the entry of an event that was not admitted. It has the event's original bytes, or the
// beginning of them.
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
	// If Raw has only the beginning of the data, or nothing, Size is the size of the whole data in bytes, and Digest is
	// the digest of the whole data.
	Size   int    `json:"size,omitzero"`
	Digest string `json:"digest,omitzero"`
}

// RepeatEntry is the body of the entry for a repeat: an event with the same id and the same bytes as an earlier event.
type RepeatEntry struct {
	EntryHead
	Kind  Kind   `json:"event_kind"`
	First uint64 `json:"first"` // intake sequence of the first event
	// Differs is set only by earlier versions. It says that the repeat differed from the first event. This version
	// accepts such an event under an id that ingest makes, see EntryHead.Reuses.
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
	// Exception is the id of the exception that cancels the effect. If no exception applies, it is empty.
	Exception string `json:"exception,omitzero"`
	// Path leads from a proposal to the content that caused the finding, by way of ids.
	Path  []string  `json:"path,omitzero"`
	Error string    `json:"error,omitzero"` // error message, if the rule failed and its on_error effect applied instead
	Count uint64    `json:"count"`          // how often the rule has found this so far
	Time  time.Time `json:"time"`
}

// AlertsEntry is the body of a sentinel's findings on an entry that is not a proposal. The Src of an AlertsEntry is the
// position of the entry that was judged.
type AlertsEntry struct {
	Group  string  `json:"group"`
	Digest string  `json:"digest"` // of the rule set
	Alerts []Alert `json:"alerts"`
	// Answers and Intake are set in the arbiter's alerts about a signed resolution, attestation or order. Answers is
	// its id, and Intake is its sequence in the intake.
	Answers string `json:"answers,omitzero"`
	Intake  uint64 `json:"intake,omitzero"`
}

// AssessmentEntry is the answer of a sentinel group to a proposal. Each group gives one answer. The Src of an
// AssessmentEntry is the position of the proposal's entry.
type AssessmentEntry struct {
	Group   string  `json:"group"`
	Digest  string  `json:"digest"`
	Verdict Verdict `json:"verdict"`
	Alerts  []Alert `json:"alerts,omitzero"`
	// Rests is the untrusted content from which, according to the group, the action's arguments come. Earlier alerts on
	// this content apply to the action too. So a group may list content even if its verdict is allow.
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
	// Path has the ids that lead from the action to the content that caused the reason: action, belief, observation,
	// source.
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
	// proposal (Again), or the resolution of its hold. Also has the sequences of repeats that arrived before the first
	// verdict, at most 64. This entry answers these repeats too.
	Intake uint64   `json:"intake,omitzero"`
	Also   []uint64 `json:"also,omitzero"`
	Type   Type     `json:"type"`
	ID     string   `json:"id"`
	// Reuses is empty unless an earlier event had the same id. Then Reuses is the id that the proposal was sent with,
	// and ID is an id that ingest made.
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
	// Texts are the effects on the texts that a recall returns. In learn mode, these effects are recorded but not
	// applied.
	Texts []TextEffect `json:"texts,omitzero"`
	// Withheld are beliefs that a recall found and that the answer leaves out. There are two reasons. Either the belief
	// differs from its ledger entry; such a belief is left out in learn mode too. Or a finding that nobody has cleared
	// applies to the belief.
	Withheld []Refusal `json:"withheld,omitzero"`
	Digest   string    `json:"digest,omitzero"` // SHA-256 over the action's JCS
	Again    bool      `json:"again,omitzero"`  // the entry answers a repeat that came after the verdict
	// Late is set if the entry replaces an earlier verdict on the proposal. The new verdict is stricter, or it has new
	// reasons or other effects of text.
	Late   bool   `json:"late,omitzero"`
	Denied string `json:"denied,omitzero"` // id of the open hold that this late, stricter verdict ended
	// Alert is raised if a finding came too late to stop anything, or if beliefs were withheld.
	Alert *Alert    `json:"alert,omitzero"`
	Time  time.Time `json:"time"` // ledger time of the entry that led to this verdict
	// Resolved is set once a person has resolved the hold.
	Resolved *Resolved `json:"resolved,omitzero"`
	// Replaces is the hold of an earlier proposal. The hold was cancelled because this proposal edits the held action.
	Replaces string `json:"replaces,omitzero"`
	// Answers is the id of the signed resolution of a hold that caused this entry. If none caused it, Answers is empty.
	Answers string `json:"answers,omitzero"`
	// Confidence is the agent's stated confidence in the action, from 0 to 1.
	Confidence *float64 `json:"confidence,omitzero"`
	// Sources are sources that the user named. The held action follows their text. When a person approves the hold, the
	// person may also approve one of these sources.
	Sources []intent.Grounds `json:"sources,omitzero"`
	// Covered names the approval of a source because of which this action is allowed.
	Covered *SourceUse `json:"covered,omitzero"`
}

// CalibrationEntry compares an agent's stated confidence with the outcomes of its actions of one class. It takes into
// account all outcomes up to the outcome that caused this entry.
type CalibrationEntry struct {
	Agent string `json:"agent"`
	Class string `json:"class"` // policy entry that set the actions' level
	Total uint64 `json:"total"` // outcomes so far; the report covers the latest of them
	// Was is set if the previous calibration entry said that the agent was over-confident in this class.
	Was   bool      `json:"was_over_confident,omitzero"`
	Time  time.Time `json:"time"`
	Alert *Alert    `json:"alert,omitzero"` // raised if, with this outcome, the agent became over-confident in this class
	calibration.Report
}

// DueEntry records that a timer of the arbiter expired.
type DueEntry struct {
	Until    time.Time `json:"until"`
	Proposal uint64    `json:"proposal,omitzero"` // proposal whose deadline passed
	Hold     string    `json:"hold,omitzero"`     // hold that expires
	Reaudit  bool      `json:"reaudit,omitzero"`  // a scheduled re-audit is due
	// Recheck is a belief or source with a new finding. At this entry, the arbiter checks again one open hold that
	// depends on the belief or source. Holds are checked in the order of their ids. After is the hold that the previous
	// such entry checked.
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

// SourceUse says that an action is allowed because a person approved a source. It names this approval, and counts the
// actions that the approval has allowed.
type SourceUse struct {
	Hold   string `json:"hold"`   // id of the hold with which the source was approved
	Digest string `json:"digest"` // of the source's content
	By     string `json:"by"`     // name of the signing key
	Key    string `json:"key"`    // the pinned key
	Entry  uint64 `json:"entry"`  // ledger sequence of the signed resolution
	Number int    `json:"number"` // how many actions the approval has allowed so far, including this one
	// Actions is the maximum number of actions that the approval allows.
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

// ResolutionEntry is the body of a signed resolution of a hold, as ingest received it. Ingest has not verified it. The
// arbiter verifies it and answers with a verdict or an alert.
type ResolutionEntry struct {
	EntryHead
	Hold string `json:"hold"`
	Note string `json:"note"`          // clipped to MaxResolution
	Size int    `json:"size,omitzero"` // size of the whole note in bytes, if the note is clipped
}

// MaxResolution is the maximum size in bytes of a signed resolution that the ledger stores whole. A longer one is
// clipped.
const MaxResolution = 40 << 10
