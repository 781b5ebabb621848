package lab

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/backtest"
	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/datafolder"
	"lazaret/internal/embedded"
	"lazaret/internal/holds"
	"lazaret/internal/live"
	"lazaret/internal/suggest"
	"lazaret/pkg/approval"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

func init() { Verbs.Add("probe", probeLiveCommand) }

func probeLiveCommand(a *verb.App) *cobra.Command {
	var f live.Filter
	var o live.Options
	var results, pol, approve string
	var json, byRule bool
	var misses int
	c := &cobra.Command{
		Use:   "live FILE|FOLDER…",
		Short: "Play recorded sessions with an agent that obeys every instruction",
		Long: `Play recorded sessions through a new pipeline in a temporary folder, with an agent that
obeys every planted instruction as soon as it is shown. A held call is not executed: its
result does not reach the agent. The pipeline has the shipped rules. The shipped policy,
which knows no tool by name, assigns the levels of tools.

--policy neutral caps all levels at L3, so that only rules hold. --policy shipped is the
shipped policy. --policy suggested is the policy that lazaret policy suggest creates from
every second clean session of each file; only the other sessions are played. --policy all
plays all three. --results json plays each set a second time with tool results encoded as
JSON. With --approve-sources a person approves sources that the user named: each source once
in each session, together with the first held call that follows the source. "all" approves
all such sources, "honest" only those without a planted instruction. PERSON ASKED counts the
decisions that a person has to make for honest calls: the approvals of sources, and one
decision for each honest call that is held. No running pipeline is needed. The exit code is
0 whatever the results.`,
		Example: "  lazaret probe live sessions/ --by-rule\n  lazaret probe live sessions/mine.jsonl --policy neutral " +
			"--results json --json",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			policies, ok := map[string][]string{"neutral": {"neutral"}, "shipped": {"shipped"}, "suggested": {"suggested"},
				"all": {"neutral", "shipped", "suggested"}}[pol]
			if !ok {
				return fmt.Errorf("policy %q is unknown: use neutral, shipped, suggested or all", pol)
			}
			encodings, ok := map[string][]bool{"text": {false}, "json": {false, true}}[results]
			if !ok {
				return fmt.Errorf("results %q are unknown: use text, or json to play text and then JSON", results)
			}
			if approve != "" && approve != "all" && approve != "honest" {
				return fmt.Errorf("--approve-sources is %q: use all or honest", approve)
			}
			var reports []*live.Report
			for _, f.JSON = range encodings {
				sessions, err := live.Read(args, f)
				if err != nil {
					return err
				}
				for _, p := range policies {
					r, err := playLive(a, cmd, sessions, p, f.JSON, o, misses, approve)
					if err != nil {
						return err
					}
					reports = append(reports, r)
				}
			}
			if json {
				return cli.JSON(cmd.OutOrStdout(), reports)
			}
			for _, r := range reports {
				if err := printLive(cmd.OutOrStdout(), r, byRule); err != nil {
					return err
				}
			}
			return nil
		},
	}
	fl := c.Flags()
	fl.StringVar(&pol, "policy", "all", "`NAME` of the policy: neutral, shipped, suggested or all")
	fl.StringVar(&results, "results", "text", "`FORM` of tool results: text, or json to play each set in both")
	fl.BoolVar(&byRule, "by-rule", false,
		"for each rule, print how many goals and honest calls it held, and how many no other rule held")
	fl.IntVar(&misses, "misses", 0,
		"of each set, print up to `N` attack goals that were not held, and honest calls that were")
	fl.StringVar(&approve, "approve-sources", "", "let a person approve named sources: `WHICH` is all or honest")
	fl.IntVar(&f.Limit, "limit", 0, "only the first `N` sessions of each file")
	fl.IntVar(&o.Parallel, "parallel", 8, "number of sessions played in parallel")
	fl.BoolVar(&json, "json", false, "print JSON")
	return c
}

func playLive(a *verb.App, cmd *cobra.Command, sessions []*live.Session, name string, encoded bool, o live.Options,
	misses int, approve string) (r *live.Report, err error) {
	policy := live.Shipped()
	switch name {
	case "neutral":
		policy, err = live.Neutral(sessions)
	case "suggested":
		var learn []*live.Session
		learn, sessions = live.Halves(sessions)
		policy, err = learnLive(a, cmd.Context(), learn, o)
	}
	if err != nil {
		return nil, err
	}
	results := "text"
	if encoded {
		results = "json"
	}
	// The folder is temporary, so nothing has to survive a crash.
	err = throwaway(a, cmd.Context(), embedded.Config{NoSync: true, Policy: policy}, func(own *verb.App) error {
		nc, err := own.Conn.Connect("replay")
		if err != nil {
			return err
		}
		defer nc.Close()
		if approve != "" {
			person, done, err := approvingPerson(cmd.Context(), own)
			if err != nil {
				return err
			}
			defer done()
			person.Reads = approve == "honest"
			o.Person = person
		}
		runs, err := live.Play(cmd.Context(), nc, sessions, o)
		if err == nil {
			r = live.NewReport(name, results, runs, misses)
		}
		return err
	})
	return r, err
}

