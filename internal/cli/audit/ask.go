package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lazaret/internal/auditor"
	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/datafolder"
	"lazaret/internal/inquiry"
	"lazaret/internal/statement"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
	"lazaret/pkg/position"
	"lazaret/pkg/text"
)

// LogFlags select the log.
type LogFlags struct {
	dir   string
	trust string
}

func (f *LogFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.dir, "dir", "", "folder of the `LOG` (default DATA/audit)")
}

// bindApart adds the flags of bind, and --trust for commands that wait for auditors.
func (f *LogFlags) bindApart(fs *pflag.FlagSet) {
	f.bind(fs)
	fs.StringVar(&f.trust, "trust", "", "`FILE` of the pinned keys (default DATA/trust.yaml)")
}

func (f *LogFlags) trustFile(data string) string { return cmp.Or(f.trust, datafolder.TrustFile(data)) }

// withLog opens the log in its folder and calls ask. If a process has locked the log, it opens a
// snapshot from that process.
func withLog(a *verb.App, ctx context.Context, f LogFlags, o inquiry.Options, ask func(*inquiry.Log) error) error {
	return WithLogBy(a, ctx, f, o, a.Operator, ask)
}

// WithLogBy is like withLog. The function operator must call its argument with an operator's connection.
func WithLogBy(a *verb.App, ctx context.Context, f LogFlags, o inquiry.Options, operator func(context.Context,
	func(context.Context, *nats.Conn) error) error, ask func(*inquiry.Log) error) (err error) {
	a.Conn.Resolve()
	f.dir = cmp.Or(f.dir, datafolder.AuditDir(a.Conn.Data))
	if _, err := os.Stat(f.dir); err != nil {
		return fmt.Errorf("no log: %w: name its folder with --dir, or the data folder with --data", err)
	}
	trust, err := keys.LoadTrust(f.trustFile(a.Conn.Data))
	if err != nil {
		return fmt.Errorf("reading the keys that may sign checkpoints: %w", err)
	}
	o.Verifiers, o.Lawful = trust.Verifiers(keys.RoleAuditor), statement.Lawful(trust.Verifiers(keys.RoleOperator))
	if o.MasterKey, err = datafolder.ReadMasterKey(a.Conn.Data); err != nil {
		return err
	}
	l, err := inquiry.Open(ctx, f.dir, o)
	if errors.Is(err, chain.ErrLocked) {
		var asked error
		err := operator(ctx, func(asking context.Context, nc *nats.Conn) error {
			return auditor.WithSnapshot(asking, nc, f.dir, func(dir string) error {
				l, err := inquiry.Open(ctx, dir, o)
				if err == nil {
					// an error of ask is not retried on another snapshot, because ask may have printed something
					asked = errors.Join(ask(l), l.Close())
				}
				if gone := auditor.Gone(dir); asked != nil && gone != nil {
					asked = fmt.Errorf("%w meanwhile; ask again", gone)
				}
				return err
			})
		})
		if err != nil {
			return fmt.Errorf("a process has locked the log, and its snapshot of the log cannot be read: %w", err)
		}
		return asked
	}
	if err != nil {
		return err
	}
	return errors.Join(ask(l), l.Close())
}

// told prints on standard error how much of the log was verified. It returns an error if the verification failed.
func told(cmd *cobra.Command, i inquiry.Integrity) error {
	fmt.Fprintln(cmd.ErrOrStderr(), text.InertLine(i.String(), 0))
	if i.Status == chain.Failed {
		return &cli.Exit{Code: cli.ExitNegative}
	}
	return nil
}

// selection selects the entries that a command shows.
type selection struct {
	where string
	since time.Duration
	last  int
}

func (s *selection) bind(fs *pflag.FlagSet, last int) {
	fs.StringVar(&s.where, "where", "",
		"only entries for which this `EXPRESSION` over their JSON fields is true, in the language Expr (expr-lang.org); "+
			"body is the entry's own JSON")
	fs.Var((*verb.SinceFlag)(&s.since), "since", "only entries of the last `DURATION`, such as 7d")
	fs.IntVar(&s.last, "last", last, "only the last `N` matching entries; 0: all")
}

