package lab

import (
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/probe"
	"lazaret/pkg/keys"
	"lazaret/pkg/text"
	"lazaret/probes"
)

func init() { Verbs.Add("probe", probeRunCommand) }

func probeRunCommand(a *verb.App) *cobra.Command {
	var o probe.Options
	var pack string
	var json, running bool
	var svc probeService
	c := &cobra.Command{
		Use:   "run [NAME…]",
		Short: "Run the threat model: attacks in steps, with assertions on each step",
		Long: `Play the scenarios of a pack through new pipelines in temporary folders, and compare the
result of each step with the expectations of the scenario. With names, only the named
scenarios run. --contrast runs each scenario again without the defence that it names; the
scenario must fail then. --running uses the pipeline of the data folder (--data): the
scenarios' projects begin with syn-probe-, and scenarios that restart the pipeline, sign, or
need a special policy are skipped. The exit code is 2 if a scenario fails, or passes without
its defence.

--every runs as a service: it repeats the scenarios against the running pipeline, each
time in new synthetic projects. A scenario that fails opens an incident in the project
syn-probe. The incident is signed with --key, a key with the role probe. While it is
open, further failures of the scenario are added to it.`,
		Example: "  lazaret probe run\n  lazaret probe run sleeper-memory --contrast\n  lazaret probe run --pack ./probes " +
			"--json\n  lazaret probe run --every 1h --key probe.key",
		RunE: func(cmd *cobra.Command, args []string) error {
			from, dir := probes.Threats(), "."
			if pack != "" {
				from = os.DirFS(pack)
			}
			scenarios, err := probe.Load(from, dir)
			if err != nil {
				return err
			}
			if scenarios, err = probe.Named(scenarios, args); err != nil {
				return err
			}
			if svc.every > 0 {
				if o.Contrast {
					return errors.New("--contrast needs a pipeline without a defence, and --every uses the running one: leave out " +
						"--contrast")
				}
				return probeEvery(a, cmd, scenarios, o, &svc, json)
			}
			if running {
				r, err := runningPipeline(a)
				if err != nil {
					return err
				}
				defer r.Operator.Close()
				o.Running = r
			}
			start := time.Now()
			results, err := probe.Run(cmd.Context(), scenarios, o)
			if err != nil {
				return err
			}
			if json {
				err = cli.JSON(cmd.OutOrStdout(), results)
			} else {
				err = printProbes(cmd.OutOrStdout(), results, o.Contrast, time.Since(start))
			}
			if err != nil {
				return err
			}
			for _, r := range results {
				if r.Bad() {
					return &cli.Exit{Code: cli.ExitNegative}
				}
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&pack, "pack", "", "`DIR` of scenarios, instead of the shipped ones")
	f.BoolVar(&o.Contrast, "contrast", false, "also run each scenario without its defence; it must fail then")
	f.BoolVar(&running, "running", false, "use the running pipeline of the data folder")
	f.BoolVar(&json, "json", false, "print JSON")
	f.DurationVar(&svc.every, "every", 0, "run the scenarios against the running pipeline now and after each `DURATION`")
	f.StringVar(&svc.key, "key", "", "with --every: the private key `FILE` that signs incidents (default "+keys.EnvKey+")")
	return c
}

func printProbes(w io.Writer, results []*probe.Result, contrast bool, took time.Duration) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	n := map[string]int{}
	for _, r := range results {
		n[r.Verdict]++
		n["contrast "+r.Contrast]++
		line := r.Verdict + "\t" + r.Name
		switch {
		case r.Skipped != "":
			line += "\t" + r.Skipped
		case r.Contrast == probe.ContrastNone:
			line += "\tNO CONTRAST"
		case r.Contrast == probe.ContrastPassed:
			line += "\tPASSES WITHOUT: " + text.InertLine(r.Off, 120)
		case r.Contrast == probe.ContrastFailed:
			line += "\tfails without: " + text.InertLine(r.Off, 120)
		}
		fmt.Fprintln(tw, line)
		for _, f := range r.Failed {
			fmt.Fprintf(tw, "\t  %s\n", text.InertLine(f, 400))
		}
		if r.Contrast == probe.ContrastPassed {
			for _, f := range r.Shown {
				fmt.Fprintf(tw, "\t  without it: %s\n", text.InertLine(f, 400))
			}
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%d passed, %d failed, %d skipped", n[probe.Pass], n[probe.Fail], n[probe.Skipped])
	if contrast {
		fmt.Fprintf(w, "; without their defence, %d fail as they must, %d pass although they must fail, %d name no "+
			"defence", n["contrast "+probe.ContrastFailed],
			n["contrast "+probe.ContrastPassed], n["contrast "+probe.ContrastNone])
	}
	fmt.Fprintf(w, "; %s\n", took.Round(100*time.Millisecond))
	return nil
}
