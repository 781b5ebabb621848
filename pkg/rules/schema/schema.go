package schema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/rules"
	"lazaret/pkg/rules/ruletest"
	"lazaret/pkg/signals"
	"lazaret/streams"
)

// A test writes the schemas in rules/schema and checks that they are up to date.
//go:generate go test -run TestSchemasAreCurrent -update .

// Schemas returns a JSON Schema (draft 2020-12) for each kind of file in a rule set: rules, pack, common, groups,
// exceptions and test. To use one in an editor, begin a file with
//
//	# yaml-language-server: $schema=…/rules/schema/rules.json
//
// The schemas describe the form of a file. They do not describe the meaning of expressions and the references between
// files; package lint checks these.
func Schemas() map[string][]byte {
	out := make(map[string][]byte)
	for name, of := range map[string]struct {
		title string
		t     reflect.Type
	}{
		"rules":      {"Rules of a pack", reflect.TypeFor[rules.FileDoc]()},
		"pack":       {"pack.yaml: a pack of rules, and the names that it gives", reflect.TypeFor[rules.PackDoc]()},
		"common":     {"common.yaml: names for every pack", reflect.TypeFor[rules.PackDoc]()},
		"groups":     {"groups.yaml: the packs of each sentinel group", reflect.TypeFor[rules.GroupsDoc]()},
		"exceptions": {"exceptions.yaml: where rules do not apply", reflect.TypeFor[rules.ExceptionsDoc]()},
		"test":       {"*.test.yaml: tests of a pack", reflect.TypeFor[ruletest.TestDoc]()},
	} {
		s := schemaOf(of.t)
		if name == "common" {
			for _, k := range []string{"name", "title", "description"} {
				delete(s.Properties, k)
			}
			s.Required = nil
			s.PropertyOrder = nil
		}
		s.Schema = "https://json-schema.org/draft/2020-12/schema"
		s.Title = "Lazaret: " + of.title
		b, err := json.MarshalIndent(s, "", "  ")
		if err != nil {
			// Cannot happen for the types of this program; a test checks that.
			panic(fmt.Sprintf("schema %s: %v", name, err))
		}
		out[name] = append(b, '\n')
	}
	return out
}

// NameFor returns the name of the schema for a file in a rule set.
func NameFor(file string) string {
	switch base := file[strings.LastIndexByte(file, '/')+1:]; {
	case strings.HasSuffix(base, ".test.yaml"):
		return "test"
	case base == "pack.yaml":
		return "pack"
	case file == rules.CommonFile, file == rules.ExceptionsFile, file == "groups.yaml":
		return strings.TrimSuffix(file, ".yaml")
	}
	return "rules"
}

const (
	idPattern       = `^[A-Za-z0-9_-]{1,64}$`
	namePattern     = `^[a-z_][a-z0-9_]{0,63}$`
	durationPattern = `^\+?` + oneDuration + `(` + oneDuration + `)*$`
	oneDuration     = `([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)`
	datePattern     = `^[0-9]{4}-[0-9]{2}-[0-9]{2}`
)

