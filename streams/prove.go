package streams

// ProveRequest is the body of a request to lz.svc.prove.<project>.<agent>. It asks for the proof
// that an entry of the project is in the audit log. Exactly one of ID and Seq must be set.
type ProveRequest struct {
	// ID is the id of an event. The proof is for the entry that ingest made from the event.
	ID string `json:"id,omitzero"`
	// Agent is the agent that sent the event ID. If Agent is empty, it is the caller.
	Agent string `json:"agent,omitzero"`
	// Seq is a ledger sequence, such as that of a verdict.
	Seq uint64 `json:"ledger_seq,omitzero"`
	// Payload asks for the entry's body and the salt of its commitment too. The service returns them only for entries
	// about the caller's own events.
	Payload bool `json:"payload,omitzero"`
}

// ProveReply is the answer to a ProveRequest.
type ProveReply struct {
	// Proof is a C2SP tlog-proof: leaf, hashes, signed checkpoint. The receiver must check it with the log's public
	// key; unchecked, it proves nothing.
	Proof string      `json:"proof,omitzero"`
	Index int64       `json:"index"` // index of the leaf
	Seq   uint64      `json:"ledger_seq,omitzero"`
	Error *ReplyError `json:"error,omitzero"`
}

// Check returns a *RejectError if the request is not valid.
func (r *ProveRequest) Check() error {
	if (r.ID == "") == (r.Seq == 0) {
		return rejectf(CodeInvalid, "name an event's id or a ledger_seq, and not both")
	}
	if r.ID != "" {
		if err := CheckID("id", r.ID); err != nil {
			return rejectf(CodeInvalid, "%v", err)
		}
	}
	if r.Agent != "" {
		if err := CheckID("agent", r.Agent); err != nil {
			return rejectf(CodeInvalid, "%v", err)
		}
	}
	return nil
}
