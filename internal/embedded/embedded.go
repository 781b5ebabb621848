package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/arbiter"
	"lazaret/internal/auditor"
	"lazaret/internal/backup"
	"lazaret/internal/datafolder"
	"lazaret/internal/ingest"
	"lazaret/internal/metrics"
	"lazaret/internal/natsfiles"
	"lazaret/internal/natsserver"
	"lazaret/internal/sentinel"
	"lazaret/internal/stage"
	"lazaret/internal/status"
	"lazaret/internal/wire"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/keys"
	"lazaret/streams"

	shipped "lazaret/rules"
)

// Config configures the pipeline.
type Config struct {
	Data   string // the data folder
	Listen string // HOST:PORT for clients, as in natsserver.Config
	NoSync bool   // the server acknowledges messages before they are on disk
	// Groups are the sentinel groups to run. nil means those of the shipped rule set. An empty list means none.
	Groups []string
	// ServerOnly starts only the server, and creates the streams and the credentials. The stages then run as daemons.
	ServerOnly bool
	// Policy and Rules are activated at the first start instead of the shipped ones.
	Policy []byte
	Rules  []byte
	// Storage configures the streams when the first start creates them. A size of 0 means that it is derived from the
	// free disk space. If MaxDisk is not 0, the streams use at most MaxDisk bytes of that space.
	Storage wire.Storage
	MaxDisk int64
	// MaxEvent is the maximum size of an event that is accepted, in bytes. 0 means streams.DefaultMaxEvent.
	MaxEvent int
	// NoJoint makes each stage publish its entries by itself. See stage.Joint.
	NoJoint bool
	// Expires is the validity of the credentials that Start creates and renews. 0 means natsserver.RoleExpires.
	Expires time.Duration
	// FrontEvent is the maximum size of an event that the arbiter's front accepts, in bytes. If it is 0, the front uses
	// MaxEvent. Ingest always uses MaxEvent. FrontEvent, Takeover and AnswerTimeout are for tests.
	FrontEvent int
	Takeover   time.Duration // how long an input may wait before a stand-by handles it; 0 means stage.DefaultTakeover
	// Standby makes the stages of Join start as stand-bys. A stand-by publishes nothing until it takes over.
	Standby       bool
	AnswerTimeout time.Duration // how long a request waits for its verdict; 0 means arbiter.DefaultAnswerTimeout
	Log           *slog.Logger
	// Metrics, if set, gets the metrics of the stages.
	Metrics *metrics.Process
}

// DefaultProject and DefaultAgent are the project and the agent of the agent's credential that the first start creates.
const (
	DefaultProject = natsfiles.DefaultProject
	DefaultAgent   = natsfiles.DefaultAgent
)

// Pipeline is a running pipeline.
type Pipeline struct {
	Server *natsserver.Server // nil if Join has connected to a server that another process runs
	cfg    Config
	open   func(natsserver.Role) (*nats.Conn, error)

	// The next four fields are used only by the goroutine that starts and closes the pipeline.
	conns  []*nats.Conn
	feed   *stage.Feed
	cancel context.CancelFunc
	wg     sync.WaitGroup

	failed chan struct{}
	once   sync.Once

	mu  sync.Mutex
	err error // guarded by mu
	// noRoom is the reason why the streams refuse messages. It is nil if they accept messages. Guarded by mu.
	noRoom error
}

