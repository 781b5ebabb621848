package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lazaret/internal/bench"
	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/streams"
)

// benchRun is one command `lazaret bench …`.
type benchRun struct {
	name string
	args []string
	long bool
	// quick are the arguments of a short run, whose figures are not representative.
	quick []string
	lines func(b []byte) ([]bench.Line, error)
}

// linesOf parses a report's JSON and returns its lines.
func linesOf[T any, P interface {
	*T
	Lines() []bench.Line
}](b []byte) ([]bench.Line, error) {
	r := P(new(T))
	if err := streams.Unmarshal(b, r); err != nil {
		return nil, err
	}
	return r.Lines(), nil
}

var benchRuns = []benchRun{
	{name: "pipeline, one project", args: []string{"pipeline", "--sync", "off", "--projects", "1"},
		quick: []string{"--events", "5000"}, lines: linesOf[bench.PipelineReport]},
	{name: "pipeline, 16 projects", args: []string{"pipeline", "--sync", "off", "--projects", "16"},
		quick: []string{"--events", "5000"}, lines: linesOf[bench.PipelineReport]},
	{name: "pipeline, sync always", args: []string{"pipeline", "--sync", "always", "--events", "50000"},
		quick: []string{"--events", "3000"}, lines: linesOf[bench.PipelineReport]},
	{name: "decide, idle", args: []string{"decide"}, quick: []string{"--requests", "100", "--warm", "20"},
		lines: linesOf[bench.DecideReport]},
	{name: "decide, loaded", args: []string{"decide", "--rate", "3000"}, quick: []string{"--requests", "100", "--warm",
		"20"}, lines: linesOf[bench.DecideReport]},
	{name: "decide, long project", args: []string{"decide", "--flat"}, long: true, quick: []string{"--many", "1500",
		"--few", "200", "--requests", "100"}, lines: linesOf[bench.DecideReport]},
	{name: "mcp", args: []string{"mcp"}, quick: []string{"--calls", "50", "--warm", "5"},
		lines: linesOf[bench.MCPReport]},
	{name: "mcp, no sync", args: []string{"mcp", "--no-sync"}, quick: []string{"--calls", "50", "--warm", "5"},
		lines: linesOf[bench.MCPReport]},
	{name: "rules", args: []string{"rules"}, quick: []string{"--rules", "1000", "--events", "300", "--rounds", "2"},
		lines: linesOf[bench.RulesReport]},
	{name: "audit", args: []string{"audit"}, quick: []string{"--entries", "5000", "--rounds", "1", "--proofs", "50"},
		lines: linesOf[bench.AuditReport]},
	{name: "back-test", args: []string{"backtest"}, quick: []string{"--events", "1000", "--rounds", "1"},
		lines: linesOf[bench.BacktestReport]},
	{name: "idle", args: []string{"idle"}, lines: linesOf[bench.IdleReport]},
	{name: "soak", args: []string{"soak"}, quick: []string{"--events", "15000", "--every", "200ms"},
		lines: linesOf[bench.SoakReport]},
	{name: "restart", args: []string{"restart"}, long: true, quick: []string{"--observations", "500,2000", "--kills",
		"1"}, lines: linesOf[bench.RestartReport]},
	{name: "beliefs", args: []string{"beliefs"}, long: true, quick: []string{"--few", "500", "--many", "2000",
		"--window", "300", "--recalls", "50", "--again", "2"}, lines: linesOf[bench.BeliefsReport]},
}

// benchRow is a figure of one run.
type benchRow struct {
	Bench  string  `json:"bench"`
	What   string  `json:"what"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit,omitzero"`
	Budget string  `json:"budget,omitzero"`
	Held   *bool   `json:"held,omitempty"` // absent if there is no budget
	Limit  bool    `json:"limit,omitzero"` // a figure of the machine itself, without a budget
}

// benchTable is the result of all benchmarks.
type benchTable struct {
	Machine string            `json:"machine"`
	Time    time.Time         `json:"time"`
	Load    string            `json:"load,omitzero"` // load average of the machine before the first run
	Quick   bool              `json:"quick,omitzero"`
	Rows    []benchRow        `json:"rows"`
	NotRun  map[string]string `json:"not_run,omitempty"`
}

func init() { Verbs.Add("bench", allCommand, idleCommand) }

