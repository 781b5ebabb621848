package policy

import (
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/embedded"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/policy"
	"lazaret/pkg/text"
	"lazaret/streams"
)

func init() { Verbs.Add("", policyCommand) }

func policyCommand(a *verb.App) *cobra.Command {
	load := func(args []string) ([]byte, error) {
		b, name := policy.Default, policy.DefaultName
		if len(args) == 1 {
			var err error
			if b, err = os.ReadFile(args[0]); err != nil {
				return nil, err
			}
			name = args[0]
		}
		_, err := policy.Compile(name, b)
		return b, err
	}
	show := &cobra.Command{Use: "show", Short: "Print the shipped policy, as a start for your own", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(policy.Default)
			return err
		}}
	return verb.Group("policy", "The arbiter's policy", checkCommand(load), lsCommand(load), explainCommand(load),
		show, a.Activate("activate [FILE]", "Sign and activate a policy", streams.DoActivatePolicy, load))
}

// policyLoader reads the policy of a file, or the shipped policy if no file is given.
type policyLoader func(args []string) ([]byte, error)

func (load policyLoader) compile(args []string) (*policy.Policy, error) {
	b, err := load(args)
	if err != nil {
		return nil, cli.Invalid(err)
	}
	return policy.Compile("policy", b)
}

func checkCommand(load policyLoader) *cobra.Command {
	var json bool
	c := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a policy, by default the shipped one (exit 2 when it is invalid)",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := load.compile(args)
			if err != nil {
				return notAPolicy(args, err)
			}
			notes := policyNotes(p)
			if json {
				return cli.JSON(cmd.OutOrStdout(), map[string]any{"name": p.Name, "digest": p.Digest, "mode": p.Mode,
					"entries": len(p.Entries()), "notes": notes})
			}
			fmt.Fprintln(cmd.OutOrStdout(), "the policy is good,", p.Digest)
			for _, n := range notes {
				fmt.Fprintln(cmd.OutOrStdout(), "note:", n)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&json, "json", false, "print JSON")
	return c
}

// notAPolicy returns err. If the file has none of a policy's keys, it adds how to get a policy.
func notAPolicy(args []string, err error) error {
	if len(args) == 0 {
		return err
	}
	text, readErr := os.ReadFile(args[0])
	if readErr != nil || regexp.MustCompile(`(?m)^(mode|tools|otherwise|egress|protected)\s*:`).Match(text) {
		return err
	}
	why := fmt.Sprintf("%v\n%s is not a policy: `lazaret policy show` prints one to start from; "+
		"`lazaret rules check DIR` checks rules", err, args[0])
	return &cli.Exit{Code: cli.ExitNegative, Text: why}
}

// policyNotes returns warnings about legal but doubtful parts of a policy.
func policyNotes(p *policy.Policy) []string {
	notes := []string{}
	if p.Learn() {
		notes = append(notes, "in learn mode nothing is held or denied: the verdicts are only recorded")
	}
	if len(p.Always()) == 0 {
		notes = append(notes, "no sentinel group has to assess every proposal")
	}
	if p.AdmitsMetadata() {
		notes = append(notes, "egress allows metadata services, which hand out the machine's credentials")
	}
	if !slices.ContainsFunc(p.Entries(), func(e policy.Entry) bool { return e.Name == policy.Otherwise }) {
		notes = append(notes, "the policy has no key `otherwise`, so tools that match no entry are denied")
	}
	for _, e := range p.Entries() {
		if e.Name != policy.Otherwise && len(e.Effects) == 0 && e.Verdict == streams.Allow && e.Level >= beliefs.L2 {
			notes = append(notes, fmt.Sprintf("entry %s names no effects, so the policy does not know what its "+
				"actions affect, and all their arguments are checked as destinations", e.Name))
		}
	}
	return notes
}

func lsCommand(load policyLoader) *cobra.Command {
	var f cli.ListFlags
	c := &cobra.Command{
		Use:     "ls [FILE]",
		Short:   "List a policy's entries, strictest first",
		Example: `  lazaret policy ls --where 'level == "L4"' policy.yaml`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := load.compile(args)
			if err != nil {
				return err
			}
			return cli.Print(cmd.OutOrStdout(), f, p.Entries(), []string{"ENTRY", "LEVEL", "VERDICT", "EFFECTS", "BLAST",
				"REVERSIBILITY", "FOR"}, func(e policy.Entry) []string {
				return []string{e.Name, e.Level.String(), e.Verdict.String(), strings.Join(e.Effects, ","), e.Blast.String(),
					e.Reversibility.String(), policyFor(e)}
			})
		},
	}
	f.Bind(c.Flags())
	return c
}

// policyFor describes the calls that an entry applies to.
func policyFor(e policy.Entry) string {
	var parts []string
	for _, x := range []struct {
		what  string
		words []string
	}{{"", e.Tools}, {"verbs ", append(slices.Clone(e.Verbs), e.Ambiguous...)}, {"with ", e.Objects}} {
		if len(x.words) > 0 {
			parts = append(parts, x.what+strings.Join(x.words, " "))
		}
	}
	if e.When != "" {
		parts = append(parts, "when "+e.When)
	}
	return strings.Join(parts, "; ")
}

