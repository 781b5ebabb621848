package admin

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lazaret/internal/cli/verb"
	"lazaret/internal/part"
)

func init() { Verbs.Add("server", serverPartCommand) }

func serverPartCommand(a *verb.App) *cobra.Command {
	var to, at string
	var o part.Part
	var wait, every time.Duration
	c := &cobra.Command{
		Use:   "part --to DIR [NAME…]",
		Short: "Make a folder for each daemon with only the files that it needs",
		Long: `Copy the part of the data folder that one process needs into DIR/NAME: its credentials and
NATS contexts, its keys, and the trust file with the pinned keys. NAME is one of
` + strings.Join(part.Names, ", ") + `. Without a NAME, all parts are made.
Run the process with --data on its part. It only reads this folder, so also give it a folder for
its state with --state, or for an auditor a folder for the log with --dir.

The contexts in a part name credentials by their path. If the process finds its part at
another path than DIR/NAME, give this path as --at; NAME in it is replaced by the part's
name. Credentials are renewed before they expire. With --every, the command repeats, so that
the parts get the renewed ones. A process reads them when it connects again.

If the command is repeated, it replaces credentials, contexts and the trust file, and
overwrites no key. Two rules are for the auditor's part. If its key is not that of the data
folder, the part keeps its own key; only if the trust file says that the data folder's key
replaced it, the part gets the new key, and the old one is kept beside it
(auditor.key.HASH). In its trust file, the part keeps handovers that only it has ("lazaret
audit rotate"): the pins of keys whose private keys are in the part, and replaced_at of the
keys before them. With --trust-of-data, it gets the data folder's trust file unchanged.
Below the name of each part, the output says what the part kept.

An error about one part does not keep the command from making the others. If only the trust
file of a part cannot be written, the part still gets credentials and keys. With --every,
errors are printed, and the command goes on.`,
		Example: `  lazaret server part --data lz --to /etc/lazaret
  lazaret server part --data lz --to parts --at /lz --url nats://nats:4222`,
		ValidArgs: part.Names,
		RunE: func(cmd *cobra.Command, args []string) error {
			a.Conn.Resolve()
			if to == "" {
				return errors.New("--to is missing: give the folder in which the parts are made")
			}
			if len(args) == 0 {
				args = part.Names
			}
			once := func() error {
				var errs []error
				for _, name := range args {
					dir, err := filepath.Abs(filepath.Join(to, name))
					if err != nil {
						return err
					}
					o := o
					o.Data, o.Name, o.Dir, o.At = a.Conn.Data, name, dir, dir
					if at != "" {
						o.At = strings.ReplaceAll(at, "NAME", name)
					}
					if err := makePart(cmd, o, wait); err != nil {
						errs = append(errs, fmt.Errorf("part %s: %w", name, err))
					}
				}
				return errors.Join(errs...)
			}
			for {
				err := once()
				if every == 0 || cmd.Context().Err() != nil {
					return err
				}
				if err != nil {
					fmt.Fprintln(cmd.ErrOrStderr(), err)
				}
				select {
				case <-cmd.Context().Done():
					return nil
				case <-time.After(every):
				}
			}
		},
	}
	f := c.Flags()
	f.StringVar(&to, "to", "", "make the parts in `DIR`")
	f.StringVar(&at, "at", "", "`PATH` at which a process finds its part (default DIR/NAME)")
	f.StringVar(&o.URL, "url", "", "`URLS` of the servers (default those that the data folder names)")
	f.StringSliceVar(&o.Groups, "groups", nil, "sentinel `GROUPS` (default the shipped ones)")
	f.DurationVar(&every, "every", 0, "repeat the command at this `INTERVAL` until it is stopped (default: run once)")
	f.DurationVar(&wait, "wait", 0, "how long to wait for a data folder that is being created")
	f.BoolVar(&o.TrustOfData, "trust-of-data", false,
		"pin in an auditor's part exactly the keys of the data folder, also if this removes a key or a replaced_at from "+
			"the part")
	return c
}

// makePart makes a part. It prints the folder of the part, and a line about each key or pin in which the part differed
// from the data folder. It waits for files that the data folder does not have yet.
func makePart(cmd *cobra.Command, o part.Part, wait time.Duration) error {
	for end := time.Now().Add(wait); ; {
		kept, err := o.Make()
		if errors.Is(err, fs.ErrNotExist) && time.Now().Before(end) {
			select {
			case <-cmd.Context().Done():
				return cmd.Context().Err()
			case <-time.After(200 * time.Millisecond):
			}
			continue
		}
		if err == nil || len(kept) > 0 {
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", o.Name, o.Dir)
		}
		for _, k := range kept {
			fmt.Fprintln(cmd.OutOrStdout(), "  "+k)
		}
		return err
	}
}
