package streams

import (
	"crypto/sha256"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
)

// KindObs is the kind of an observation: content from a tool, a document or a person.
// TypeObservation is the type of its entries.
const (
	KindObs         Kind = "obs"
	TypeObservation Type = "observation"
)

func init() {
	register[Observation](EventKind{
		Kind: KindObs, Type: TypeObservation, Order: 1,
		Origin: true,
		Title:  "what was read",
		Fields: "`content` or `blocks` (`[{type, text}]`, at most 256), `tool`, `call` (id of the tool call that " +
			"returned it), `args` (of this call), `source` (a URL, path or sender)",
	})
}

// Observation (kind obs) is content that the agent was shown.
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

// Block is one piece of content, in the form in which MCP and most model APIs give content.
type Block struct {
	Type string `json:"type,omitzero"` // "text" if empty; other types are stored but not read
	Text string `json:"text"`
}

// BlockEntry is one content block with its text features.
type BlockEntry struct {
	Type     string        `json:"type,omitzero"`
	Text     string        `json:"text"`
	Features text.Features `json:"features,omitzero"`
	// Instructs is set if the text comes from an external source and has an instruction to its reader, see
	// signals.Instructs.
	Instructs bool `json:"instructs,omitzero"`
	// Views is the result of Features.Views(Text). It is nil if another process made the entry. It must not be
	// modified.
	Views []text.View `json:"-"`
	// Sum is the SHA-256 of Text, if this process made the entry, and else zero.
	Sum [sha256.Size]byte `json:"-"`
	// Derived holds a value that readers in this process derive from Text. The first reader stores it, so that others
	// need not derive it again. It is nil if another process made the entry. Entries with the same text may share it.
	Derived *atomic.Value `json:"-"`
	// Encoded is the result of EncodeBlock(Text, &Features), or nil. It is read-only, and entries with the same text share
	// it, so that the text and its features are encoded once.
	Encoded []byte `json:"-"`
}

func (e *Observation) check(Address) error {
	if len(e.Blocks) > MaxBlocks {
		return rejectf(CodeInvalid, "%d blocks, at most %d are admitted in one observation", len(e.Blocks), MaxBlocks)
	}
	if e.Content != "" && len(e.Blocks) > 0 {
		return rejectf(CodeInvalid, "an observation has content or blocks, not both")
	}
	return names(e.Tool, "tool", e.Call, "call", e.Source, "source")
}

// ObservationEntry is the body of an observation.
type ObservationEntry struct {
	EntryHead
	beliefs.Observation
	Args   jsontext.Value `json:"args,omitzero"`
	Blocks []BlockEntry   `json:"blocks,omitzero"`
	Claims []ClaimEntry   `json:"claims,omitzero"`
	// UserNamed is set if, in the session, the user named the source of the observation.
	UserNamed bool `json:"user_named,omitzero"`
	// Handed is set if the user asked the agent to do what the source of the observation says.
	Handed bool `json:"handed,omitzero"`
	// Readings is set if the observation repeats content that was read before. Ingest then records where it was read
	// this time. Entries of earlier versions do not have this field. For these, ingest records nothing, so that old
	// ledgers give the same state.
	Readings bool `json:"readings,omitzero"`
	// Revisions are changes of beliefs because the observation corroborates or contradicts them.
	Revisions []beliefs.Revision `json:"revisions,omitzero"`
}

// ContentDigest returns the digest of the text of all blocks. If a block has no text, it returns "".
func (e *ObservationEntry) ContentDigest() string {
	texts := make([]string, 0, len(e.Blocks))
	for i := range e.Blocks {
		if e.Blocks[i].Text == "" {
			return ""
		}
		texts = append(texts, e.Blocks[i].Text)
	}
	return TextsDigest(texts)
}

// TextsDigest returns the digest of the texts of an observation's blocks. If there are no texts, it returns "".
func TextsDigest(texts []string) string {
	b, err := Marshal(texts)
	if err != nil || len(texts) == 0 {
		return ""
	}
	return Digest(b)
}
