package gateway

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"lazaret/internal/otlpin"
	"lazaret/streams"
)

// openAPI returns the document at /v1/openapi.json. It is built from the Go types on first use.
var openAPI = sync.OnceValues(func() ([]byte, error) {
	doc, err := document()
	if err != nil {
		return nil, err
	}
	return streams.Marshal(doc)
})

type object = map[string]any

// document builds the OpenAPI 3.1 document from the table of endpoints and their Go
// types.
func document() (object, error) {
	schemas := object{}
	add := func(t reflect.Type) (object, error) {
		if schemas[t.Name()] == nil {
			s, err := schemaOf(t)
			if err != nil {
				return nil, fmt.Errorf("schema of %s: %w", t, err)
			}
			schemas[t.Name()] = s
		}
		return object{"$ref": "#/components/schemas/" + t.Name()}, nil
	}
	refused, err := add(reflect.TypeFor[Problem]())
	if err != nil {
		return nil, err
	}
	event, err := add(reflect.TypeFor[CloudEvent]())
	if err != nil {
		return nil, err
	}
	if _, err := add(reflect.TypeFor[Batch]()); err != nil {
		return nil, err
	}
	paths := object{}
	for _, e := range endpoints {
		op := object{"summary": e.Summary, "operationId": operationID(&e), "parameters": e.parameters()}
		ok := object{"description": "the events, until the client ends",
			"content": object{"text/event-stream": object{"schema": object{"type": "string"}}}}
		if e.Reply != nil {
			ref, err := add(e.Reply)
			if err != nil {
				return nil, err
			}
			if e.Path == "/v1/observe" {
				ref = object{"anyOf": []any{object{"$ref": "#/components/schemas/Batch"}, ref}}
			}
			ok = object{"description": "the answer, read back from the ledger",
				"content": object{"application/json": object{"schema": ref}}}
		}
		if e.OTLP {
			ok = object{"description": "an ExportTraceServiceResponse of OTLP", "content": otlp()}
			op["requestBody"] = object{"required": true, "content": otlp()}
		}
		op["responses"] = object{"200": ok, "default": object{"description": "no answer: treat it as hold",
			"content": object{"application/problem+json": object{"schema": refused}}}}
		if e.Request != nil {
			ref, err := add(e.Request)
			if err != nil {
				return nil, err
			}
			content := object{"application/json": object{"schema": ref}}
			if e.Path == "/v1/observe" {
				content[typeEvent] = object{"schema": event}
				content[typeBatch] = object{"schema": object{"type": "array", "items": event, "minItems": 1, "maxItems": MaxEvents}}
			}
			op["requestBody"] = object{"required": true, "content": content}
		}
		at, _ := paths[e.Path].(object)
		if at == nil {
			at = object{}
		}
		at[strings.ToLower(e.Method)] = op
		paths[e.Path] = at
	}
	return object{
		"openapi": "3.1.0",
		"info": object{"title": "Lazaret", "version": "1", "license": object{"name": "Apache-2.0",
			"identifier": "Apache-2.0"},
			"description": "Every answer that is no verdict is a hold: an error, a time-out, a lost connection. Ask again " +
				"with the same id and the same body."},
		"servers":  []any{object{"url": "http://" + DefaultListen}},
		"security": []any{object{"token": []any{}}},
		"paths":    paths,
		"components": object{"schemas": schemas,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer",
				"description": "lazaret agent token new PROJECT AGENT"}}},
	}, nil
}

// otlp describes the bodies of an OTLP request or reply by media type.
func otlp() object {
	return object{otlpin.TypeProtobuf: object{}, otlpin.TypeJSON: object{"schema": object{"type": "object"}}}
}

// operationID returns the operationId of an endpoint.
func operationID(e *endpoint) string {
	name := strings.TrimPrefix(e.Path, "/v1/")
	if before, ok := strings.CutSuffix(name, "s/{id}"); ok {
		return before
	}
	if before, ok := strings.CutSuffix(name, "s/{host}"); ok {
		return before
	}
	if e.feed != nil {
		return "listen_" + name
	}
	return name
}

func (e *endpoint) parameters() []any {
	out := []any{}
	if _, rest, ok := strings.Cut(e.Path, "{"); ok {
		out = append(out, object{"name": strings.TrimSuffix(rest, "}"), "in": "path", "required": true,
			"schema": object{"type": "string"}})
	}
	for _, p := range e.Query {
		out = append(out, object{"name": p.Name, "in": "query", "description": p.Text, "schema": object{"type": "string"}})
	}
	if e.Method == "POST" {
		out = append(out, object{"name": streams.HeaderTraceparent, "in": "header", "description": "W3C Trace Context",
			"schema": object{"type": "string"}})
	}
	return out
}

// required lists the required fields of the schemas that have some.
var required = map[string][]string{
	"RememberRequest": {"content"}, "Action": {"tool"}, "Outcome": {"status"}, "Session": {"session", "phase"},
	"Tools": {"tools"}, "CloudEvent": {"specversion", "id", "source", "type"}, "Accepted": {"id", "intake_seq"},
	"Batch": {"events"}, "Problem": {"type", "title", "status", "code", "verdict"}, "Reply": {"verdict"},
	"HookEvent": {"hook_event_name"}, "MemoryToolRequest": {"command"}, "MemoryToolResult": {"content"},
}

func schemaOf(t reflect.Type) (*jsonschema.Schema, error) {
	s, err := streams.SchemaOf(t)
	if err != nil {
		return nil, err
	}
	s.Required = required[t.Name()]
	if id := s.Properties["id"]; id != nil {
		id.Pattern = fmt.Sprintf(`^[A-Za-z0-9_-]{0,%d}$`, streams.MaxIDLen)
	}
	// Stream and seq occur only in JetStream acknowledgments, not in requests.
	maps.DeleteFunc(s.Properties, func(name string, _ *jsonschema.Schema) bool {
		return name == "stream" || name == "seq"
	})
	return s, nil
}
