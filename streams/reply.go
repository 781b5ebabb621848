package streams

// Reply is the body of a request service's answer.
type Reply struct {
	Verdict Verdict `json:"verdict"`
	// Error is set when there is no verdict of the arbiter; Verdict is hold then.
	Error *ReplyError `json:"error,omitzero"`
	// Seq is the ledger sequence of the verdict's entry.
	Seq uint64 `json:"ledger_seq,omitzero"`
	// IntakeSeq is the sequence under which the proposal was acknowledged;
	// zero when it was answered from an earlier verdict.
	IntakeSeq uint64        `json:"intake_seq,omitzero"`
	Entry     *VerdictEntry `json:"entry,omitzero"`
	// Recall holds what a recall may use.
	Recall  *RecallEntry `json:"recall,omitzero"`
	Elapsed int64        `json:"elapsed_us,omitzero"`
}

// ReplyError says why there is no verdict.
type ReplyError struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}
