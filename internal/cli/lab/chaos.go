package lab

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lazaret/internal/chaos"
	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/embedded"
)

func init() {
	Verbs.Add("", chaosCommand)
	Verbs.Add("chaos", stagesCommand)
}

func chaosCommand(a *verb.App) *cobra.Command {
	o := chaos.Options{Projects: 4}
	var asJSON, quiet, keep bool
	c := &cobra.Command{
		Use:   "chaos",
		Short: "Kill, pause and disconnect the stages under load, and check the ledger (exit 2 if a check fails)",
		Long: `Start server and daemons as separate processes in a new folder, with two auditors and a
stand-by for every other stage. Publish events of several projects: observations, memory
writes, actions, repeats, malformed and huge messages. At the same time, callers request
verdicts.

Drills run first: a stand-by takes over from a paused process that then resumes; a stage
decides while its publishes are lost and is then stopped; ingest is killed while it
processes a backlog. Then the command kills processes with kill -9, pauses and resumes
them, once or in bursts, disconnects them from the server, sets their clocks (Linux on
amd64), and, as root on Linux, fills the disk.

Daemons never decide jointly (docs/architecture.md). With --processes pair, two processes
run all stages each, and one is the stand-by of the other. Two more drills and one more
fault delay ledger entries on their way to the server. Some entries arrive only after their
process was killed and its successor has decided. With --processes up, one process is
"lazaret up", and another process with all stages is its stand-by. The report counts the
joint verdicts; a run with fewer than --joint of them fails, because it tests too little.

The final report compares the acknowledged events and the received answers with the
ledger and both logs. It checks that nothing is lost, duplicated or altered; that each
proposal has one verdict, and one assessment of each required group; that nothing is
allowed although an assessment is missing; that a replay of the ledger gives every
assessment and verdict, byte for byte; that each received answer is in the ledger; that
enough answers were received; and that both logs verify and are identical.

The same --seed gives the same events and faults in the same order. The report ends with
the faults that could not be tested on this machine and those that are never tested.`,
		Example: "  lazaret chaos --kills 200 --seed 1\n  lazaret chaos --kills 1000 --events 200000 --json\n" +
			"  lazaret chaos --kills 60 --processes pair",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Kills < 0 || o.Projects < 1 || o.Events < o.Projects {
				return errors.New("--kills must be at least 0, --projects at least 1, and --events at least one for each project")
			}
			known, err := chaos.DrillsOf(o.Processes)
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("drills") {
				o.Drills = known
			}
			for _, d := range o.Drills {
				if !slices.Contains(known, d) {
					return fmt.Errorf("unknown drill %q: use %s", d, strings.Join(known, ", "))
				}
			}
			o.Answers = cmp.Or(o.Answers, max(20, o.Kills))
			if !cmd.Flags().Changed("joint") && o.Processes != chaos.Daemons {
				o.Joint = o.Answers / 2
			}
			dir, err := os.MkdirTemp("", "lazaret-chaos-")
			if err != nil {
				return err
			}
			o.Dir = dir
			o.Say = func(format string, args ...any) {
				if !quiet && !asJSON {
					fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...)
				}
			}
			rep, err := chaos.Run(cmd.Context(), o)
			if keep || err != nil {
				fmt.Fprintln(cmd.ErrOrStderr(), "the processes' files and logs are in", dir)
			} else {
				os.RemoveAll(dir)
			}
			if err != nil {
				return err
			}
			if asJSON {
				err = cli.JSON(cmd.OutOrStdout(), rep)
			} else {
				printChaos(cmd.OutOrStdout(), rep)
			}
			if err == nil && !rep.OK() {
				return &cli.Exit{Code: cli.ExitNegative}
			}
			return err
		},
	}
	f := c.Flags()
	f.Uint64Var(&o.Seed, "seed", 1, "seed of events and faults")
	f.IntVar(&o.Kills, "kills", 200, "number of kills; other faults are made between them")
	f.IntVar(&o.Events, "events", 40_000, "number of events, without those of drills")
	f.StringVar(&o.Processes, "processes", chaos.Daemons, "`PROCESSES` under test: daemons, pair or up")
	f.StringSliceVar(&o.Drills, "drills", nil, "drills to run; --drills= runs none (default all of these processes)")
	f.IntVar(&o.Answers, "answers", 0, "minimum number of answers to callers (default: 20, or --kills if that is more)")
	f.IntVar(&o.Joint, "joint", 0, "minimum number of joint verdicts (default half of --answers, or 0 with daemons)")
	f.IntVar(&o.Projects, "projects", o.Projects, "number of projects")
	f.BoolVar(&o.FullDisk, "full-disk", true, "also fill the disk; without root this is skipped and listed")
	f.BoolVar(&keep, "keep", false, "keep the folder")
	f.BoolVarP(&quiet, "quiet", "q", false, "print only the report")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// stagesCommand returns the hidden command of the processes of --processes pair.
