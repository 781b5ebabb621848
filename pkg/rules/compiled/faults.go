package compiled

import (
	"fmt"
	"regexp"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
)

// costError returns the error that an expression is too expensive. It marks the most expensive loop with a caret.
func costError(src string, a *cel.Ast, c uint64) error {
	rep := a.NativeRep()
	var place int64
	ast.PostOrderVisit(rep.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.ComprehensionKind {
			place = e.AsComprehension().IterRange().ID()
		}
	}))
	loc := rep.SourceInfo().GetStartLocation(place)
	n := fmt.Sprint(c)
	if c > 1<<50 {
		n = "without bound"
	}
	return &Faults{
		src,
		[]Fault{
			{
				fmt.Sprintf("the expression may cost %s, at most %d is allowed: nest fewer loops", n, CostLimit),
				loc.Line(),
				loc.Column(),
			},
		},
	}
}

// planError returns the error that an expression could not be planned. It marks the regular expression that is the
// cause.
func planError(src string, a *cel.Ast, err error) error {
	ast.PreOrderVisit(a.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != "matches" {
			return
		}
		args := e.AsCall().Args()
		for _, re := range Constants(args[len(args)-1], nil) {
			if _, bad := regexp.Compile(re); bad != nil && bad.Error() == err.Error() {
				loc := a.NativeRep().SourceInfo().GetStartLocation(e.ID())
				err = &Faults{src, []Fault{{bad.Error(), loc.Line(), loc.Column()}}}
			}
		}
	}))
	return err
}

// Fault is an error at a place in an expression.
type Fault struct {
	Msg          string
	Line, Column int // the line from 1, the column from 0
}

// Faults are the errors in an expression. The error text marks each place with a caret.
type Faults struct {
	source string
	All    []Fault
}

// Error returns the messages of all faults, with a caret at the place of each.
func (e *Faults) Error() string {
	var b strings.Builder
	for i, f := range e.All {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(f.Msg)
		b.WriteString(caret(e.source, f.Line, f.Column))
	}
	return b.String()
}

// Within returns the place of the first fault: its line and column.
func (e *Faults) Within() (line, column int) { return e.All[0].Line, e.All[0].Column }

func celError(src string, iss *cel.Issues) error {
	e := &Faults{source: src}
	for _, x := range iss.Errors() {
		e.All = append(e.All, Fault{x.Message + operatorHint(src, x), x.Location.Line(), x.Location.Column()})
	}
	if e.All == nil {
		return iss.Err()
	}
	return e
}

// otherOps matches operators of other languages that CEL does not have. inCEL has the CEL operator for each.
var otherOps = regexp.MustCompile(`^\s*(=|and|or|not)(?:[^=\w]|$)`)

var inCEL = map[string]string{"=": "==", "and": "&&", "or": "||", "not": "!"}

// operatorHint returns a hint that names the right CEL operator, if a syntax error is at or after an operator of
// another language. Otherwise it returns "".
func operatorHint(src string, x *cel.Error) string {
	lines := strings.Split(src, "\n")
	line, col := x.Location.Line(), x.Location.Column()
	if !strings.HasPrefix(x.Message, "Syntax error") || line < 1 || line > len(lines) || col < 0 {
		return ""
	}
	runes := []rune(lines[line-1])
	if col > len(runes) {
		return ""
	}
	at := string(runes[col:])
	before := strings.Fields(string(runes[:col]))
	if m := otherOps.FindStringSubmatch(at); m != nil {
		return fmt.Sprintf(" (write %s for %s)", inCEL[m[1]], m[1])
	}
	if n := len(before); n > 0 && inCEL[before[n-1]] != "" {
		return fmt.Sprintf(" (write %s for %s)", inCEL[before[n-1]], before[n-1])
	}
	return ""
}

func caret(src string, line, col int) string {
	lines := strings.Split(src, "\n")
	if line < 1 || line > len(lines) {
		return ""
	}
	return fmt.Sprintf("\n    %s\n    %s^", lines[line-1], strings.Repeat(" ", max(col, 0)))
}

// Constants returns the constant texts that can be the value of an expression. vars has the possible texts of
// variables.
func Constants(e ast.Expr, vars map[string][]string) []string {
	switch e.Kind() {
	case ast.LiteralKind:
		if s, ok := e.AsLiteral().(types.String); ok {
			return []string{string(s)}
		}
	case ast.IdentKind:
		return vars[e.AsIdent()]
	}
	return nil
}
