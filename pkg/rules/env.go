package rules

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/ext"
)

const (
	// CostLimit is what one expression may cost, in CEL's units: about one per
	// operation, and one per ten bytes of text looked at.
	CostLimit = 2_000_000
	// maxExpr is the longest expression, in bytes.
	maxExpr = 8 << 10
)

// wants says which signals an expression reads, so that others are not
// computed.
type wants uint8

const (
	wantServes wants = 1 << iota
	wantSequence
	wantWrites
)

// environment is the typed environment of all expressions.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	obj := func(v any) *cel.Type { return cel.ObjectType("rules." + reflect.TypeOf(v).Name()) }
	return cel.NewEnv(
		ext.NativeTypes(ext.ParseStructTag("cel"), reflect.TypeFor[Event](), reflect.TypeFor[Content](), reflect.TypeFor[Memory](),
			reflect.TypeFor[Decision](), reflect.TypeFor[Action](), reflect.TypeFor[Recall](), reflect.TypeFor[Signal](),
			reflect.TypeFor[Belief](), reflect.TypeFor[Served]()),
		cel.Variable("event", obj(Event{})),
		cel.Variable("content", obj(Content{})),
		cel.Variable("memory", obj(Memory{})),
		cel.Variable("decision", obj(Decision{})),
		cel.Variable("action", obj(Action{})),
		cel.Variable("recall", obj(Recall{})),
		cel.Variable("signal", obj(Signal{})),
		cel.Variable("lists", cel.MapType(cel.StringType, cel.ListType(cel.StringType))),
		cel.Variable("it", cel.DynType),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(maxExpr),
		ext.Strings(), ext.Lists(), ext.Math(), ext.Sets(),
	)
})

// program compiles an expression. Its error shows the place with a caret.
func program(env *cel.Env, src string, want *cel.Type) (cel.Program, wants, error) {
	a, iss := env.Compile(src)
	if iss.Err() != nil {
		return nil, 0, celError(src, iss)
	}
	if !want.IsAssignableType(a.OutputType()) && a.OutputType().Kind() != cel.DynKind {
		return nil, 0, fmt.Errorf("the expression is a %s, want a %s", a.OutputType(), want)
	}
	p, err := env.Program(a, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(CostLimit), cel.InterruptCheckFrequency(1000))
	if err != nil {
		return nil, 0, err
	}
	return p, signals(a), nil
}

// celError puts a caret under the place in the expression.
func celError(src string, iss *cel.Issues) error {
	var b strings.Builder
	for i, e := range iss.Errors() {
		if i > 0 {
			b.WriteString("; ")
		}
		line, col := e.Location.Line(), e.Location.Column()
		lines := strings.Split(src, "\n")
		fmt.Fprintf(&b, "%s", e.Message)
		if line >= 1 && line <= len(lines) {
			fmt.Fprintf(&b, "\n    %s\n    %s^", lines[line-1], strings.Repeat(" ", max(col, 0)))
		}
	}
	return errors.New(b.String())
}

// signals finds which signals an expression reads.
func signals(a *cel.Ast) (w wants) {
	nav := ast.NavigateAST(a.NativeRep())
	for _, e := range ast.MatchDescendants(nav, ast.KindMatcher(ast.SelectKind)) {
		sel := e.AsSelect()
		op := sel.Operand()
		if op.Kind() != ast.IdentKind || op.AsIdent() != "signal" {
			continue
		}
		switch sel.FieldName() {
		case "serves":
			w |= wantServes
		case "sequence":
			w |= wantSequence
		case "writes_1m":
			w |= wantWrites
		}
	}
	return w
}

// Field is one name that expressions may use.
type Field struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Doc  string `json:"doc,omitempty"`
}

// Fields lists the environment, generated from the types behind it.
func Fields() []Field {
	var out []Field
	walk := func(prefix string, t reflect.Type) {
		for i := range t.NumField() {
			f := t.Field(i)
			name := f.Tag.Get("cel")
			if name == "" {
				continue
			}
			out = append(out, Field{prefix + name, typeName(f.Type), f.Tag.Get("doc")})
		}
	}
	in := reflect.TypeFor[Input]()
	for i := range in.NumField() {
		f := in.Field(i)
		if f.IsExported() {
			walk(strings.ToLower(f.Name)+".", f.Type.Elem())
		}
	}
	walk("<belief>.", reflect.TypeFor[Belief]())
	walk("<served>.", reflect.TypeFor[Served]())
	return append(out, Field{"lists.<name>", "list(string)", "a list of the rule's own pack"}, Field{"it", "dyn", "the element of for_each"})
}

func typeName(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.Pointer:
		return strings.ToLower(t.Elem().Name())
	case t.Kind() == reflect.Slice:
		return "list(" + typeName(t.Elem()) + ")"
	case t.Kind() == reflect.Map:
		return "map(string, dyn)"
	case t.Name() == "Time":
		return "timestamp"
	case t.Kind() == reflect.Int64:
		return "int"
	case t.Kind() == reflect.Float64:
		return "double"
	}
	return t.Kind().String()
}
