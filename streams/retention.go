package streams

import (
	"fmt"
	"time"
)

// Old entries may be removed from the ledger once every stage that needs them has stored its results on disk. The
// retention stage first writes a trim entry into every partition, on lz.ledger.<partition>.retention. Every stage
// answers with a secured entry once its state on disk includes the last entry to remove. From then on it never needs
// the removed entries again. When all stages have answered, the retention stage writes one trimmed entry into
// partition 0. This entry gives the position up to which entries may be missing. Only then are the entries removed.
//
// The last entry of each subject stays, because the subject's writer fences the next publish with it. So a gap before a
// remaining entry does not show which entries were trimmed. The entries of the retention stage in partition 0 show it.
// Other messages on the subject of the retention stage, and entries with impossible sequences, are ignored.

// Retention is the body of trim and trimmed entries.
type Retention struct {
	// ID connects the secured entries to their trim entry.
	ID string `json:"id"`
	// UpTo is the last ledger sequence to remove. A trim entry with 0 cancels an earlier trim entry.
	UpTo uint64 `json:"up_to"`
	// Trimmed is the last ledger sequence that may already be missing. In a trim entry it results
	// from earlier trims. In a trimmed entry it equals UpTo.
	Trimmed uint64 `json:"trimmed"`
	// Before is the horizon of the trim: every entry up to UpTo is older.
	Before time.Time `json:"before"`
}

// ReadRetention parses a trim or trimmed entry. It returns an error if e is a different entry, or
// if it names sequences that are not before its own.
func ReadRetention(e *Entry) (*Retention, error) {
	if e.Stage != StageRetention || e.Type != TypeTrim && e.Type != TypeTrimmed {
		return nil, fmt.Errorf("ledger entry %d of type %q is not a trim entry", e.Seq, e.Type)
	}
	r := new(Retention)
	if err := Unmarshal(e.Body, r); err != nil {
		return nil, fmt.Errorf("ledger entry %d: %w", e.Seq, err)
	}
	if err := CheckID("id", r.ID); err != nil {
		return nil, fmt.Errorf("ledger entry %d: %w", e.Seq, err)
	}
	if r.UpTo >= e.Seq || r.Trimmed > r.UpTo || e.Type == TypeTrimmed && r.Trimmed != r.UpTo {
		return nil, fmt.Errorf("ledger entry %d names impossible sequences: up_to is %d and trimmed is %d; both must be "+
			"below the entry's own, and trimmed at most up_to", e.Seq, r.UpTo, r.Trimmed)
	}
	return r, nil
}

// SecuredEntry reports that a stage's state in this partition is on disk.
type SecuredEntry struct {
	// ID is the id of the trim entry.
	ID string `json:"id"`
	// Folded is the ledger sequence up to which the state on disk includes the ledger. If it is at least
	// Retention.UpTo, this entry answers the trim. If ingest first reports a lower sequence, it writes a second entry
	// later.
	Folded uint64 `json:"folded"`
}

// EraseSubject is the subject for requests that need nats-server to stop for a short time: to remove deleted messages
// from the files of the streams, which nats-server does not do for encrypted streams, or to copy the data folder. The
// process that embeds nats-server answers. If nats-server is a separate process, there is no answer.
const EraseSubject = "lz.svc.erase"

// EraseRequest starts an erasure or a copy, or asks for the result of an earlier one.
type EraseRequest struct {
	// Run is the id of the earlier run. If it is empty, a new run starts.
	Run string `json:"run,omitzero"`
	// Copy asks for a copy of the data folder instead of an erasure. Keys includes keys and
	// credentials in the copy.
	Copy bool `json:"copy,omitzero"`
	Keys bool `json:"keys,omitzero"`
}

// EraseReply is the answer to an EraseRequest.
type EraseReply struct {
	Run string `json:"run"`
	// Done is set once the run has ended. During the run the server stops for a while.
	Done    bool     `json:"done,omitzero"`
	Streams []Erased `json:"streams,omitzero"`
	Dir     string   `json:"dir,omitzero"` // folder of the copy
	// NotCopied are files and folders of the data folder that the copy lacks and nobody can rebuild.
	NotCopied []string `json:"not_copied,omitzero"`
	Error     string   `json:"error,omitzero"`
}

// Erased reports the result for the files of one stream.
type Erased struct {
	Stream string `json:"stream"`
	// Messages is the number of deleted messages that were still in the files.
	Messages int `json:"messages"`
	// Files is the number of block files that were replaced.
	Files int `json:"files"`
	// Left is the reason why the files may still hold deleted messages. It is empty if they hold
	// none.
	Left string `json:"left,omitzero"`
}
