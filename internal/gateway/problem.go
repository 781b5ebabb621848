package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"lazaret/client"
	"lazaret/streams"
)

// Problem is an error reply: the problem details of RFC 9457. Its verdict is always hold.
type Problem struct {
	Type   string       `json:"type"`
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Detail string       `json:"detail,omitzero"`
	Code   streams.Code `json:"code"`
	// Action tells the caller what to do.
	Action  string          `json:"action,omitzero"`
	Verdict streams.Verdict `json:"verdict"`
	// ID, IntakeSeq, LedgerSeq and Unseen are set for a rejected observation.
	ID        string `json:"id,omitzero"`
	IntakeSeq uint64 `json:"intake_seq,omitzero"`
	LedgerSeq uint64 `json:"ledger_seq,omitzero"`
	Unseen    bool   `json:"unseen,omitzero"`
	// Events is the outcome of each event of a batch, in the order of the batch. Only events whose outcome is known are
	// listed.
	Events []*streams.ObserveReply `json:"events,omitzero"`

	allow string // the Allow header of a 405
}

func (p *Problem) Error() string { return string(p.Code) + ": " + p.Detail }

// ofTheEvent reports whether an event can never be accepted. After another problem, such as an outage, a limit or a
// refused credential, the same event may be accepted later.
func (p *Problem) ofTheEvent() bool {
	switch p.Status {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	}
	return p.Status/100 == 4
}

// maxDetail is the maximum length of Problem.Detail, in bytes.
const maxDetail = 2 << 10

// statuses maps codes to HTTP statuses; all others are 400.
var statuses = map[streams.Code]int{
	streams.CodeTooLarge: http.StatusRequestEntityTooLarge, streams.CodeEntrySize: http.StatusRequestEntityTooLarge,
	streams.CodeTimeout: http.StatusGatewayTimeout, streams.CodePending: http.StatusGatewayTimeout,
	streams.CodeIntakeFull: http.StatusServiceUnavailable, streams.CodeUnavailable: http.StatusServiceUnavailable,
	streams.CodeShedding: http.StatusServiceUnavailable, streams.CodeReplySize: http.StatusUnprocessableEntity,
	streams.CodeTaken: http.StatusConflict, streams.CodeAgentFull: http.StatusTooManyRequests,
	streams.CodeToken: http.StatusUnauthorized, streams.CodeCredential: http.StatusUnauthorized,
	streams.CodeForbidden: http.StatusForbidden,
	streams.CodeNotHere:   http.StatusNotFound,
}

func problem(code streams.Code, format string, args ...any) *Problem {
	status := cmp.Or(statuses[code], http.StatusBadRequest)
	doc, _ := code.Doc()
	return &Problem{Type: "urn:lazaret:error:" + string(code), Title: doc.Title, Status: status,
		Detail: streams.Clip(fmt.Sprintf(format, args...), maxDetail),
		Code:   code, Action: doc.Action, Verdict: streams.Hold}
}

func status(code int, p *Problem) *Problem {
	p.Status = code
	return p
}

// problemOf converts an error of the client or of the request to a Problem.
func problemOf(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	var e *client.Error
	if errors.As(err, &e) {
		return problem(e.Code, "%s", e.Message)
	}
	var rej *streams.RejectError
	if errors.As(err, &rej) {
		p := problem(rej.Code, "%s", rej.Reason)
		p.ID = rej.ID
		return p
	}
	var big *http.MaxBytesError
	if errors.As(err, &big) {
		return problem(streams.CodeTooLarge,
			"the body has more than %d bytes: split the content over several events with the same call", big.Limit)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return problem(streams.CodeTimeout, "the request ended before its answer")
	}
	return problem(streams.CodeInvalid, "%v", err)
}

// answer writes body as JSON.
func answer(w http.ResponseWriter, status int, contentType string, body any) {
	b, err := streams.Marshal(body)
	if err != nil { // cannot happen: the value was parsed from JSON
		http.Error(w, "", http.StatusInternalServerError)
		return
	}
	answerBytes(w, status, contentType, append(b, '\n'))
}

// answerBytes writes a body that is already encoded.
func answerBytes(w http.ResponseWriter, status int, contentType string, body []byte) {
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime))
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write(body)
}

func (p *Problem) write(w http.ResponseWriter) {
	switch p.Status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="lazaret"`)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		w.Header().Set("Retry-After", "1")
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", p.allow)
	}
	answer(w, p.Status, "application/problem+json", p)
}
