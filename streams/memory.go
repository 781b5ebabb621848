package streams

import (
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
)

// KindMem is the kind of a memory write, and TypeMemory the type of its entries.
const (
	KindMem    Kind = "mem"
	TypeMemory Type = "memory"
)

func init() {
	register[Memory](EventKind{
		Kind: KindMem, Type: TypeMemory, Order: 2,
		Origin:   true,
		Proposal: true,
		Required: []string{"content"},
		Title:    "a memory write",
		Fields: "`content`, `key`, `category`, `channel` (write, compaction, skill, import), `derived_from` " +
			"(ids), `source`, `sensitivity` (public, internal, confidential, secret), `home` (`{project, " +
			"belief, origin}`, if the belief comes from another project), `valid_from`, `valid_to`, `after`",
	})
}

// Memory (kind mem) is a proposal to write to the agent's memory.
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
	// Triples are the facts (subject, predicate, object) that the writer has extracted from the
	// content. Content that is a flat JSON object with a subject needs no triples.
	Triples []beliefs.Triple `json:"triples,omitzero"`
	// Home is set if the memory is shared from another project.
	Home *beliefs.Home `json:"home,omitzero"`
	// TTL is how long the memory may be served without a new confirmation, in seconds of
	// ledger time. If it is zero, the policy decides.
	TTL   int64  `json:"ttl,omitzero"`
	After uint64 `json:"after,omitzero"` // last acknowledged intake sequence
}

func (e *Memory) check(a Address) error {
	if e.Content == "" {
		return rejectf(CodeInvalid, "a memory write needs content")
	}
	if !e.ValidTo.IsZero() && e.ValidTo.Before(e.ValidFrom) {
		return rejectf(CodeInvalid, "valid_to lies before valid_from")
	}
	if err := refs("derived_from", e.DerivedFrom); err != nil {
		return err
	}
	if err := checkMemory(&e.Head, e); err != nil {
		return err
	}
	if err := checkHome(a, e.Home); err != nil {
		return err
	}
	return names(e.Key, "key", e.Category, "category", e.Channel, "channel", e.Source, "source")
}

// checkHome checks the form of Memory.Home. It cannot check whether the other project has this belief, because projects
// do not see each other.
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

// FileKey is the beginning of the key of a memory that is a file loaded by the agent's host. The file's path follows.
const FileKey = "file:"

// MemoryEntry is the body of the entry for a memory write. The new belief is a candidate, and stays hidden until the
// arbiter has given its verdict.
type MemoryEntry struct {
	EntryHead
	Origin beliefs.Origin `json:"origin"` // who wrote it
	// Least trusted origin that the memory derives from, if it differs from Origin.
	Inherited   beliefs.Origin `json:"inherited,omitzero"`
	Via         string         `json:"via,omitzero"`       // the event whose origin is Inherited
	UserWord    bool           `json:"user_word,omitzero"` // the user said the content verbatim in this session
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
	Asked       bool           `json:"asked,omitzero"`      // the user asked for a change of the file that Key names
	Repeats     uint64         `json:"repeats,omitzero"`    // how often identical content was written before
	FirstSeen   time.Time      `json:"first_seen,omitzero"` // when identical content was first written, under any key
	// KeyHolder is the origin of the memory that has the same key now and that this write would replace. If there is
	// none, KeyHolder is empty.
	KeyHolder beliefs.Origin `json:"key_holder,omitzero"`
	Unseen    bool           `json:"unseen,omitzero"`
	// UnseenBy is the first of the rejected observations because of which the session's proposals are held.
	UnseenBy *Unseen `json:"unseen_by,omitzero"`
	// Restored is set if the intake was restored from an older copy (see ActionEntry.Restored). The memory write is
	// then held.
	Restored bool `json:"restored,omitzero"`
	// Parents are the texts that the memory derives from: first those that the write declares, then those that ingest
	// found because they share text or carriers with the memory.
	Parents []Parent         `json:"parents,omitzero"`
	Triples []beliefs.Triple `json:"triples,omitzero"`
	// Stale is the time after which the memory is no longer fresh. Expires is the time after which it is no longer
	// served.
	Stale   time.Time `json:"stale,omitzero"`
	Expires time.Time `json:"expires,omitzero"`
	// StagedFor is the reason why a person must confirm the memory. Until then, the memory may be read as context, but
	// not used for planning or actions. If no confirmation is needed, StagedFor is empty.
	StagedFor string `json:"staged_for,omitzero"`
	// Tombstone is the refused value that the memory repeats.
	Tombstone *Tombstone `json:"tombstone,omitzero"`
	// Point names the restore point that was taken just before this memory write.
	Point string `json:"point,omitzero"`
}