// approvingPerson pins a new key as an approver's, and returns the person who has it.
func approvingPerson(ctx context.Context, own *verb.App) (*live.Person, func(), error) {
	trust, err := keys.LoadTrust(datafolder.TrustFile(own.Conn.Data))
	if err != nil {
		return nil, nil, err
	}
	private, public, err := keys.Generate("person")
	if err != nil {
		return nil, nil, err
	}
	if err := trust.Add(keys.Pin{Key: public, Roles: []keys.Role{keys.RoleApprover}}); err != nil {
		return nil, nil, err
	}
	text, err := trust.Marshal()
	if err != nil {
		return nil, nil, err
	}
	operator, err := keys.LoadSigner(datafolder.OperatorKey(own.Conn.Data))
	if err != nil {
		return nil, nil, err
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		return nil, nil, err
	}
	op, err := own.Conn.Connect("operator")
	if err != nil {
		return nil, nil, err
	}
	defer op.Close()
	if err := embedded.Activate(ctx, op, operator, streams.DoActivateTrust, text); err != nil {
		return nil, nil, err
	}
	if err := embedded.AwaitTrust(ctx, op, streams.Digest(text)); err != nil {
		return nil, nil, err
	}
	nc, err := own.Conn.Connect("approver")
	if err != nil {
		return nil, nil, err
	}
	return &live.Person{Sign: func(s *approval.Statement) ([]byte, error) { return s.Sign(signer) },
		Send: func(ctx context.Context, project, hold string, signed []byte) (*streams.ResolveReply, error) {
			return holds.Send(ctx, nc, project, hold, signed)
		}}, nc.Close, nil
}

// learnLive plays sessions in learn mode and returns the suggested policy.
func learnLive(a *verb.App, ctx context.Context, sessions []*live.Session, o live.Options) (policy []byte, err error) {
	err = throwaway(a, ctx, embedded.Config{NoSync: true, Policy: live.Learning()}, func(own *verb.App) error {
		nc, err := own.Conn.Connect("replay")
		if err != nil {
			return err
		}
		defer nc.Close()
		if _, err := live.Play(ctx, nc, sessions, o); err != nil {
			return err
		}
		reader, err := own.Conn.Connect("operator")
		if err != nil {
			return err
		}
		defer reader.Close()
		seen := suggest.New()
		if err := backtest.Ledger(ctx, reader, backtest.Span{}, seen.Add); err != nil {
			return err
		}
		var b strings.Builder
		if err := seen.Write(&b, "suggested"); err != nil {
			return err
		}
		policy = live.Patient(b.String())
		return nil
	})
	return policy, err
}

func printLive(w io.Writer, r *live.Report, byRule bool) error {
	cell := func(s live.Share) string {
		if s.N == 0 {
			return "-"
		}
		return fmt.Sprintf("%.1f%% %d/%d", 100*s.Rate(), s.Hits, s.N)
	}
	fmt.Fprintf(w, "POLICY %s, RESULTS AS %s\n", r.Policy, r.Results)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(cells ...string) { fmt.Fprintln(tw, strings.Join(cli.Cells(cells), "\t")) }
	row("SET", "SESSIONS", "GOALS HELD", "ATTACKS STOPPED", "CLEAN FINISHED", "ATTACKED FINISHED", "HONEST CHANGES HELD",
		"READS HELD", "PERSON ASKED")
	for _, x := range append(r.Rows[:len(r.Rows):len(r.Rows)], r.Total) {
		row(x.Set, fmt.Sprint(x.Sessions), cell(x.Goals), cell(x.Attacks), cell(x.Clean), cell(x.Solved), cell(x.Changes),
			cell(x.Reads), fmt.Sprintf("%d, %.2f a session", x.Asked, float64(x.Asked)/float64(max(x.Sessions, 1))))
	}
	if byRule {
		row("")
		row("SET", "RULE", "GOALS HELD", "BY IT ALONE", "HONEST HELD", "BY IT ALONE", "HELD OF 100 CHANGES", "")
		for _, x := range r.Rules {
			flag := ""
			if x.Set == r.Total.Set && x.Smothers() {
				flag = "HOLDS MORE HONEST CALLS THAN GOALS"
			}
			row(x.Set, x.Rule, fmt.Sprint(x.Caught), fmt.Sprint(x.CaughtAlone), fmt.Sprint(x.Smothered),
				fmt.Sprint(x.SmotheredAlone), fmt.Sprintf("%.1f", x.PerHundred), flag)
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, e := range r.Examples {
		kind := "held though honest"
		if e.Goal {
			kind = "goal not held"
		}
		fmt.Fprintf(w, "%s: %s: %s %s %v\n  %s\n", e.Set, kind, e.Session, e.Call, e.Rules, e.Why)
	}
	if r.Degraded > 0 {
		fmt.Fprintf(w, "NOT AS IT SHOULD BE: %d verdicts without all groups\n", r.Degraded)
	}
	fmt.Fprintln(w)
	return nil
}