// noteHints says which names in a tool's annotations are not those of MCP.
func noteHints(w io.Writer, annotations string) {
	var all map[string]any
	if streams.Unmarshal([]byte(annotations), &all) != nil {
		return // the explanation says that they cannot be read
	}
	for _, known := range []string{"title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"} {
		delete(all, known)
	}
	verb.NoteUnread(w, "--annotations", slices.Collect(maps.Keys(all)))
}

func explainCommand(load policyLoader) *cobra.Command {
	var project, agent, args, annotations string
	var json bool
	c := &cobra.Command{
		Use:   "explain TOOL [FILE]",
		Short: "Explain a policy's decision on a call (exit 10 hold, 11 deny)",
		Long: `Explain the decision of a policy alone on a call of TOOL: the matching entries, the true
conditions, the destinations in the arguments, and the sentinel groups that the verdict waits
for, each with its deadline. Sentinels, beliefs and budgets, which can only make the verdict
stricter, are ignored. So are standing permissions, which expire by ledger time.`,
		Example: `  lazaret policy explain fetch_page --args '{"url":"http://169.254.169.254/"}'
  lazaret policy explain crm.delete_user policy.yaml`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, pos []string) error {
			p, err := load.compile(pos[1:])
			if err != nil {
				return err
			}
			noteHints(cmd.ErrOrStderr(), annotations)
			x := p.Explain(pos[0], []byte(args), []byte(annotations), project, agent)
			if json {
				err = printPolicyJSON(cmd.OutOrStdout(), p, x)
			} else {
				err = printPolicy(cmd.OutOrStdout(), p, x)
			}
			if err != nil {
				return err
			}
			return cli.VerdictExit(x.Class.Floor)
		},
	}
	f := c.Flags()
	f.StringVar(&args, "args", "", "arguments of the call, a JSON `OBJECT`")
	f.StringVar(&annotations, "annotations", "", "annotations of the tool in its server's list, a JSON `OBJECT`")
	f.StringVar(&project, "project", embedded.DefaultProject, "`PROJECT` for conditions")
	f.StringVar(&agent, "agent", embedded.DefaultAgent, "`AGENT` for conditions")
	f.BoolVar(&json, "json", false, "print JSON")
	return c
}

type policyGroup struct {
	Group    string `json:"group"`
	Deadline string `json:"deadline"`
}

func waitsFor(p *policy.Policy, c policy.Class) (out []policyGroup) {
	for _, g := range p.Required(c) {
		out = append(out, policyGroup{g.Name, p.Wait(g, c.Level).String()})
	}
	return out
}

func printPolicyJSON(w io.Writer, p *policy.Policy, x policy.Explanation) error {
	return cli.JSON(w, struct {
		policy.Explanation
		Policy        string           `json:"policy"` // digest
		Learn         bool             `json:"learn,omitzero"`
		Verdict       streams.Verdict  `json:"verdict"`
		Level         string           `json:"level"`
		Entry         string           `json:"entry"` // the policy entry that set the level
		Effects       []string         `json:"effects,omitzero"`
		Blast         string           `json:"blast_radius,omitzero"`
		Reversibility string           `json:"reversibility,omitzero"`
		Reasons       []streams.Reason `json:"reasons,omitzero"`
		Groups        []policyGroup    `json:"groups,omitzero"`
		OnSilent      streams.Verdict  `json:"on_silent"`
	}{x, p.Digest, p.Learn(), x.Class.Floor, x.Class.Level.String(), x.Class.Entry, x.Class.Effects,
		x.Class.Blast.String(), x.Class.Reversibility.String(),
		x.Class.Reasons, waitsFor(p, x.Class), p.OnSilent})
}

func printPolicy(w io.Writer, p *policy.Policy, x policy.Explanation) error {
	c := x.Class
	fmt.Fprintf(w, "%s  %s  %s\n", strings.ToUpper(c.Floor.String()), c.Level, text.InertLine(x.Tool, 80))
	if p.Learn() {
		fmt.Fprintln(w, "  the policy is in learn mode: this verdict is recorded, and the call is allowed")
	}
	fmt.Fprintf(w, "  words: %s\n", text.InertLine(strings.Join(x.Words, " "), 200))
	if len(x.Matches) == 0 {
		fmt.Fprintln(w, "  no entry matches this tool")
	}
	for _, m := range x.Matches {
		mark := "-"
		if m.Met {
			mark = "+"
		}
		fmt.Fprintf(w, "  %s %s (%s, %s): %s\n", mark, m.Entry, m.Level, m.Verdict, m.Because)
		if m.When != "" {
			fmt.Fprintf(w, "      when %s\n", text.InertLine(m.When, 200))
		}
		if m.Error != "" {
			fmt.Fprintf(w, "      %s\n", text.InertLine(m.Error, 300))
		}
	}
	for _, r := range c.Reasons {
		fmt.Fprintf(w, "  %-5s %s: %s\n", r.Verdict, r.Code, text.InertLine(r.Text, 300))
	}
	if len(c.Effects) > 0 {
		fmt.Fprintf(w, "  effects: %s\n", strings.Join(c.Effects, ", "))
	}
	for _, g := range waitsFor(p, c) {
		fmt.Fprintf(w, "  waits for sentinel group %s for %s; if the group is silent: %s\n", g.Group, g.Deadline, p.OnSilent)
	}
	return nil
}
