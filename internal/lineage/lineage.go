package lineage

import (
	"fmt"
	"slices"
	"strings"

	"lazaret/internal/ingest"
	"lazaret/pkg/text"
)

// Colour returns the color of a node by its kind, and of a belief by its state.
func Colour(n *ingest.LineageNode) string {
	switch {
	case n.Belief != nil && n.Belief.Axes.Security > 0:
		return "#f4b6b6"
	case n.Belief != nil && n.Belief.Axes.Truth.String() == "supported":
		return "#bfe3c0"
	case n.Kind == ingest.NodeBelief:
		return "#f6e3b4"
	case n.Kind == ingest.NodeAction, n.Kind == ingest.NodeDecision:
		return "#c3d4f0"
	}
	return "#e6e6e6"
}

// class returns the CSS class of a node, with the same distinctions as Colour.
func class(n *ingest.LineageNode) string {
	switch {
	case n.Belief != nil && n.Belief.Axes.Security > 0:
		return "bad"
	case n.Belief != nil && n.Belief.Axes.Truth.String() == "supported":
		return "good"
	case n.Kind == ingest.NodeBelief:
		return "belief"
	case slices.Contains(kinds, n.Kind):
		return n.Kind
	}
	return "" // a path in an alert of a third party's group may name any kind
}

var kinds = []string{ingest.NodeSource, ingest.NodeEvent, ingest.NodeDecision, ingest.NodeAction}

// Lines returns the lines of text in a node.
func Lines(n *ingest.LineageNode) []string {
	lines := []string{n.Kind + " " + text.InertLine(n.ID, 30)}
	if b := n.Belief; b != nil {
		lines = append(lines, fmt.Sprintf("%s, %s, %s", b.Origin, b.Axes.Truth, b.Axes.Security))
	}
	if n.Content != "" {
		lines = append(lines, text.InertLine(n.Content, 34))
	}
	return lines
}

// SVG draws a lineage in columns, one for each step, from origins on the left to consequences on the
// right.
func SVG(g *ingest.Lineage) string {
	const width, height, gapX, gapY, margin = 230, 52, 90, 14, 16
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")
	least := 0
	for _, n := range g.Nodes {
		least = min(least, n.Step)
	}
	type place struct{ x, y int }
	at := map[string]place{}
	rows := map[int]int{}
	right, bottom := 0, 0
	for _, n := range g.Nodes {
		col := n.Step - least
		p := place{margin + col*(width+gapX), margin + rows[col]*(height+gapY)}
		rows[col]++
		at[n.ID] = p
		right, bottom = max(right, p.x+width+margin), max(bottom, p.y+height+margin)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" `+
		`role="img" aria-label="lineage" font-family="sans-serif" font-size="11">`+"\n", right, bottom, right, bottom)
	b.WriteString(`<defs><marker id="a" markerWidth="8" markerHeight="8" refX="7" refY="3" orient="auto">` +
		`<path d="M0,0 L7,3 L0,6 z" fill="#666"/></marker></defs>` + "\n")
	for _, e := range g.Edges {
		from, to := at[e.From], at[e.To]
		x1, y1, x2, y2 := from.x+width, from.y+height/2, to.x, to.y+height/2
		fmt.Fprintf(&b, `<path d="M%d,%d C%d,%d %d,%d %d,%d" fill="none" stroke="#666" marker-end="url(#a)">`+
			`<title>%s</title></path>`+"\n",
			x1, y1, x1+gapX/2, y1, x2-gapX/2, y2, x2, y2, escape.Replace(e.How))
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		p := at[n.ID]
		fmt.Fprintf(&b, `<g class="%s"><rect x="%d" y="%d" width="%d" height="%d" rx="4" fill="%s" stroke="#555"/>`,
			class(n), p.x, p.y, width, height, Colour(n))
		for j, line := range Lines(n) {
			fmt.Fprintf(&b, `<text x="%d" y="%d">%s</text>`, p.x+8, p.y+16+14*j, escape.Replace(line))
		}
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}
