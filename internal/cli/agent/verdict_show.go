package agent

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/stage"
	"lazaret/internal/wire"
	"lazaret/pkg/position"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// explanation is the ledger's data about one proposal.
type explanation struct {
	Project  string         `json:"project"`
	Proposal proposed       `json:"proposal"`
	Verdicts []givenVerdict `json:"verdicts"`
	Groups   []groupAnswer  `json:"groups"`
	// Findings are the earlier alerts that reasons refer to, by their ledger entry.
	Findings map[uint64]finding `json:"findings,omitempty"`
}

type proposed struct {
	Seq  uint64         `json:"ledger_seq"`
	Time time.Time      `json:"time"`
	Type streams.Type   `json:"type"`
	Body jsontext.Value `json:"body"`
}

type givenVerdict struct {
	Seq     uint64                `json:"ledger_seq"`
	Src     uint64                `json:"src"` // the entry that caused the verdict
	Verdict *streams.VerdictEntry `json:"verdict"`
}

type groupAnswer struct {
	Group   string          `json:"group"`
	Seq     uint64          `json:"ledger_seq"`
	Digest  string          `json:"digest"`
	Verdict streams.Verdict `json:"verdict"`
	Alerts  []streams.Alert `json:"alerts,omitempty"`
	Rests   []streams.Rest  `json:"rests,omitempty"`
}

type finding struct {
	Group string    `json:"group"`
	About uint64    `json:"about"` // the entry that was judged
	Time  time.Time `json:"time"`
}

func init() { Verbs.Add("verdicts", verdictShowCommand) }

func verdictShowCommand(a *verb.App) *cobra.Command {
	var project, agent string
	var json bool
	c := &cobra.Command{
		Use:   "show {ID | HOLD | POSITION}",
		Short: "Explain a verdict from the ledger alone: which rules decided it, and because of which content",
		Long: `Explain a verdict from the ledger. The output has the proposal, what each rule of each
sentinel group found, the reasons from the policy, the session, earlier alerts, and later
changes of the verdict. A path (→) leads from the action to the content that caused a
reason.

Name the proposal by its id, by its hold, or by the position in the ledger of the
proposal or of a verdict on it, such as 98 or 98.2.`,
		Example: "  lazaret verdict show Z942hCS6LyEsHfgskwx21O\n  lazaret verdict show h0f3ab2c4d5e6f708 --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var x *explanation
			err := a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) (err error) {
				x, err = explain(ctx, nc, args[0], project, agent)
				return err
			})
			if err != nil {
				return err
			}
			if json {
				return cli.JSON(cmd.OutOrStdout(), x)
			}
			x.print(cmd.OutOrStdout())
			return nil
		},
	}
	c.Flags().StringVar(&project, "project", "", "only a proposal of this `PROJECT`")
	c.Flags().StringVar(&agent, "agent", "", "only a proposal of this `AGENT`")
	c.Flags().BoolVar(&json, "json", false, "print JSON")
	return c
}