// Start starts the pipeline. It returns when the pipeline can answer requests.
func Start(ctx context.Context, cfg Config) (_ *Pipeline, err error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	srv, err := natsserver.Start(natsserver.Config{Data: cfg.Data, Listen: cfg.Listen, NoSync: cfg.NoSync, Log: cfg.Log})
	if err != nil {
		return nil, err
	}
	run, cancel := context.WithCancel(context.Background())
	p := &Pipeline{Server: srv, cfg: cfg, cancel: cancel, failed: make(chan struct{}),
		open: func(r natsserver.Role) (*nats.Conn, error) { return srv.Connect(r) }}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	if err := p.setup(ctx); err != nil {
		return nil, err
	}
	p.wg.Go(func() { p.watchRoom(run) })
	trust, err := datafolder.Trust(cfg.Data)
	if err != nil {
		return nil, err
	}
	// Create the key even if no auditor runs here: an auditor that runs elsewhere copies the key from this folder.
	_, err = datafolder.MasterKey(cfg.Data)
	if err := errors.Join(err, p.credentials(), datafolder.MakeStateKey(cfg.Data)); err != nil {
		return nil, err
	}
	p.wg.Go(func() { p.renewCredentials(run) })
	if err := os.RemoveAll(backup.CopiesDir(cfg.Data)); err != nil { // left by a killed process
		return nil, err
	}
	if err := p.serveErase(); err != nil {
		return nil, err
	}
	if !cfg.ServerOnly {
		if err := p.stages(ctx, run, trust); err != nil {
			return nil, err
		}
	}
	if err := p.activateFirst(ctx); err != nil {
		return nil, err
	}
	cfg.Metrics.Unless(p.NoRoom)
	cfg.Metrics.Complete()
	return p, nil
}

func (p *Pipeline) connect(r natsserver.Role) (*nats.Conn, error) {
	nc, err := p.open(r)
	if err == nil {
		p.conns = append(p.conns, nc)
	}
	return nc, err
}

func (p *Pipeline) setup(ctx context.Context) error {
	nc, err := p.Server.Connect(natsserver.RoleSetup)
	if err != nil {
		return err
	}
	defer nc.Close()
	js := wire.JetStream(nc)
	if begun(p.cfg.Data) {
		// The first start has created the streams. If one is missing now, it must not be replaced by an empty one: its
		// messages may still be on disk.
		return awaitStreams(ctx, js)
	}
	size, err := natsserver.Size(p.cfg.Storage, p.cfg.Data, p.cfg.MaxDisk)
	if err != nil {
		return err
	}
	// If the first start was interrupted, it may have created the streams with sizes other than those of now.
	if _, err := js.Stream(ctx, streams.LedgerStream); err == nil {
		if err := wire.Check(ctx, js); err == nil {
			return nil
		}
	}
	return wire.Ensure(ctx, js, size)
}

// recoveryTimeout is the time within which the server must recover its streams.
const recoveryTimeout = 2 * time.Minute

