package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/datafolder"
	"lazaret/internal/inquiry"
	"lazaret/internal/natsserver"
	"lazaret/internal/retain"
	"lazaret/pkg/keys"
	"lazaret/pkg/position"
	"lazaret/pkg/text"
)

// Retention connects with the retention credential and calls f with it. The context of f ends after the time wait; a
// wait of 0 means no limit. without has the stages that no longer exist, and log names the log and the file of the
// pinned keys.
func Retention(a *verb.App, cmd *cobra.Command, wait time.Duration, without []string, log LogFlags,
	f func(ctx context.Context, c *retain.Config) error) error {
	nc, err := a.Conn.Connect(string(natsserver.RoleRetention))
	if err != nil {
		return err
	}
	defer nc.Close()
	trust, err := keys.LoadTrust(log.trustFile(a.Conn.Data))
	if err != nil {
		return fmt.Errorf("reading the keys of auditors: %w", err)
	}
	ctx := cmd.Context()
	if wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	c := &retain.Config{Conn: nc, Trust: trust, Without: without, Data: a.Conn.Data,
		Log: func(ctx context.Context, ask func(*inquiry.Log) error) error {
			return withLog(a, ctx, log, inquiry.Options{}, ask)
		},
		Tell: func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) },
	}
	err = f(ctx, c)
	if err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	limit := "--timeout"
	if cmd.Flags().Lookup("wait") != nil {
		limit = "--wait"
	}
	return fmt.Errorf("not finished after %v: the command was still waiting for %s: %w; run it again with a longer %s",
		wait,
		cmp.Or(c.Awaited(), "the pipeline"), err, limit)
}

// checkWait returns an error for a time limit of 0 or less.
func checkWait(wait time.Duration) error {
	if wait <= 0 {
		return fmt.Errorf("--wait is %v, want a duration of more than 0, such as 10m", wait)
	}
	return nil
}

// operatorSigner returns the signer of statements: the named key, or the data folder's operator key.
func operatorSigner(a *verb.App, file string) (note.Signer, error) {
	file = cmp.Or(file, datafolder.OperatorKey(a.Conn.Data))
	return keys.LoadSigner(file)
}

func init() { Verbs.Add("audit", forgetCommand, legalHoldCommand) }

func forgetCommand(a *verb.App) *cobra.Command {
	var project, reason, key string
	var dry, json bool
	var wait time.Duration
	var without []string
	var log LogFlags
	c := &cobra.Command{
		Use:   "forget --subject PROJECT[/DATA-SUBJECT] --reason TEXT",
		Short: "Erase a project, or one data subject in it, from streams, stages and log",
		Long: `Erase the content of a project's entries everywhere:

  1. wait until every registered auditor has added the entries to its log (an auditor is
     registered if the trust file has its key with the role auditor);
  2. enter a signed statement into the ledger as a "forgotten" entry;
  3. wait until every stage has reported that it dropped its derived data and rewrote
     its files, and until every auditor has added the statement to its log and destroyed the
     project's keys;
  4. delete the entries from the streams; have the embedded nats-server overwrite them
     in its files, for which it stops some seconds; rewrite sealed shards; and write a
     signed record that lists each place. A separate nats-server leaves the entries in
     its files, which the record states;
  5. remove the files of the memory tool and of hooks from the data folder. A file that
     stops a hook's session is emptied, and goes on stopping it. On other machines, remove
     such files yourself.

For one data subject, named by the pseudonym in events (data_subject or user), every
entry that concerns them is erased, including those that also concern others:
--dry-run lists these. The statement lists the entries; stages compute the state of the
project's partition again without them, and auditors erase their payloads one by one.
This needs a ledger that was never trimmed.

--dry-run exits with 2 if nothing of the subject is recorded, or if it is under legal hold.

The log still verifies: its leaves stay, and prove that something was logged and when.
A legal hold prevents the erasure. Copies outside of the installation are not erased.

For an auditor that runs apart, run the command on its machine and name its log with
--dir. The data folder needs the credentials retention and operator, and the keys
operator.key and audit-master.key. The record is written to DATA/forgotten.`,
		Example: "  lazaret audit forget --subject acme --dry-run\n  lazaret audit forget --subject acme --reason 'request " +
			"17 of the DPO'\n  lazaret audit forget --subject acme/p-17 --dry-run\n" +
			"  lazaret audit forget --data lz --dir /var/lib/lazaret-auditor/audit --subject acme --dry-run",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if project == "" {
				return errors.New("name a project with --subject")
			}
			on, err := retain.ParseSubject(project)
			if err != nil {
				return err
			}
			if reason == "" && !dry {
				return errors.New("give a reason with --reason: the ledger records it")
			}
			if err := checkWait(wait); err != nil {
				return err
			}
			return Retention(a, cmd, wait, without, log, func(ctx context.Context, c *retain.Config) error {
				shards := filepath.Join(a.Conn.Data, "shards")
				if dry {
					return printSurvey(ctx, cmd, c, on, shards, json)
				}
				e := erasure{on, reason, key, log.trustFile(a.Conn.Data), shards, json}
				return e.run(ctx, a, cmd.OutOrStdout(), c)
			})
		},
	}
	c.Flags().StringVar(&project, "subject", "", "the `PROJECT`, or PROJECT/DATA-SUBJECT")
	c.Flags().StringVar(&reason, "reason", "", "why, in one `LINE`")
	c.Flags().StringVar(&key, "key", "", "operator's key `FILE` (default DATA/keys/operator.key)")
	c.Flags().BoolVar(&dry, "dry-run", false, "list the places of the subject's data, and change nothing")
	c.Flags().BoolVar(&json, "json", false, "print JSON")
	c.Flags().DurationVar(&wait, "wait", 10*time.Minute,
		"stop if the command is not done after this `DURATION`, which must be more than 0")
	log.bindApart(c.Flags())
	c.Flags().StringSliceVar(&without, "without", nil,
		"`STAGE` that no longer exists, so that the erasure does not wait for it, such as sentinel-old")
	return c
}