// explain collects the ledger's data about a proposal.
func explain(ctx context.Context, nc *nats.Conn, name, project, agent string) (*explanation, error) {
	js := wire.JetStream(nc)
	filters := streams.StageFilters(streams.StageArbiter)
	if project != "" {
		filters = streams.StageSubjects(streams.PartitionOf(project), streams.StageArbiter)
	}
	from := uint64(1)
	posed, partition, err := proposalAt(ctx, js, name)
	if err != nil {
		return nil, err
	}
	if posed > 0 {
		from, filters = posed, streams.StageSubjects(partition, streams.StageArbiter)
	}
	x := &explanation{Findings: make(map[uint64]finding)}
	last := uint64(0)
	ambiguous := false
	err = scanLedger(ctx, js, filters, from, 0, func(e streams.Entry) error {
		if e.Type != streams.TypeVerdict || project != "" && e.Project != project {
			return nil
		}
		v := new(streams.VerdictEntry)
		if err := streams.Unmarshal(e.Body, v); err != nil {
			return fmt.Errorf("ledger entry %s: %w", position.Text(e.Seq), err)
		}
		if agent != "" && v.Agent != agent {
			return nil
		}
		if posed == 0 {
			if v.ID != name && (v.Hold == nil || v.Hold.ID != name) {
				return nil
			}
			posed = v.Proposal
		}
		if v.Proposal != posed {
			// Another agent used the same id.
			ambiguous = ambiguous || from == 1 && v.ID == name
			return nil
		}
		last = e.Seq
		x.Verdicts = append(x.Verdicts, givenVerdict{e.Position(), e.Src, v})
		return nil
	})
	if err != nil {
		return nil, err
	}
	if ambiguous {
		return nil, fmt.Errorf("several agents have proposed %s: name one with --project and --agent", name)
	}
	if posed == 0 {
		return nil, fmt.Errorf("the ledger has no verdict on a proposal %q", text.InertLine(name, 80))
	}
	e, err := stage.ReadEntry(ctx, js, posed)
	if err != nil {
		return nil, err
	}
	x.Project = e.Project
	x.Proposal = proposed{e.Seq, e.Time, e.Type, jsontext.Value(e.Body)}
	err = scanLedger(ctx, js, []string{streams.LedgerFilter(e.Partition)}, posed, last, func(e streams.Entry) error {
		g, ok := streams.SentinelGroup(e.Stage)
		if !ok || e.Type != streams.TypeAssessment || e.Src != posed {
			return nil
		}
		a := new(streams.AssessmentEntry)
		if err := streams.Unmarshal(e.Body, a); err != nil {
			return nil // an unreadable answer counts as no answer
		}
		x.Groups = append(x.Groups, groupAnswer{g, e.Position(), a.Digest, a.Verdict, a.Alerts, a.Rests})
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, v := range x.Verdicts {
		for _, r := range v.Verdict.Reasons {
			if _, ok := x.Findings[r.Entry]; ok || r.Entry == 0 {
				continue
			}
			if e, err := stage.ReadEntry(ctx, js, r.Entry); err == nil {
				x.Findings[r.Entry] = finding{r.Group, e.Src, e.Time}
			}
		}
	}
	return x, nil
}

// proposalAt returns the position and the partition of a proposal. name is the position of the proposal or of an
// entry about it. If it is neither, proposalAt returns 0.
func proposalAt(ctx context.Context, js jetstream.JetStream, name string) (posed uint64, partition int, err error) {
	seq, err := position.Parse(name)
	if err != nil {
		return 0, 0, nil
	}
	e, err := stage.ReadEntry(ctx, js, seq)
	if err != nil {
		return 0, 0, nil
	}
	switch {
	case e.Type.Proposal() && e.Stage == streams.StageIngest:
		posed = e.Seq
	case e.Type == streams.TypeAssessment:
		posed = e.Src
	case e.Type == streams.TypeVerdict:
		v := new(streams.VerdictEntry)
		if err := streams.Unmarshal(e.Body, v); err != nil {
			return 0, 0, err
		}
		posed = v.Proposal
	}
	return posed, e.Partition, nil
}

// scanLedger calls fn for the entries from sequence from up to sequence to. If to is 0, it goes on to the end of the
// ledger.
func scanLedger(ctx context.Context, js jetstream.JetStream, filters []string, from, to uint64,
	fn func(streams.Entry) error) error {
	span := stage.Span{Stream: streams.LedgerStream, Filters: filters, From: from, To: to}
	return stage.Each(ctx, js, span, func(m jetstream.Msg, _ uint64, _ time.Time) error {
		entries, err := wire.Entries(m)
		if err != nil {
			return nil // the message is not from a stage
		}
		for _, e := range entries {
			if err := fn(e); err != nil {
				return err
			}
		}
		return nil
	})
}

func (x *explanation) print(w io.Writer) {
	line := text.InertLine
	if len(x.Verdicts) == 0 {
		fmt.Fprintf(w, "%s in ledger entry %s of project %s has no verdict yet\n", x.Proposal.Type,
			position.Text(x.Proposal.Seq),
			line(x.Project, 64))
	} else {
		v := x.Verdicts[len(x.Verdicts)-1].Verdict
		fmt.Fprintf(w, "%s  %s\n", strings.ToUpper(v.Verdict.String()),
			line(strings.Join(slices.DeleteFunc([]string{v.Level, v.Tool, v.Summary}, func(s string) bool { return s == "" }),
				"  "), 200))
		fmt.Fprintf(w, "%s %s of %s/%s, session %q, ledger entry %s, %s\n", v.Type, line(v.ID, 64), line(x.Project, 64),
			line(v.Agent, 64), line(v.Session, 64),
			position.Text(x.Proposal.Seq), x.Proposal.Time.Format(time.RFC3339Nano))
		fmt.Fprintf(w, "policy %.19s, rules %.19s\n", v.Policy, v.Rules)
	}
	if len(x.Groups) > 0 {
		fmt.Fprintln(w, "\nrule by rule")
	}
	for _, g := range x.Groups {
		fmt.Fprintf(w, "  group %s, entry %s: %s, by %s\n", line(g.Group, 64), position.Text(g.Seq), g.Verdict,
			line(fmt.Sprintf("%.19s", g.Digest), 40))
		for _, al := range g.Alerts {
			how := al.Effect
			switch {
			case al.Mode != "enforce":
				how += ", " + al.Mode
			case al.Exception != "":
				how += ", without effect by exception " + al.Exception
			}
			fmt.Fprintf(w, "    %-8s %s %s (%s): %s\n", line(how, 80), line(al.Severity, 20), line(al.Rule, 80),
				line(al.RuleDigest, 19), line(al.Message, 300))
			if len(al.Path) > 1 {
				fmt.Fprintf(w, "             %s\n", line(strings.Join(al.Path, " → "), 300))
			}
		}
		for _, r := range g.Rests {
			fmt.Fprintf(w, "    the %s %s comes from observation %s of agent %s\n", line(r.By, 40), line(r.Value, 120),
				line(r.Observation, 64), line(r.Agent, 64))
		}
	}
	for i, g := range x.Verdicts {
		v := g.Verdict
		what := "verdict"
		switch {
		case v.Again:
			what = "the same proposal, asked again"
		case v.Late:
			what = "tightened"
		}
		fmt.Fprintf(w, "\n%s: %s, entry %s, decided on entry %s\n", what, v.Verdict, position.Text(g.Seq),
			position.Text(g.Src))
		if v.Again && i > 0 {
			continue
		}
		for _, r := range v.Reasons {
			where := string(r.Code)
			if r.Rule != "" {
				where += " " + r.Group + "/" + r.Rule
			}
			fmt.Fprintf(w, "  %-5s %s: %s\n", r.Verdict, line(where, 120), line(r.Text, 300))
			if len(r.Path) > 0 {
				fmt.Fprintf(w, "        %s\n", line(strings.Join(r.Path, " → "), 400))
			}
			if f, ok := x.Findings[r.Entry]; ok {
				fmt.Fprintf(w, "        found by group %s in entry %s, about entry %s, %s\n", line(f.Group, 64),
					position.Text(r.Entry), position.Text(f.About), f.Time.Format(time.RFC3339))
			}
		}
		if len(v.Reasons) == 0 {
			fmt.Fprintln(w, "  no reason against it: every required group has cleared it")
		}
		if len(v.Degraded) > 0 {
			fmt.Fprintf(w, "  sentinel groups without an answer: %s\n", line(strings.Join(v.Degraded, ", "), 200))
		}
		if v.Hold != nil {
			fmt.Fprintf(w, "  hold %s, revision %s, expires %s\n", v.Hold.ID, v.Hold.Revision,
				v.Hold.Expires.Format(time.RFC3339))
		}
		if v.Alert != nil {
			fmt.Fprintf(w, "  ALERT: %s\n", line(v.Alert.Message, 300))
		}
	}
}
