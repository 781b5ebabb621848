package client

import (
	"context"
	"fmt"

	"lazaret/streams"
)

// Prove asks for the proof that an entry of the project is in the audit log. The request names the
// id of an event, or a ledger sequence such as Reply.Seq. The Proof in the reply is a C2SP
// tlog-proof. It proves nothing until it is checked with the log's public key, by chain.CheckProof
// or by lazaret audit prove --check.
//
// A signed checkpoint covers an entry after about a second. Until then the error code is LZ501 or
// LZ502. Like every error of this package it matches ErrHold, although nothing is held.
func (c *Client) Prove(ctx context.Context, r *streams.ProveRequest) (*streams.ProveReply, error) {
	if err := r.Check(); err != nil {
		return nil, &Error{Code: streams.CodeInvalid, Message: err.Error(), err: err}
	}
	subject, err := streams.ServiceSubject(streams.SvcProve, c.project, c.agent, "")
	if err != nil {
		return nil, err
	}
	body, err := streams.Marshal(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	rep := new(streams.ProveReply)
	err = c.do(ctx, func(ctx context.Context) error {
		m, err := c.asked(ctx, subject, body)
		if err != nil {
			return err
		}
		*rep = streams.ProveReply{}
		if err := streams.Unmarshal(m.Data, rep); err != nil {
			return &Error{Code: streams.CodeUnavailable, Message: fmt.Sprintf("the answer on %s cannot be read: %v", subject,
				err), err: err}
		}
		if rep.Error != nil {
			return &Error{Code: rep.Error.Code, Message: rep.Error.Message, answered: true}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return rep, nil
}
