package hosts

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/connect"
	"lazaret/internal/embedded"
	"lazaret/internal/hook"
	"lazaret/internal/hookcli"
	"lazaret/internal/mcpwire"
)

func init() { Verbs.Add("", connectCommand) }

func connectCommand(a *verb.App) *cobra.Command {
	var s verb.Speaker
	var home, record string
	var yes, undo, asJSON bool
	var left []string // servers that are not changed, each with the reason
	config := func(cmd *cobra.Command) (connect.Config, error) {
		return connectConfig(a, &s, home, record, cmd.Flags().Changed("data"), &left)
	}
	c := &cobra.Command{
		Use:   "connect",
		Short: "Guard the agent hosts of this machine: hooks and MCP servers",
		Long: `Find Claude Code, Codex, Cursor, Gemini CLI and VS Code in the home folder, and print the
planned changes: hooks are installed in hosts that support them, and each MCP server is
started or reached through "lazaret mcp". A server to which the host signs in, or which asks
for a sign-in, is not changed. --yes makes the changes. The rest of each file stays
unchanged. --undo restores the files byte for byte. If somebody else has changed a file
since, --undo removes only the entries that this command added to it. See docs/connect.md.`,
		Example: `  lazaret connect --data ~/lazaret/data          # shows it
  lazaret connect --data ~/lazaret/data --yes
  lazaret connect status
  lazaret connect --undo`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config(cmd)
			if err != nil {
				return err
			}
			if undo {
				return undone(cmd.OutOrStdout(), cfg)
			}
			return connected(a, cmd, cfg, &s, yes, &left)
		},
	}
	status := &cobra.Command{
		Use: "status", Short: "Show what is guarded on this machine and what is not", Args: cobra.NoArgs,
		Long: "Show what is guarded on this machine and what is not. Exit code 2 if something is not.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config(cmd)
			if err != nil {
				return err
			}
			found, err := connect.Status(cfg)
			if err != nil {
				return err
			}
			if asJSON {
				if err := json.NewEncoder(cmd.OutOrStdout()).Encode(found); err != nil {
					return err
				}
			} else {
				show(cmd.OutOrStdout(), found)
			}
			for _, f := range found {
				if !f.Guarded() {
					return &cli.Exit{Code: cli.ExitNegative}
				}
			}
			return nil
		},
	}
	for _, c := range []*cobra.Command{c, status} {
		c.Flags().StringVar(&home, "home", "", "home `FOLDER` to look in (default: yours)")
	}
	f := c.Flags()
	f.StringVar(&s.Project, "project", embedded.DefaultProject, "`PROJECT` that the hosts speak for")
	f.StringVar(&s.Agent, "agent", embedded.DefaultAgent, "`AGENT` that the hosts speak for")
	f.StringVar(&record, "record", "",
		"`FILE` that records the changes (default: .local/state/lazaret/connect.json in the home folder)")
	f.BoolVar(&yes, "yes", false, "make the changes")
	f.BoolVar(&undo, "undo", false, "undo the changes")
	c.MarkFlagsMutuallyExclusive("yes", "undo")
	status.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.AddCommand(status)
	return c
}

// connectConfig returns the configuration of the changes that guard a host. It appends the servers that are not
// changed, with the reason, to left. named says that the user named a data folder: then hooks for another data folder
// do not count as installed.
func connectConfig(a *verb.App, s *verb.Speaker, home, record string, named bool, left *[]string) (connect.Config,
	error) {
	cfg := connect.Config{Home: home, Record: record}
	var err error
	if cfg.Home == "" {
		if cfg.Home, err = os.UserHomeDir(); err != nil {
			return cfg, err
		}
	}
	cfg.Record = cmp.Or(cfg.Record, filepath.Join(cfg.Home, ".local", "state", "lazaret", "connect.json"))
	exe, err := os.Executable()
	if err != nil {
		return cfg, err
	}
	a.Conn.Resolve()
	data, err := filepath.Abs(a.Conn.Data)
	if err != nil {
		return cfg, err
	}
	if cfg.Folder, err = os.Getwd(); err != nil {
		return cfg, err
	}
	cfg.Installed = func(h *hook.Host, line string) (hook.Handler, error) {
		if !named {
			return hookcli.Installed(h, line, "")
		}
		return hookcli.Installed(h, line, data)
	}
	cfg.Wrap = func(server connect.Server) (connect.Server, bool) {
		args := []string{"mcp", "--data", data, "--project", s.Project, "--agent", s.Agent, "--"}
		if server.URL != "" {
			if err := mcpwire.Probe(server.URL); err != nil {
				*left = append(*left, fmt.Sprintf("%s: %s: %v", server.Name, server.URL, err))
				return server, false
			}
			args = append(args, server.URL)
		} else {
			args = append(append(args, server.Command), server.Args...)
		}
		return connect.Server{Name: server.Name, Command: exe, Args: args}, true
	}
	cfg.Handler = func(h *hook.Host) hook.Handler {
		return hook.Handler{Command: hookcli.CommandLine(exe, h.Name, s.Project, s.Agent, data),
			Timeout: hookcli.Limit(a.Conn.Timeout)}
	}
	return cfg, nil
}

