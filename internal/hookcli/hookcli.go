package hookcli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lazaret/client"
	"lazaret/internal/hook"
	"lazaret/internal/natsconn"
	"lazaret/internal/natsfiles"
	"lazaret/pkg/shell"
	"lazaret/streams"
)

// Program is the name of the separate program.
const Program = "lazaret-hook"

// The exit codes of a failed hook. Only Blocks stops the event. The host ignores every other failure.
const (
	Blocks = 2
	Passes = 1
)

// Failed is the error of an event that could not be recorded or judged. Code is the exit code of the
// program.
type Failed struct {
	Code int
	Err  error
}

// Error returns one line for a model or a person.
func (f *Failed) Error() string {
	return streams.Clip("no verdict, so it counts as hold: "+strings.ReplaceAll(f.Err.Error(), "\n", "; "), 1000)
}

// blocks converts an error to an error that blocks the event.
func blocks(err error) error {
	var f *Failed
	if err == nil || errors.As(err, &f) {
		return err
	}
	return &Failed{Blocks, err}
}

// command holds the options of a command for a host.
type command struct {
	conn           *natsconn.Flags
	host           *hook.Host
	cfg            hook.Config
	install, out   bool // edit the settings
	user, open     bool
	onHold, file   string
	url            string // URL of the gateway
	project, agent string
}

// Command returns the command with a subcommand for each host. The caller binds the connection flags
// conn. If the host is missing or unknown, the command exits with a code that blocks the tool call: a help text
// with exit code 0 would let the call pass.
func Command(use string, conn *natsconn.Flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: "Answer the hooks of a coding agent", DisableFlagsInUseLine: true,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return blocks(fmt.Errorf("%s needs a host as its first argument: %s", cmd.CommandPath(), hostNames()))
			}
			return blocks(fmt.Errorf("%s does not know the host %q: use %s", cmd.CommandPath(), args[0], hostNames()))
		},
	}
	// Block on unknown flags: settings that were edited, or are of another version, must not let calls pass.
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return blocks(err) })
	for _, h := range hook.Hosts {
		cmd.AddCommand((&command{conn: conn, host: h}).cobra())
	}
	return cmd
}

// hostNames returns the names of the supported hosts, such as "claude, codex or gemini".
func hostNames() string {
	var names []string
	for _, h := range hook.Hosts {
		names = append(names, h.Name)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// cobra returns the command for a host.
func (c *command) cobra() *cobra.Command {
	h := c.host
	cmd := &cobra.Command{
		Use:   h.Name,
		Short: "Answer the hooks of " + h.Title,
		Long: `Read one hook event of ` + h.Title + ` as JSON from standard input and answer it. Prompts
are recorded as user input, results of tools as observations, and each tool call is
proposed first. A write to a file that the agent reads as its memory (CLAUDE.md,
AGENTS.md, memory folders) is proposed as a memory write too.

The host's own permissions still apply to an allowed call; a held or denied call is
refused with the reasons. If an event cannot be recorded or judged, the exit code is 2,
which blocks it; with --fail-open it is 1. docs/hooks.md`,
		Example: "  lazaret hook " + h.Name + " --install --data ~/lazaret/data     # into " + h.File +
			"\n  lazaret hook " + h.Name + " --uninstall",
		Args: func(cmd *cobra.Command, args []string) error { return blocks(cobra.NoArgs(cmd, args)) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.cfg.Project, c.cfg.Agent = c.project, c.agent
			switch c.onHold {
			case "ask":
				if c.cfg.Ask = true; !h.Asks {
					return blocks(fmt.Errorf("--hold is ask, but %s cannot ask the user on behalf of a hook: use deny", h.Title))
				}
			case "deny":
			default:
				return blocks(fmt.Errorf("--hold is %q, use deny or ask", c.onHold))
			}
			if c.install || c.out {
				return c.settings(cmd)
			}
			err := c.answer(cmd)
			if err == nil {
				return nil
			}
			if c.open {
				return &Failed{Passes, err}
			}
			return blocks(err)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.project, "project", natsfiles.DefaultProject, "`PROJECT` of the agent")
	f.StringVar(&c.agent, "agent", natsfiles.DefaultAgent, "`AGENT` to act as")
	f.StringVar(&c.onHold, "hold", "deny", "`ANSWER` to a held call: deny, or ask the user at the keyboard")
	if h.Asks {
		f.BoolVar(&c.cfg.Allow, "allow", false, "answer allow to an allowed call, which skips the host's own permission "+
			"prompt")
	}
	if h.Replaces {
		f.BoolVar(&c.cfg.Spotlight, "spotlight", false,
			"put text of web pages and MCP servers between markers before the model reads it")
	}
	if h.HTTP {
		f.StringVar(&c.url, "http", "", "with --install: `URL` of the gateway that the host asks instead of starting a "+
			"process (the token is in "+hook.TokenVariable+"); while the gateway is down, calls pass")
	}
	f.BoolVar(&c.open, "fail-open", false, "let an event pass if it cannot be recorded or judged (default: block it)")
	f.DurationVar(&c.cfg.Wait, "wait", 0, "how long a held call waits for an approval")
	f.StringVar(&c.cfg.State, "state", "",
		"`DIR` for held calls and unsent records (default: in the user's cache folder)")
	f.BoolVar(&c.install, "install", false, "install this command with these flags in the host's settings")
	f.BoolVar(&c.out, "uninstall", false, "remove the hooks of lazaret, which --install wrote, from the host's settings")
	f.BoolVar(&c.user, "user", false, "install for all projects of the user (~/"+h.File+")")
	f.StringVar(&c.file, "settings", "", "settings `FILE` to change (default "+h.File+")")
	return cmd
}

// client connects with the agent's credential.
func (c *command) client() (*client.Client, func(), error) {
	nc, err := c.conn.Connect(natsfiles.AgentContext(c.project, c.agent))
	if err != nil {
		return nil, nil, err
	}
	cl, err := client.New(nc, c.project, c.agent)
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return cl, nc.Close, nil
}

func (c *command) answer(cmd *cobra.Command) error {
	b, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), 64<<20))
	if err != nil {
		return err
	}
	e, err := c.host.Decode(b)
	if err != nil {
		return err
	}
	cfg := c.cfg
	if cfg.State == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("no folder for state: %w: give --state", err)
		}
		cfg.State = filepath.Join(dir, "lazaret", "hook", cfg.Project, cfg.Agent)
	}
	cfg.Read, cfg.Folder, cfg.Settings = readFile, os.Getenv("CLAUDE_PROJECT_DIR"), c.file
	if os.Getenv("CLAUDE_PLUGIN_ROOT") == "" {
		cfg.Handler = c.handler(line(os.Args))
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), c.conn.Timeout+2*cfg.Wait)
	defer cancel()
	answer, err := c.ask(ctx, cfg, e)
	if err != nil && e.Name == hook.PostToolUse && !c.open {
		answer, err = hook.Withheld(e, err), nil
	}
	if err != nil && !e.Blocks() {
		return &Failed{Passes, err}
	}
	if err != nil {
		return err
	}
	out, err := c.host.Encode(e, answer)
	if err != nil || len(out) == 0 {
		return err
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), string(out))
	return err
}

