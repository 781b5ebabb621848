package streams

import (
	"fmt"
	"time"
)

// Old entries may be removed from the ledger once every stage that needs them has stored its results on disk. The
// retention stage first writes a trim entry into every partition, on lz.ledger.<partition>.retention. Every stage
// answers with a secured entry once its state on disk includes the effect of the last entry to remove. From then on,
// the stage does not need these entries again. When all stages have answered, the retention stage writes one trimmed
// entry into partition 0. The trimmed entry gives the position up to which entries may be missing from now on. Only
// then are the entries removed.
//
// The last entry of each subject stays, because the subject's writer fences the next publish with it. So a gap before a
// remaining entry does not show which entries were trimmed. The entries of the retention stage in partition 0 show it.
// Other messages on the subject of the retention stage, and entries with impossible sequences, are ignored.

// Retention is the body of trim and trimmed entries.
type Retention struct {
	// ID connects the secured entries to their trim entry.
	ID string `json:"id"`
	// UpTo is the sequence of the last ledger entry to remove. A trim entry with UpTo 0 cancels an earlier trim entry.
	UpTo uint64 `json:"up_to"`
	// Trimmed is the last ledger sequence that may already be missing. In a trim entry, it comes from earlier trims. In
	// a trimmed entry, it equals UpTo.
	Trimmed uint64 `json:"trimmed"`
	// Before is the time limit of the trim: every entry up to UpTo is older than Before.
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

// SecuredEntry reports up to which sequence a stage's state in this partition is on disk.
type SecuredEntry struct {
	// ID is the id of the trim entry that this entry answers.
	ID string `json:"id"`
	// Folded is the ledger sequence up to which the state on disk includes the effects of all entries. If Folded is at
	// least Retention.UpTo, the trim is answered. Ingest may first report a lower sequence; it then writes a second
	// entry later.
	Folded uint64 `json:"folded"`
}

// EraseSubject is the subject for two requests that need nats-server to stop for a short time. One removes deleted
// messages from the files of the streams, which nats-server itself does not do for encrypted streams. The other copies
// the data folder. The process that embeds nats-server answers. If nats-server runs as a separate process, there is no
// answer.
const EraseSubject = "lz.svc.erase"

// EraseRequest starts an erasure or a copy, or asks for the result of an earlier one.
type EraseRequest struct {
	// Run is the id of the run whose result is asked for. If it is empty, a new run starts.
	Run string `json:"run,omitzero"`
	// Copy asks for a copy of the data folder instead of an erasure. Keys asks for the copy to include keys and
	// credentials.
	Copy bool `json:"copy,omitzero"`
	Keys bool `json:"keys,omitzero"`
}

// EraseReply is the answer to an EraseRequest.
type EraseReply struct {
	Run string `json:"run"`
	// Done is set once the run has ended. During the run, nats-server stops for a while and does not answer.
	Done    bool     `json:"done,omitzero"`
	Streams []Erased `json:"streams,omitzero"`
	Dir     string   `json:"dir,omitzero"` // folder of the copy
	// NotCopied are files and folders that the copy of the data folder lacks and that cannot be rebuilt.
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
