package streams

import (
	"time"

	"lazaret/pkg/beliefs"
)

// Parent is a belief or event that a text derives from.
type Parent = beliefs.Parent

// Tombstone names the earlier, refused content that a memory write repeats.
type Tombstone struct {
	Belief string    `json:"belief"` // id of the refused belief
	Event  string    `json:"event"`  // id of the event that wrote it
	Agent  string    `json:"agent"`
	Key    string    `json:"key,omitzero"`
	Why    string    `json:"why"` // why it was refused: denied, quarantined, rejected
	At     time.Time `json:"at"`
	// Exact is set if the refused text and the written text are equal after normalization or decoding. Otherwise
	// Similarity gives how similar they are, from 0 to 1.
	Exact      bool    `json:"exact,omitzero"`
	Similarity float64 `json:"similarity,omitzero"`
}

// RevisionsEntry records changes of beliefs that are not part of another entry, for example after the arbiter's verdict
// on a memory write or because time passed.
type RevisionsEntry struct {
	EntryHead
	// Because is the cause: conflict, time, incident, restore, or fallen (a cited belief lost its support).
	Because string `json:"because"`
	// Aged is set if Because is time. It is the number of due times (when a belief becomes stale or expires) that the
	// entry handles. It includes those of beliefs that need no revision any more.
	Aged      int                `json:"aged,omitzero"`
	Revisions []beliefs.Revision `json:"revisions,omitzero"`
	// Dependants are earlier decisions and actions that cite a belief which has been contradicted, superseded or
	// quarantined after they cited it.
	Dependants []beliefs.Dependant `json:"dependants,omitzero"`
	// Rollback is the progress of a rollback. It is set in the entries that a rollback writes.
	Rollback *Rollback `json:"rollback,omitzero"`
}

// Rollback is the progress of a rollback after an entry.
type Rollback struct {
	Point string `json:"point"`
	Index int    `json:"index"`         // number of the entry within the rollback, from 0
	Last  bool   `json:"last,omitzero"` // this is the rollback's last entry
	Next  string `json:"next"`          // the next entry begins after this belief
	// A rollback has two passes. The first one rolls back the beliefs without a data subject. The second one rolls back
	// the beliefs of one data subject after another. Named is set in the second pass. Of is then the data subject of
	// the belief Next.
	Named bool   `json:"named,omitzero"`
	Of    Person `json:"of,omitzero"`
	// Back, Out, Anew and Left are totals so far. Back counts beliefs that have the state of the restore point again.
	// Out counts beliefs that were made after the restore point and are hidden now. Anew counts beliefs that were
	// superseded after the restore point. A superseded belief cannot change any more, so each is stated again under a
	// new id. Left counts beliefs that are in a stricter state than at the restore point, because no permitted
	// transition leads back to their earlier state, or because of later findings.
	Back int `json:"back"`
	Out  int `json:"out"`
	Anew int `json:"anew"`
	Left int `json:"left"`
}

// PointEntry records a restore point that a signed order asked for.
type PointEntry struct {
	EntryHead
	Point  string     `json:"point"`
	Text   string     `json:"text,omitzero"`
	Signed *Signature `json:"signed"`
}

// RestoreEntry begins a rollback to a restore point. The revision entries that follow have its
// effects on beliefs. A rollback removes nothing.
type RestoreEntry struct {
	EntryHead
	Point  string     `json:"point"`
	Taken  time.Time  `json:"taken"` // when the restore point was taken
	Text   string     `json:"text,omitzero"`
	Signed *Signature `json:"signed"`
	// Before names the restore point that was taken just before the rollback.
	Before string `json:"before,omitzero"`
}

// ConfirmationEntry records a signed attestation of a belief and the attestation's result. Ingest
// judges the attestation by the ledger entries before this one.
type ConfirmationEntry struct {
	EntryHead
	Belief string `json:"belief"`
	Note   string `json:"note"`          // clipped to MaxResolution
	Size   int    `json:"size,omitzero"` // size of the whole note, if Note is clipped
	// Decision and Signer are set if the signature was verified.
	Decision string `json:"decision,omitzero"`
	Signer   string `json:"signer,omitzero"`
	Key      string `json:"key,omitzero"` // the pinned key that verified the signature
	// Counter is the signature counter that the signing passkey reported.
	Counter uint32 `json:"counter,omitzero"`
	// Check names the check that the attestation failed, and Text gives the reason. If Check is set, the attestation
	// had no effect.
	Check string `json:"check,omitzero"`
	Text  string `json:"text,omitzero"`
	Nonce string `json:"nonce,omitzero"` // nonce of an accepted attestation
	// Findings are the keys of the findings that an accepted confirmation clears, in the form that FindingKey returns.
	Findings  []string           `json:"findings,omitzero"`
	Until     time.Time          `json:"until,omitzero"` // when the nonce expires
	Revisions []beliefs.Revision `json:"revisions,omitzero"`
	// Tombstone is set if the decision refuses the belief's content, so that later writes of the same content are
	// denied.
	Tombstone bool `json:"tombstone,omitzero"`
}

// Channels of memory writes that have stricter defaults than ordinary writes.
const (
	ChannelCompaction = "compaction" // a summary of the context, which replaces the context when it is compacted
	ChannelSkill      = "skill"      // a procedure that the agent will carry out again
	ChannelImport     = "import"     // content of another store
)

// The scopes of a memory write.
const (
	ScopeProject = "project"
	ScopeUser    = "user"
	ScopeSession = "session"
)

// Namespace returns the part of its project to which a memory write applies.
func (m *Memory) Namespace() beliefs.Namespace {
	switch m.Scope {
	case ScopeSession:
		return beliefs.Namespace{User: m.User, Session: m.Session}
	case ScopeProject:
		return beliefs.Namespace{}
	}
	return beliefs.Namespace{User: m.User}
}

// Namespace returns the part of its project in which an event happens. A recall may serve only beliefs that are visible
// in that part.
func (h *EntryHead) Namespace() beliefs.Namespace {
	return beliefs.Namespace{User: h.User, Session: h.Session}
}

// MaxTTL is the longest time to live that a memory write may ask for, in seconds.
const MaxTTL = 100 * 366 * 24 * 3600

// checkMemory checks the scope, time to live and triples of a memory write.
func checkMemory(h *Head, m *Memory) error {
	switch m.Scope {
	case "", ScopeProject:
	case ScopeUser:
		if h.User == "" {
			return rejectf(CodeInvalid, "scope user needs a user")
		}
	case ScopeSession:
		if h.Session == "" {
			return rejectf(CodeInvalid, "scope session needs a session")
		}
	default:
		return rejectf(CodeInvalid, "scope is %q, use %s, %s or %s", clip(m.Scope), ScopeProject, ScopeUser, ScopeSession)
	}
	if m.TTL < 0 || m.TTL > MaxTTL {
		return rejectf(CodeInvalid, "ttl is %d, use 1 to %d seconds, or 0 for the policy's", m.TTL, int64(MaxTTL))
	}
	if len(m.Triples) > beliefs.MaxTriples {
		return rejectf(CodeInvalid, "%d triples, at most %d are admitted", len(m.Triples), beliefs.MaxTriples)
	}
	for i, t := range m.Triples {
		if err := t.Check(); err != nil {
			return rejectf(CodeInvalid, "triple %d: %v", i, err)
		}
	}
	return nil
}