func stagesCommand(a *verb.App) *cobra.Command {
	var cfg embedded.Config
	c := &cobra.Command{
		Use:    "stages",
		Short:  "All stages in one process, at the server of another",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Data = a.Conn.Data
			cfg.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			p, err := embedded.Join(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			cfg.Log.Info("ready")
			select {
			case <-cmd.Context().Done():
			case <-p.Failed():
			}
			return p.Close()
		},
	}
	f := c.Flags()
	f.BoolVar(&cfg.Standby, "standby", false, "start as a stand-by")
	f.DurationVar(&cfg.Takeover, "takeover", 0, "how long an entry must be overdue before a stand-by takes over")
	return c
}

func printChaos(w io.Writer, r *chaos.Report) {
	var kills []string
	n := 0
	for _, name := range slices.Sorted(maps.Keys(r.Kills)) {
		kills = append(kills, fmt.Sprintf("%s %d", name, r.Kills[name]))
		n += r.Kills[name]
	}
	fmt.Fprintf(w, "%-14s %d kills (%s), %d pauses, %d disconnections, %d clock jumps, %d times that a process ran in "+
		"bursts, %d full "+
		"disks, %d blocks without a key, %d delays, %d stray frames in %.0f s, seed %d\n", "faults", n,
		strings.Join(kills, ", "), r.Pauses, r.Partitions, r.ClockJumps, r.Stutters, r.FullDisks, r.HalfBlocks, r.Delays,
		r.Strays, r.Seconds, r.Seed)
	fmt.Fprintf(w, "%-14s %d drills, %d times a process took over from another\n", "", r.Drills, r.TookOver)
	fmt.Fprintf(w, "%-14s %d events acknowledged, %d malformed, %d sent again on purpose\n", "clients", r.Acknowledged,
		r.Broken, r.Again)
	fmt.Fprintf(w, "%-14s %d entries, %d repeats, %d rejected\n", "ledger", r.Entries, r.Repeats, r.Rejected)
	fmt.Fprintf(w, "%-14s %d lost, %d doubled, %d with another content\n", "", r.Lost, r.Doubled, r.Altered)
	fmt.Fprintf(w, "%-14s %d: %d without a verdict, %d times not assessed by a required group, %d answered or "+
		"assessed twice\n", "proposals", r.Proposals, r.Unanswered, r.Unassessed, r.Twice)
	fmt.Fprintf(w, "%-14s %d, of which callers received %d (%d allow); %d allow although an assessment is missing, %d "+
		"answers are not in the ledger\n", "verdicts", r.Verdicts, r.Answers, r.Allowed, r.Uncleared, r.Untrue)
	fmt.Fprintf(w, "%-14s %d decided jointly; %d assessments and verdicts that a replay does not give\n", "", r.Joint,
		r.Unreplayed)
	for _, c := range slices.Sorted(maps.Keys(r.AskedAgain)) {
		fmt.Fprintf(w, "%-14s callers asked again %d times after the error %s\n", "", r.AskedAgain[c], c)
	}
	same := "and they are identical"
	if !r.Identical {
		same = "and THEY DIFFER"
	}
	fmt.Fprintf(w, "%-14s %s, %d leaves, two auditors, %s\n", "log", r.Status, r.Leaves, same)
	for _, s := range r.NotTried {
		fmt.Fprintf(w, "%-14s %s\n", "NOT TRIED", s)
	}
	for _, s := range r.Died {
		fmt.Fprintf(w, "%-14s %s\n", "ended by itself", s)
	}
	for _, s := range r.Problems {
		fmt.Fprintf(w, "%-14s %s\n", "PROBLEM", s)
	}
}
