package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/client"
	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/pkg/position"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// Ask asks for a verdict with f and prints it. It returns nil for allow, and otherwise an error with the verdict's exit
// code. If there is no verdict because of a client.Error, the exit code is that of hold.
func Ask(a *verb.App, cmd *cobra.Command, s *verb.Speaker, f func(context.Context, *client.Client) (*streams.Reply,
	error)) error {
	return askAnd(a, cmd, s, false, f)
}

// askAnd is Ask; if why is set, it also prints the explanation of the verdict.
func askAnd(a *verb.App, cmd *cobra.Command, s *verb.Speaker, why bool,
	f func(context.Context, *client.Client) (*streams.Reply, error)) error {
	cl, done, err := a.Client(s)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := a.Timeout(cmd.Context())
	defer cancel()
	rep, err := f(ctx, cl)
	var le *client.Error
	if errors.As(err, &le) {
		if s.JSON {
			if err := cli.JSON(cmd.OutOrStdout(), &streams.Reply{Verdict: streams.Hold,
				Error: &streams.ReplyError{Code: le.Code, Message: le.Message}}); err != nil {
				return err
			}
		}
		fmt.Fprintln(os.Stderr, "lazaret:", le, "(no verdict: treat as hold)")
		if d, ok := le.Code.Doc(); ok {
			fmt.Fprintln(os.Stderr, "lazaret:", d.Action)
		}
		return &cli.Exit{Code: cli.ExitHold}
	}
	if err != nil {
		return err
	}
	var x *explanation
	if why {
		// The operator's credential is needed: the agent's cannot read the ledger.
		err := a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) (err error) {
			x, err = explain(ctx, nc, fmt.Sprint(rep.Seq), s.Project, "")
			return err
		})
		if err != nil {
			fmt.Fprintf(os.Stderr, "lazaret: the ledger cannot be read: %v; only the reply is shown\n", err)
		}
	}
	switch {
	case s.JSON && x != nil:
		err = cli.JSON(cmd.OutOrStdout(), struct {
			Reply       *streams.Reply `json:"reply"`
			Explanation *explanation   `json:"explanation"`
		}{rep, x})
	case s.JSON:
		err = cli.JSON(cmd.OutOrStdout(), rep)
	case x != nil:
		x.print(cmd.OutOrStdout())
	default:
		printReply(cmd.OutOrStdout(), rep)
	}
	if err != nil {
		return err
	}
	return cli.VerdictExit(rep.Verdict)
}

func printReply(w io.Writer, rep *streams.Reply) {
	v := rep.Entry
	head := strings.ToUpper(v.Verdict.String())
	if v.Level != "" {
		head += "  " + v.Level
	}
	if v.Tool != "" {
		head += "  " + text.InertLine(v.Tool, 80)
	}
	fmt.Fprintf(w, "%s  ledger entry %s, %.1f ms\n", head, position.Text(rep.Seq), float64(rep.Elapsed)/1000)
	for _, r := range v.Reasons {
		where := string(r.Code)
		if r.Rule != "" {
			where += " " + r.Group + "/" + r.Rule
		}
		fmt.Fprintf(w, "  %-5s %s: %s\n", r.Verdict, where, text.InertLine(r.Text, 600))
		if len(r.Path) > 0 {
			fmt.Fprintf(w, "        %s\n", text.InertLine(strings.Join(r.Path, " → "), 200))
		}
	}
	if len(v.Degraded) > 0 {
		fmt.Fprintf(w, "  the verdict was given without an answer of sentinel group %s\n", strings.Join(v.Degraded, ", "))
	}
	if v.Hold != nil {
		fmt.Fprintf(w, "  hold %s, revision %s, expires %s\n", v.Hold.ID, v.Hold.Revision,
			v.Hold.Expires.Format(time.RFC3339))
	}
	if b := v.Belief; b != nil {
		fmt.Fprintf(w, "  belief %s: %s, %s, %s, origin %s\n", b.ID, b.Axes.Truth, b.Axes.Retrieval, b.Axes.Security,
			b.Origin)
	}
	if r := rep.Recall; r != nil {
		printRecall(w, r)
	}
}
