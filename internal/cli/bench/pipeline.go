package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/pprof"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/internal/bench"
	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/heap"
	"lazaret/internal/natsserver"
	"lazaret/streams"
)

func init() { Verbs.Add("bench", pipelineCommand, loadCommand) }

func pipelineCommand(a *verb.App) *cobra.Command {
	var o bench.PipelineOptions
	var asJSON bool
	var sync string
	c := &cobra.Command{
		Use:   "pipeline",
		Short: "Measure how many observations go through the whole pipeline (exit 2 when a budget is missed)",
		Long: `Publish observations of 1 KiB over TCP from a separate process to a pipeline in a new
folder, and measure the time until the auditor has chained the last one. Before that,
the same process publishes as many messages of that size to one stream of a bare
nats-server with the same storage. Use the ratio of the two rates to compare machines.
Afterwards the entries of the ledger are counted: none may be missing or duplicated.
Finally the same load passes through a bare server with the same streams, entries,
encryption, frames and purges, and one reader of each stream, but without processing:
no such pipeline can exceed this rate (shape_bound_per_s) on this machine.

--batch N publishes batches of N observations, as ObserveAll does, to a second pipeline.
Both pipelines are compared with raw single publishes and with each other.`,
		Example: "  lazaret bench pipeline --sync off\n  lazaret bench pipeline --sync always --events 50000 --json\n  " +
			"lazaret bench pipeline --projects 16 --rules 1000\n  lazaret bench pipeline --batch 64 --sync always " +
			"--events 50000",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch sync {
			case "always":
				o.Sync = true
			case "off":
			default:
				return fmt.Errorf("--sync %q: use always or off", sync)
			}
			if o.Events < 1 || o.Projects < 1 || o.Rules < 0 {
				return fmt.Errorf("--events %d --projects %d --rules %d: use at least one event and one project, and "+
					"0 or more rules", o.Events, o.Projects, o.Rules)
			}
			if o.Batch < 0 || o.Batch > streams.MaxBatch {
				return fmt.Errorf("--batch %d: a batch holds 1 to %d observations", o.Batch, streams.MaxBatch)
			}
			dir, err := os.MkdirTemp("", "lazaret-bench-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			heap.Keep(cmd.Context())
			rep, err := bench.Pipeline(cmd.Context(), dir, o, loadProcess)
			if err != nil {
				return err
			}
			return printBench(cmd, asJSON, rep, rep.Lines())
		},
	}
	f := c.Flags()
	f.IntVar(&o.Events, "events", 100_000, "observations")
	f.IntVar(&o.Projects, "projects", 1, "number of projects")
	f.IntVar(&o.Rules, "rules", 0, "number of generated rules that replace the shipped packs")
	f.IntVar(&o.Batch, "batch", 0, "observations per message; 0: single messages")
	f.BoolVar(&o.Distinct, "distinct", false, "give each observation a different text, instead of 512 texts in turn")
	f.StringVar(&sync, "sync", "off", "`always` (on disk before it is acknowledged) or off")
	f.StringVar(&o.CPUProfile, "cpuprofile", "",
		"write a CPU profile of server and stages, while the pipeline works, to `FILE`")
	f.StringVar(&o.HeapProfile, "memprofile", "",
		"write a heap profile of server and stages, once all is audited, to `FILE`")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// loadProcess runs a load in a separate process.
func loadProcess(ctx context.Context, url string, o bench.LoadOptions, creds []string) (*bench.LoadReport, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, self, "bench", "load", "--server", url, "--events", fmt.Sprint(o.Events), "--size",
		fmt.Sprint(o.Size), "--batch", fmt.Sprint(o.Batch), "--per-second", fmt.Sprint(o.PerSecond),
		fmt.Sprint("--distinct=", o.Distinct),
		"--subjects", strings.Join(o.Subjects, ","), "--as", strings.Join(creds, ","))
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		return nil, fmt.Errorf("the client: %w: %s", err, bytes.TrimSpace(errs.Bytes()))
	}
	rep := new(bench.LoadReport)
	return rep, json.Unmarshal(out.Bytes(), rep)
}

// loadCommand returns the hidden client command of bench pipeline.
func loadCommand(a *verb.App) *cobra.Command {
	var o bench.LoadOptions
	var creds []string
	c := &cobra.Command{
		Use:    "load",
		Short:  "The load process of bench pipeline",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			var conns []*nats.Conn
			for i := range o.Subjects {
				var opts []nats.Option
				if i < len(creds) && creds[i] != "" {
					file, err := os.ReadFile(creds[i])
					if err != nil {
						return err
					}
					opts = append(opts, nats.UserCredentials(creds[i]), nats.CustomInboxPrefix(natsserver.InboxOfCreds(file)))
				}
				nc, err := nats.Connect(a.Conn.Server, opts...)
				if err != nil {
					return err
				}
				defer nc.Close()
				conns = append(conns, nc)
			}
			rep, err := bench.PublishMany(cmd.Context(), conns, o)
			if err != nil {
				return err
			}
			return cli.JSON(cmd.OutOrStdout(), rep)
		},
	}
	f := c.Flags()
	f.IntVar(&o.Events, "events", 0, "observations")
	f.IntVar(&o.Size, "size", 0, "bytes of content of each; 0: 1 KiB")
	f.IntVar(&o.Batch, "batch", 0, "observations per message; 0: single messages")
	f.Float64Var(&o.PerSecond, "per-second", 0, "maximum observations per second; 0: as fast as they are acknowledged")
	f.BoolVar(&o.Distinct, "distinct", false, "give each observation a different text")
	f.StringSliceVar(&o.Subjects, "subjects", nil, "subject of each connection")
	f.StringSliceVar(&creds, "as", nil, "credential file of each connection")
	return c
}

// profileTo starts a CPU profile of this process, if a file is named.
func profileTo(file string) (stop func(), err error) {
	if file == "" {
		return func() {}, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { pprof.StopCPUProfile(); f.Close() }, nil
}
