package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"lazaret/client"
	"lazaret/internal/auditor"
	"lazaret/internal/bench"
	"lazaret/internal/cli/verb"
	"lazaret/internal/embedded"
	"lazaret/internal/natsserver"
	"lazaret/internal/query"
	"lazaret/internal/wire"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

func init() { Verbs.Add("bench", restartCommand) }

func restartCommand(a *verb.App) *cobra.Command {
	o := bench.RestartReport{}
	var marks []int
	var kills int
	var dir string
	var json bool
	c := &cobra.Command{
		Use:   "restart",
		Short: "Measure how long a killed pipeline takes to its first verdict (exit 2 when a budget is missed)",
		Long: `Start lazaret up as a separate process in a new folder, and publish observations up to
the first number of --observations. Then kill the process under load, restart the pipeline,
and measure the time from the restart to the first verdict. Kill it under load again, and
measure a start of its server alone (--server-only). Repeat this --kills times and take the
medians. Do the same for each further number. The median time to the first verdict at the last
number may be at most 1.5 times that at the number before.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if kills < 1 || o.Size < 1 || len(marks) == 0 || marks[0] < 1 || !slices.IsSorted(marks) {
				return errors.New("--kills, --size and --observations must be at least 1, and --observations must increase")
			}
			data, err := os.MkdirTemp(dir, "lazaret-restart-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(data)
			b := &restartBench{data: data, rep: &o, kills: kills, say: func(format string, args ...any) {
				fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...)
			}}
			if err := b.run(cmd.Context(), marks); err != nil {
				return err
			}
			return printBench(cmd, json, &o, o.Lines())
		},
	}
	f := c.Flags()
	f.IntSliceVar(&marks, "observations", []int{10_000, 100_000, 1_000_000},
		"numbers `N,…` of observations at which the process is killed")
	f.IntVar(&o.Size, "size", 256, "bytes of content of an observation")
	f.IntVar(&kills, "kills", 3, "how often the kills and starts are repeated at each number of --observations")
	f.StringVar(&dir, "dir", "", "`DIR` in which the pipeline's folder is made (default: the folder for temporary files)")
	f.BoolVar(&json, "json", false, "print JSON")
	return c
}

// restartBench is a run of `bench restart`.
type restartBench struct {
	data  string
	rep   *bench.RestartReport
	kills int
	say   func(string, ...any)

	loads int // number of loads so far; each uses its own project
}

func (b *restartBench) run(ctx context.Context, marks []int) (err error) {
	up, err := startUp(ctx, b.data, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, up.stop()) }()
	done := 0
	for _, mark := range marks {
		if err := b.load(ctx, up.url, mark-done); err != nil {
			return err
		}
		done = mark
		r := bench.Restart{Entries: mark}
		var cpu, server, serverCPU []float64
		for range b.kills {
			b.killUnderLoad(ctx, up)
			began := time.Now()
			if up, err = startUp(ctx, b.data, false); err != nil {
				return err
			}
			if err := b.decide(ctx); err != nil {
				return err
			}
			r.All = append(r.All, time.Since(began).Seconds())
			cpu = append(cpu, bench.CPUOf(up.cmd.Process.Pid).Seconds())
			if err := b.settled(ctx); err != nil {
				return err
			}
			// The start of the whole pipeline has updated the index of the streams. Kill the pipeline again, so that
			// the server alone also starts with an old index.
			b.killUnderLoad(ctx, up)
			began = time.Now()
			if up, err = startUp(ctx, b.data, false, "--server-only"); err != nil {
				return err
			}
			server = append(server, time.Since(began).Seconds())
			serverCPU = append(serverCPU, bench.CPUOf(up.cmd.Process.Pid).Seconds())
			b.say("%d observations: first verdict after %.2f s, %.2f s of processor time; the server alone %.2f s, %.2f s", mark,
				r.All[len(r.All)-1], cpu[len(cpu)-1], server[len(server)-1], serverCPU[len(serverCPU)-1])
			up.kill()
			if up, err = startUp(ctx, b.data, false); err != nil {
				return err
			}
			if err := b.settled(ctx); err != nil {
				return err
			}
		}
		r.Seconds, r.CPU, r.Server, r.ServerCPU = median(r.All), median(cpu), median(server), median(serverCPU)
		b.rep.Times = append(b.rep.Times, r)
	}
	return nil
}

// killUnderLoad kills the pipeline after it was under load for a second.
func (b *restartBench) killUnderLoad(ctx context.Context, up *upProcess) {
	loading, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- b.publish(loading, up.url, 1_000_000, 1) }()
	time.Sleep(time.Second)
	up.kill()
	cancel()
	<-ended
}

func median(of []float64) float64 {
	s := slices.Sorted(slices.Values(of))
	return s[len(s)/2]
}

// fillBatch is the number of observations per message while the ledger is filled.
const fillBatch = 64

// load publishes observations and waits until they are decided.
func (b *restartBench) load(ctx context.Context, url string, n int) error {
	if err := b.publish(ctx, url, n, fillBatch); err != nil {
		return err
	}
	return b.settled(ctx)
}

// publish publishes n observations to a new project, batch observations per message.
func (b *restartBench) publish(ctx context.Context, url string, n, batch int) error {
	b.loads++
	project := fmt.Sprint("restart", b.loads)
	m, err := natsserver.OpenMinter(b.data)
	if err != nil {
		return err
	}
	file, err := m.Agent(natsserver.Agent{Project: project, Name: "agent", Origins: []beliefs.Origin{beliefs.OriginWeb}})
	if err != nil {
		return err
	}
	path := filepath.Join(b.data, project+".creds")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		return err
	}
	subject, err := streams.IntakeSubject(project, "agent", streams.KindObs, beliefs.OriginWeb)
	if err != nil {
		return err
	}
	_, err = loadProcess(ctx, url, bench.LoadOptions{Events: n, Size: b.rep.Size, Batch: batch,
		Subjects: []string{subject}}, []string{path})
	return err
}

// decide asks for one verdict.
func (b *restartBench) decide(ctx context.Context) error {
	own := new(verb.App)
	own.Conn.Data, own.Conn.Timeout = b.data, 20*time.Second
	nc, err := own.Conn.Connect("agent")
	if err != nil {
		return err
	}
	defer nc.Close()
	c, err := client.New(nc, embedded.DefaultProject, embedded.DefaultAgent)
	if err != nil {
		return err
	}
	_, err = c.Decide(ctx, &streams.Action{Head: streams.Head{ID: client.NewID(), Session: "restart"}, Tool: "read_file"})
	return err
}

// settled waits until everything published is decided and chained.
func (b *restartBench) settled(ctx context.Context) error {
	own := new(verb.App)
	own.Conn.Data, own.Conn.Timeout = b.data, 20*time.Second
	nc, err := own.Conn.Connect("operator")
	if err != nil {
		return err
	}
	defer nc.Close()
	js := wire.JetStream(nc)
	for {
		waiting, last, err := verb.Lag(ctx, js)
		if err != nil {
			return err
		}
		var head auditor.Answer
		if err := query.Ask(ctx, nc, auditor.AskAudit, 0, auditor.Request{Do: "head"}, &head); err == nil && waiting == 0 &&
			head.LastSeq >= last {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
