package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"lazaret/internal/auditor"
	"lazaret/internal/bench"
	"lazaret/internal/cli/verb"
	"lazaret/internal/datafolder"
	"lazaret/internal/natsserver"
	"lazaret/internal/query"
	"lazaret/internal/stage"
	"lazaret/internal/wire"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

func init() { Verbs.Add("bench", soakCommand) }

func soakCommand(a *verb.App) *cobra.Command {
	o := bench.SoakReport{}
	var every time.Duration
	var csv, svg, dir, from string
	var sync, json bool
	c := &cobra.Command{
		Use:   "soak",
		Short: "Load a pipeline for long and watch memory and disk (exit 2 when memory is not flat)",
		Long: `Start lazaret up as a separate process in a new folder, and publish --events observations
of --size bytes from another process. Every --every, sample the numbers of decided and
chained entries, the resident memory and the size of the files. Memory is flat if the
median of the last quarter of the observations is at most 1.2 times that of the second
quarter; during the first quarter caches fill. Figures of memory need Linux.

With --days and --retention, each observation has a different text, the observations are
spread evenly over that many days of length --day, and lazaret up runs with that
retention. Its trims and expiries have their own schedule, so only the days are shorter. A
day must be longer than a trim takes. The exit code is also 2 if the disk use at the end
is more than 1.2 times the figure in docs/operations.md.

--csv and --svg write the samples and a graph of them. --graph draws the graph of an
earlier --csv file without a measurement.`,
		Example: "  lazaret bench soak --events 10000000 --size 256 --every 30s --csv soak.csv --svg docs/soak.svg\n  " +
			"lazaret bench soak --days 90 --retention 7 --day 60s --events 900000 --every 10s\n  " +
			"lazaret bench soak --graph soak.csv --size 256 --svg docs/soak.svg",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from != "" {
				return drawSoak(from, svg, o.Size)
			}
			if (o.Days == 0) != (o.Retention == 0) || o.Days < 0 || o.Days > 0 && o.Days <= o.Retention {
				return errors.New("--days needs --retention, and must be larger")
			}
			if o.Day <= 0 || o.Events < 1 || o.Projects < 1 || every <= 0 || o.Size < 1 {
				return errors.New("--events, --projects and --size are at least 1, --every and --day are positive")
			}
			data, err := os.MkdirTemp(dir, "lazaret-soak-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(data)
			runErr := soak(cmd.Context(), data, sync, every, &o)
			// Write the samples of a failed run too.
			if err := errors.Join(runErr, writeFile(csv, o.CSV)); err != nil {
				return err
			}
			if err := o.Conclude(); err != nil {
				return err
			}
			if err := writeFile(svg, func(w io.Writer) error { return bench.Graph(w, o.Title(), o.Samples) }); err != nil {
				return err
			}
			return printBench(cmd, json, &o, o.Lines())
		},
	}
	f := c.Flags()
	f.IntVar(&o.Events, "events", 200_000, "observations")
	f.IntVar(&o.Projects, "projects", 4, "number of projects")
	f.IntVar(&o.Size, "size", 1<<10, "bytes of content of an observation")
	f.DurationVar(&every, "every", time.Second, "time between two samples")
	f.IntVar(&o.Days, "days", 0, "number of simulated days over which the observations are spread; needs --retention")
	f.IntVar(&o.Retention, "retention", 0, "simulated days after which the ledger is trimmed and payloads expire")
	f.DurationVar(&o.Day, "day", 10*time.Second, "length of a simulated day, at least a second")
	f.BoolVar(&sync, "sync", false, "acknowledge only after data is on disk")
	f.StringVar(&csv, "csv", "", "write the samples to `FILE`")
	f.StringVar(&svg, "svg", "", "write the graph to `FILE`")
	f.StringVar(&from, "graph", "", "draw the samples in `FILE` and measure nothing")
	f.StringVar(&dir, "dir", "",
		"`DIR` in which the pipeline's folder is made (default: the folder for temporary files); "+
			"an observation of 1 KiB takes about 6 KB there")
	f.BoolVar(&json, "json", false, "print JSON")
	return c
}