// schemaOf returns the schema of a type. It uses the YAML names of the type's fields, their `doc` tags and their `is`
// tags.
func schemaOf(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[ruletest.Wants]():
		n := &jsonschema.Schema{Type: "integer"}
		restrict(n, "natural")
		w := schemaOf(t.Elem())
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{n, w, {Type: "array", Items: schemaOf(t.Elem())}}}
	case reflect.TypeFor[ruletest.Verdicts]():
		v := jsonschema.Schema{Type: "string", Enum: texts[streams.Verdict]()}
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{&v, {Type: "array", Items: v.CloneSchemas()}}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Slice:
		return &jsonschema.Schema{Type: "array", Items: schemaOf(t.Elem())}
	case reflect.Map:
		return &jsonschema.Schema{Type: "object", AdditionalProperties: schemaOf(t.Elem())}
	case reflect.Interface:
		return &jsonschema.Schema{}
	case reflect.Bool:
		return &jsonschema.Schema{Type: "boolean"}
	case reflect.Int, reflect.Uint64:
		return &jsonschema.Schema{Type: "integer"}
	case reflect.Float64:
		return &jsonschema.Schema{Type: "number"}
	case reflect.String:
		return &jsonschema.Schema{Type: "string"}
	}
	s := &jsonschema.Schema{
		Type:                 "object",
		Properties:           make(map[string]*jsonschema.Schema),
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
	for f := range t.Fields() {
		if !f.IsExported() {
			continue
		}
		name, opts, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if opts == "inline" {
			in := schemaOf(f.Type)
			for _, k := range in.PropertyOrder {
				s.Properties[k] = in.Properties[k]
			}
			s.PropertyOrder = append(s.PropertyOrder, in.PropertyOrder...)
			s.Required = append(s.Required, in.Required...)
			continue
		}
		p := schemaOf(f.Type)
		p.Description = f.Tag.Get("doc")
		for is := range strings.SplitSeq(f.Tag.Get("is"), ",") {
			switch {
			case is == "required":
				s.Required = append(s.Required, name)
			case is != "":
				restrict(p, is)
			}
		}
		s.Properties[name] = p
		s.PropertyOrder = append(s.PropertyOrder, name)
	}
	switch t {
	case reflect.TypeFor[rules.SignalDoc]():
		s.OneOf = oneOf("count", "distinct", "sequence")
	case reflect.TypeFor[ruletest.TestEvent]():
		s.OneOf = oneOf("observation", "memory", "recall", "tools", "phase", "decision", "action", "outcome")
	case reflect.TypeFor[rules.RuleDoc]():
		// A rule with another effect than alert must have `on_error`.
		alert := any("alert")
		s.If = &jsonschema.Schema{
			Properties: map[string]*jsonschema.Schema{"effect": {Not: &jsonschema.Schema{Const: &alert}}},
			Required:   []string{"effect"},
		}
		s.Then = &jsonschema.Schema{Required: []string{"on_error"}}
	}
	return s
}

func oneOf(names ...string) (out []*jsonschema.Schema) {
	for _, n := range names {
		out = append(out, &jsonschema.Schema{Required: []string{n}})
	}
	return out
}

// restrict adds to a schema the restriction that an `is` tag names.
func restrict(s *jsonschema.Schema, is string) {
	switch is {
	case "some":
		s.MinItems = jsonschema.Ptr(1)
		return
	case "steps":
		s.MinItems, s.MaxItems = jsonschema.Ptr(2), jsonschema.Ptr(signals.MaxSteps)
		return
	case "names":
		s.PropertyNames = &jsonschema.Schema{Pattern: namePattern}
		return
	case "ids":
		s.PropertyNames = &jsonschema.Schema{Pattern: idPattern}
		return
	}
	for s.Items != nil || s.Type == "object" && s.AdditionalProperties != nil {
		if s.Items != nil {
			s = s.Items
		} else {
			s = s.AdditionalProperties
		}
	}
	least := func(low float64, high ...float64) {
		s.Minimum = &low
		if high != nil {
			s.Maximum = &high[0]
		}
	}
	switch is {
	case "severity":
		s.Enum = enum(rules.Severities)
	case "status":
		s.Enum = enum(rules.Statuses)
	case "mode":
		s.Enum = enum(rules.Modes)
	case "effect":
		s.Enum = enum(rules.Effects)
	case "subject":
		s.Enum = enum(rules.Subjects)
	case "kind":
		s.Enum = enum(rules.Kinds)
	case "origin":
		s.Enum = enum(beliefs.Origins())
	case "truth":
		s.Enum = texts[beliefs.Truth]()
	case "quality":
		s.Enum = texts[beliefs.Quality]()
	case "phase":
		s.Enum = enum([]string{"start", "end"})
	case "id":
		s.Pattern = idPattern
	case "tag":
		s.Pattern = `^((owasp|atlas|arxiv)\.|cwe-)`
	case "duration":
		s.Pattern = durationPattern
	case "date":
		s.Pattern = datePattern
	case "count":
		least(1, rules.MaxCount)
	case "natural":
		least(0)
	case "level":
		least(0, float64(beliefs.L5))
	case "share":
		least(0, 1)
	default:
		panic("rules: no such restriction: " + is) // cannot happen for the tags of this program; a test checks that
	}
}

func enum[T ~string](of []T) (out []any) {
	for _, w := range of {
		out = append(out, string(w))
	}
	return out
}

// texts returns the texts of all values of an enumeration.
func texts[T interface {
	~uint8
	encoding.TextMarshaler
}]() (out []any) {
	for i := range 256 {
		b, err := T(i).MarshalText()
		if err != nil {
			break
		}
		out = append(out, string(b))
	}
	return slices.Clip(out)
}
