package streams

import (
	"encoding"
	"fmt"
	"reflect"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	"lazaret/pkg/beliefs"
)

// The files in schemas are generated from the Go types. A test checks that they are up to date.
//
//go:generate go test -run TestGeneratedFilesAreFresh -update .

// SchemaOf returns the JSON Schema of a type of this package, or of a type that consists of such
// types. The schema allows unknown fields.
func SchemaOf(t reflect.Type) (*jsonschema.Schema, error) {
	types := map[reflect.Type]*jsonschema.Schema{reflect.TypeFor[jsontext.Value](): {}}
	enums(t, types, make(map[reflect.Type]bool))
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: types})
	if err != nil {
		return nil, err
	}
	open(s)
	if t == reflect.TypeFor[Outcome]() {
		for _, status := range beliefs.OutcomeStatuses {
			s.Properties["status"].Enum = append(s.Properties["status"].Enum, status)
		}
	}
	return s, nil
}

// enums adds the schema of each enumeration type in t to found. Enumerations are encoded as text.
func enums(t reflect.Type, found map[reflect.Type]*jsonschema.Schema, seen map[reflect.Type]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		enums(t.Elem(), found, seen)
	case reflect.Struct:
		for i := range t.NumField() {
			enums(t.Field(i).Type, found, seen)
		}
	case reflect.Uint8:
		if !t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
			return
		}
		s := &jsonschema.Schema{Type: "string"}
		for i := range 256 {
			v := reflect.New(t).Elem()
			v.SetUint(uint64(i))
			b, err := v.Interface().(encoding.TextMarshaler).MarshalText()
			if err != nil {
				break
			}
			s.Enum = append(s.Enum, string(b))
		}
		found[t] = s
	}
}

// Schema returns the JSON Schema of events of kind k, made from the Go type. Like ParseEvent, it
// allows unknown fields.
func Schema(k Kind) (*jsonschema.Schema, error) {
	e := newEvent(k)
	if e == nil {
		return nil, fmt.Errorf("unknown event kind %q", k)
	}
	s, err := SchemaOf(reflect.TypeOf(e).Elem())
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", k, err)
	}
	// The id is not required, because the header ce-id may have it instead. Require only the fields that the event's
	// kind requires.
	s.Required = k.About().Required
	if id := s.Properties["id"]; id != nil {
		id.Pattern = fmt.Sprintf(`^[A-Za-z0-9_-]{1,%d}$`, MaxIDLen)
	}
	if ses := s.Properties["session"]; ses != nil {
		ses.Pattern = fmt.Sprintf(`^[A-Za-z0-9_-]{1,%d}$`, MaxIDLen)
	}
	// Remove stream and seq. They are fields of JetStream acknowledgements, not of events.
	delete(s.Properties, "stream")
	delete(s.Properties, "seq")
	s.Schema = "https://json-schema.org/draft/2020-12/schema"
	s.Title = "lazaret " + string(k) + " event"
	return s, nil
}

// open changes a schema so that it allows unknown fields in all nested objects.
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
