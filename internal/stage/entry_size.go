package stage

import (
	"fmt"

	"github.com/nats-io/nats.go"

	"lazaret/streams"
)

// An entry that exceeds the maximum message size can never be published. A stage that tried again and again would be
// stuck. So folds limit the size of their entries, and the stage also checks every entry before it publishes it. Then
// no input can stop a partition.

// checkPayload returns an error if the server does not accept messages as large as the ledger's largest entry. Before
// the connection is established, the server's limit is unknown, and checkPayload returns nil.
func checkPayload(nc *nats.Conn) error {
	if have := nc.MaxPayload(); have > 0 && have < streams.LedgerMsgSize {
		return fmt.Errorf("the server accepts messages of at most %d bytes, but ledger entries have up to %d: set "+
			"max_payload to at least that", have, streams.LedgerMsgSize)
	}
	return nil
}

// tooLarge returns the rejection of an output that is too large to be published, or nil.
func tooLarge(out *Output) *streams.RejectError {
	if len(out.Body) <= streams.MaxEntry {
		return nil
	}
	return &streams.RejectError{Code: streams.CodeEntrySize,
		Reason: fmt.Sprintf("its %s entry would have %d bytes, and the ledger takes at most %d: split the content over "+
			"several events",
			out.Type, len(out.Body), streams.MaxEntry)}
}

// fitting returns an output of a LedgerFold or, if the output is too large, a rejected entry instead. src is the
// position of the output's input. The arbiter treats a sentinel's rejected entry like a missing answer.
func (r *runtime) fitting(out *Output, src uint64) (*Output, error) {
	if out == nil {
		return nil, nil
	}
	why := tooLarge(out)
	if why == nil {
		return out, nil
	}
	r.stats.Oversized.Add(1)
	r.log.Error("an entry is too large for the ledger; a rejected entry is published instead", "type", out.Type,
		"src", src, "bytes", len(out.Body), "code", why.Code)
	return NewOutput(streams.TypeRejected, out.Project, &streams.RejectedEntry{Code: why.Code,
		Reason: fmt.Sprintf("on ledger entry %d: %s", src, why.Reason), Size: len(out.Body),
		Digest: streams.Digest(out.Body)})
}
