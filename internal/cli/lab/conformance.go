package lab

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/conformance"
)

func init() { Verbs.Add("", conformanceCommand) }

func conformanceCommand(a *verb.App) *cobra.Command {
	var cfg conformance.Config
	var verbose bool
	c := &cobra.Command{
		Use:   "sentinel --group NAME -- COMMAND…",
		Short: "Check a sentinel group in any language (exit 2 when it breaks a promise)",
		Long: `Start a pipeline of its own that requires the group, run COMMAND against it, and
check on the ledger that it keeps the promises of docs/sentinels.md: each proposal
answered once and in order, kill -9 survived, two processes at once, junk skipped,
verdicts tightened and never loosened. COMMAND finds in its environment

  NATS_URL, NATS_CREDS       the server, and the group's credentials file
  NATS_INBOX_PREFIX          the inbox prefix that the credential may hear
  LAZARET_GROUP              the group's name
  LAZARET_DIGEST             what its assessments have to carry; empty: the rules in force
  LAZARET_STATE              a folder of its own that survives its restarts
  LAZARET_TRUST              the pinned keys

It must run until it is killed. Nothing of it touches another installation.`,
		Example: "  lazaret conformance sentinel --group judge -- node judge.mjs",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg.Command, cfg.Out = args, cmd.OutOrStdout()
			if verbose {
				cfg.Log = os.Stderr
			}
			results, err := conformance.Sentinel(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			if n := conformance.Failed(results); n > 0 {
				return &cli.Exit{Code: cli.ExitNegative, Text: fmt.Sprintf("group %s fails %d of %d checks", cfg.Group, n,
					len(results))}
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&cfg.Group, "group", "", "`NAME` of the group")
	f.StringVar(&cfg.Digest, "digest", conformance.DefaultDigest,
		"`DIGEST` that the policy pins for it; rules: that of the rule set in force")
	f.DurationVar(&cfg.Deadline, "deadline", conformance.DefaultDeadline, "how long a lone proposal may take")
	f.IntVar(&cfg.Proposals, "proposals", conformance.DefaultProposals, "proposals that a check makes")
	f.DurationVar(&cfg.Patience, "patience", conformance.DefaultPatience, "how long a check waits for all of its answers")
	f.StringVar(&cfg.Poison, "poison", conformance.DefaultPoison, "a `TEXT` that the group must object to")
	f.BoolVar(&cfg.FailFast, "fail-fast", false, "end with the first check that fails")
	f.BoolVarP(&verbose, "verbose", "v", false, "show what the command prints")
	c.MarkFlagRequired("group")
	return verb.Group("conformance", "Check programs of others against the protocol", c)
}