// entries calls each for the selected entries, after proving them.
func (s *selection) entries(ctx context.Context, l *inquiry.Log, each func(*inquiry.Entry) error) error {
	w, err := inquiry.NewWhere(s.where)
	if err != nil {
		return err
	}
	from := int64(0)
	if s.where == "" && s.since == 0 && s.last > 0 {
		from = l.Size() - int64(s.last)
	}
	after := time.Time{}
	if s.since > 0 {
		after = time.Now().Add(-s.since)
	}
	tell := func(e *inquiry.Entry) error {
		if _, err := l.Prove(e); err != nil {
			return err
		}
		return each(e)
	}
	var ring []*inquiry.Entry
	err = l.Range(ctx, from, l.Size(), func(e *inquiry.Entry) bool { return !e.Time.Before(after) },
		func(e *inquiry.Entry) error {
			if e.Time.Before(after) {
				return nil
			}
			ok, err := w.Match(e)
			if err != nil || !ok {
				return err
			}
			if s.last == 0 {
				return tell(e)
			}
			if ring = append(ring, e); len(ring) > s.last {
				ring[0] = nil
				ring = ring[1:]
			}
			return nil
		})
	for _, e := range ring {
		if err == nil {
			err = tell(e)
		}
	}
	return err
}

var entryHeader = []string{"INDEX", "LEDGER", "TIME", "TYPE", "STAGE", "PROJECT", "AGENT", "SESSION", "ID", "BYTES",
	"COMMITMENT"}

func entryRow(e *inquiry.Entry) []string {
	typ := e.Type
	switch {
	case e.Kind != "entry":
		typ = e.Kind
	case e.Forgotten:
		typ += " (forgotten)"
	}
	return []string{fmt.Sprint(e.Index), position.Text(e.Seq), e.Time.Format(time.DateTime), typ, e.Stage, e.Project,
		e.Agent, e.Session, e.ID, fmt.Sprint(e.Bytes), e.Commitment[:16]}
}

func init() { Verbs.Add("audit", lsCommand, showCommand, tailCommand, exportCommand) }

