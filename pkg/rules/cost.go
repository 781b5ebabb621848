package rules

import (
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"

	"lazaret/streams"
)

const (
	// CostLimit is what one expression may cost, in CEL's units: about one per
	// operation, and one per ten bytes of text looked at.
	CostLimit = 25_000_000
	// maxSource is the longest text that the parser takes: an expression may have
	// whole lists and macros written into it.
	maxSource = streams.MaxChunks * streams.ChunkSize
	// maxExpr is the longest expression, in bytes.
	maxExpr = 8 << 10
)

// dynamic reports whether an expression reads values whose size nothing
// bounds, so that only counting can tell its cost.
func dynamic(a *ast.AST) (found bool) {
	ast.PreOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch qualified(e) {
		case "action.args", "it":
			found = true
		}
	}))
	return found
}

// sizes bounds the values of expressions for the estimate.
type sizes struct{}

// EstimateSize implements cost.Estimator.
func (sizes) EstimateSize(n cost.AstNode) *cost.SizeEstimate {
	p := n.Path()
	if len(p) == 0 {
		return nil
	}
	limit := uint64(boundValue)
	switch k := n.Type().Kind(); {
	case k == types.ListKind && p[0] == "content.views":
		limit = boundViews
	case k == types.ListKind, k == types.MapKind:
		limit = boundList
	case p[0] == "content.text", p[0] == "content.views", p[0] == "action.text":
		limit = boundText
	}
	return &cost.SizeEstimate{Min: 0, Max: limit}
}

// EstimateCallCost implements cost.Estimator.
func (sizes) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}
