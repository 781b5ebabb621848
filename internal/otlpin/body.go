package otlpin

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Media types of OTLP over HTTP.
const (
	TypeProtobuf = "application/x-protobuf"
	TypeJSON     = "application/json"
)

// Decode reads the body of a request.
func Decode(kind string, body []byte) (*collector.ExportTraceServiceRequest, error) {
	req := new(collector.ExportTraceServiceRequest)
	if kind == TypeProtobuf {
		return req, proto.Unmarshal(body, req)
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, req); err != nil {
		return nil, err
	}
	for _, rs := range req.ResourceSpans {
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				for _, id := range []*[]byte{&s.TraceId, &s.SpanId, &s.ParentSpanId} {
					if err := fromHex(id); err != nil {
						return nil, err
					}
				}
			}
		}
	}
	return req, nil
}

// fromHex corrects an id. OTLP JSON has ids in hex, but protojson decodes them as base64.
func fromHex(id *[]byte) error {
	text := base64.StdEncoding.EncodeToString(*id)
	b, err := hex.DecodeString(text)
	if err != nil {
		return fmt.Errorf("the id of a trace or span is not in hex: %w", err)
	}
	*id = b
	return nil
}

// Answer returns the body of the response to a request. The sender must not repeat the rejected spans.
func Answer(kind string, rejected int, message string) ([]byte, error) {
	res := new(collector.ExportTraceServiceResponse)
	if rejected > 0 || message != "" {
		res.PartialSuccess = &collector.ExportTracePartialSuccess{RejectedSpans: int64(rejected), ErrorMessage: message}
	}
	if kind == TypeProtobuf {
		return proto.Marshal(res)
	}
	return protojson.Marshal(res)
}
