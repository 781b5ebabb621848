package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/hook"
	"lazaret/streams"
)

// hookBlocks is the exit code by which a hook stops what it was asked about; the
// host takes any other failure as none of its business and goes on.
const hookBlocks = 2

func (a *app) hook() *cobra.Command {
	return group("hook", "Speak for a coding agent, from its hooks", a.hookClaude())
}

func (a *app) hookClaude() *cobra.Command {
	var s speaker
	var cfg hook.Config
	var install, uninstall, user, open bool
	var onHold, file string
	c := &cobra.Command{
		Use:   "claude",
		Short: "Answer the hooks of Claude Code",
		Long: `Read one hook event of Claude Code as JSON from standard input and answer it. Prompts
are recorded as the user's words, results of tools as what was read, and each call of
a tool is proposed first; a write into a file that the agent reads as its memory
(CLAUDE.md, AGENTS.md, memory folders) is proposed as a memory write too.

What is allowed is left to the host's own permissions (--allow skips its question);
what is held or denied is refused with the reasons. What cannot be recorded or judged
exits with 2, the only code that blocks there; with --fail-open, with 1. docs/hooks.md`,
		Example: `  lazaret hook claude --install --data ~/lazaret/data     # into .claude/settings.json
  lazaret hook claude --uninstall`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Project, cfg.Agent = s.project, s.agent
			switch onHold {
			case "ask":
				cfg.Ask = true
			case "deny":
			default:
				return fmt.Errorf("--hold is %q, use deny or ask", onHold)
			}
			if install || uninstall {
				return a.hookInstall(cmd, &s, &cfg, file, user, uninstall)
			}
			err := a.hookAnswer(cmd, &s, cfg)
			if err == nil {
				return nil
			}
			code := hookBlocks
			if open {
				code = cli.ExitFailed
			}
			return &cli.Exit{Code: code, Text: hookError(err)}
		},
	}
	s.bind(c)
	f := c.Flags()
	for _, n := range []string{"session", "id", "json"} {
		f.MarkHidden(n)
	}
	f.StringVar(&onHold, "hold", "deny", "what a held call gets: deny, or ask, the person at the keyboard (`ANSWER`)")
	f.BoolVar(&cfg.Allow, "allow", false, "answer allow, which skips the host's own question")
	f.BoolVar(&open, "fail-open", false, "let calls pass that cannot be recorded or judged")
	f.DurationVar(&cfg.Wait, "wait", 0, "how long a held call waits for a person")
	f.StringVar(&cfg.State, "state", "", "`DIR` for what is held or not yet recorded (default: in the user's cache folder)")
	f.BoolVar(&install, "install", false, "put this command, with these flags, into the host's settings")
	f.BoolVar(&uninstall, "uninstall", false, "take it out again")
	f.BoolVar(&user, "user", false, "install for all projects of the user (~/.claude/settings.json)")
	f.StringVar(&file, "settings", "", "settings `FILE` to change (default .claude/settings.json)")
	return c
}

// hookError is one line for a model or a person.
func hookError(err error) string {
	text := "no verdict, so it counts as hold: " + strings.ReplaceAll(err.Error(), "\n", "; ")
	return streams.Clip(text, 1000)
}

func (a *app) hookAnswer(cmd *cobra.Command, s *speaker, cfg hook.Config) error {
	b, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), 64<<20))
	if err != nil {
		return err
	}
	var e hook.Event
	if err := json.Unmarshal(b, &e); err != nil {
		return fmt.Errorf("the event on standard input is not the JSON of a hook: %w", err)
	}
	if cfg.State == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("where to keep state: %w: give --state", err)
		}
		cfg.State = filepath.Join(dir, "lazaret", "hook", cfg.Project, cfg.Agent)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), a.conn.Timeout+2*cfg.Wait)
	defer cancel()
	c, done, err := a.client(s)
	if err != nil {
		// What was to be recorded is kept, so that it is recorded before
		// anything else is proposed.
		return errors.Join(err, hook.Keep(cfg, &e))
	}
	defer done()
	answer, err := hook.Claude(ctx, cfg, c, &e)
	if err != nil || answer == nil {
		return err
	}
	out, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), string(out))
	return err
}

// hookMargin is what the host waits beyond the command's own limits: a hook that
// the host gives up blocks nothing.
const hookMargin = 15 * time.Second

func (a *app) hookInstall(cmd *cobra.Command, s *speaker, cfg *hook.Config, file string, user, out bool) error {
	if file == "" {
		dir := "."
		if user {
			var err error
			if dir, err = os.UserHomeDir(); err != nil {
				return err
			}
		}
		file = filepath.Join(dir, ".claude", "settings.json")
	}
	if out {
		if err := hook.Uninstall(file); err != nil {
			return err
		}
		fmt.Fprintln(cmd.OutOrStdout(), "taken out of", file)
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	words := []string{shellWord(self), "hook", "claude", "--project", s.project, "--agent", s.agent}
	a.conn.Resolve()
	if data, err := filepath.Abs(a.conn.Data); err == nil && a.conn.Server == "" && a.conn.Context == "" {
		words = append(words, "--data", shellWord(data))
	}
	for _, name := range []string{"server", "context", "creds", "inbox-prefix", "timeout", "hold", "allow", "fail-open", "wait", "state"} {
		if fl := cmd.Flags().Lookup(name); fl != nil && fl.Changed {
			words = append(words, "--"+name+"="+shellWord(fl.Value.String()))
		}
	}
	_, done, err := a.client(s)
	if err != nil {
		return fmt.Errorf("%w\nnothing was installed: every call would be refused", err)
	}
	done()
	if err := hook.Install(file, strings.Join(words, " "), a.conn.Timeout+2*cfg.Wait+hookMargin); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "installed in %s for %s; it counts from the agent's next start\n", file, strings.Join(hook.Events, ", "))
	return nil
}

// shellWord is a word for a shell.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@+") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
