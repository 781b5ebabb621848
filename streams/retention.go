package streams

import (
	"fmt"
	"time"
)

// Old entries may be removed from the ledger once every stage that needs them has stored its
// results on disk. The retention stage first writes a trim entry into every partition, on
// lz.ledger.<partition>.retention. Every stage answers with a secured entry when its state can
// no longer fall behind the entries to remove. When all stages have answered, one trimmed
// entry in partition 0 gives the position up to which entries may be missing. Only then are
// they removed. The last entry of each subject stays, because it is its writer's fence. The
// remaining entries therefore do not show whether others are missing; the entries of the
// retention stage in partition 0 do. Messages on its subject that are not such entries, or
// that cannot be true, are ignored.

// Retention is the body of trim and trimmed entries.
type Retention struct {
	// ID ties the answers to the announcement.
	ID string `json:"id"`
	// UpTo is the ledger sequence up to which entries are to go.
	UpTo uint64 `json:"up_to"`
	// Trimmed is up to which they may be gone: in a trim entry because of
	// earlier ones, in a trimmed entry UpTo.
	Trimmed uint64 `json:"trimmed"`
	// Before is the horizon: every entry up to UpTo is older.
	Before time.Time `json:"before"`
}

// ReadRetention reads a trim or trimmed entry. It is an error if the entry is none,
// or if it speaks of entries that come after it.
func ReadRetention(e *Entry) (*Retention, error) {
	if e.Stage != StageRetention || e.Type != TypeTrim && e.Type != TypeTrimmed {
		return nil, fmt.Errorf("ledger entry %d of type %q is no trim entry", e.Seq, e.Type)
	}
	r := new(Retention)
	if err := Unmarshal(e.Body, r); err != nil {
		return nil, fmt.Errorf("ledger entry %d: %w", e.Seq, err)
	}
	if err := CheckID("id", r.ID); err != nil {
		return nil, fmt.Errorf("ledger entry %d: %w", e.Seq, err)
	}
	if r.UpTo >= e.Seq || r.Trimmed > r.UpTo || e.Type == TypeTrimmed && r.Trimmed != r.UpTo {
		return nil, fmt.Errorf("ledger entry %d says that entries up to %d go and that those up to %d may be gone, "+
			"which cannot be", e.Seq, r.UpTo, r.Trimmed)
	}
	return r, nil
}

// SecuredEntry says that a stage's state in this partition is on disk.
type SecuredEntry struct {
	// ID is that of the trim entry.
	ID string `json:"id"`
	// Folded is the ledger sequence up to which the state on disk holds what
	// the stage makes of the ledger. It answers the trim entry if it is not
	// below UpTo; ingest may say less first, and folds on by saying so.
	Folded uint64 `json:"folded"`
}

// EraseSubject is where the process that runs nats-server is asked for what needs the server
// to stop for some time: to remove deleted messages from the files of the streams, since
// nats-server leaves them in the files of an encrypted stream, or to copy the data folder. Nobody answers on it where nats-server is a process of its own.
const EraseSubject = "lz.svc.erase"

// EraseRequest starts an erasure, or asks for the result of one.
type EraseRequest struct {
	// Run is the one that is asked for; empty: a new one is started.
	Run string `json:"run,omitzero"`
	// Copy asks for a copy of the data folder in the place of an erasure, Keys for one with
	// keys and credentials.
	Copy bool `json:"copy,omitzero"`
	Keys bool `json:"keys,omitzero"`
}

// EraseReply answers it.
type EraseReply struct {
	Run string `json:"run"`
	// Done is set once it has ended. Until then the server is stopped for some time.
	Done    bool     `json:"done,omitzero"`
	Streams []Erased `json:"streams,omitzero"`
	Dir     string   `json:"dir,omitzero"` // the copy
	Error   string   `json:"error,omitzero"`
}

// Erased says what was done to the files of a stream.
type Erased struct {
	Stream string `json:"stream"`
	// Messages are the deleted messages that were still in the files.
	Messages int `json:"messages"`
	// Files are the block files that were replaced.
	Files int `json:"files"`
	// Left says why the files may still hold deleted messages; empty: they hold none.
	Left string `json:"left,omitzero"`
}
