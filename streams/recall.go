package streams

import (
	"slices"
	"strings"
	"time"

	"lazaret/pkg/beliefs"
)

// KindRecall is the kind of an event that asks for memories. TypeRecall is the type of the entries for such events.
const (
	KindRecall Kind = "recall"
	TypeRecall Type = "recall"
)

func init() {
	register[Recall](EventKind{
		Kind: KindRecall, Type: TypeRecall, Order: 3,
		Proposal: true,
		Title:    "a retrieval",
		Fields: "at least one of `query`, `key` and `filter` (`kind` memory or content, `agent`, `session`, `origin`, " +
			"`category`, `tool`, `source`, `since`, `until`), or instead `candidates` (see " +
			"Recalls); `purpose` (extraction, planning, decision, explanation; default planning), " +
			"`limit` (1 to 100, default 10), `offset`, `spotlight`, `after`",
	})
}

// Recall (kind recall) asks which memories may enter a context. If it has no candidates, the memories are searched by
// query, key and filter. If it has candidates, which are the results of another store, only these are checked.
type Recall struct {
	Head
	Query   string       `json:"query,omitzero"`
	Key     string       `json:"key,omitzero"`
	Filter  RecallFilter `json:"filter,omitzero"`
	Purpose string       `json:"purpose,omitzero"` // extraction, planning (default), decision, explanation
	Limit   int          `json:"limit,omitzero"`   // entries wanted, 1 to 100, default 10
	// Offset is the number of bytes to skip at the beginning of each returned content. With it, a client can read the
	// rest of a content of which an earlier recall returned only the beginning.
	Offset int `json:"offset,omitzero"`
	// Candidates are results of another store, which are checked. If there are any, memories are not searched.
	Candidates []GateCandidate `json:"candidates,omitzero"`
	// Spotlight asks for untrusted contents to be wrapped in markers that the contents cannot imitate.
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
	// Since and Until bound the ledger time at which a belief was last confirmed. Since is included, Until is not.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// GateCandidate is a result of another store that may enter a context. It has the id of a belief, or the content
// itself. Content that was never observed or remembered in this project counts as external.
type GateCandidate struct {
	ID      string `json:"id,omitzero"`      // of a belief
	Content string `json:"content,omitzero"` // verbatim
	Source  string `json:"source,omitzero"`
	// Score is the other store's score, from 0 to 1. It is recorded, but a high score does not make the content
	// trusted.
	Score *float64 `json:"score,omitzero"`
}

// MaxCandidates is the maximum number of candidates in one recall.
const MaxCandidates = 100

// RecallItem is a belief that a recall found.
type RecallItem struct {
	BeliefRef
	Content string `json:"content"`
	// Score is how well the belief matches the query, from 0 to 1. In a search, it is the belief's BM25 score divided
	// by the best possible one. In a recall with candidates, it is the other store's score. -1 means no score.
	Score float64 `json:"score"`
	// Reason says why the item may be used only as context. It is empty for other items.
	Reason string `json:"reason,omitzero"`
	// Partial is set if Content is only a part of the whole content. The part begins at the request's offset. Size is
	// the size of the whole content in bytes. Digest is the digest of the whole content, if the item is a memory.
	Partial bool   `json:"partial,omitzero"`
	Size    int    `json:"size,omitzero"`
	Digest  string `json:"digest,omitzero"`
	// Unknown is set for content that was never observed or remembered in this project.
	Unknown bool `json:"unknown,omitzero"`
	// Effects lists the changes to Content in an answer: mask, annotate, spotlight. In the ledger, Content is the
	// unchanged content, and Effects is empty.
	Effects []string `json:"effects,omitzero"`
}

// Refusal is a belief that a recall found but did not admit, with the reason.
type Refusal struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
	Text   string `json:"text,omitzero"`
}

func (e *Recall) check(Address) error {
	if err := checkRecall(e); err != nil {
		return err
	}
	if e.Limit < 0 || e.Limit > 100 {
		return rejectf(CodeInvalid, "limit is %d, use 1 to 100", e.Limit)
	}
	if e.Offset < 0 || e.Offset > 0 && len(e.Candidates) > 0 {
		return rejectf(CodeInvalid, "offset is %d, use 0 or more, and none with candidates", e.Offset)
	}
	if e.Purpose != "" && !slices.Contains(beliefs.Purposes, e.Purpose) {
		return rejectf(CodeInvalid, "purpose is %q, use one of %s", clip(e.Purpose), strings.Join(beliefs.Purposes, ", "))
	}
	return names(e.Key, "key")
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

// RecallEntry is the body of the entry for a recall. It has the request, and the items that the recall found. The
// context policy puts each item into one of four lists: admitted, context only, contradictions, refused.
type RecallEntry struct {
	EntryHead
	Query     string       `json:"query,omitzero"`
	Key       string       `json:"key,omitzero"`
	Filter    RecallFilter `json:"filter,omitzero"`
	Gate      int          `json:"gate,omitzero"` // number of candidates from another store
	Purpose   string       `json:"purpose,omitzero"`
	Limit     int          `json:"limit"`
	Offset    int          `json:"offset,omitzero"` // byte at which the served part of each content begins
	Spotlight bool         `json:"spotlight,omitzero"`
	// Privileged is set if the recall is a disclosure, which shows beliefs to a person (see DisclosureEntry). Then all
	// matching beliefs are admitted, even blocked ones.
	Privileged bool `json:"privileged,omitzero"`
	// MaxExternal is the context policy's max_external. It is set only if an admitted item is of external origin.
	MaxExternal    int          `json:"max_external,omitzero"`
	Admitted       []RecallItem `json:"admitted,omitzero"`
	ContextOnly    []RecallItem `json:"context_only,omitzero"`
	Contradictions []RecallItem `json:"contradictions,omitzero"`
	Refused        []Refusal    `json:"refused,omitzero"`
	// Omitted counts, for each of the four lists, the results that were left out because of the limit. Once
	// context_only is full, further content that was read but never remembered counts as omitted from context_only,
	// without being judged by the context policy.
	Omitted map[string]int `json:"omitted,omitzero"`
	// More is set if texts were cut or items omitted because the entry reached its maximum size. With a smaller limit
	// of items, each text has more room.
	More     bool    `json:"more,omitzero"`
	Unseen   bool    `json:"unseen,omitzero"`
	UnseenBy *Unseen `json:"unseen_by,omitzero"`
	// Restored is set if the intake was restored from an older copy (see ActionEntry.Restored). The recall's verdict is
	// then hold.
	Restored bool `json:"restored,omitzero"`
}
