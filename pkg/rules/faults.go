package rules

import (
	"fmt"
	"regexp"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
)

// costError puts the caret under the loop that costs most.
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
	return &faults{src, []fault{{fmt.Sprintf("the expression may cost %s, and at most %d are allowed: nest fewer loops", n, CostLimit), loc.Line(), loc.Column()}}}
}

// planError finds the regular expression that an expression cannot be planned
// for.
func planError(src string, a *cel.Ast, err error) error {
	ast.PreOrderVisit(a.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != "matches" {
			return
		}
		args := e.AsCall().Args()
		for _, re := range constants(args[len(args)-1], nil) {
			if _, bad := regexp.Compile(re); bad != nil && bad.Error() == err.Error() {
				loc := a.NativeRep().SourceInfo().GetStartLocation(e.ID())
				err = &faults{src, []fault{{bad.Error(), loc.Line(), loc.Column()}}}
			}
		}
	}))
	return err
}

// fault is something wrong at a place in an expression.
type fault struct {
	msg          string
	line, column int // from 1, and from 0
}

// faults is what is wrong with an expression. Its text shows each place with a
// caret.
type faults struct {
	src string
	all []fault
}

func (e *faults) Error() string {
	var b strings.Builder
	for i, f := range e.all {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(f.msg)
		b.WriteString(caret(e.src, f.line, f.column))
	}
	return b.String()
}

// Within is the place of the first, so that the whole is laid there.
func (e *faults) Within() (line, column int) { return e.all[0].line, e.all[0].column }

func celError(src string, iss *cel.Issues) error {
	e := &faults{src: src}
	for _, x := range iss.Errors() {
		e.all = append(e.all, fault{x.Message, x.Location.Line(), x.Location.Column()})
	}
	if e.all == nil {
		return iss.Err()
	}
	return e
}

func caret(src string, line, col int) string {
	lines := strings.Split(src, "\n")
	if line < 1 || line > len(lines) {
		return ""
	}
	return fmt.Sprintf("\n    %s\n    %s^", lines[line-1], strings.Repeat(" ", max(col, 0)))
}

// constants are the texts that an expression stands for.
func constants(e ast.Expr, vars map[string][]string) []string {
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
