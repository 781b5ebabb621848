package streams

import "time"

// Old entries may be removed from the ledger once all who need them have what
// they make of them on disk. Whoever trims it first writes a trim entry into
// every partition, on lz.ledger.<partition>.retention. Every stage answers with
// a secured entry when its state can no longer fall behind what is to go. When
// all have, one trimmed entry in partition 0 says up to where entries may be
// gone, and only then they go. Of each subject the last entry stays, which is
// its writer's fence, so that what is left does not tell by itself whether
// something is missing: the last entry of the retention stage in partition 0
// does.

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

// SecuredEntry says that a stage's state in this partition is on disk.
type SecuredEntry struct {
	// ID is that of the trim entry.
	ID string `json:"id"`
	// Folded is the ledger sequence up to which the state on disk holds what
	// the stage makes of the ledger. It answers the trim entry if it is not
	// below UpTo; ingest may say less first, and folds on by saying so.
	Folded uint64 `json:"folded"`
}
