package lab

import (
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
		Short: "Check a sentinel group in any language (exit 2 if a check fails)",
		Long: `Start a new pipeline that requires the group, run COMMAND against it, and check in the
ledger that COMMAND fulfills docs/sentinels.md: it answers each proposal once and in
order, survives kill -9, works as two processes at the same time, skips invalid entries,
and can make verdicts stricter but not more lenient. COMMAND gets these environment
variables:

  NATS_URL, NATS_CREDS       the server, and the group's credentials file
  NATS_INBOX_PREFIX          the inbox prefix to which the credential may subscribe
  LAZARET_GROUP              the group's name
  LAZARET_DIGEST             the digest for its assessments; empty: that of the active rules
  LAZARET_STATE              its folder, which is kept when it restarts
  LAZARET_TRUST              the pinned keys

COMMAND must run until it is killed. The check does not affect other installations.`,
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
				return cli.Negative("group %s fails %d of %d checks", cfg.Group, n, len(results))
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&cfg.Group, "group", "", "`NAME` of the group")
	f.StringVar(&cfg.Digest, "digest", conformance.DefaultDigest,
		"`DIGEST` that the policy pins for the group; rules: the digest of the rule set in force")
	f.DurationVar(&cfg.Deadline, "deadline", conformance.DefaultDeadline,
		"longest time in which COMMAND must answer a single proposal")
	f.IntVar(&cfg.Proposals, "proposals", conformance.DefaultProposals,
		"number of proposals of a check; lower it for a slow COMMAND")
	f.DurationVar(&cfg.Patience, "patience", conformance.DefaultPatience,
		"longest wait of a check for all answers; raise it for a slow COMMAND")
	f.StringVar(&cfg.Poison, "poison", conformance.DefaultPoison, "a `TEXT` that the group must object to")
	f.BoolVar(&cfg.FailFast, "fail-fast", false, "end with the first check that fails")
	f.BoolVarP(&verbose, "verbose", "v", false, "show the output of the command")
	c.MarkFlagRequired("group")
	return verb.Group("conformance", "Check programs of others against the protocol", c)
}