func (c *command) ask(ctx context.Context, cfg hook.Config, e *hook.Event) (*hook.Answer, error) {
	cl, done, err := c.client()
	if err != nil {
		// Keep spools the observation. It is sent before the next proposal.
		return nil, errors.Join(err, hook.Keep(cfg, c.host, e))
	}
	defer done()
	return hook.Ask(ctx, cfg, cl, c.host, e)
}

// readFile reads a regular file of at most 2 MiB.
func readFile(name string) ([]byte, error) {
	if i, err := os.Stat(name); err != nil {
		return nil, err
	} else if !i.Mode().IsRegular() {
		return nil, fs.ErrNotExist
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 2<<20))
}

// margin is how much longer the host's timeout for a hook is than the command's own time limits. If the host's timeout
// ended first, the hook would block nothing.
const margin = 15 * time.Second

// settings installs the command in the host's settings, or removes it.
func (c *command) settings(cmd *cobra.Command) error {
	file := c.file
	if file == "" {
		dir := "."
		if c.user {
			var err error
			if dir, err = os.UserHomeDir(); err != nil {
				return err
			}
		}
		file = filepath.Join(dir, filepath.FromSlash(c.host.File))
	}
	if c.out {
		found, err := c.host.Uninstall(file)
		if err != nil {
			return err
		}
		if !found {
			fmt.Fprintf(cmd.OutOrStdout(), "nothing was removed: %s has no hook of lazaret; name another settings file with "+
				"--settings or --user\n", file)
			return nil
		}
		fmt.Fprintln(cmd.OutOrStdout(), "removed from", file)
		return nil
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	c.conn.Resolve()
	data, err := filepath.Abs(c.conn.Data)
	if err != nil || c.conn.Server != "" || c.conn.Context != "" {
		data = ""
	}
	if c.url != "" {
		if data != "" && c.cfg.State == "" {
			c.cfg.State = filepath.Join(data, "hooks", c.project, c.agent)
		}
		if c.cfg.State, err = shared(c.cfg.State); err != nil {
			return fmt.Errorf("%w\nnothing was installed: with --http, the command and the gateway must use the same folder "+
				"for state, or calls after a refused text would not be stopped. Give the gateway's folder "+
				"(DATA/hooks/%s/%s) as "+
				"--state, and run the command and the gateway as one user, or leave out --http", err, c.project, c.agent)
		}
		if err := cmd.Flags().Set("state", c.cfg.State); err != nil {
			return err
		}
	}
	words := []string{CommandLine(exe, c.host.Name, c.project, c.agent, data)}
	if c.file != "" {
		abs, err := filepath.Abs(c.file)
		if err == nil {
			err = cmd.Flags().Set("settings", abs)
		}
		if err != nil {
			return err
		}
	}
	// The written command line also needs --http and --settings. When the hook runs, it makes the host's settings from
	// these flags and compares them with the settings in the file.
	for _, name := range []string{"server", "context", "creds", "inbox-prefix", "timeout", "hold", "allow", "spotlight",
		"fail-open", "wait", "state", "http", "settings"} {
		if fl := cmd.Flags().Lookup(name); fl != nil && fl.Changed {
			words = append(words, "--"+name+"="+shellWord(fl.Value.String()))
		}
	}
	_, done, err := c.client()
	if err != nil {
		return fmt.Errorf("%w\nnothing was installed: every call would be refused", err)
	}
	done()
	if err := c.host.Install(file, c.handler(strings.Join(words, " "))); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "installed in %s for %s; it takes effect at the agent's next start\n", file,
		strings.Join(c.host.Events, ", "))
	if c.host.Note != "" {
		fmt.Fprintln(cmd.OutOrStdout(), c.host.Note)
	}
	return nil
}

