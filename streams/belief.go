package streams

import (
	"time"

	"lazaret/pkg/beliefs"
)

// Parent is something that a text derives from.
type Parent = beliefs.Parent

// Tombstone is the memory of a value that was refused, as a later write meets
// it.
type Tombstone struct {
	Belief string    `json:"belief"` // that was refused
	Event  string    `json:"event"`  // that wrote it
	Agent  string    `json:"agent"`
	Key    string    `json:"key,omitzero"`
	Why    string    `json:"why"` // denied, quarantined, rejected
	At     time.Time `json:"at"`
	// Exact is set where the two are the same once they are normalised or
	// decoded; else they are Similarity alike, 0 to 1.
	Exact      bool    `json:"exact,omitzero"`
	Similarity float64 `json:"similarity,omitzero"`
}

// RevisionsEntry is what changed of beliefs without an event that asks for it:
// what the arbiter's verdict on a write led to, or the passing of time.
type RevisionsEntry struct {
	EntryHead
	// Because is conflict, time, incident, restore or fallen.
	Because string `json:"because"`
	// Aged is how many beliefs an entry because of time is about, those included
	// that need no revision any more.
	Aged      int                `json:"aged,omitzero"`
	Revisions []beliefs.Revision `json:"revisions,omitzero"`
	// Dependants are decisions and actions of the past that cite a belief which
	// fell.
	Dependants []beliefs.Dependant `json:"dependants,omitzero"`
	// Rollback is set of the entries of a rollback: how far it has come.
	Rollback *Rollback `json:"rollback,omitzero"`
}

// Rollback is how far a rollback has come with an entry.
type Rollback struct {
	Point string `json:"point"`
	Index int    `json:"index"`         // of the entry, from 0
	Last  bool   `json:"last,omitzero"` // with it the rollback is through
	Next  string `json:"next"`          // belief behind which the next entry begins
	// Named is set once all beliefs without a data subject are rolled back. The beliefs of
	// the data subjects follow, one data subject after the other. Of is the data subject of
	// Next.
	Named bool   `json:"named,omitzero"`
	Of    Person `json:"of,omitzero"`
	// Counts so far. Back counts beliefs that are as they were at the restore point. Out
	// counts later beliefs, which are hidden. Anew counts beliefs that are stated again
	// under a new id, because a newer belief had replaced them, which is final. Left counts
	// beliefs that stay stricter in some respect, because the transition tables or later
	// findings do not let them go back.
	Back int `json:"back"`
	Out  int `json:"out"`
	Anew int `json:"anew"`
	Left int `json:"left"`
}

// PointEntry is a restore point that somebody asked for.
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
	Taken  time.Time  `json:"taken"` // when the point was
	Text   string     `json:"text,omitzero"`
	Signed *Signature `json:"signed"`
	// Before names the restore point that was taken before it.
	Before string `json:"before,omitzero"`
}

// ConfirmationEntry is a signed word on a belief as it came in, and what it led
// to. It is judged by what stands in the ledger before it.
type ConfirmationEntry struct {
	EntryHead
	Belief string `json:"belief"`
	Note   string `json:"note"`          // clipped to MaxResolution
	Size   int    `json:"size,omitzero"` // of the note, where it was clipped
	// Decision and Signer are set once the signature was verified.
	Decision string `json:"decision,omitzero"`
	Signer   string `json:"signer,omitzero"`
	Key      string `json:"key,omitzero"` // the pinned key itself
	// Check is the one that it failed, and Text why; then nothing changed.
	Check     string             `json:"check,omitzero"`
	Text      string             `json:"text,omitzero"`
	Nonce     string             `json:"nonce,omitzero"` // of a statement that counted
	Until     time.Time          `json:"until,omitzero"` // of the nonce
	Revisions []beliefs.Revision `json:"revisions,omitzero"`
	// Tombstone is set where the content must not be written again.
	Tombstone bool `json:"tombstone,omitzero"`
}

// Channels of memory writes that have stricter defaults than others.
const (
	ChannelCompaction = "compaction" // what a compaction leaves of a context
	ChannelSkill      = "skill"      // a procedure that is to be carried out again
	ChannelImport     = "import"     // what another store held
)

// The scopes that a memory write may name.
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

// Namespace is where in its project an event happens: what may be served to it
// is what this sees.
func (h *EntryHead) Namespace() beliefs.Namespace {
	return beliefs.Namespace{User: h.User, Session: h.Session}
}

// MaxTTL bounds the time to live that a write may ask for, in seconds.
const MaxTTL = 100 * 366 * 24 * 3600

// checkStatement checks where a memory write is to hold, how long, and what it
// states.
func checkStatement(h *Head, m *Memory) error {
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