// drawSoak draws the samples in a file as SVG.
func drawSoak(from, svg string, size int) error {
	if svg == "" {
		return errors.New("--graph needs --svg, the file to draw into")
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	r := &bench.SoakReport{Size: size}
	if r.Samples, err = bench.ReadCSV(b); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	if n := len(r.Samples); n > 0 {
		r.Events = int(r.Samples[n-1].Decided)
	}
	return writeFile(svg, func(w io.Writer) error { return bench.Graph(w, r.Title(), r.Samples) })
}

// writeFile writes a file, if a name is given.
func writeFile(name string, write func(io.Writer) error) error {
	if name == "" {
		return nil
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// upProcess is a process that runs `lazaret up`.
type upProcess struct {
	cmd *exec.Cmd
	url string

	mu   sync.Mutex
	out  bytes.Buffer
	done chan struct{}
}

// Write collects the process's output.
func (p *upProcess) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *upProcess) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

var upAt = regexp.MustCompile(`lazaret is up at (\S+?),?\s`)

// startUp starts a process and waits until it is ready.
func startUp(ctx context.Context, data string, sync bool, more ...string) (*upProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := append([]string{"up", "--data", data, "--listen", "127.0.0.1:0"}, more...)
	if !sync {
		args = append(args, "--no-sync")
	}
	p := &upProcess{cmd: exec.Command(self, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	for {
		if m := upAt.FindStringSubmatch(p.said()); m != nil {
			p.url = m[1]
			return p, nil
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), p.stop())
		case <-p.done:
			return nil, fmt.Errorf("lazaret up ended: %s", p.said())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// stop ends the process with an interrupt, and kills it if it does not end in time.
func (p *upProcess) stop() error {
	_ = p.cmd.Process.Signal(os.Interrupt) // the process may have ended
	select {
	case <-p.done:
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			return fmt.Errorf("lazaret up ended with %d: %s", code, p.said())
		}
		return nil
	case <-time.After(time.Minute):
		p.kill()
		return errors.New("lazaret up did not stop within a minute")
	}
}

// kill kills the process.
func (p *upProcess) kill() {
	_ = p.cmd.Process.Kill() // the process may have ended
	<-p.done
}

// soak puts a load on a pipeline in a separate process, and takes samples of memory and disk use.
func soak(ctx context.Context, data string, syncAlways bool, every time.Duration, o *bench.SoakReport) (err error) {
	lo := bench.LoadOptions{Events: o.Events, Projects: o.Projects, Size: o.Size}
	var more []string
	if o.Days > 0 {
		more = []string{"--retention", (time.Duration(o.Retention) * o.Day).String()}
		lo.Distinct, lo.PerSecond = true, float64(o.Events)/(float64(o.Days)*o.Day.Seconds())
	}
	up, err := startUp(ctx, data, syncAlways, more...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, up.stop()) }()
	m, err := natsserver.OpenMinter(data)
	if err != nil {
		return err
	}
	var creds []string
	for i := range o.Projects {
		project := fmt.Sprint("soak", i)
		subject, err := streams.IntakeSubject(project, "agent", streams.KindObs, beliefs.OriginWeb)
		if err != nil {
			return err
		}
		file, err := m.Agent(natsserver.Agent{Project: project, Name: "agent", Origins: []beliefs.Origin{beliefs.OriginWeb}})
		if err != nil {
			return err
		}
		path := filepath.Join(data, project+".creds")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			return err
		}
		lo.Subjects, creds = append(lo.Subjects, subject), append(creds, path)
	}
	own := new(verb.App)
	own.Conn.Data, own.Conn.Timeout = data, 20*time.Second
	nc, err := own.Conn.Connect("operator")
	if err != nil {
		return err
	}
	defer nc.Close()
	js := wire.JetStream(nc)
	var all counter
	before, err := all.decided(ctx, js)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	loaded := make(chan error, 1)
	go func() {
		l, err := loadProcess(ctx, up.url, lo, creds)
		if err == nil {
			o.Refused = l.Refused
		}
		loaded <- err
	}()
	return o.Sampling(ctx, every, loaded, func(ctx context.Context) (s bench.Sample, err error) {
		select {
		case <-up.done:
			return s, fmt.Errorf("lazaret up ended: %s", up.said())
		default:
		}
		n, err := all.decided(ctx, js)
		if err != nil {
			return s, err
		}
		waiting, last, err := verb.Lag(ctx, js)
		if err != nil {
			return s, err
		}
		var head auditor.Answer
		if err := query.Ask(ctx, nc, auditor.AskAudit, 0, auditor.Request{Do: "head"}, &head); err != nil {
			return s, err
		}
		s = bench.Sample{Decided: n - before, Chained: head.LastSeq, Lag: last - min(last, head.LastSeq), Waiting: waiting,
			Streams: bench.DiskUse(filepath.Join(data, "jetstream")), State: bench.DiskUse(filepath.Join(data, "state")),
			Log: bench.DiskUse(datafolder.AuditDir(data))}
		s.RSS, _ = bench.ResidentOf(up.cmd.Process.Pid)
		return s, nil
	})
}

// counter counts ingest's entries in the ledger.
type counter struct{ entries, read uint64 }

// decided returns the number of entries that ingest has written.
func (c *counter) decided(ctx context.Context, js jetstream.JetStream) (uint64, error) {
	span := stage.Span{Stream: streams.LedgerStream, Filters: streams.StageFilters(streams.StageIngest),
		From: c.read + 1, Headers: true}
	err := stage.Each(ctx, js, span, func(m jetstream.Msg, seq uint64, _ time.Time) error {
		n, err := strconv.ParseUint(m.Headers().Get(streams.HeaderCount), 10, 64)
		if err != nil || m.Headers().Get(streams.HeaderTime) != "" {
			n = 1 // a message with a single entry, or a joint frame, which has one entry of ingest
		}
		c.entries, c.read = c.entries+n, seq
		return nil
	})
	return c.entries, err
}