// handler returns the entry of the host's settings with this command line.
func (c *command) handler(line string) hook.Handler {
	h := hook.Handler{Command: line, Timeout: Limit(c.conn.Timeout + 2*c.cfg.Wait)}
	if c.url != "" {
		h.URL = strings.TrimRight(c.url, "/") + "/v1/hooks/" + c.host.Name
	}
	return h
}

// Installed returns the entry of a host's settings that has this command line. It returns an error if --install does
// not write the line, if the line lets calls pass that get no verdict, or if the line is for another data folder than
// data. If data is empty, the line may be for any data folder.
func Installed(h *hook.Host, text, data string) (hook.Handler, error) {
	words, ok := shell.Words(text)
	if !ok || line(words) != text {
		return hook.Handler{}, fmt.Errorf("the command %q is not in the form that --install "+
			"writes", streams.Clip(text, 200))
	}
	var conn natsconn.Flags
	c := &command{conn: &conn, host: h}
	cmd, root := c.cobra(), &cobra.Command{}
	conn.Bind(root.PersistentFlags())
	root.AddCommand(cmd)
	args := words[1:]
	if len(args) > 0 && args[0] == "hook" {
		args = args[1:]
	}
	if len(args) == 0 || args[0] != h.Name {
		return hook.Handler{}, fmt.Errorf("the command %q does not name the host %s", streams.Clip(text, 200), h.Name)
	}
	if err := cmd.ParseFlags(args[1:]); err != nil {
		return hook.Handler{}, fmt.Errorf("the command %q: %w", streams.Clip(text, 200), err)
	}
	switch {
	case cmd.Flags().NArg() > 0:
		return hook.Handler{}, fmt.Errorf("the command %q has the argument %q, which --install does not "+
			"write", streams.Clip(text, 200), cmd.Flags().Arg(0))
	case c.open:
		return hook.Handler{}, fmt.Errorf("the command %q has --fail-open: a call without a verdict "+
			"passes", streams.Clip(text, 200))
	case data != "" && conn.Data != data:
		return hook.Handler{}, fmt.Errorf("the hooks do not ask the pipeline of %s, but another one", data)
	}
	if _, err := exec.LookPath(words[0]); err != nil {
		return hook.Handler{}, fmt.Errorf("the host cannot start the hook, so every call passes: %w", err)
	}
	return c.handler(text), nil
}

// line returns the command line that settings writes for the arguments of a process.
func line(args []string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		if name, value, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(name, "--") {
			words[i] = name + "=" + shellWord(value)
		} else {
			words[i] = shellWord(arg)
		}
	}
	return strings.Join(words, " ")
}

// shared returns the absolute path of the folder of state that this command shares with the gateway. It returns an
// error if the folder is not given, or if it cannot write a file there.
func shared(state string) (string, error) {
	if state == "" {
		return "", errors.New("--http needs --state, or a --data folder on this machine: the gateway's folder is unknown")
	}
	dir, err := filepath.Abs(state)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(dir, "tmp-")
	if err != nil {
		return "", err
	}
	return dir, errors.Join(f.Close(), os.Remove(f.Name()))
}

// CommandLine returns the command line for a host. exe is the path of lazaret. If lazaret-hook is in
// the same folder, it is used instead, because it starts much faster.
func CommandLine(exe, host, project, agent, data string) string {
	words := []string{shellWord(exe), "hook"}
	small := filepath.Join(filepath.Dir(exe), Program+filepath.Ext(exe))
	if info, err := os.Stat(small); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
		words = []string{shellWord(small)}
	}
	words = append(words, host, "--project", project, "--agent", agent)
	if data != "" {
		words = append(words, "--data", shellWord(data))
	}
	return strings.Join(words, " ")
}

// Limit returns the host's timeout for a hook that takes at most the given time.
func Limit(needs time.Duration) time.Duration { return needs + margin }

// shellWord quotes a word for a shell.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@+") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
