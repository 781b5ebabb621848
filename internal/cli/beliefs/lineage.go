package beliefs

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/embedded"
	"lazaret/internal/ingest"
	"lazaret/internal/lineage"
	"lazaret/internal/query"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// lineageCommand returns `beliefs lineage`, or `beliefs impact` if only down is set.
func lineageCommand(a *verb.App, use, short string, up, down bool) *cobra.Command {
	var project, agent, format string
	c := &cobra.Command{
		Use:   use + " ID",
		Short: short,
		Long: short + `. ID is the id of a belief or, with --agent, of an event of that agent.
Sources that were found by shared text are shown like those that the writer declared.`,
		Example: "  lazaret beliefs " + use + " b9sforgt6c7u0ms0n\n  lazaret beliefs " + use +
			" b9sforgt6c7u0ms0n --format svg >lineage.svg",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := streams.CheckID("id", args[0]); err != nil {
				return err
			}
			g := new(ingest.Lineage)
			err := a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) error {
				return query.Ask(ctx, nc, ingest.AskLineage, streams.PartitionOf(project), ingest.LineageRequest{Project: project,
					ID: args[0], Agent: agent, Up: up, Down: down}, g)
			})
			if err != nil {
				return err
			}
			if n := g.Nodes[0]; n.Kind == ingest.NodeBelief && n.Belief == nil {
				return cli.Negative("project %s has no belief %s", project, args[0])
			}
			w := cmd.OutOrStdout()
			switch format {
			case "json":
				return cli.JSON(w, g)
			case "dot":
				_, err = io.WriteString(w, lineageDOT(g))
			case "svg":
				_, err = io.WriteString(w, lineage.SVG(g))
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

// nodeTitle returns a node as one line without its content.
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
	var walk func(id, indent string, edges map[string][]ingest.LineageEdge, far func(
		ingest.LineageEdge) string, verb func(ingest.LineageEdge) string, seen map[string]bool)
	walk = func(id, indent string, edges map[string][]ingest.LineageEdge, far, verb func(
		ingest.LineageEdge) string, seen map[string]bool) {
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
	walk(start.ID, "  ", in, func(e ingest.LineageEdge) string {
		return e.From
	}, func(ingest.LineageEdge) string { return "from" }, map[string]bool{})
	walk(start.ID, "  ", out, func(e ingest.LineageEdge) string {
		return e.To
	}, func(e ingest.LineageEdge) string { return e.How }, map[string]bool{})
	fmt.Fprintf(w, "%d beliefs, %d events, %d sources, %d decisions, %d actions\n", counts[ingest.NodeBelief],
		counts[ingest.NodeEvent],
		counts[ingest.NodeSource], counts[ingest.NodeDecision], counts[ingest.NodeAction])
	if g.Cut {
		fmt.Fprintln(w, "the lineage is too large: a part of it is not shown")
	}
}

// lineageDOT formats a lineage in Graphviz's language.
func lineageDOT(g *ingest.Lineage) string {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	var b strings.Builder
	b.WriteString("digraph lineage {\n  rankdir=LR;\n  node [shape=box, style=filled, fontname=\"sans-serif\", " +
		"fontsize=10];\n  edge [fontname=\"sans-serif\", fontsize=8];\n")
	at := map[string]int{}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		at[n.ID] = i
		lines := lineage.Lines(n)
		for j := range lines {
			lines[j] = quoted.Replace(lines[j])
		}
		fmt.Fprintf(&b, "  n%d [label=\"%s\", fillcolor=\"%s\"];\n", i, strings.Join(lines, `\n`), lineage.Colour(n))
	}
	for _, e := range g.Edges {
		fmt.Fprintf(&b, "  n%d -> n%d [label=\"%s\"];\n", at[e.From], at[e.To], quoted.Replace(e.How))
	}
	b.WriteString("}\n")
	return b.String()
}
