package streams

import (
	"embed"
	"fmt"
	"reflect"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	"lazaret/pkg/beliefs"
)

// schemaFiles are generated from the Go types by `go generate ./streams`; a
// test keeps them fresh.
//
//go:generate go test -run TestGeneratedFilesAreFresh -update .
//go:embed schemas/*.json
var schemaFiles embed.FS

// SchemaJSON is the JSON Schema of a kind's events, as published.
func SchemaJSON(k Kind) ([]byte, error) {
	return schemaFiles.ReadFile("schemas/" + string(k) + ".json")
}

// names of enumerations whose values travel as text.
func enumSchema[T interface {
	~uint8
	String() string
	MarshalText() ([]byte, error)
}]() (reflect.Type, *jsonschema.Schema) {
	s := &jsonschema.Schema{Type: "string"}
	for i := range 256 {
		b, err := T(i).MarshalText()
		if err != nil {
			break
		}
		s.Enum = append(s.Enum, string(b))
	}
	return reflect.TypeFor[T](), s
}

// Schema builds the JSON Schema of a kind's events from its Go type. Unknown
// fields are tolerated, as ParseEvent tolerates them.
func Schema(k Kind) (*jsonschema.Schema, error) {
	e := newEvent(k)
	if e == nil {
		return nil, fmt.Errorf("unknown event kind %q", k)
	}
	types := map[reflect.Type]*jsonschema.Schema{reflect.TypeFor[jsontext.Value](): {}}
	for _, add := range []func() (reflect.Type, *jsonschema.Schema){enumSchema[beliefs.Level], enumSchema[beliefs.BlastRadius],
		enumSchema[beliefs.Reversibility], enumSchema[beliefs.Sensitivity]} {
		t, s := add()
		types[t] = s
	}
	s, err := jsonschema.ForType(reflect.TypeOf(e).Elem(), &jsonschema.ForOptions{TypeSchemas: types})
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", k, err)
	}
	open(s)
	// A body may leave its id to the header ce-id, so nothing but what each
	// kind cannot do without is required.
	s.Required = map[Kind][]string{KindMem: {"content"}, KindTools: {"tools"}, KindSession: {"session", "phase"}, KindAct: {"tool"}}[k]
	if id := s.Properties["id"]; id != nil {
		id.Pattern = fmt.Sprintf(`^[A-Za-z0-9_-]{1,%d}$`, MaxIDLen)
	}
	if ses := s.Properties["session"]; ses != nil {
		ses.Pattern = fmt.Sprintf(`^[A-Za-z0-9_-]{1,%d}$`, MaxIDLen)
	}
	// What only JetStream's own acknowledgements hold is no field of ours.
	delete(s.Properties, "stream")
	delete(s.Properties, "seq")
	s.Schema = "https://json-schema.org/draft/2020-12/schema"
	s.Title = "lazaret " + string(k) + " event"
	return s, nil
}

// open lets unknown fields through, at every depth.
func open(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	s.AdditionalProperties = nil
	if len(s.Types) == 2 && s.Types[0] == "null" {
		s.Type, s.Types = s.Types[1], nil
	}
	for _, p := range s.Properties {
		open(p)
	}
	if s.Items != nil {
		open(s.Items)
	}
}