func lsCommand(a *verb.App) *cobra.Command {
	var f LogFlags
	var s selection
	var json bool
	var tally string
	c := &cobra.Command{
		Use:   "ls",
		Short: "List the log's entries, from its files",
		Long: `List entries from the files of the log. Each payload is checked against the commitment
in its leaf, and each leaf is proven to be in the tree of the last signed checkpoint.
The checks are printed on standard error.

--tally evaluates an Expr expression over the list of these entries, with Expr's count,
sum, mean, groupBy, sortBy and similar functions. counts(groupBy(entries, .type)) counts
the entries by type.`,
		Example: `  lazaret audit ls --where 'type == "verdict" && body.verdict == "hold"' --last 50
  lazaret audit ls --where 'project == "acme"' --last 0 --tally 'counts(groupBy(entries, .type))'
  lazaret audit ls --last 0 --tally 'mean(map(filter(entries, .type == "action"), .bytes))'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withLog(a, cmd.Context(), f, inquiry.Options{}, func(l *inquiry.Log) error {
				var items []*inquiry.Entry
				if err := s.entries(cmd.Context(), l, func(e *inquiry.Entry) error {
					items = append(items, e)
					return nil
				}); err != nil {
					return err
				}
				var err error
				switch {
				case tally != "":
					var v any
					if v, err = inquiry.Tally(tally, items); err == nil {
						err = cli.JSON(cmd.OutOrStdout(), v)
					}
				default:
					if items == nil {
						items = []*inquiry.Entry{}
					}
					err = cli.Print(cmd.OutOrStdout(), cli.ListFlags{JSON: json}, items, entryHeader, entryRow)
				}
				return errors.Join(err, told(cmd, l.Integrity()))
			})
		},
	}
	f.bind(c.Flags())
	s.bind(c.Flags(), 20)
	c.Flags().BoolVar(&json, "json", false, "print JSON")
	c.Flags().StringVar(&tally, "tally", "", "print as JSON the value of this `EXPRESSION` over entries, the list of the "+
		"selected entries, in the language Expr (expr-lang.org)")
	return c
}

func showCommand(a *verb.App) *cobra.Command {
	var f LogFlags
	var s selection
	var seq string
	c := &cobra.Command{
		Use:   "show {INDEX | EVENT-ID | --seq POSITION | --where EXPRESSION}",
		Short: "Print complete entries of the log as JSON",
		Example: "  lazaret audit show 76\n  lazaret audit show o1\n  lazaret audit show --seq 98.2\n  lazaret audit " +
			"show --where 'type == \"alerts\"' --since 1h",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && seq == "" && s.where == "" {
				return errors.New("name an index, an event's id or a ledger entry (--seq), or give --where EXPRESSION")
			}
			asked, err := name(verb.Arg(args), seq)
			if err != nil {
				return err
			}
			return withLog(a, cmd.Context(), f, inquiry.Options{}, func(l *inquiry.Log) error {
				var items []*inquiry.Entry
				keep := func(e *inquiry.Entry) error { items = append(items, e); return nil }
				var err error
				if asked.at != 0 {
					if asked.index, err = l.Find(asked.at); errors.Is(err, chain.ErrRange) {
						asked.index, err = l.Size(), nil // no entry has this index
					}
				}
				if i := asked.index; i >= 0 && err == nil {
					err = l.Range(cmd.Context(), i, i+1, nil, func(e *inquiry.Entry) error {
						if _, err := l.Prove(e); err != nil {
							return err
						}
						return keep(e)
					})
				} else if err == nil {
					if asked.id != "" {
						q := "id == " + strconv.Quote(asked.id)
						if s.where != "" {
							q += " && (" + s.where + ")"
						}
						s.where = q
					}
					err = s.entries(cmd.Context(), l, keep)
				}
				if err != nil {
					return err
				}
				if len(items) == 0 {
					return errors.Join(told(cmd, l.Integrity()), &cli.Exit{Code: cli.ExitNegative,
						Text: noEntry(append(args, seq)[0], s.where, l.Size())})
				}
				var v any = items
				if len(items) == 1 {
					v = items[0]
				}
				return errors.Join(cli.JSON(cmd.OutOrStdout(), v), told(cmd, l.Integrity()))
			})
		},
	}
	f.bind(c.Flags())
	s.bind(c.Flags(), 20)
	c.Flags().StringVar(&seq, "seq", "", "the ledger entry of this `POSITION`, such as 98 or 98.2")
	return c
}

// noEntry returns a message that the log has no matching entry, and how to list existing ones.
func noEntry(asked, where string, size int64) string {
	if asked = strconv.Quote(asked); asked == `""` {
		asked = "for which " + where
	}
	return fmt.Sprintf("the log of %d entries has no entry %s: name an index below %d, an event's id as its sender gave "+
		"it, or a ledger entry with --seq; `lazaret audit ls` lists them. An entry that is seconds old may not be "+
		"chained yet", size, asked, size)
}

func tailCommand(a *verb.App) *cobra.Command {
	var f LogFlags
	var where string
	var every time.Duration
	var json bool
	c := &cobra.Command{
		Use:   "tail",
		Short: "Follow the log: print entries once a signed checkpoint covers them",
		Long: `Follow the log while the auditor runs. An entry is printed once a signed checkpoint
covers it and its leaf is proven to be in that checkpoint's tree.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w, err := inquiry.NewWhere(where)
			if err != nil {
				return err
			}
			out, err := inquiry.NewWriter("jsonl", cmd.OutOrStdout())
			if err != nil {
				return err
			}
			next, seen := int64(-1), int64(-1)
			for {
				var size int64
				err := a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) error {
					ans, err := auditor.Ask(ctx, nc, auditor.Request{Do: "head"})
					if err == nil {
						size = ans.Size
					}
					return err
				})
				if err == nil && size != seen {
					seen = size
					err = withLog(a, cmd.Context(), f, inquiry.Options{}, func(l *inquiry.Log) error {
						covered := l.Integrity().Checkpoint
						if next < 0 {
							next = covered
						}
						err := l.Range(cmd.Context(), next, covered, nil, func(e *inquiry.Entry) error {
							if _, err := l.Prove(e); err != nil {
								return err
							}
							next = e.Index + 1
							ok, err := w.Match(e)
							if err != nil || !ok {
								return err
							}
							if json {
								return out.Write(e)
							}
							_, err = fmt.Fprintln(cmd.OutOrStdout(), tailLine(e))
							return err
						})
						if covered < l.Size() {
							seen = -1 // check again: the next checkpoint will cover the remaining entries
						}
						if err == nil && l.Integrity().Status == chain.Failed {
							err = told(cmd, l.Integrity())
						}
						return err
					})
				}
				if cmd.Context().Err() != nil {
					return nil
				}
				if err != nil {
					return err
				}
				select {
				case <-cmd.Context().Done():
					return nil
				case <-time.After(every):
				}
			}
		},
	}
	f.bind(c.Flags())
	c.Flags().StringVar(&where, "where", "", "only entries for which this `EXPRESSION` over their JSON fields is "+
		"true, in the language Expr (expr-lang.org)")
	c.Flags().DurationVar(&every, "every", time.Second, "interval of checks")
	c.Flags().BoolVar(&json, "json", false, "print JSON, one entry per line")
	return c
}

