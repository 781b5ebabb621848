package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/streams"
)

// ErrHold is what every error of this package is: errors.Is(err, ErrHold) holds
// for answers without a verdict, for silence and for a lost connection.
var ErrHold = errors.New("no verdict: treat as hold")

// Error is an answer without a verdict, or an event that was not acknowledged.
// Callers must treat it as hold.
type Error struct {
	// Code is that of the answer, or LZ201 to LZ203 where there was none.
	Code    streams.Code
	Message string

	err       error // what NATS said, if it was NATS
	answered  bool  // the pipeline said so itself
	forbidden bool  // the credential may not ask there, now or later
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Message) }

// Is makes every Error an ErrHold.
func (e *Error) Is(target error) bool { return target == ErrHold }

func (e *Error) Unwrap() error { return e.err }

// Temporary says that the same event, under the same id, may fare better later:
// its time ran out, the intake or the front was full, or nobody answered.
func (e *Error) Temporary() bool {
	if e.forbidden {
		return false
	}
	switch e.Code {
	case streams.CodePending, streams.CodeTimeout, streams.CodeIntakeFull, streams.CodeUnavailable, streams.CodeShedding:
		return true
	}
	return false
}

// again says that it is worth another try within the same call. When the front
// has waited for a verdict in vain, this call has waited long enough.
func (e *Error) again() bool {
	return e.Temporary() && !(e.answered && e.Code == streams.CodeTimeout)
}

// VerdictOf is what a call came to: the verdict of a reply, and hold for
// everything that is none.
func VerdictOf(rep *Reply, err error) streams.Verdict {
	if err != nil || rep == nil || rep.Error != nil || rep.Entry == nil {
		return streams.Hold
	}
	return rep.Verdict
}

// refused turns the error of a publish into one with a code.
func refused(subject string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	e := &Error{Code: streams.CodeUnavailable, Message: fmt.Sprintf("publishing to %s: %v", subject, err), err: err}
	var api *jetstream.APIError
	switch {
	case errors.As(err, &api):
		e.Code = streams.CodeIntakeFull
		e.Message = fmt.Sprintf("publishing to %s: %s", subject, streams.RefusedText(int(api.ErrorCode), api.Description))
	case errors.Is(err, context.DeadlineExceeded):
		e.Code = streams.CodeTimeout
		e.Message += ": it may be stored; send it again with the same id (or the credential may not publish there)"
	}
	return e
}
