package cli

import (
	"encoding"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/pflag"

	"lazaret/pkg/text"
	"lazaret/streams"
)

// ListFlags are flags of list commands. Bind adds --json and --where. A command with --since adds that flag itself, for
// the field Since; 0 means no limit.
type ListFlags struct {
	JSON  bool
	Where string
	Since time.Duration
}

// Bind adds the flags to a command.
func (f *ListFlags) Bind(fs *pflag.FlagSet) {
	fs.BoolVar(&f.JSON, "json", false, "print JSON")
	fs.StringVar(&f.Where, "where", "", "only items for which this `EXPRESSION` over their JSON fields is true, in "+
		"the language Expr (expr-lang.org)")
}

// Filter selects items by an Expr expression over their JSON form.
type Filter struct {
	program *vm.Program
	machine vm.VM
	names   map[string]bool // names of the fields that the expression uses
}

// NewFilter compiles an expression over the JSON fields of sample's type. An empty expression matches
// everything. A name that the type does not have is an error.
func NewFilter(where string, sample any) (*Filter, error) {
	if where == "" {
		return &Filter{}, nil
	}
	env := fields(reflect.TypeOf(sample))
	p, err := expr.Compile(where, expr.Env(env), expr.AsBool())
	if err != nil {
		return nil, fmt.Errorf("--where: %w", named(err, env))
	}
	f := &Filter{program: p, names: make(map[string]bool)}
	node := p.Node()
	ast.Walk(&node, f)
	return f, nil
}

// Visit implements ast.Visitor.
func (f *Filter) Visit(node *ast.Node) {
	if n, ok := (*node).(*ast.IdentifierNode); ok {
		f.names[n.Value] = true
	}
}

// Names reports whether the expression uses a field.
func (f *Filter) Names(field string) bool { return f.names[field] }

// named adds the list of known names to an error about an unknown name. Other errors stay unchanged.
func named(err error, env map[string]any) error {
	if !strings.Contains(err.Error(), "unknown name") {
		return err
	}
	return fmt.Errorf("%w\nthe names are %s", err, strings.Join(slices.Sorted(maps.Keys(env)), ", "))
}

// fields returns the JSON names of a struct's fields with zero values, from which Expr infers their
// types.
func fields(t reflect.Type) map[string]any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	env := make(map[string]any)
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous && f.Tag.Get("json") == "" {
			maps.Copy(env, fields(f.Type))
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" || !f.IsExported() {
			continue
		}
		env[name] = zero(f.Type)
	}
	return env
}

func zero(t reflect.Type) any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Implements(textMarshaler) || reflect.PointerTo(t).Implements(textMarshaler) {
		if t.Kind() == reflect.Uint8 { // an enumeration: JSON may omit its zero value, which has a name
			if m, ok := reflect.Zero(t).Interface().(encoding.TextMarshaler); ok {
				if b, err := m.MarshalText(); err == nil {
					return string(b)
				}
			}
		}
		return ""
	}
	switch t.Kind() {
	case reflect.String:
		return ""
	case reflect.Bool:
		return false
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return 0.0
	case reflect.Slice:
		return []any{}
	case reflect.Struct:
		return fields(t)
	}
	return map[string]any{}
}

var textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()

// Match reports whether the expression is true for an item. It must not be called concurrently.
func (f *Filter) Match(item any) (bool, error) {
	if f.program == nil {
		return true, nil
	}
	b, err := streams.Marshal(item)
	if err != nil {
		return false, err
	}
	env := fields(reflect.TypeOf(item))
	if err := streams.Unmarshal(b, &env); err != nil {
		return false, err
	}
	return f.MatchFields(env)
}

// MatchFields is Match for the JSON form of an item, which must have every field that the expression
// uses. It must not be called concurrently.
func (f *Filter) MatchFields(env map[string]any) (bool, error) {
	if f.program == nil {
		return true, nil
	}
	v, err := f.machine.Run(f.program, env)
	if err != nil {
		return false, fmt.Errorf("--where: %w", err)
	}
	ok, _ := v.(bool)
	return ok, nil
}

// Print prints the items that match the filter, as a table or as a JSON array. row returns an item's
// cells, which Print makes inert.
func Print[T any](w io.Writer, f ListFlags, items []T, header []string, row func(T) []string) error {
	var sample T
	filter, err := NewFilter(f.Where, sample)
	if err != nil {
		return err
	}
	kept := make([]T, 0, len(items))
	for _, it := range items {
		ok, err := filter.Match(it)
		if err != nil {
			return err
		}
		if ok {
			kept = append(kept, it)
		}
	}
	if f.JSON {
		return JSON(w, kept)
	}
	if len(kept) == 0 {
		fmt.Fprintln(w, "none")
		return nil
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.Join(header, "\t"))
	for _, it := range kept {
		fmt.Fprintln(tw, strings.Join(Cells(row(it)), "\t"))
	}
	return tw.Flush()
}

// cellLen is the maximum number of characters in a cell of a table.
const cellLen = 100

// Cells makes the given cells inert: one line of at most cellLen characters, without control and bidi characters.
func Cells(cells []string) []string {
	for i, c := range cells {
		cells[i] = text.InertLine(c, cellLen)
	}
	return cells
}

// JSON prints a value as indented JSON. It escapes control and bidi characters in strings, so that a
// terminal cannot act on them.
func JSON(w io.Writer, v any) error {
	b, err := streams.Marshal(v)
	if err != nil {
		return err
	}
	val := jsontext.Value(b)
	if err := val.Indent(jsontext.WithIndent("  ")); err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, EscapeJSON(string(val)))
	return err
}

// EscapeJSON escapes the characters in JSON text that a terminal would act on. Apart from white space
// between tokens, they occur only inside strings.
func EscapeJSON(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r == '\n' || r >= 0x20 && r < 0x7f {
			b.WriteRune(r)
			continue
		}
		if text.Inert(string(r)) == string(r) {
			b.WriteRune(r)
			continue
		}
		if r > 0xffff {
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.String()
}
