package rules

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"lazaret/internal/cli/verb"
	"lazaret/pkg/rules"
	"lazaret/pkg/rules/compiled"
	"lazaret/pkg/rules/ruletest"
	"lazaret/pkg/text"
)

const replHelp = `an expression      its type and value on the loaded event
:fields [PREFIX]   names that expressions may use
:signals           signals and their values
:load FILE         play the events of a file (the field given of a test); the last one is loaded
:rule ID           evaluate a rule on the event, part by part
:cost EXPR         the highest cost of an expression, and its cost on the event
:need EXPR         the prefilter: conditions under which EXPR is evaluated at all
:quit              end
`

func init() { Verbs.Add("rules", replCommand) }

func replCommand(a *verb.App) *cobra.Command {
	var event, group string
	c := &cobra.Command{
		Use:   "repl [DIR]",
		Short: "Try expressions on an event",
		Long:  "Read CEL expressions and print their values on an event. Commands begin with a colon:\n\n" + replHelp,
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := compileRules(args)
			if err != nil {
				return err
			}
			con, err := set.Console(group)
			if err != nil {
				return err
			}
			r := &repl{con: con, w: cmd.OutOrStdout()}
			if event != "" {
				if err := r.load(event); err != nil {
					return err
				}
			}
			return r.run(cmd.InOrStdin())
		},
	}
	c.Flags().StringVar(&event, "event", "", "load the events of `FILE`")
	c.Flags().StringVar(&group, "group", "",
		"evaluate events with the rules of this sentinel `GROUP` (default: the first by name)")
	return c
}

type repl struct {
	con *rules.Console
	w   io.Writer
}

func (r *repl) run(in io.Reader) error {
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) && term.IsTerminal(int(os.Stdout.Fd())) {
		return r.interactive(f)
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if !r.line(lines.Text()) {
			return nil
		}
	}
	return lines.Err()
}

// interactive reads lines from a terminal with history and line editing.
func (r *repl) interactive(f *os.File) error {
	old, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return err
	}
	defer func() { _ = term.Restore(int(f.Fd()), old) }()
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{f, os.Stdout}, "> ")
	r.w = t
	fmt.Fprintln(t, ":help lists commands,", r.con.Event(), "is loaded")
	for {
		if w, h, err := term.GetSize(int(os.Stdout.Fd())); err == nil && w > 0 && h > 0 {
			_ = t.SetSize(w, h)
		}
		s, err := t.ReadLine()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if !r.line(s) {
			return nil
		}
	}
}

// line evaluates one line and reports whether to continue.
func (r *repl) line(s string) bool {
	s = strings.TrimSpace(s)
	if s == "" || strings.HasPrefix(s, "//") {
		return true
	}
	if s == ":quit" || s == ":q" {
		return false
	}
	var err error
	if cmd, arg, _ := strings.Cut(s, " "); strings.HasPrefix(s, ":") {
		err = r.command(cmd, strings.TrimSpace(arg))
	} else {
		var typ, v string
		if typ, v, err = r.con.Eval(s); err == nil {
			fmt.Fprintf(r.w, "%s  %s\n", typ, v)
		}
	}
	if err != nil {
		fmt.Fprintln(r.w, "error:", text.Inert(err.Error()))
	}
	return true
}

func (r *repl) load(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	es, err := ruletest.Events(file, b)
	if err != nil {
		return err
	}
	return r.con.Load(es)
}

func (r *repl) command(cmd, arg string) error {
	if arg == "" {
		switch cmd {
		case ":load", ":rule", ":cost", ":need":
			return fmt.Errorf("%s needs an argument", cmd)
		}
	}
	switch cmd {
	case ":help":
		fmt.Fprint(r.w, replHelp)
	case ":fields":
		for _, f := range r.con.Fields(arg) {
			fmt.Fprintf(r.w, "%-26s %-18s %s\n", f.Name, f.Type, f.Doc)
		}
	case ":signals":
		for _, v := range r.con.Signals() {
			fmt.Fprintf(r.w, "%-26s %s\n", v.Name, v.Value)
		}
	case ":load":
		if err := r.load(arg); err != nil {
			return err
		}
		fmt.Fprintln(r.w, r.con.Event(), "is loaded")
	case ":rule":
		x, err := r.con.Rule(arg)
		if err != nil {
			return err
		}
		fmt.Fprint(r.w, x)
	case ":cost":
		highest, here, err := r.con.Cost(arg)
		if err != nil {
			return err
		}
		over := ""
		if highest > compiled.CostLimit {
			over = fmt.Sprintf(", over the limit of %d", compiled.CostLimit)
		}
		fmt.Fprintf(r.w, "at most %d%s; %d here\n", highest, over, here)
	case ":need":
		s, err := r.con.Need(arg)
		if err != nil {
			return err
		}
		fmt.Fprint(r.w, s)
	default:
		return fmt.Errorf("there is no command %s: :help lists them", cmd)
	}
	return nil
}
