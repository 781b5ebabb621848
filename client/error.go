package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/streams"
)

// ErrHold matches every *Error of this package by errors.Is: an answer without a verdict, no
// answer, a lost connection.
var ErrHold = errors.New("no verdict: treat as hold")

// Error reports an answer without a verdict, or an event that was not acknowledged. Callers must
// treat it as hold.
type Error struct {
	// Code is the code of the answer. If there was no answer, it is LZ201, LZ202, LZ203 or LZ209.
	Code    streams.Code
	Message string

	err       error // the error of the NATS client, if any
	answered  bool  // the pipeline answered with this error
	forbidden bool  // the credential may not publish to the subject
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Message) }

// Is reports whether target is ErrHold.
func (e *Error) Is(target error) bool { return target == ErrHold }

func (e *Error) Unwrap() error { return e.err }

// Temporary reports whether sending the same event again with the same id may succeed later: the
// time ran out, the intake, the agent's share of it or the front was full, or nobody answered.
func (e *Error) Temporary() bool {
	if e.forbidden {
		return false
	}
	switch e.Code {
	case streams.CodePending, streams.CodeTimeout, streams.CodeIntakeFull, streams.CodeUnavailable, streams.CodeShedding,
		streams.CodeAgentFull:
		return true
	}
	return false
}

// again reports whether to try again within the same call. It is false if the front answered that its own time for the
// verdict ran out: by then, the call has taken long enough.
func (e *Error) again() bool {
	return e.Temporary() && !(e.answered && e.Code == streams.CodeTimeout)
}

// VerdictOf returns the verdict of a reply. It returns hold if there is an error or no verdict.
func VerdictOf(rep *Reply, err error) streams.Verdict {
	if err != nil || rep == nil || rep.Error != nil || rep.Entry == nil {
		return streams.Hold
	}
	return rep.Verdict
}

// refused converts the error of a publish to an *Error. It returns context.Canceled unchanged.
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
