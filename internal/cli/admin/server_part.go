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
		Long: `Copy what a process needs of the data folder into DIR/NAME: its credentials and NATS
contexts, its keys, the pinned keys. NAME is ` + strings.Join(part.Names, ", ") + `; without one, all
are made. The process runs with --data on that folder, which it only reads: give it a
state folder with --state, or an auditor a log with --dir.

Contexts name credentials by their path. --at is the path of the folder when the process
runs, if it differs; NAME in it is replaced by the name. The server renews credentials
before they expire. Repeat the command with --every, so that the parts have the new ones.
A process reads them when it connects again.

A repetition replaces credentials and contexts. It overwrites no key. If the auditor's key in
a part is not that of the data folder, the part keeps its own. But if the trust file says that
the data folder's key replaced the part's, the part gets the new key, and the old one is kept
beside it (auditor.key.HASH). The trust file is replaced. But an auditor's part keeps the
handovers that only this part has ("lazaret audit rotate"): the pins of keys whose private
keys are in the part, and replaced_at of the keys before them. Below the name of each part,
the output says what the part kept. --trust-of-data keeps no pin.

An error about one part does not keep the command from making the others. If only the trust
file of a part cannot be written, the part still gets credentials and keys. With --every,
errors are printed, and the command goes on.`,
		Example: `  lazaret server part --data lz --to /etc/lazaret
  lazaret server part --data lz --to parts --at /lz --url nats://nats:4222`,
		ValidArgs: part.Names,
		RunE: func(cmd *cobra.Command, args []string) error {
			a.Conn.Resolve()
			if to == "" {
				return errors.New("--to names the folder in which the parts are made")
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
	f.DurationVar(&every, "every", 0, "repeat at this interval, until it is stopped (default: once)")
	f.DurationVar(&wait, "wait", 0, "how long to wait for a data folder that is being created")
	f.BoolVar(&o.TrustOfData, "trust-of-data", false,
		"give an auditor's part the data folder's pins as they are, to remove a key or replaced_at on purpose")
	return c
}

// makePart makes a part and prints what was kept. It waits for files that the data folder does not have yet.
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
