package streams

// ProveRequest is the body of a request to lz.svc.prove.<project>.<agent>: it
// asks for the proof that an entry of the project is in the audit log. Exactly
// one of ID and Seq is set.
type ProveRequest struct {
	// ID is that of an event: what ingest made of it is proven. Of several
	// agents' events with this id it is the caller's.
	ID string `json:"id,omitzero"`
	// Agent is whose event it is; empty means the caller's.
	Agent string `json:"agent,omitzero"`
	// Seq is a ledger sequence, such as a verdict's.
	Seq uint64 `json:"ledger_seq,omitzero"`
	// Payload asks for what the entry says as well, and the salt of its
	// commitment. It is given for entries about the caller's own events.
	Payload bool `json:"payload,omitzero"`
}

// ProveReply is the answer.
type ProveReply struct {
	// Proof is a C2SP tlog-proof: leaf, hashes, signed checkpoint. It proves
	// nothing before it was checked with the log's public key.
	Proof string      `json:"proof,omitzero"`
	Index int64       `json:"index"` // of the leaf
	Seq   uint64      `json:"ledger_seq,omitzero"`
	Error *ReplyError `json:"error,omitzero"`
}

// Check says what is wrong with a request, by an error that is a *RejectError.
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
