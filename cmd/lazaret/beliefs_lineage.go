package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/embedded"
	"lazaret/internal/ingest"
	"lazaret/internal/query"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// beliefLineage is `beliefs lineage` and, with down only, `beliefs impact`.
func (a *app) beliefLineage(use, short string, up, down bool) *cobra.Command {
	var project, agent, format string
	c := &cobra.Command{
		Use:   use + " ID",
		Short: short,
		Long: short + `. ID is a belief's or, with --agent, that of an event of that agent.
Parents that were found by what a text shares with them are edges like those that its
writer declared.`,
		Example: "  lazaret beliefs " + use + " b9sforgt6c7u0ms0n\n  lazaret beliefs " + use + " b9sforgt6c7u0ms0n --format svg >lineage.svg",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := streams.CheckID("id", args[0]); err != nil {
				return err
			}
			g := new(ingest.Lineage)
			err := a.operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) error {
				return query.Ask(ctx, nc, ingest.AskLineage, streams.PartitionOf(project), ingest.LineageRequest{Project: project, ID: args[0], Agent: agent, Up: up, Down: down}, g)
			})
			if err != nil {
				return err
			}
			if n := g.Nodes[0]; n.Kind == ingest.NodeBelief && n.Belief == nil {
				return &cli.Exit{Code: cli.ExitNegative, Text: fmt.Sprintf("project %s has no belief %s", project, args[0])}
			}
			w := cmd.OutOrStdout()
			switch format {
			case "json":
				return cli.JSON(w, g)
			case "dot":
				_, err = io.WriteString(w, lineageDOT(g))
			case "svg":
				_, err = io.WriteString(w, lineageSVG(g))
			case "text":
				printLineage(w, g)
			default:
				return fmt.Errorf("format %q is unknown: use text, json, dot or svg", format)
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&project, "project", embedded.DefaultProject, "`PROJECT`")
	f.StringVar(&agent, "agent", "", "ID is an event of this `AGENT`")
	f.StringVar(&format, "format", "text", "text, json, dot or svg")
	return c
}

// nodeTitle is a node in one line, without its content.
func nodeTitle(n *ingest.LineageNode) string {
	s := n.Kind + " " + text.InertLine(n.ID, 60)
	if b := n.Belief; b != nil {
		s += fmt.Sprintf(" (%s, %s, %s, %s)", b.Origin, b.Axes.Truth, b.Axes.Retrieval, b.Axes.Security)
	}
	return s
}

func printLineage(w io.Writer, g *ingest.Lineage) {
	counts := map[string]int{}
	out := map[string][]ingest.LineageEdge{}
	in := map[string][]ingest.LineageEdge{}
	for _, e := range g.Edges {
		out[e.From] = append(out[e.From], e)
		in[e.To] = append(in[e.To], e)
	}
	byID := map[string]*ingest.LineageNode{}
	for i := range g.Nodes {
		byID[g.Nodes[i].ID] = &g.Nodes[i]
		counts[g.Nodes[i].Kind]++
	}
	start := &g.Nodes[0]
	fmt.Fprintln(w, nodeTitle(start))
	if start.Content != "" {
		fmt.Fprintf(w, "  %s\n", text.InertLine(start.Content, 200))
	}
	var walk func(id, indent string, edges map[string][]ingest.LineageEdge, far func(ingest.LineageEdge) string, verb func(ingest.LineageEdge) string, seen map[string]bool)
	walk = func(id, indent string, edges map[string][]ingest.LineageEdge, far, verb func(ingest.LineageEdge) string, seen map[string]bool) {
		for _, e := range edges[id] {
			n := byID[far(e)]
			fmt.Fprintf(w, "%s%s %s\n", indent, verb(e), nodeTitle(n))
			if n.Content != "" {
				fmt.Fprintf(w, "%s    %s\n", indent, text.InertLine(n.Content, 120))
			}
			if !seen[n.ID] {
				seen[n.ID] = true
				walk(n.ID, indent+"  ", edges, far, verb, seen)
			}
		}
	}
	walk(start.ID, "  ", in, func(e ingest.LineageEdge) string { return e.From }, func(ingest.LineageEdge) string { return "from" }, map[string]bool{})
	walk(start.ID, "  ", out, func(e ingest.LineageEdge) string { return e.To }, func(e ingest.LineageEdge) string { return e.How }, map[string]bool{})
	fmt.Fprintf(w, "%d beliefs, %d events, %d sources, %d decisions, %d actions\n", counts[ingest.NodeBelief], counts[ingest.NodeEvent],
		counts[ingest.NodeSource], counts[ingest.NodeDecision], counts[ingest.NodeAction])
	if g.Cut {
		fmt.Fprintln(w, "there is more than is shown")
	}
}

// The colours of nodes by what they are; of beliefs by how they stand.
func nodeColour(n *ingest.LineageNode) string {
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

// nodeLines is what a node says in a drawing.
func nodeLines(n *ingest.LineageNode) []string {
	lines := []string{n.Kind + " " + text.InertLine(n.ID, 30)}
	if b := n.Belief; b != nil {
		lines = append(lines, fmt.Sprintf("%s, %s, %s", b.Origin, b.Axes.Truth, b.Axes.Security))
	}
	if n.Content != "" {
		lines = append(lines, text.InertLine(n.Content, 34))
	}
	return lines
}

// lineageDOT draws a lineage in Graphviz's language.
func lineageDOT(g *ingest.Lineage) string {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	var b strings.Builder
	b.WriteString("digraph lineage {\n  rankdir=LR;\n  node [shape=box, style=filled, fontname=\"sans-serif\", fontsize=10];\n  edge [fontname=\"sans-serif\", fontsize=8];\n")
	at := map[string]int{}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		at[n.ID] = i
		lines := nodeLines(n)
		for j := range lines {
			lines[j] = quoted.Replace(lines[j])
		}
		fmt.Fprintf(&b, "  n%d [label=\"%s\", fillcolor=\"%s\"];\n", i, strings.Join(lines, `\n`), nodeColour(n))
	}
	for _, e := range g.Edges {
		fmt.Fprintf(&b, "  n%d -> n%d [label=\"%s\"];\n", at[e.From], at[e.To], quoted.Replace(e.How))
	}
	b.WriteString("}\n")
	return b.String()
}

// lineageSVG draws a lineage in columns, one for each step, from what came first
// on the left to what came of it on the right.
func lineageSVG(g *ingest.Lineage) string {
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
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", right, bottom, right, bottom)
	b.WriteString(`<defs><marker id="a" markerWidth="8" markerHeight="8" refX="7" refY="3" orient="auto"><path d="M0,0 L7,3 L0,6 z" fill="#666"/></marker></defs>` + "\n")
	for _, e := range g.Edges {
		from, to := at[e.From], at[e.To]
		x1, y1, x2, y2 := from.x+width, from.y+height/2, to.x, to.y+height/2
		fmt.Fprintf(&b, `<path d="M%d,%d C%d,%d %d,%d %d,%d" fill="none" stroke="#666" marker-end="url(#a)"><title>%s</title></path>`+"\n",
			x1, y1, x1+gapX/2, y1, x2-gapX/2, y2, x2, y2, escape.Replace(e.How))
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		p := at[n.ID]
		fmt.Fprintf(&b, `<g><rect x="%d" y="%d" width="%d" height="%d" rx="4" fill="%s" stroke="#555"/>`, p.x, p.y, width, height, nodeColour(n))
		for j, line := range nodeLines(n) {
			fmt.Fprintf(&b, `<text x="%d" y="%d">%s</text>`, p.x+8, p.y+16+14*j, escape.Replace(line))
		}
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}
