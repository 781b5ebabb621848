package streams

import "time"

// Reply is the answer of a request service.
type Reply struct {
	Verdict Verdict `json:"verdict"`
	// Error is set if the arbiter gave no verdict. Verdict is hold then.
	Error *ReplyError `json:"error,omitzero"`
	// Seq is the ledger sequence of the verdict's entry.
	Seq uint64 `json:"ledger_seq,omitzero"`
	// Until is the time until which the proposal waits for its sentinel groups. It is set if Error
	// says that the verdict is pending (LZ206).
	Until time.Time `json:"until,omitzero"`
	// IntakeSeq is the intake sequence of the proposal's message. If the proposal did not come through the intake,
	// IntakeSeq is the sequence of the last intake message before the proposal, or zero if there is none.
	IntakeSeq uint64        `json:"intake_seq,omitzero"`
	Entry     *VerdictEntry `json:"entry,omitzero"`
	// Recall holds the texts that a recall may use.
	Recall  *RecallEntry `json:"recall,omitzero"`
	Elapsed int64        `json:"elapsed_us,omitzero"`
}

// ObserveReply is the answer to a request to lz.svc.observe. The front sends it after it has read the event's entry
// from the ledger.
type ObserveReply struct {
	// ID is the event's id in the ledger. It is normally the id that the event was sent with. If an
	// earlier event had this id already, ingest made a new one, and Reuses is the id that the event
	// was sent with.
	ID     string `json:"id,omitzero"`
	Reuses string `json:"reuses,omitzero"`
	// Repeat is set if the event was in the ledger before.
	Repeat    bool   `json:"repeat,omitzero"`
	IntakeSeq uint64 `json:"intake_seq,omitzero"`
	// Seq is the ledger sequence of the event's entry, which may be a rejection.
	Seq uint64 `json:"ledger_seq,omitzero"`
	// Unseen is set if the event was rejected and further proposals of its session are held for it (LZ306).
	Unseen bool        `json:"unseen,omitzero"`
	Error  *ReplyError `json:"error,omitzero"`
	// Index is the position of the event in its batch.
	Index int `json:"index,omitzero"`
}

// ObserveReplies is the answer to a request to lz.svc.observe. The request may be a batch.
type ObserveReplies struct {
	// ObserveReply answers a single event. For a batch it has only the fields that are the same for all events.
	ObserveReply
	// Results are the answers to the events of a batch, in the order of the batch. Their type
	// differs from ObserveReplies because JSON Schema generation does not support recursive types.
	Results []*ObserveReply `json:"results,omitzero"`
}

// ResolveRequest is the body of a request to lz.svc.resolve.<project>.<hold>.
type ResolveRequest struct {
	Note string `json:"note"` // the signed resolution
	// Belief is set if the subject names a belief instead of a hold. The note is then a signed
	// attestation of this belief.
	Belief bool `json:"belief,omitzero"`
	// Order is set if the note is a signed order. The subject then names the order's object.
	Order bool `json:"order,omitzero"`
}

// ResolveReply is the answer to a ResolveRequest. The front sends it after it has read the result from the ledger.
type ResolveReply struct {
	Hold string `json:"hold"`
	// State is the state of the hold after an accepted resolution: approved, rejected, or denied if a policy or finding
	// denies the action by now. It is empty if the resolution was refused and the hold did not change. For an attestation
	// it is the accepted decision, and for an order the accepted action.
	State string `json:"state,omitzero"`
	// Check names the check that a refused resolution failed.
	Check string      `json:"check,omitzero"`
	Text  string      `json:"text,omitzero"`
	Error *ReplyError `json:"error,omitzero"`
	// Seq is the ledger sequence of the entry with the result. Entry is the ledger sequence of the entry with the
	// resolution itself.
	Seq   uint64 `json:"ledger_seq,omitzero"`
	Entry uint64 `json:"entry,omitzero"`
}

// ReplyError is the reason why there is no verdict.
type ReplyError struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}
