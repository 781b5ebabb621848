package audit

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/datafolder"
	"lazaret/internal/inquiry"
	"lazaret/pkg/chain"
)

func init() { Verbs.Add("audit", bundleCommand, sealCommand) }

func bundleCommand(a *verb.App) *cobra.Command {
	var f LogFlags
	var o inquiry.BundleOptions
	var file string
	var json bool
	c := &cobra.Command{
		Use:   "bundle",
		Short: "Export a range of the log with its proofs as one file",
		Long: `Export a range of the log's leaves as a ZIP file that can be verified without the log:
entries, the signed checkpoint at their end, the hashes of the tree before them, the
policies, rule sets and keys that were in force, digests, and a README. "audit verify
--bundle FILE --keys TRUST" verifies the bundle on any machine.

A bundle begins and ends at checkpoints that the log has stored. If no checkpoint ends at
the leaf --from or --to, the command takes the nearest checkpoint before --from or after
--to.`,
		Example: "  lazaret audit bundle -o log.zip\n  lazaret audit bundle --from 1000 --to 2000 --without-payloads " +
			"-o part.zip",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return errors.New("name a file with -o")
			}
			return withLog(a, cmd.Context(), f, inquiry.Options{}, func(l *inquiry.Log) (err error) {
				if o.Trust, err = os.ReadFile(datafolder.TrustFile(a.Conn.Data)); err != nil {
					return err
				}
				if o.From, o.To, err = l.AtCheckpoints(o.From, o.To); err != nil {
					return err
				}
				info, err := l.WriteBundle(cmd.Context(), file, o)
				if err != nil {
					return err
				}
				if err := printBundles(cmd.OutOrStdout(), json, []inquiry.Sealed{{File: file, BundleInfo: info}}); err != nil {
					return err
				}
				return told(cmd, l.Integrity())
			})
		},
	}
	f.bind(c.Flags())
	c.Flags().StringVarP(&file, "output", "o", "", "`FILE` to write")
	c.Flags().Int64Var(&o.From, "from", 0, "first leaf `INDEX`")
	c.Flags().Int64Var(&o.To, "to", 0, "end before the leaf with this `INDEX` (default: at the last checkpoint)")
	c.Flags().BoolVar(&o.WithoutPayloads, "without-payloads", false, "leave out the payloads")
	c.Flags().BoolVar(&json, "json", false, "print JSON")
	return c
}

func printBundles(w io.Writer, json bool, items []inquiry.Sealed) error {
	if items == nil {
		items = []inquiry.Sealed{}
	}
	return cli.Print(w, cli.ListFlags{JSON: json}, items, []string{"FILE", "LEAVES", "FIRST", "LAST", "PAYLOADS",
		"FORGOTTEN", "SHA256"}, func(s inquiry.Sealed) []string {
		return []string{s.File, fmt.Sprintf("%d-%d", s.From, s.To-1), s.First.UTC().Format(time.DateTime),
			s.Last.UTC().Format(time.DateTime), fmt.Sprint(s.Payloads), fmt.Sprint(s.Forgotten), s.SHA256}
	})
}

func sealCommand(a *verb.App) *cobra.Command {
	var f LogFlags
	var o inquiry.BundleOptions
	var dir, by string
	var older time.Duration
	var json bool
	c := &cobra.Command{
		Use:   "seal",
		Short: "Export the log's past in sealed shards, one per month or day",
		Long: `Export a bundle for each past period of the log that has none yet. Shards begin and end
at signed checkpoints, and each begins where the previous one ends. The command can be
repeated: existing shards stay unchanged, and shards may be moved away. The file
"sealed" in the folder has the leaf at which the next shard begins.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withLog(a, cmd.Context(), f, inquiry.Options{}, func(l *inquiry.Log) (err error) {
				dir = cmp.Or(dir, filepath.Join(a.Conn.Data, "shards"))
				if o.Trust, err = os.ReadFile(datafolder.TrustFile(a.Conn.Data)); err != nil {
					return err
				}
				done, err := l.Seal(cmd.Context(), dir, inquiry.Period(by), time.Now().Add(-older), o)
				if err == nil && len(done) == 0 && !json {
					ended := "has ended"
					if older > 0 {
						ended += fmt.Sprintf(" at least %v ago", older)
					}
					fmt.Fprintf(cmd.OutOrStdout(), "nothing to seal: since the last shard in %s, or since the log's beginning, "+
						"no %s %s (UTC) and has a later checkpoint\n", dir, by, ended)
					return told(cmd, l.Integrity())
				}
				return errors.Join(printBundles(cmd.OutOrStdout(), json, done), err, told(cmd, l.Integrity()))
			})
		},
	}
	f.bind(c.Flags())
	c.Flags().StringVarP(&dir, "output", "o", "", "`FOLDER` of the shards (default DATA/shards)")
	c.Flags().StringVar(&by, "by", string(inquiry.ByMonth), "`PERIOD` of a shard: month or day, by UTC")
	c.Flags().DurationVar(&older, "older", 0, "only periods that ended at least this `DURATION` ago")
	c.Flags().BoolVar(&o.WithoutPayloads, "without-payloads", false, "leave out the payloads")
	c.Flags().BoolVar(&json, "json", false, "print JSON")
	return c
}

// verifyBundle verifies a bundle with the keys of the named trust file, or of the data folder's.
func verifyBundle(a *verb.App, cmd *cobra.Command, file, trust string, against [][]byte) (chain.Report, error) {
	if trust == "" {
		if _, err := os.Stat(datafolder.TrustFile(a.Conn.Data)); err == nil {
			trust = datafolder.TrustFile(a.Conn.Data)
		}
	}
	if trust == "" {
		return inquiry.VerifyBundle(cmd.Context(), file, nil, against, nil)
	}
	pinned, err := inquiry.LoadTrustFile(trust)
	if err != nil {
		return chain.Report{}, fmt.Errorf("reading the keys that may sign checkpoints: %w", err)
	}
	return inquiry.VerifyBundle(cmd.Context(), file, pinned, against, nil)
}
