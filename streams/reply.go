package streams

import "time"

// Reply is the answer to a request to one of the services that give a verdict.
type Reply struct {
	Verdict Verdict `json:"verdict"`
	// Error is set if the arbiter gave no verdict. Then Verdict is hold.
	Error *ReplyError `json:"error,omitzero"`
	// Seq is the ledger sequence of the entry with the verdict.
	Seq uint64 `json:"ledger_seq,omitzero"`
	// Until is the time until which the proposal waits for its sentinel groups. It is set if Error
	// says that the verdict is pending (LZ206).
	Until time.Time `json:"until,omitzero"`
	// IntakeSeq is the intake sequence of the proposal's message. If the proposal did not come through the intake,
	// IntakeSeq is the sequence of the last intake message before the proposal, or zero if there is none.
	IntakeSeq uint64        `json:"intake_seq,omitzero"`
	Entry     *VerdictEntry `json:"entry,omitzero"`
	// Recall has the texts that the agent may use, if the request was a recall.
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
	// Repeat is set if the event is a repeat of one that was already in the ledger.
	Repeat    bool   `json:"repeat,omitzero"`
	IntakeSeq uint64 `json:"intake_seq,omitzero"`
	// Seq is the ledger sequence of the event's entry, which may be a rejection.
	Seq uint64 `json:"ledger_seq,omitzero"`
	// Unseen is set if the event was rejected and later proposals of its session are held because of that (LZ306).
	Unseen bool        `json:"unseen,omitzero"`
	Error  *ReplyError `json:"error,omitzero"`
	// Index is the position of the event in its batch.
	Index int `json:"index,omitzero"`
}

// ObserveReplies is the answer to a request to lz.svc.observe. The request may be a batch.
type ObserveReplies struct {
	// ObserveReply answers a single event. If the request is a batch, it has only the fields that are the same for all
	// events of the batch.
	ObserveReply
	// Results are the answers to the events of a batch, in the order of the batch. Their type
	// differs from ObserveReplies because JSON Schema generation does not support recursive types.
	Results []*ObserveReply `json:"results,omitzero"`
}

// ResolveRequest is the body of a request to lz.svc.resolve.<project>.<hold>. It has a signed note that resolves the
// hold.
type ResolveRequest struct {
	Note string `json:"note"` // the signed resolution
	// Belief is set if the subject names a belief instead of a hold. The note is then a signed attestation of the
	// belief.
	Belief bool `json:"belief,omitzero"`
	// Order is set if the note is a signed order. The subject then names the object of the order instead of a hold.
	Order bool `json:"order,omitzero"`
}

// ResolveReply is the answer to a ResolveRequest. The front sends it after it has read the result from the ledger.
type ResolveReply struct {
	Hold string `json:"hold"`
	// State is the state of the hold after an accepted resolution: approved, rejected, or denied if a policy or finding
	// now denies the action. If the resolution was refused, the hold did not change, and State is empty. For an
	// attestation, State is the accepted decision. For an order, it is the accepted action.
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