// erasure describes an erasure that was ordered.
type erasure struct {
	on                     retain.Subject
	reason, key, trustFile string
	shards                 string // the folder of sealed shards
	json                   bool
}

// run erases the subject's data, and prints the record.
func (e erasure) run(ctx context.Context, a *verb.App, w io.Writer, c *retain.Config) error {
	signer, err := operatorSigner(a, e.key)
	if err != nil {
		return err
	}
	trust, err := os.ReadFile(e.trustFile)
	if err != nil {
		return err
	}
	records := filepath.Join(a.Conn.Data, "forgotten")
	var r *retain.Record
	if e.on.Person != "" {
		r, err = c.ForgetPerson(ctx, signer, e.on, e.reason, e.shards, records, trust)
	} else {
		r, err = c.Forget(ctx, signer, e.on.Project, e.reason, e.shards, records, trust)
	}
	if errors.Is(err, retain.ErrLegalHold) {
		return &cli.Exit{Code: cli.ExitNegative, Text: text.InertLine(err.Error(), 300)}
	}
	if err != nil {
		return err
	}
	if err := printRecord(w, r, e.json, "forgotten"); err != nil {
		return err
	}
	if !r.Whole() {
		return &cli.Exit{Code: cli.ExitIncomplete}
	}
	return nil
}

// printSurvey prints the places of a subject's data.
func printSurvey(ctx context.Context, cmd *cobra.Command, c *retain.Config, on retain.Subject, shards string,
	json bool) error {
	survey := c.SurveyPerson
	if on.Person == "" {
		survey = func(ctx context.Context, on retain.Subject, shards string) (*retain.Record, error) {
			return c.Survey(ctx, on.Project, shards)
		}
	}
	r, err := survey(ctx, on, shards)
	if err != nil {
		return err
	}
	if json || r.Found() || r.LegalHold != "" {
		if err := printRecord(cmd.OutOrStdout(), r, json, "would be forgotten"); err != nil {
			return err
		}
	}
	switch {
	case r.LegalHold != "":
		return &cli.Exit{Code: cli.ExitNegative, Text: "the subject is under legal hold: statement " + r.LegalHold}
	case !r.Found():
		return cli.Negative("nothing of %s is recorded: it is erased already, or the name is wrong", on)
	}
	return nil
}

