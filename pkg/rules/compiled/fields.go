package compiled

import (
	"reflect"
	"slices"
	"sort"
	"strings"
)

// Field describes one name that expressions may use.
type Field struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Doc  string `json:"doc,omitempty"`
}

// Fields lists the names that every expression may use, with their types. The list is made from the Go types.
func Fields() []Field {
	var out []Field
	for _, v := range BaseVars().List {
		out = append(out, Field{v.Name, TypeName(v.GoType), v.Doc})
	}
	for _, t := range nativeTypes() {
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() {
				continue
			}
			out = append(out,
				Field{"<" + strings.ToLower(t.Name()) + ">." + f.Tag.Get("cel"), TypeName(f.Type), f.Tag.Get("doc")})
		}
	}
	return append(out, Field{"lists.<name>", "list(string)", "a list of the rule's own pack, or of common.yaml"},
		Field{"macros.<name>", "dyn", "an expression by name, of the rule's own pack or of common.yaml"},
		Field{"signal.<name>", "int or list(string)", "a signal that a pack declares"},
		Field{"it", "dyn", "the element of for_each"})
}

// Functions lists the functions that expressions may call, without CEL's operators.
func Functions() []string {
	env, err := BaseEnv()
	if err != nil {
		return nil
	}
	var out []string
	for name := range env.Functions() {
		if c := name[0]; c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			out = append(out, name)
		}
	}
	sort.Strings(out)
	return slices.Compact(out)
}

// TypeName returns the name of a type as it is shown to people.
func TypeName(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.Pointer:
		return strings.ToLower(t.Elem().Name())
	case t.Kind() == reflect.Slice:
		return "list(" + TypeName(t.Elem()) + ")"
	case t.Kind() == reflect.Map:
		return "map(string, dyn)"
	case t.Name() == "Time":
		return "timestamp"
	case t.Kind() == reflect.Int64:
		return "int"
	case t.Kind() == reflect.Float64:
		return "double"
	}
	return strings.ToLower(t.Kind().String())
}
