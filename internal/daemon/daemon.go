package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/internal/datafolder"
	"lazaret/internal/heap"
	"lazaret/internal/metrics"
	"lazaret/internal/natsconn"
	"lazaret/internal/natsserver"
	"lazaret/internal/stage"
	"lazaret/internal/status"
	"lazaret/pkg/keys"
)

// Daemon describes a daemon. Set the fields, then call Main.
type Daemon struct {
	Name  string
	Short string
	// Flags adds the daemon's own flags.
	Flags func(c *cobra.Command)
	// Run runs the daemon until ctx ends.
	Run func(ctx context.Context, e *Env) error
}

// Env is the environment of a running daemon.
type Env struct {
	Conn natsconn.Flags
	Log  *slog.Logger

	state      string
	stateKey   string
	trust      string
	partitions string
	standby    bool
	takeover   time.Duration
	verbose    bool
	json       bool
	addr       string
	metrics    *metrics.Process
	conns      []*nats.Conn
}

// Named returns the daemon with a name, such as ingest, and reports whether it exists.
func Named(name string) (Daemon, bool) {
	for _, d := range []Daemon{Ingest(), Sentinels(), Arbiter(), Auditor()} {
		if d.Name == name {
			return d, true
		}
	}
	return Daemon{}, false
}

// Main runs a daemon and exits with its exit code.
func (d Daemon) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := d.command().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", d.Name, err)
		os.Exit(1)
	}
}

func (d Daemon) command() *cobra.Command {
	e := new(Env)
	c := &cobra.Command{
		Use: d.Name, Short: d.Short, Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		Long: d.Short + `.

The daemon runs with any NATS server with JetStream that has the streams. Two processes
of one stage may run on the same partitions: one is active, the other is a standby and
takes over when the active one makes no progress. The state folder is a cache and must
not be shared.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			e.Conn.Resolve()
			level := slog.LevelInfo
			if e.verbose {
				level = slog.LevelDebug
			}
			o := &slog.HandlerOptions{Level: level}
			e.Log = slog.New(slog.NewTextHandler(os.Stderr, o))
			if e.json {
				e.Log = slog.New(slog.NewJSONHandler(os.Stderr, o))
			}
			defer e.close()
			if e.addr != "" {
				e.metrics = metrics.New()
				srv, err := e.metrics.Serve(e.addr, e.Log)
				if err != nil {
					return err
				}
				defer srv.Close()
				e.Log.Info("metrics", "url", "http://"+srv.Addr+"/metrics")
				if !metrics.Loopback(srv.Addr) {
					e.Log.Warn("metrics are served to other machines without encryption", "addr", srv.Addr)
				}
			}
			heap.Keep(cmd.Context())
			return d.Run(cmd.Context(), e)
		},
	}
	e.Conn.Bind(c.Flags())
	f := c.Flags()
	f.StringVar(&e.state, "state", "", "`DIR` of the state, another one for each process (default DATA/state/NAME)")
	f.StringVar(&e.stateKey, "state-key", "",
		"`FILE` of the key that encrypts the state, outside the state's folder (default DATA/keys/state.key)")
	f.StringVar(&e.trust, "trust", "", "`FILE` of the pinned keys (default DATA/trust.yaml)")
	f.StringVar(&e.partitions, "partitions", "", "partitions to work on, such as 0-7 or 1,3,5 (default all)")
	f.BoolVar(&e.standby, "standby", false, "start as a stand-by, which publishes nothing until it takes over")
	f.DurationVar(&e.takeover, "takeover", stage.DefaultTakeover, "how long the active process may make no "+
		"progress before a standby takes over")
	f.StringVar(&e.addr, "metrics", "",
		"serve /metrics, /healthz and /readyz at `HOST:PORT`, such as 127.0.0.1:9464; port 0 picks a free port (default off)")
	f.BoolVarP(&e.verbose, "verbose", "v", false, "also log debug messages")
	f.BoolVar(&e.json, "log-json", false, "log in JSON")
	if d.Flags != nil {
		d.Flags(c)
	}
	return c
}

// Connect opens a reconnecting connection for a role.
func (e *Env) Connect(r natsserver.Role) (*nats.Conn, error) {
	nc, err := e.Conn.Connect(string(r), natsconn.Daemon(e.Log)...)
	if err == nil {
		e.conns = append(e.conns, nc)
	}
	return nc, err
}

func (e *Env) close() {
	for _, nc := range e.conns {
		nc.Close()
	}
}

// Metrics returns the daemon's metrics, or nil if they are off.
func (e *Env) Metrics() *metrics.Process { return e.metrics }

// Watch registers the daemon's only stage with the metrics. It also answers operators'
// requests for the stage's progress.
func (e *Env) Watch(r natsserver.Role, nc *nats.Conn, partitions []int) (*stage.Stats, error) {
	s := e.metrics.Stage(string(r), stage.Tail(nc, partitions))
	if s == nil {
		s = new(stage.Stats)
	}
	e.metrics.Complete()
	// The subscription ends with the process.
	_, err := status.Serve(nc, string(r), partitions, s, e.Log)
	return s, err
}

// Trust reads the pinned keys.
func (e *Env) Trust() (*keys.Trust, error) {
	path := cmp.Or(e.trust, datafolder.TrustFile(e.Conn.Data))
	t, err := keys.LoadTrust(path)
	if err != nil {
		return nil, fmt.Errorf("reading the pinned keys: %w: name their file with --trust", err)
	}
	return t, nil
}

// Stage connects as a stage and returns its configuration.
func (e *Env) Stage(r natsserver.Role) (stage.Config, error) {
	ps, err := parsePartitions(e.partitions)
	if err != nil {
		return stage.Config{}, err
	}
	dir := cmp.Or(e.state, datafolder.StateDir(e.Conn.Data, string(r)))
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return stage.Config{}, err
	}
	file := cmp.Or(e.stateKey, datafolder.StateKeyFile(e.Conn.Data))
	key, err := datafolder.StateKey(file, string(r))
	if err != nil {
		return stage.Config{}, fmt.Errorf("%w; name the file with --state-key", err)
	}
	nc, err := e.Connect(r)
	if err != nil {
		return stage.Config{}, err
	}
	stats, err := e.Watch(r, nc, ps)
	if err != nil {
		return stage.Config{}, err
	}
	return stage.Config{Conn: nc, Dir: dir, Key: key, Partitions: ps, Standby: e.standby, Takeover: e.takeover,
		Log: e.Log, Stats: stats,
		Ready: func() { e.Log.Info("ready", "stage", string(r)) }}, nil
}

// parsePartitions parses a list such as "0-7,9". An empty string means all and gives nil.
func parsePartitions(s string) ([]int, error) {
	if s == "" {
		return nil, nil
	}
	var out []int
	for _, part := range strings.Split(s, ",") {
		lo, hi, ok := strings.Cut(part, "-")
		if !ok {
			hi = lo
		}
		a, err1 := strconv.Atoi(lo)
		b, err2 := strconv.Atoi(hi)
		if err := errors.Join(err1, err2); err != nil || a > b {
			return nil, fmt.Errorf("--partitions %q: %q is not a partition or a range", s, part)
		}
		for p := a; p <= b; p++ {
			out = append(out, p)
		}
	}
	return out, nil
}