func printRecord(w io.Writer, r *retain.Record, json bool, done string) error {
	if json {
		return cli.JSON(w, r)
	}
	if r.DataSubject != "" {
		fmt.Fprintf(w, "data subject %s of ", text.InertLine(r.DataSubject, 64))
	}
	fmt.Fprintf(w, "project %s %s\n", text.InertLine(r.Project, 64), done)
	for _, p := range r.Places {
		n := ""
		if p.Count > 1 {
			n = fmt.Sprintf("%d ", p.Count)
		} else if p.Count == 0 && p.Left == "" {
			continue
		}
		fmt.Fprintf(w, "  %s: %s%s\n", text.InertLine(p.Where, 200), n, text.InertLine(p.What, 200))
		if p.Left != "" {
			fmt.Fprintf(w, "    NOT ERASED: %s\n", text.InertLine(p.Left, 300))
		}
	}
	printAlso(w, r)
	if r.File != "" {
		fmt.Fprintf(w, "statement %s, ledger entry %s; the signed record is %s\n", r.Statement,
			position.Text(r.Entry), r.File)
	}
	return nil
}

// alsoShown is how many of the additionally erased entries are listed at most. --json lists all.
const alsoShown = 40

// printAlso lists erased entries that do not concern the data subject alone. It lists people's decisions first. An
// erased decision no longer applies to anybody, so people may have to decide again.
func printAlso(w io.Writer, r *retain.Record) {
	if len(r.Also) == 0 {
		return
	}
	all := slices.Clone(r.Also)
	slices.SortStableFunc(all, func(a, b retain.AlsoForgotten) int {
		switch x, y := a.Decision(), b.Decision(); {
		case x && !y:
			return -1
		case y && !x:
			return 1
		}
		return 0
	})
	decisions := 0
	for i := range all {
		if all[i].Decision() {
			decisions++
		}
	}
	fmt.Fprintf(w, "among them %d entries that are not about the data subject alone", len(all))
	if decisions > 0 {
		fmt.Fprintf(w, "; %d of them are incidents or decisions of people, which then no longer apply to anyone: decide "+
			"again those that must still apply to others", decisions)
	}
	fmt.Fprintln(w, ":")
	for i, a := range all {
		if i == alsoShown {
			fmt.Fprintf(w, "  … and %d more (--json lists all)\n", len(all)-i)
			break
		}
		who := ""
		if len(a.Persons) > 0 {
			who = ", about " + text.InertLine(strings.Join(a.Persons, ", "), 200)
		}
		what := strings.TrimSpace(text.InertLine(a.Type, 20) + " " + text.InertLine(a.ID, 64))
		fmt.Fprintf(w, "  ledger entry %s: %s of %s%s; it %s\n", position.Text(a.Seq), what, text.InertLine(a.Stage, 40), who,
			text.InertLine(a.Why, 120))
	}
}

func legalHoldCommand(a *verb.App) *cobra.Command {
	one := func(use, short, do string) *cobra.Command {
		var project, reason, key string
		c := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			if project == "" || reason == "" {
				return errors.New("name a project with --subject, and say why with --reason")
			}
			on, err := retain.ParseSubject(project)
			if err != nil {
				return err
			}
			return Retention(a, cmd, a.Conn.Timeout, nil, LogFlags{}, func(ctx context.Context, c *retain.Config) error {
				signer, err := operatorSigner(a, key)
				if err != nil {
					return err
				}
				id, seq, err := c.State(ctx, signer, do, on, reason)
				if err != nil {
					return &cli.Exit{Code: cli.ExitNegative, Text: text.InertLine(err.Error(), 300)}
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: statement %s, ledger entry %s\n", do, id, position.Text(seq))
				return nil
			})
		}}
		c.Flags().StringVar(&project, "subject", "", "the `PROJECT`, or PROJECT/DATA-SUBJECT")
		c.Flags().StringVar(&reason, "reason", "", "why, in one `LINE`")
		c.Flags().StringVar(&key, "key", "", "operator's key `FILE` (default DATA/keys/operator.key)")
		return c
	}
	return verb.Group("legal-hold", "Prevent the erasure of a project's or data subject's data",
		one("set", "Put a project or data subject under legal hold", "legal-hold"), one("release", "Release a legal hold",
			"legal-release"))
}
