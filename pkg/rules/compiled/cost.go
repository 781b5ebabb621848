package compiled

import (
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"

	"lazaret/pkg/signals"
	"lazaret/streams"
)

const (
	// CostLimit is the maximum cost of one evaluation of an expression, in CEL's units. CEL counts about one unit per
	// operation, and one per ten bytes of text.
	CostLimit = 25_000_000
	// maxSource is the longest text that the parser accepts. The definition of a list or
	// macro may be longer than maxExpr.
	maxSource = streams.MaxChunks * streams.ChunkSize
	// maxExpr is the maximum length of an expression, in bytes.
	maxExpr = 8 << 10
)

// Dynamic reports whether an expression reads values of unlimited size. The cost of such an expression cannot be
// estimated, so it must be counted during evaluation.
func Dynamic(a *ast.AST) (found bool) {
	ast.PreOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch QualifiedName(e) {
		case "action.args", "it":
			found = true
		}
	}))
	return found
}

// Sizes gives upper bounds for the sizes of values in cost estimates.
type Sizes struct{}

// EstimateSize implements cost.Estimator.
func (Sizes) EstimateSize(n cost.AstNode) *cost.SizeEstimate {
	p := n.Path()
	if len(p) == 0 {
		return nil
	}
	limit := uint64(signals.BoundValue)
	switch k := n.Type().Kind(); {
	case k == types.ListKind && p[0] == "content.views":
		limit = signals.BoundViews
	case k == types.ListKind, k == types.MapKind:
		limit = signals.BoundList
	case p[0] == "content.text", p[0] == "content.views", p[0] == "action.text":
		limit = signals.BoundText
	}
	return &cost.SizeEstimate{Min: 0, Max: limit}
}

// EstimateCallCost implements cost.Estimator.
func (Sizes) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}