// connected prints the plan, and executes it with --yes.
func connected(a *verb.App, cmd *cobra.Command, cfg connect.Config, s *verb.Speaker, yes bool,
	left *[]string) error {
	w := cmd.OutOrStdout()
	found, err := connect.Status(cfg)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("no agent host has settings in %s", cfg.Home)
	}
	show(w, found)
	changes, failed := connect.Plan(cfg)
	fmt.Fprintln(w)
	for _, why := range *left {
		fmt.Fprintln(w, "leaves", why)
	}
	for _, c := range changes {
		fmt.Fprintf(w, "%s %s\n", map[bool]string{true: "changes", false: "would change"}[yes], c.File)
	}
	switch {
	case len(changes) == 0 && failed == nil:
		fmt.Fprintln(w, "nothing to change")
	case !yes:
		fmt.Fprintln(w, "nothing was changed: --yes makes the changes")
	case len(changes) > 0:
		name := "agent"
		if s.Project != embedded.DefaultProject || s.Agent != embedded.DefaultAgent {
			name = verb.AgentContext(s.Project, s.Agent)
		}
		nc, err := a.Conn.Connect(name)
		if err != nil {
			return fmt.Errorf("%w\nno file was changed: with the changes, the host would ask a pipeline that it cannot reach, "+
				"and every call would be refused", err)
		}
		nc.Close()
		if err := connect.Apply(cfg, changes); err != nil {
			return err
		}
		fmt.Fprintln(w, "done; the changes take effect when each host starts again. lazaret mcp review accepts the "+
			"servers' tools")
		for _, f := range found {
			if note := connect.Note(f.Host); note != "" {
				fmt.Fprintln(w, note)
			}
		}
	}
	return failed
}

func undone(w io.Writer, cfg connect.Config) error {
	done, err := connect.Undo(cfg)
	for _, d := range done {
		if d.Exact {
			fmt.Fprintln(w, "restored", d.File)
		} else {
			fmt.Fprintln(w, "others have changed the file since, so only Lazaret's entries were removed:", d.File)
		}
	}
	if err == nil && len(done) == 0 {
		fmt.Fprintln(w, "nothing to undo")
	}
	return err
}

func show(w io.Writer, found []connect.Found) {
	for _, f := range found {
		fmt.Fprintln(w, f.Host)
		switch f.Hooks {
		case "installed":
			fmt.Fprintf(w, "  guarded      its own tools, by hooks in %s\n", f.File)
		case "missing":
			fmt.Fprintf(w, "  NOT guarded  its own tools: no hooks in %s\n", f.File)
		case "changed":
			fmt.Fprintf(w, "  NOT guarded  its own tools: %s: %s\n", f.File, f.Why)
		default:
			fmt.Fprintln(w, "  NOT guarded  its own tools: hooks of this host are not supported")
		}
		for _, m := range f.MCP {
			switch m.State {
			case "guarded":
				fmt.Fprintf(w, "  guarded      %s: %s%s\n", m.Name, strings.Join(m.Command, " "), m.URL)
			case "remote":
				fmt.Fprintf(w, "  NOT guarded  %s: %s%s\n", m.Name, m.URL, m.Why)
			default:
				fmt.Fprintf(w, "  NOT guarded  %s: %s\n", m.Name, strings.Join(m.Command, " "))
			}
		}
		if f.Error != "" {
			fmt.Fprintf(w, "  UNKNOWN      %s\n", f.Error)
		}
	}
}
