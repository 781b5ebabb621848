package streams

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// BatchContentType is the content type of a message with several events. Its body is a CloudEvents
// JSON batch: an array of events in the JSON format. The data of each event is the body that a
// message with this event alone would have.
const BatchContentType = "application/cloudevents-batch+json"

// HeaderContentType is the header that gives the content type of an intake message.
const HeaderContentType = "Content-Type"

// MaxBatch is the maximum number of events in a batch.
const MaxBatch = 256

// BatchEvent is one event of a batch.
type BatchEvent struct {
	ID   string
	Data []byte       // the event's body, or the whole array element if the element is not a valid event
	Bad  *RejectError // why the element is not a valid event; nil if it is
}

// IsBatch reports whether the headers of a message say that its body is a batch of events. If there are several content
// types, one that says so is enough. A message is parsed more than once, so the result must not depend on the order of
// the map.
func IsBatch(h map[string][]string) bool {
	for name, values := range h {
		if strings.EqualFold(name, HeaderContentType) && slices.ContainsFunc(values, isBatchType) {
			return true
		}
	}
	return false
}

func isBatchType(value string) bool {
	kind, _, _ := strings.Cut(value, ";")
	return strings.EqualFold(strings.TrimSpace(kind), BatchContentType)
}

// ParseBatch reads a batch. Each element that is not a valid event is returned with Bad set. ParseBatch returns an
// error if the message as a whole is not a batch of observations. The data of the events points into body, so body must
// not be changed later.
func ParseBatch(kind Kind, body []byte) ([]BatchEvent, *RejectError) {
	if kind != KindObs {
		return nil, rejectf(CodeMalformed, "a batch may hold observations only: send %q events one by one",
			clip(string(kind)))
	}
	if out := quickBatch(body); out != nil {
		return out, nil
	}
	return slowBatch(body)
}

// slowBatch is ParseBatch for all forms of JSON.
func slowBatch(body []byte) ([]BatchEvent, *RejectError) {
	d := jsontext.NewDecoder(bytes.NewReader(body))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '[' {
		return nil, rejectf(CodeMalformed, "the body is not a CloudEvents JSON batch, which is an array of events")
	}
	var out []BatchEvent
	for d.PeekKind() != ']' {
		e, err := readBatchEvent(d, body)
		if err != nil {
			return nil, rejectf(CodeMalformed, "event %d of the batch: %s", len(out), DescribeJSON(err))
		}
		if len(out) == MaxBatch {
			return nil, rejectf(CodeTooLarge, "the batch has more than %d events: send several batches", MaxBatch)
		}
		out = append(out, e)
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, rejectf(CodeMalformed, "the body is not a CloudEvents JSON batch: %s", DescribeJSON(err))
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, rejectf(CodeMalformed, "something follows the array of the batch")
	}
	if len(out) == 0 {
		return nil, rejectf(CodeMalformed, "the batch has no events")
	}
	return out, nil
}

// readBatchEvent reads the next element of a batch. It is a fast path for elements with only plain strings and JSON
// data. For all others it calls batchEvent, which gives the same result.
func readBatchEvent(d *jsontext.Decoder, body []byte) (BatchEvent, error) {
	if d.PeekKind() != '{' {
		v, err := d.ReadValue()
		if err != nil {
			return BatchEvent{}, err
		}
		return batchEvent(bytes.Clone(v)), nil
	}
	if _, err := d.ReadToken(); err != nil {
		return BatchEvent{}, err
	}
	from := d.InputOffset() - 1
	var version, id, data, contentType []byte
	plain := true
	for d.PeekKind() != '}' {
		name, err := d.ReadValue()
		if err != nil {
			return BatchEvent{}, err
		}
		var field *[]byte
		switch string(name) {
		case `"specversion"`:
			field = &version
		case `"id"`:
			field = &id
		case `"data"`:
			field = &data
		case `"datacontenttype"`:
			field = &contentType
		case `"source"`, `"type"`, `"time"`, `"subject"`:
			field = new([]byte)
		default:
			plain = false
		}
		v, err := d.ReadValue()
		if err != nil {
			return BatchEvent{}, err
		}
		if field != nil {
			end := d.InputOffset()
			*field = body[end-int64(len(v)) : end : end]
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return BatchEvent{}, err
	}
	if plain && plainElement(version, id, data, contentType) {
		return BatchEvent{ID: string(id[1 : len(id)-1]), Data: data}, nil
	}
	return batchEvent(bytes.Clone(body[from:d.InputOffset()])), nil
}

// batchEvent reads one element of a batch.
func batchEvent(v []byte) BatchEvent {
	var e struct {
		SpecVersion string         `json:"specversion"`
		ID          string         `json:"id"`
		ContentType string         `json:"datacontenttype"`
		Data        jsontext.Value `json:"data"`
		Base64      []byte         `json:"data_base64"`
	}
	bad := func(format string, args ...any) BatchEvent {
		r := rejectf(CodeMalformed, format, args...)
		if ValidID(e.ID) {
			r.ID = e.ID
		}
		// Record the session of this invalid element, so that later proposals of the session can be held.
		if _, r.Session = peek(v); len(e.Data) > 0 {
			_, r.Session = peek(e.Data)
		}
		return BatchEvent{ID: e.ID, Data: v, Bad: r}
	}
	if err := UnmarshalExact(v, &e); err != nil {
		return bad("the element of the batch is not a CloudEvent: %s", DescribeJSON(err))
	}
	data := []byte(e.Data)
	switch {
	case e.SpecVersion != "1.0":
		return bad("specversion is %q, want \"1.0\"", clip(e.SpecVersion))
	case e.ID == "":
		return bad("the event has no id")
	case e.ContentType != "" && !strings.EqualFold(e.ContentType, "application/json"):
		return bad("datacontenttype is %q, want \"application/json\"", clip(e.ContentType))
	case len(e.Data) > 0 && len(e.Base64) > 0:
		return bad("the event has both data and data_base64")
	case len(e.Base64) > 0:
		data = e.Base64
	case len(e.Data) == 0:
		return bad("the event has no data")
	}
	return BatchEvent{ID: e.ID, Data: data}
}

// MarshalBatch writes events as one batch. Every event must have its id set.
func MarshalBatch(events []Event) ([]byte, error) {
	type cloudEvent struct {
		SpecVersion string `json:"specversion"`
		ID          string `json:"id"`
		Source      string `json:"source"`
		Type        string `json:"type"`
		Data        Event  `json:"data"`
	}
	out := make([]cloudEvent, len(events))
	for i, e := range events {
		out[i] = cloudEvent{"1.0", HeadOf(e).ID, "lazaret", "lazaret.event", e}
	}
	return Marshal(out)
}