// awaitStreams waits until a restarted server has recovered its streams. The server answers requests before that. Then
// a stream may be unknown, or may look empty. The ledger is known to have entries, because rules and a policy were
// activated.
func awaitStreams(ctx context.Context, js jetstream.JetStream) error {
	ctx, cancel := context.WithTimeout(ctx, recoveryTimeout)
	defer cancel()
	for {
		err := wire.Check(ctx, js)
		if err == nil {
			st, serr := js.Stream(ctx, streams.LedgerStream)
			if serr == nil && st.CachedInfo().State.LastSeq > 0 {
				return nil
			}
			err = errors.Join(serr, fmt.Errorf("%s is empty", streams.LedgerStream))
		}
		var drift *wire.DriftError
		if errors.As(err, &drift) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the streams of this installation have changed or are missing; nothing was "+
				"changed: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// activatedFile returns the path of the file that marks a completed first start. If the file exists, missing streams
// are not created again. The file does not say which rules and policy are active.
func activatedFile(data string) string { return filepath.Join(natsserver.KeysDir(data), "activated") }

// begun reports whether the first start was completed, by this version of Lazaret or by an earlier one.
func begun(data string) bool {
	_, err := os.Stat(activatedFile(data))
	_, before := os.Stat(filepath.Join(data, "state", "activated"))
	return err == nil || before == nil
}

// credentials creates a credential and a NATS context for each role. It renews a credential if half of its validity is
// over.
func (p *Pipeline) credentials() error {
	return installCredentials(p.Server.Minter(), p.Server.URL(), p.groups(), p.expires())
}

func (p *Pipeline) expires() time.Duration {
	if p.cfg.Expires > 0 {
		return p.cfg.Expires
	}
	return natsserver.RoleExpires
}

// renewCredentials renews the credentials that Start created, until ctx ends. When a credential expires, the server
// closes the client's connection. The client then reads the file again and gets the renewed one.
func (p *Pipeline) renewCredentials(ctx context.Context) {
	t := time.NewTicker(min(time.Hour, p.expires()/8))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if err := p.credentials(); err != nil {
			p.cfg.Log.Error("credentials could not be renewed; they expire unless a later try succeeds", "err", err)
		}
	}
}

// installCredentials creates credentials and contexts in the folder of the minter. It renews existing credentials if
// half of their validity is over.
func installCredentials(m *natsserver.Minter, url string, groups []string, lasts time.Duration) error {
	roles := map[natsserver.Role]string{
		natsserver.RoleOperator: "Lazaret: operators", natsserver.RoleApprover: "Lazaret: approvers",
		natsserver.RoleAuditor: "Lazaret: the auditor", natsserver.RoleIngest: "Lazaret: ingest",
		natsserver.RoleArbiter: "Lazaret: the arbiter", natsserver.RoleFront: "Lazaret: proposals on behalf of callers",
		natsserver.RoleService:   "Lazaret: answers to requests",
		natsserver.RoleReplay:    "Lazaret: replays of recorded sessions",
		natsserver.RoleRetention: "Lazaret: trimming and forgetting",
		natsserver.RoleViewer:    "Lazaret: read-only viewers",
	}
	for _, g := range groups {
		roles[natsserver.SentinelRole(g)] = "Lazaret: sentinel group " + g
	}
	if err := m.FollowURL(url); err != nil {
		return fmt.Errorf("updating the server's address in contexts: %w", err)
	}
	for r, d := range roles {
		if err := m.Install(natsserver.Grant{Name: string(r), Role: r, Lasts: lasts, Description: d}, url, true); err != nil {
			return fmt.Errorf("credential of %s: %w", r, err)
		}
	}
	a := natsserver.Agent{Project: DefaultProject, Name: DefaultAgent, Origins: beliefs.Origins()}
	return m.Install(natsserver.Grant{Name: "agent", Agent: &a, Lasts: lasts,
		Description: "Lazaret: agent demo/agent, all origins"}, url, true)
}

func (p *Pipeline) groups() []string {
	if p.cfg.Groups != nil {
		return p.cfg.Groups
	}
	return shipped.Groups()
}

// stages starts the four stages. It waits until each of them has read the ledger to its end.
func (p *Pipeline) stages(ctx, run context.Context, trust *keys.Trust) error {
	pinned, m := trust.Verifiers(keys.RoleOperator), p.cfg.Metrics
	svc, err := p.connect(natsserver.RoleService)
	if err != nil {
		return err
	}
	front, err := p.connect(natsserver.RoleFront)
	if err != nil {
		return err
	}
	tail, err := p.connect(natsserver.RoleFeed)
	if err != nil {
		return err
	}
	if p.feed, err = stage.OpenFeed(ctx, tail, p.cfg.Log); err != nil {
		return err
	}
	joint, err := p.joint()
	if err != nil {
		return err
	}
	var ready []chan struct{}
	spawn := func(r natsserver.Role, f func(cfg stage.Config) error) error {
		nc, err := p.connect(r)
		if err != nil {
			return err
		}
		ch := make(chan struct{})
		ready = append(ready, ch)
		stats := m.Stage(string(r), stage.Tail(nc, nil))
		if stats == nil {
			stats = new(stage.Stats)
		}
		// Closing the connection ends the subscription.
		if _, err := status.Serve(nc, string(r), nil, stats, p.cfg.Log); err != nil {
			return err
		}
		key, err := datafolder.StateKey(datafolder.StateKeyFile(p.cfg.Data), string(r))
		if err != nil {
			return err
		}
		cfg := stage.Config{Conn: nc, Feed: p.feed, Joint: joint, Dir: datafolder.StateDir(p.cfg.Data, string(r)), Key: key,
			Standby: p.cfg.Standby, Takeover: p.cfg.Takeover, Log: p.cfg.Log, Ready: func() { close(ch) }, Stats: stats}
		if err := os.MkdirAll(filepath.Dir(cfg.Dir), 0o700); err != nil {
			return err
		}
		p.wg.Go(func() { p.fail(string(r), f(cfg)) })
		return nil
	}
	if err := spawn(natsserver.RoleIngest, func(c stage.Config) error {
		return ingest.Run(run, c, ingest.Config{Pinned: pinned, Metrics: m, MaxEvent: p.cfg.MaxEvent}, svc)
	}); err != nil {
		return err
	}
	for _, g := range p.groups() {
		if err := spawn(natsserver.SentinelRole(g), func(c stage.Config) error {
			return sentinel.Run(run, c, g, pinned, m)
		}); err != nil {
			return err
		}
	}
	if err := spawn(natsserver.RoleArbiter, func(c stage.Config) error {
		return arbiter.Run(run, c, pinned, arbiter.FrontConfig{Intake: front, Service: svc, Feed: c.Feed, Joint: c.Joint,
			Timeout: p.cfg.AnswerTimeout, MaxSize: cmp.Or(p.cfg.FrontEvent, p.cfg.MaxEvent)}, m)
	}); err != nil {
		return err
	}
	signer, err := keys.LoadSigner(datafolder.AuditorKey(p.cfg.Data))
	if err != nil {
		return err
	}
	master, err := datafolder.MasterKey(p.cfg.Data)
	if err != nil {
		return err
	}
	if err := spawn(natsserver.RoleAuditor, func(c stage.Config) error {
		return auditor.Run(run, auditor.Config{Conn: c.Conn, Feed: c.Feed, Dir: datafolder.AuditDir(p.cfg.Data),
			Signer: signer, Origin: signer.Name(), Operators: pinned, Pinned: trust.Verifiers(keys.RoleAuditor),
			MasterKey: master, WitnessPolicy: datafolder.WitnessPolicy(p.cfg.Data), Log: p.cfg.Log, Ready: c.Ready,
			Stats: c.Stats, Metrics: m.Auditor()}, svc)
	}); err != nil {
		return err
	}
	for _, ch := range ready {
		select {
		case <-ch:
		case <-p.failed:
			return p.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// joint returns the stage.Joint with which the stages of this process decide a proposal together. It returns nil if
// each stage is to publish its entries by itself.
func (p *Pipeline) joint() (*stage.Joint, error) {
	if p.cfg.NoJoint {
		return nil, nil
	}
	nc, err := p.connect(natsserver.RoleJoint)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, g := range p.groups() {
		names = append(names, streams.SentinelStage(g))
	}
	j, err := stage.NewJoint(nc, append(names, streams.StageArbiter)...)
	if err != nil {
		return nil, err
	}
	j.Offers = p.Server != nil
	j.Elsewhere = natsserver.WatchGroups(p.cfg.Data, p.groups()).Others
	return j, nil
}

// fail adds the error of a stage to the error of the pipeline, and closes the channel of Failed.
func (p *Pipeline) fail(stage string, err error) {
	if err == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = errors.Join(p.err, fmt.Errorf("%s: %w", stage, err))
	p.once.Do(func() { close(p.failed) })
}

// Failed returns a channel that is closed when a stage has failed. Err then returns the error.
func (p *Pipeline) Failed() <-chan struct{} { return p.failed }

// Err returns the errors of the stages that failed, joined. It is nil if none has failed.
func (p *Pipeline) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Close stops first the stages and then the server. It returns the error of the pipeline, if it has failed.
func (p *Pipeline) Close() error {
	p.cancel()
	p.wg.Wait()
	p.feed.Close()
	for _, nc := range p.conns {
		nc.Close()
	}
	if p.Server != nil {
		p.Server.Shutdown()
	}
	return p.Err()
}