func tailLine(e *inquiry.Entry) string {
	cells := cli.Cells(entryRow(e))
	return fmt.Sprintf("%-8s %s %-12s %-16s %s/%s %s %s", cells[0], cells[2], cells[3], cells[4], cells[5], cells[6],
		cells[7], cells[8])
}

func exportCommand(a *verb.App) *cobra.Command {
	var f LogFlags
	var s selection
	var format, file string
	var to verb.Sensitivity
	c := &cobra.Command{
		Use:   "export",
		Short: "Export entries as JSON lines or CSV",
		Long: `Export entries of the log. In CSV, an apostrophe is written before a value that a
spreadsheet would take for a formula. For an export with proofs see "audit bundle".

Entries that are more sensitive than --ceiling are exported without their body. These are
memories that their writers marked as more sensitive, and entries that quote, contain or
derive from such memories. Their position and commitment are exported, so the log's tree can
be computed from such an export too.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			return withLog(a, cmd.Context(), f, inquiry.Options{}, func(l *inquiry.Log) (err error) {
				var out io.Writer = cmd.OutOrStdout()
				if file != "" && file != "-" {
					o, err := os.OpenFile(filepath.Clean(file), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
					if err != nil {
						return err
					}
					defer func() { err = errors.Join(err, o.Close()) }()
					out = o
				}
				w, err := inquiry.NewWriter(format, out)
				if err != nil {
					return err
				}
				r, err := l.Ceiling(cmd.Context(), to.Sensitivity)
				if err != nil {
					return err
				}
				if err := s.entries(cmd.Context(), l, func(e *inquiry.Entry) error { r.Redact(e); return w.Write(e) }); err != nil {
					return err
				}
				if r.Redacted > 0 {
					fmt.Fprintf(cmd.ErrOrStderr(), "%d entries are above %s: they were exported without their bodies\n",
						r.Redacted, to)
				}
				return errors.Join(w.Flush(), told(cmd, l.Integrity()))
			})
		},
	}
	f.bind(c.Flags())
	s.bind(c.Flags(), 0)
	to.Bind(c.Flags())
	c.Flags().StringVar(&format, "format", "jsonl", "`FORMAT`: jsonl or csv")
	c.Flags().StringVarP(&file, "output", "o", "", "`FILE` to write (default: standard output)")
	return c
}
