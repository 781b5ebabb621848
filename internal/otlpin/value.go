package otlpin

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"

	"lazaret/streams"
)

// maxDepth is the maximum nesting depth of a value.
const maxDepth = 64

var errValue = errors.New("the value is not JSON")

// text returns a string attribute, or "" for other attributes.
func (s *span) text(name string) string { return s.attrs[name].GetStringValue() }

// content returns a value as text: strings unchanged, other values as JSON.
func content(v *commonpb.AnyValue) (string, error) {
	if v == nil {
		return "", nil
	}
	if s, ok := v.Value.(*commonpb.AnyValue_StringValue); ok {
		return s.StringValue, nil
	}
	b, err := appendJSON(nil, v, 0)
	return string(b), err
}

// structured returns a value as JSON. If the value is a string that contains JSON, structured returns the contained
// JSON.
func structured(v *commonpb.AnyValue) (jsontext.Value, error) {
	text, err := content(v)
	if err != nil || text == "" {
		return nil, err
	}
	if b := jsontext.Value(text); b.IsValid() {
		return b, nil
	}
	return streams.Marshal(text)
}

// arguments returns the arguments of a call as an object. If the value is not an object, it becomes a member of one.
func arguments(v *commonpb.AnyValue) (jsontext.Value, error) {
	b, err := structured(v)
	if err != nil || len(b) == 0 || b.Kind() == '{' {
		return b, err
	}
	return append(append(jsontext.Value(`{"arguments":`), b...), '}'), nil
}

// words returns a JSON value as text: strings unchanged, other values as JSON.
func words(v jsontext.Value) string {
	var s string
	if streams.Unmarshal(v, &s) == nil {
		return s
	}
	return string(v)
}

func appendJSON(b []byte, v *commonpb.AnyValue, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, errValue
	}
	var err error
	switch x := v.GetValue().(type) {
	case nil:
		return append(b, "null"...), nil
	case *commonpb.AnyValue_StringValue:
		return jsontext.AppendQuote(b, x.StringValue)
	case *commonpb.AnyValue_BoolValue:
		return strconv.AppendBool(b, x.BoolValue), nil
	case *commonpb.AnyValue_IntValue:
		return strconv.AppendInt(b, x.IntValue, 10), nil
	case *commonpb.AnyValue_DoubleValue:
		if math.IsNaN(x.DoubleValue) || math.IsInf(x.DoubleValue, 0) {
			return nil, errValue
		}
		n, err := json.Marshal(x.DoubleValue)
		return append(b, n...), err
	case *commonpb.AnyValue_BytesValue:
		n, err := json.Marshal(x.BytesValue)
		return append(b, n...), err
	case *commonpb.AnyValue_ArrayValue:
		b = append(b, '[')
		for i, e := range x.ArrayValue.GetValues() {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendJSON(b, e, depth+1); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case *commonpb.AnyValue_KvlistValue:
		b = append(b, '{')
		for i, kv := range x.KvlistValue.GetValues() {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = jsontext.AppendQuote(b, kv.GetKey()); err != nil {
				return nil, err
			}
			if b, err = appendJSON(append(b, ':'), kv.GetValue(), depth+1); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	}
	return nil, errValue
}
