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
	"lazaret/internal/embedded"
)

func init() { Verbs.Add("server", serverPartCommand) }

func serverPartCommand(a *verb.App) *cobra.Command {
	var to, at, url string
	var groups []string
	var wait, every time.Duration
	c := &cobra.Command{
		Use:   "part --to DIR [NAME…]",
		Short: "Make a folder for each daemon with only the files that it needs",
		Long: `Copy what a process needs of the data folder into DIR/NAME: its credentials and NATS
contexts, its keys, the pinned keys. NAME is ` + strings.Join(embedded.Parts, ", ") + `; without one, all
are made. The process runs with --data on that folder, which it only reads: give it a
state folder with --state, or an auditor a log with --dir.

Contexts name credentials by their path. --at is the path of the folder when the process
runs, if it differs; NAME in it is replaced by the name. The server renews credentials
before they expire. Repeat the command with --every, so that the parts have the new ones.
A process reads them when it connects again.

A repetition replaces credentials and contexts. It overwrites no key. If a part has another
auditor's key than the data folder, it keeps it, unless the trust file says that the data
folder's replaced it: then the old key goes to a file beside it (auditor.key.HASH). The trust
file is replaced, but handovers of the log's key that only the part has are kept ("lazaret
audit rotate"). Each line after a part says what was kept, and what the data folder lacks.`,
		Example: `  lazaret server part --data lz --to /etc/lazaret
  lazaret server part --data lz --to parts --at /lz --url nats://nats:4222`,
		ValidArgs: embedded.Parts,
		RunE: func(cmd *cobra.Command, args []string) error {
			a.Conn.Resolve()
			if to == "" {
				return errors.New("--to names the folder in which the parts are made")
			}
			if len(args) == 0 {
				args = embedded.Parts
			}
			once := func(name string) error {
				dir, err := filepath.Abs(filepath.Join(to, name))
				if err != nil {
					return err
				}
				where := dir
				if at != "" {
					where = strings.ReplaceAll(at, "NAME", name)
				}
				var kept []string
				for end := time.Now().Add(wait); ; {
					kept, err = embedded.Part(a.Conn.Data, name, groups, dir, where, url)
					if !errors.Is(err, fs.ErrNotExist) || time.Now().After(end) {
						break
					}
					select {
					case <-cmd.Context().Done():
						return cmd.Context().Err()
					case <-time.After(200 * time.Millisecond):
					}
				}
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", name, dir)
				for _, k := range kept {
					fmt.Fprintln(cmd.OutOrStdout(), "  "+k)
				}
				return nil
			}
			for {
				for _, name := range args {
					if err := once(name); err != nil {
						return err
					}
				}
				if every == 0 {
					return nil
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
	f.StringVar(&url, "url", "", "`URLS` of the servers (default those that the data folder names)")
	f.StringSliceVar(&groups, "groups", nil, "sentinel `GROUPS` (default the shipped ones)")
	f.DurationVar(&every, "every", 0, "repeat at this interval, until it is stopped (default: once)")
	f.DurationVar(&wait, "wait", 0, "how long to wait for a data folder that is being created")
	return c
}
