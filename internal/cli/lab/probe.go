package lab

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/detection"
	"lazaret/internal/embedded"
	"lazaret/internal/replay"
	"lazaret/pkg/text"
	"lazaret/pkg/text/command/fit"
	"lazaret/probes"
)

func init() {
	Verbs.Add("", probeCommand)
	Verbs.Add("probe", probeDetectionCommand)
}

func probeCommand(a *verb.App) *cobra.Command {
	return verb.Group("probe", "Attack the pipeline, and measure it")
}

func probeDetectionCommand(a *verb.App) *cobra.Command {
	var filter detection.Filter
	var json bool
	var misses int
	c := &cobra.Command{
		Use:   "detection FILE|FOLDER…",
		Short: "Measure what the rules find in labelled corpora",
		Long: `Play labelled corpora through a new pipeline in a temporary folder, and count what the
shipped rules find: the texts that they flag by the text alone, and the actions that
sentinels hold. The policy is probes/detection/policy.yaml, which holds nothing by
itself. The text model is also fitted to the same files without each data set in turn;
the command prints what it then finds in that set. ONE SET marks a rule with more than
half of its hits in one data set. Rates are means over distinct attacks, with 95 %
Wilson intervals for that many trials. No running pipeline is needed. The exit code is 0
whatever the results.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cases, err := detection.Read(args, filter)
			if err != nil {
				return err
			}
			scripts := make([]replay.Script, len(cases))
			for i, c := range cases {
				scripts[i] = c.Script
			}
			j := detection.NewJoiner(cases)
			// The folder is temporary, so nothing has to survive a crash.
			cfg := embedded.Config{NoSync: true, Policy: probes.DetectionPolicy}
			err = throwaway(a, cmd.Context(), cfg, func(own *verb.App) error {
				return playThen(own, cmd.Context(), scripts, replay.Options{}, cmd.ErrOrStderr(),
					func(op *nats.Conn, from, to uint64, _ int64) error {
						return replay.Entries(cmd.Context(), op, from, to, j.Add)
					})
			})
			if err != nil {
				return err
			}
			r := j.Report(cases, misses)
			if err := leaveOut(r, cases, args); err != nil {
				return err
			}
			if json {
				return cli.JSON(cmd.OutOrStdout(), r)
			}
			return printDetection(cmd.OutOrStdout(), r)
		},
	}
	f := c.Flags()
	f.StringVar(&filter.Dataset, "dataset", "", "only the lines of the data set `NAME`")
	f.IntVar(&filter.Limit, "limit", 0, "only the first `N` lines of each file")
	f.IntVar(&misses, "misses", 0, "print up to `N` misses and false alarms of each data set and kind")
	f.BoolVar(&json, "json", false, "print JSON")
	return c
}

// leaveOut fits a text model for each data set, on all other data sets, and adds the models' figures.
func leaveOut(r *detection.Report, cases []*detection.Case, files []string) error {
	texts, err := fit.Load(files)
	if err != nil {
		return err
	}
	return r.LeaveOut(cases, fit.New(texts).Score)
}

// detectionTables prints tables of detection rates.
type detectionTables struct {
	w  io.Writer
	tw *tabwriter.Writer
}

func (t *detectionTables) row(cells ...string) {
	fmt.Fprintln(t.tw, strings.Join(cli.Cells(cells), "\t"))
}

// title begins a table.
func (t *detectionTables) title(text string, columns ...string) {
	t.tw.Flush()
	fmt.Fprintf(t.w, "\n%s\n", text)
	if len(columns) > 0 {
		t.row(columns...)
	}
}

func attackOrBenign(attack bool) string {
	if attack {
		return "attack"
	}
	return "benign"
}

func printDetection(w io.Writer, r *detection.Report) error {
	t := &detectionTables{w, tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	fmt.Fprintf(w, "%d lines, %d sessions\n", r.Lines, r.Sessions)
	t.texts(r)
	t.actions(r)
	if r.LeftOut != nil {
		t.leftOut(r.LeftOut)
	}
	t.title("BY RULE: lines flagged, actions held, and how they are spread over data sets", "RULE", "ATTACK LINES",
		"BENIGN LINES", "GOALS", "BENIGN ACTIONS", "MOST FROM", "SHARE", "MEAN OF SETS", "WITHOUT IT", "")
	for _, x := range r.Rules {
		flag := ""
		if x.Narrow() {
			flag = "ONE SET"
		}
		t.row(x.Rule, fmt.Sprint(x.Attacks), fmt.Sprint(x.Benign), fmt.Sprint(x.Goals), fmt.Sprint(x.Others), x.Most,
			percent(x.MostShare, x.Attacks+x.Goals), percent(x.Mean.Rate, x.Mean.Datasets),
			percent(x.Without.Rate, x.Without.Datasets), flag)
	}
	if len(r.Examples) > 0 {
		t.title("EXAMPLES")
		printExamples(w, r.Examples)
	}
	if err := t.tw.Flush(); err != nil {
		return err
	}
	if r.Health.Any() {
		printHealth(w, r.Health)
	}
	return nil
}

// texts prints how many lines were flagged for their text alone.
func (t *detectionTables) texts(r *detection.Report) {
	columns := []string{"DATASET", "LABEL", "CLASS", "SIGNAL", "N", "DISTINCT", "FLAGGED", "RATE", "95 %"}
	line := func(x detection.TextRow, class string) {
		t.row(append([]string{x.Dataset, attackOrBenign(x.Attack), class, x.Signal}, rateCells(x.Rate)...)...)
	}
	t.title("TEXT ALONE: lines that a text rule of severity high or above flagged", columns...)
	for _, x := range r.Text {
		line(x, x.Class)
	}
	t.title("TEXT ALONE, by data set", columns...)
	for _, x := range r.TextSums {
		line(x, "all")
	}
	t.row(append([]string{"all", "benign", "all", ""}, rateCells(r.Benign)...)...)
	t.row(append([]string{"all", "benign", "all but user's and operator's", ""}, rateCells(r.BenignRead)...)...)
	for _, signal := range slices.Sorted(maps.Keys(r.TextMacro)) {
		m := r.TextMacro[signal]
		t.row(fmt.Sprintf("mean of %d", m.Datasets), "attack", "", signal, "", "", "", percent(m.Rate, m.Datasets))
	}
}

// actions prints how many actions were held.
func (t *detectionTables) actions(r *detection.Report) {
	t.title("ACTIONS HELD: held or denied because of a sentinel", "DATASET", "FROM", "GOAL HELD", "95 %", "NO ARGS",
		"95 %", "GOAL READ HELD", "BENIGN CHANGE HELD", "95 %", "NO ARGS", "BENIGN READ HELD")
	rows := append(slices.Clip(r.Actions), r.ActionSums...)
	slices.SortStableFunc(rows, func(a, b detection.ActionRow) int { return strings.Compare(a.Dataset, b.Dataset) })
	for _, a := range rows {
		t.row(a.Dataset, cmp.Or(a.From, "all"), ratio(a.Goals), interval(a.Goals), ratio(a.GoalsEmpty),
			interval(a.GoalsEmpty), ratio(a.GoalReads), ratio(a.Changes), interval(a.Changes), ratio(a.ChangesEmpty),
			ratio(a.Reads))
	}
	m := r.ActionMacro
	mean := func(m detection.Macro) string {
		if m.Datasets == 0 {
			return "-"
		}
		return fmt.Sprintf("%s of %d", percent(m.Rate, m.Datasets), m.Datasets)
	}
	t.row("mean of sets", "all", mean(m.Goals), "", mean(m.GoalsEmpty), "", mean(m.GoalReads), mean(m.Changes), "",
		mean(m.ChangesEmpty), mean(m.Reads))
}

// leftOut prints the figures of text models, each measured on the data set that was left out when it was fitted.
func (t *detectionTables) leftOut(l *detection.LeftOut) {
	t.title("TEXT ALONE, EACH DATA SET LEFT OUT OF THE TEXT MODEL: strong attacks and harmless lines",
		"DATASET", "LABEL", "N", "DISTINCT", "OTHER RULES", "MODEL", "BOTH", "95 %")
	line := func(x detection.LeftOutRow, dataset string) {
		t.row(dataset, attackOrBenign(x.Attack), fmt.Sprint(x.Both.N), fmt.Sprint(x.Both.Clusters),
			percent(x.Rules.Rate, x.Rules.N), percent(x.Model.Rate, x.Model.N), percent(x.Both.Rate, x.Both.N),
			interval(x.Both))
	}
	for _, x := range l.Rows {
		line(x, x.Dataset)
	}
	line(l.Benign, "all")
	line(l.BenignRead, "all but user's and operator's")
	t.row(fmt.Sprintf("mean of %d", l.Both.Datasets), "attack", "", "", percent(l.Rules.Rate, l.Rules.Datasets),
		percent(l.Model.Rate, l.Model.Datasets), percent(l.Both.Rate, l.Both.Datasets), "")
}

// printExamples prints lines and actions that were judged wrongly.
func printExamples(w io.Writer, examples []detection.Example) {
	for _, e := range examples {
		fmt.Fprintf(w, "%s: %s: %s [%s, %s]\n  %s\n", text.InertLine(e.Dataset, 60), e.Kind, text.InertLine(e.ID, 60),
			text.InertLine(e.Class, 60), text.InertLine(e.Signal, 20), e.Text)
		for _, why := range e.Why {
			fmt.Fprintf(w, "    %s\n", why)
		}
	}
}

// printHealth prints failures of the pipeline during the measurement, which make the figures doubtful.
func printHealth(w io.Writer, h detection.Health) {
	fmt.Fprintf(w, "\nNOT AS IT SHOULD BE: %d events rejected, %d lines not judged, %d actions without verdict, %d "+
		"verdicts without all groups, %d rules failed\n",
		h.Rejected, h.Unjudged, h.Open, h.Degraded, h.Failed)
	for _, t := range h.Unnamed {
		fmt.Fprintf(w, "  not listed in probes/detection/policy.yaml: %s\n", t)
	}
}

func rateCells(r detection.Rate) []string {
	return []string{fmt.Sprint(r.N), fmt.Sprint(r.Clusters), fmt.Sprint(r.Hits), percent(r.Rate, r.N), interval(r)}
}

func ratio(r detection.Rate) string {
	if r.N == 0 {
		return "-"
	}
	return fmt.Sprintf("%s %d/%d", percent(r.Rate, r.N), r.Hits, r.N)
}

func percent(p float64, n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*p)
}

func interval(r detection.Rate) string {
	if r.N == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f-%.1f", 100*r.Low, 100*r.High)
}