func allCommand(a *verb.App) *cobra.Command {
	var long, quick, full, asJSON bool
	var only string
	c := &cobra.Command{
		Use:   "all",
		Short: "Run every benchmark in a separate process and print one table (exit 2 when a budget is missed)",
		Long: `Run all lazaret benchmarks sequentially, each in a separate process, and print one
Markdown table with the budgets and a description of the machine. Nothing else should
run on the machine: the table shows its load before the first run. A row named "limit"
shows the maximum that the machine allows, measured in the same run: only the publishes
of a verdict, or only the messages of a pipeline through the bare server.

--long also runs the benchmarks that take an hour: a million beliefs, 100,000 actions in
a project. The table lists benchmarks that were not run. --quick makes short runs that
test whether the benchmarks work; their figures mean nothing.`,
		Example: "  lazaret bench all\n  lazaret bench all --long --json\n  lazaret bench all --run 'pipeline|decide'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pick, err := regexp.Compile(only)
			if err != nil {
				return err
			}
			t := &benchTable{Machine: machine(), Time: time.Now().UTC().Truncate(time.Second), Load: loadAverage(),
				Quick: quick, NotRun: make(map[string]string)}
			missed := false
			for _, r := range benchRuns {
				if !pick.MatchString(r.name) {
					continue
				}
				if r.long && !long && !quick {
					t.NotRun[r.name] = "takes long: give --long"
					continue
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "%s …\n", r.name)
				lines, err := runBench(cmd.Context(), r, quick)
				if err != nil {
					if cmd.Context().Err() != nil {
						return err
					}
					t.NotRun[r.name] = err.Error()
					continue
				}
				missed = missed || bench.Missed(lines)
				for _, l := range lines {
					row := benchRow{Bench: r.name, What: strings.TrimSpace(l.What), Value: l.Value, Unit: l.Unit, Budget: l.Budget,
						Limit: l.Limit}
					if l.Budget != "" {
						row.Held = &l.Pass
					}
					t.Rows = append(t.Rows, row)
				}
			}
			if len(t.Rows)+len(t.NotRun) == 0 {
				return fmt.Errorf("no benchmark is called %q", only)
			}
			if asJSON {
				err = cli.JSON(cmd.OutOrStdout(), t)
			} else {
				err = t.markdown(cmd.OutOrStdout(), full)
			}
			failed := 0
			for _, why := range t.NotRun {
				if !strings.HasPrefix(why, "takes long") {
					failed++
				}
			}
			switch {
			case err != nil:
				return err
			case failed > 0:
				return fmt.Errorf("%d benchmarks could not be run", failed)
			case missed:
				return &cli.Exit{Code: cli.ExitNegative}
			}
			return nil
		},
	}
	f := c.Flags()
	f.BoolVar(&long, "long", false, "also run the benchmarks that take an hour")
	f.BoolVar(&full, "full", false, "also print the figures without a budget, as --json does")
	f.BoolVar(&quick, "quick", false, "make short runs, only to test the benchmarks")
	f.StringVar(&only, "run", "", "only benchmarks whose name matches `REGEXP`")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// runBench runs one benchmark and returns its figures. Exit code 2 only means a missed budget, which
// the figures also show.
func runBench(ctx context.Context, r benchRun, quick bool) ([]bench.Line, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := append([]string{"bench"}, r.args...)
	if quick {
		args = append(args, r.quick...)
	}
	c := exec.CommandContext(ctx, self, append(args, "--json")...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := c.Run(); err != nil && !(errors.As(err, &exit) && exit.ExitCode() == cli.ExitNegative) {
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(errs.String()))
	}
	lines, err := r.lines(out.Bytes())
	if err != nil {
		return nil, fmt.Errorf("reading the report of the benchmark: %w", err)
	}
	return lines, nil
}

// markdown writes the table in Markdown.
func (t *benchTable) markdown(w io.Writer, full bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s", t.Machine, t.Time.Format(time.DateOnly))
	if t.Load != "" {
		fmt.Fprintf(&b, ", load before: %s", t.Load)
	}
	b.WriteString(".\n")
	if t.Quick {
		b.WriteString("\n**Short runs (--quick): these figures are not representative.**\n")
	}
	b.WriteString("\n| benchmark | what | measured | budget | |\n|---|---|---|---|---|\n")
	for _, r := range t.Rows {
		if r.Held == nil && !r.Limit && !full {
			continue
		}
		verdict := ""
		if r.Limit {
			verdict = "limit"
		}
		if r.Held != nil {
			verdict = "**missed**"
			if *r.Held {
				verdict = "held"
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.Bench, r.What, strings.TrimSpace(figure(r.Value)+" "+r.Unit),
			r.Budget, verdict)
	}
	for _, r := range benchRuns {
		if why, ok := t.NotRun[r.name]; ok {
			fmt.Fprintf(&b, "| %s | **not run**: %s | | | |\n", r.name, strings.ReplaceAll(streams.Clip(why, 300), "\n", " "))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// figure formats a number with at least three digits.
func figure(v float64) string {
	switch {
	case v >= 100 || v == float64(int64(v)):
		s := fmt.Sprintf("%.0f", v)
		for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
			s = s[:i] + "," + s[i:]
		}
		return s
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// machine returns the number and model of the processors.
func machine() string {
	m := fmt.Sprintf("%d processors", runtime.GOMAXPROCS(0))
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
				m += " of " + strings.TrimSpace(v)
				break
			}
		}
	}
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kib int64
		if _, err := fmt.Sscanf(string(b), "MemTotal: %d kB", &kib); err == nil {
			m += fmt.Sprintf(", %.1f GiB", float64(kib)/(1<<20))
		}
	}
	return fmt.Sprintf("%s, %s/%s, %s", m, runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// loadAverage returns the load average of the last minute, or "".
func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	one, _, _ := strings.Cut(string(b), " ")
	return one
}

// idleCommand returns the command that measures an idle pipeline.
func idleCommand(a *verb.App) *cobra.Command {
	var settle time.Duration
	var json bool
	c := &cobra.Command{
		Use:   "idle",
		Short: "Measure the resident memory of an idle lazaret up (exit 2 when a budget is missed; Linux)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			data, err := os.MkdirTemp("", "lazaret-bench-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(data)
			up, err := startUp(cmd.Context(), data, true)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, up.stop()) }()
			select {
			case <-cmd.Context().Done():
				return cmd.Context().Err()
			case <-time.After(settle):
			}
			rep := new(bench.IdleReport)
			now, peak := bench.ResidentOf(up.cmd.Process.Pid)
			if now == 0 {
				return errors.New("this system does not report how much memory a process has")
			}
			rep.RSS, rep.Peak = float64(now)/(1<<20), float64(peak)/(1<<20)
			return printBench(cmd, json, rep, rep.Lines())
		},
	}
	c.Flags().DurationVar(&settle, "settle", 5*time.Second, "time after the start when memory is measured")
	c.Flags().BoolVar(&json, "json", false, "print JSON")
	return c
}
