package streams

import "time"

// Reply is the body of a request service's answer.
type Reply struct {
	Verdict Verdict `json:"verdict"`
	// Error is set when there is no verdict of the arbiter; Verdict is hold then.
	Error *ReplyError `json:"error,omitzero"`
	// Seq is the ledger sequence of the verdict's entry.
	Seq uint64 `json:"ledger_seq,omitzero"`
	// Until is how long the proposal waits for its sentinel groups, where the
	// error is that the verdict is pending (LZ206).
	Until time.Time `json:"until,omitzero"`
	// IntakeSeq is the sequence under which the proposal was acknowledged;
	// zero when it was answered from an earlier verdict.
	IntakeSeq uint64        `json:"intake_seq,omitzero"`
	Entry     *VerdictEntry `json:"entry,omitzero"`
	// Recall holds what a recall may use.
	Recall  *RecallEntry `json:"recall,omitzero"`
	Elapsed int64        `json:"elapsed_us,omitzero"`
}

// ObserveReply is the answer to a request to lz.svc.observe, read back from the
// ledger.
type ObserveReply struct {
	// ID is the id under which the event stands in the ledger. Reuses is set where
	// it was sent under one that another event had.
	ID     string `json:"id,omitzero"`
	Reuses string `json:"reuses,omitzero"`
	// Repeat says that it is there already.
	Repeat    bool   `json:"repeat,omitzero"`
	IntakeSeq uint64 `json:"intake_seq,omitzero"`
	// Seq is the ledger sequence of its entry, also of a rejection.
	Seq uint64 `json:"ledger_seq,omitzero"`
	// Unseen says that the session is held for it (LZ306).
	Unseen bool        `json:"unseen,omitzero"`
	Error  *ReplyError `json:"error,omitzero"`
	// Index is the event's place in its batch.
	Index int `json:"index,omitzero"`
}

// ObserveReplies is the answer to a request to lz.svc.observe that may be a batch.
type ObserveReplies struct {
	// ObserveReply answers one event. Of a batch it has only what holds for all its events.
	ObserveReply
	// Results answer the events of a batch, in its order. They are a type of their own,
	// since a schema cannot be made of a type that holds itself.
	Results []*ObserveReply `json:"results,omitzero"`
}

// ResolveRequest is the body of a request to lz.svc.resolve.<project>.<hold>.
type ResolveRequest struct {
	Note string `json:"note"` // the signed resolution
	// Belief says that the subject names a belief in the place of a hold, and
	// that the note is a signed word on it.
	Belief bool `json:"belief,omitzero"`
	// Order says that the note is a signed order, and that the subject names
	// what it is about.
	Order bool `json:"order,omitzero"`
}

// ResolveReply is the answer to it, read back from the ledger.
type ResolveReply struct {
	Hold string `json:"hold"`
	// State is the hold's state where the resolution was obeyed: approved,
	// rejected, or denied when it could not be released any more. Empty means
	// that it was refused, and that the hold is as it was. Of a word on a belief
	// it is the decision that was obeyed, of an order what it asked for.
	State string `json:"state,omitzero"`
	// Check names what a refused resolution failed.
	Check string      `json:"check,omitzero"`
	Text  string      `json:"text,omitzero"`
	Error *ReplyError `json:"error,omitzero"`
	// Seq is the ledger sequence of the outcome's entry, Entry that of the
	// resolution's.
	Seq   uint64 `json:"ledger_seq,omitzero"`
	Entry uint64 `json:"entry,omitzero"`
}

// ReplyError says why there is no verdict.
type ReplyError struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}
