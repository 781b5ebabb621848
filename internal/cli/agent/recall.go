package agent

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"lazaret/client"
	"lazaret/internal/cli/verb"
	"lazaret/pkg/text"
	"lazaret/streams"
)

func init() { Verbs.Add("", recallCommand) }

func recallCommand(a *verb.App) *cobra.Command {
	var s verb.Speaker
	var r streams.Recall
	var since time.Duration
	c := &cobra.Command{
		Use:   "recall [QUERY]",
		Short: "Ask which memories may enter an agent's context",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, pos []string) error {
			r.Head = s.Head()
			if len(pos) == 1 {
				r.Query = pos[0]
			}
			if since > 0 {
				r.Filter.Since = time.Now().Add(-since)
			}
			return Ask(a, cmd, &s, func(ctx context.Context, cl *client.Client) (*streams.Reply, error) {
				return cl.Recall(ctx, &r)
			})
		},
	}
	s.Bind(c)
	recallFlags(c, &r)
	f := c.Flags()
	f.StringVar(&r.Key, "key", "", "memory `KEY`")
	f.IntVar(&r.Offset, "offset", 0, "skip this many `BYTES` of each content, to get the rest of a content that was cut")
	f.StringVar(&r.Filter.Kind, "kind", "",
		"only what was written to memory (memory), or only what was observed (content)")
	f.StringVar((*string)(&r.Filter.Origin), "origin", "", "only of this `ORIGIN`")
	f.StringVar(&r.Filter.Category, "category", "", "only of this `CATEGORY`")
	f.StringVar(&r.Filter.Source, "source", "", "only from this `SOURCE`")
	f.StringVar(&r.Filter.Tool, "tool", "", "only results of this `TOOL`")
	f.StringVar(&r.Filter.Agent, "of-agent", "", "only beliefs introduced by this `AGENT`")
	f.StringVar(&r.Filter.Session, "of-session", "", "only beliefs introduced in this `SESSION`")
	f.Var((*verb.SinceFlag)(&since), "since", "only beliefs confirmed within this `DURATION`, such as 7d")
	return c
}

func recallFlags(c *cobra.Command, r *streams.Recall) {
	c.Flags().StringVar(&r.Purpose, "purpose", "", "extraction, planning, decision or explanation")
	c.Flags().IntVar(&r.Limit, "limit", 0, "entries wanted in each part of the answer (admitted, context only, "+
		"contradictions), 1 to 100 (default 10)")
	c.Flags().BoolVar(&r.Spotlight, "spotlight", false,
		"put all context-only and contradicting texts, and admitted texts of external origin, between marker lines that a "+
			"text cannot imitate")
}

func printRecall(w io.Writer, r *streams.RecallEntry) {
	section := func(name string, items []streams.RecallItem) {
		for _, it := range items {
			score := ""
			if it.Score >= 0 {
				score = fmt.Sprintf(", %.2f", it.Score)
			}
			fmt.Fprintf(w, "  %-14s %s  %s, %s%s: %s\n", name, it.ID, it.Origin, it.Scope, score,
				text.InertLine(it.Content, 160))
		}
	}
	section("admitted", r.Admitted)
	section("context only", r.ContextOnly)
	section("contradiction", r.Contradictions)
	for _, x := range r.Refused {
		fmt.Fprintf(w, "  %-14s %s  %s: %s\n", "refused", x.ID, x.Reason, x.Text)
	}
	if len(r.Admitted)+len(r.ContextOnly)+len(r.Contradictions)+len(r.Refused) == 0 {
		fmt.Fprintln(w, "  nothing found")
	}
}
