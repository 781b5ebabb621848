package embedded

import (
	"cmp"
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"lazaret/internal/arbiter"
	"lazaret/internal/auditor"
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

// Config is how the pipeline runs.
type Config struct {
	Data   string
	Listen string // as in natsserver.Config
	NoSync bool
	// Groups are the sentinel groups to run; nil means those of the shipped
	// rule set, an empty list none.
	Groups []string
	// ServerOnly starts server, streams and credentials, and leaves the stages
	// to daemons.
	ServerOnly bool
	// Policy and Rules replace what is activated on the first start.
	Policy []byte
	Rules  []byte
	// Storage is how the streams are made on the first start. Sizes that it leaves 0
	// are taken from the free space of the disk, or from MaxDisk bytes, if that is less and not 0.
	Storage wire.Storage
	MaxDisk int64
	// MaxEvent is the largest event that is taken, in bytes; 0:
	// streams.DefaultMaxEvent.
	MaxEvent int
	// Expires is how long the credentials are valid that Start makes and renews; 0:
	// natsserver.RoleExpires.
	Expires time.Duration
	// FrontEvent, if not 0, is MaxEvent of the front alone; ingest keeps its own.
	// It, Takeover and AnswerTimeout are for tests.
	FrontEvent    int
	Takeover      time.Duration
	AnswerTimeout time.Duration
	Log           *slog.Logger
	// Metrics, when set, is told of the stages.
	Metrics *metrics.Process
}

// DefaultProject and DefaultAgent are whom the credential speaks for that the
// first start leaves in the data folder.
const (
	DefaultProject = natsfiles.DefaultProject
	DefaultAgent   = natsfiles.DefaultAgent
)

// Pipeline is a running pipeline.
type Pipeline struct {
	Server *natsserver.Server
	cfg    Config

	// Owned by the goroutine that starts and closes.
	conns  []*nats.Conn
	feed   *stage.Feed
	cancel context.CancelFunc
	wg     sync.WaitGroup

	failed chan struct{}
	once   sync.Once

	mu  sync.Mutex
	err error // guarded by mu
	// noRoom is why the streams refuse messages, or nil. Guarded by mu.
	noRoom error
}

// StateDir is the folder of a stage's cache.
func StateDir(data, stage string) string { return filepath.Join(data, "state", stage) }

// AuditDir is the folder of the auditor's log.
func AuditDir(data string) string { return filepath.Join(data, "audit") }

// TrustFile is where the pinned keys stand.
func TrustFile(data string) string { return filepath.Join(data, keys.TrustFile) }

// WitnessPolicy is the file of the witnesses that the auditor asks to cosign.
func WitnessPolicy(data string) string { return filepath.Join(data, "witnesses.policy") }

// OperatorKey and AuditorKey are the files of the keys that the first start
// makes.
func OperatorKey(data string) string { return filepath.Join(natsserver.KeysDir(data), "operator.key") }

// AuditorKey is the file of the key that signs checkpoints.
func AuditorKey(data string) string { return filepath.Join(natsserver.KeysDir(data), "auditor.key") }

// Start starts the pipeline and returns when it answers requests.
func Start(ctx context.Context, cfg Config) (_ *Pipeline, err error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	srv, err := natsserver.Start(natsserver.Config{Data: cfg.Data, Listen: cfg.Listen, NoSync: cfg.NoSync, Log: cfg.Log})
	if err != nil {
		return nil, err
	}
	run, cancel := context.WithCancel(context.Background())
	p := &Pipeline{Server: srv, cfg: cfg, cancel: cancel, failed: make(chan struct{})}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	if err := p.setup(ctx); err != nil {
		return nil, err
	}
	p.wg.Go(func() { p.watchRoom(run) })
	trust, err := Trust(cfg.Data)
	if err != nil {
		return nil, err
	}
	// An auditor that runs apart gets its key from this folder.
	_, err = MasterKey(cfg.Data)
	if err := errors.Join(err, p.credentials(), makeStateKey(cfg.Data)); err != nil {
		return nil, err
	}
	p.wg.Go(func() { p.renewCredentials(run) })
	if err := os.RemoveAll(backupsDir(cfg.Data)); err != nil { // what a process left that was killed
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
	nc, err := p.Server.Connect(r)
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
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	if begun(p.cfg.Data) {
		// This installation had its streams. A missing one must not be replaced by an
		// empty one: its messages may still be on disk.
		return awaitStreams(ctx, js)
	}
	size, err := natsserver.Size(p.cfg.Storage, p.cfg.Data, p.cfg.MaxDisk)
	if err != nil {
		return err
	}
	// An interrupted first start has made streams of another size.
	if _, err := js.Stream(ctx, streams.LedgerStream); err == nil {
		if err := wire.Check(ctx, js); err == nil {
			return nil
		}
	}
	return wire.Ensure(ctx, js, size)
}

// recoveryTimeout is how long the server may take to recover its streams.
const recoveryTimeout = 2 * time.Minute

// awaitStreams waits until a restarted server has recovered the streams. It
// answers requests before it has: until then a stream may be unknown or look
// empty. The ledger of an installation that was activated never is empty.
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
			return fmt.Errorf("the streams of this installation are not what they were, and nothing was changed: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// activatedFile marks an installation whose first start was completed, so that
// streams that are missing are not made anew. It does not say what is in force.
func activatedFile(data string) string { return filepath.Join(natsserver.KeysDir(data), "activated") }

// begun reports whether an installation had its streams, as this version or an
// earlier one has marked it.
func begun(data string) bool {
	_, err := os.Stat(activatedFile(data))
	_, before := os.Stat(filepath.Join(data, "state", "activated"))
	return err == nil || before == nil
}

// Trust reads the pinned keys of a data folder. On the first start it makes
// the operator's and the auditor's key and pins them.
func Trust(data string) (*keys.Trust, error) {
	if err := os.MkdirAll(natsserver.KeysDir(data), 0o700); err != nil {
		return nil, err
	}
	path := TrustFile(data)
	t, err := keys.LoadTrust(path)
	if err == nil {
		return t, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	t = new(keys.Trust)
	for _, k := range []struct {
		file, name string
		role       keys.Role
	}{
		{OperatorKey(data), "lazaret-operator", keys.RoleOperator},
		// The name is the first line of every checkpoint: no two logs share one.
		{AuditorKey(data), "lazaret-ledger-" + strings.ToLower(nuid.Next()[14:]), keys.RoleAuditor},
	} {
		public, err := makeKey(k.file, k.name)
		if err != nil {
			return nil, err
		}
		if err := t.Add(keys.Pin{Key: public, Roles: []keys.Role{k.role}, Comment: "made by the first start"}); err != nil {
			return nil, err
		}
	}
	return t, t.Write(path)
}

// makeKey makes a key file, unless an interrupted first start left one, and
// returns its public half.
func makeKey(file, name string) (string, error) {
	private, err := keys.LoadPrivate(file)
	if err == nil {
		return keys.Public(private)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	private, public, err := keys.Generate(name)
	if err != nil {
		return "", err
	}
	return public, keys.WritePrivate(file, private)
}

// credentials leaves a credential and a NATS context for every role, and renews
// those of which half of the life is over.
func (p *Pipeline) credentials() error {
	return installCredentials(p.Server.Minter(), p.Server.URL(), p.groups(), p.expires())
}

func (p *Pipeline) expires() time.Duration {
	if p.cfg.Expires > 0 {
		return p.cfg.Expires
	}
	return natsserver.RoleExpires
}

// renewCredentials renews the credentials that Start left. A client reads the file
// again when the server ends its connection because the one that it had has expired.
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
			p.cfg.Log.Error("credentials are not renewed, and will expire", "err", err)
		}
	}
}

// installCredentials leaves credentials and contexts in the minter's folder, and
// renews those that are there when it is time.
func installCredentials(m *natsserver.Minter, url string, groups []string, lasts time.Duration) error {
	roles := map[natsserver.Role]string{
		natsserver.RoleOperator: "Lazaret: operators", natsserver.RoleApprover: "Lazaret: approvers",
		natsserver.RoleAuditor: "Lazaret: the auditor", natsserver.RoleIngest: "Lazaret: ingest",
		natsserver.RoleArbiter: "Lazaret: the arbiter", natsserver.RoleFront: "Lazaret: proposals on behalf of callers",
		natsserver.RoleService:   "Lazaret: answers to requests",
		natsserver.RoleReplay:    "Lazaret: replays of recorded sessions",
		natsserver.RoleRetention: "Lazaret: trimming and forgetting",
		natsserver.RoleViewer:    "Lazaret: who looks and changes nothing",
	}
	for _, g := range groups {
		roles[natsserver.SentinelRole(g)] = "Lazaret: sentinel group " + g
	}
	if err := m.FollowURL(url); err != nil {
		return fmt.Errorf("contexts do not follow the server's address: %w", err)
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

// MasterKey wraps the keys that the auditor encrypts payloads with.
func MasterKey(data string) ([]byte, error) {
	s, err := natsserver.Secret(data, masterKeyFile)
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(s)
}

// StateKeyFile is the file of the key that the stages' state is sealed with. It does
// not lie in the folder that it protects.
func StateKeyFile(data string) string { return filepath.Join(natsserver.KeysDir(data), stateKey) }

const stateKey = "state.key"

// makeStateKey makes the key on the first start.
func makeStateKey(data string) error {
	_, err := natsserver.Secret(data, stateKey)
	return err
}

// StateKey is the key of one stage's state, derived from the one in a file.
func StateKey(file, stage string) ([]byte, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the state key: %w: it is keys/state.key of the data folder in which streams and "+
			"credentials were made", err)
	}
	s, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(b)))
	if err == nil && len(s) < sha256.Size {
		err = fmt.Errorf("it has %d bytes, want %d", len(s), sha256.Size)
	}
	if err != nil {
		return nil, fmt.Errorf("the state key in %s: %w", file, err)
	}
	return hkdf.Key(sha256.New, s, nil, "lazaret state "+stage, sha256.Size)
}

// ReadMasterKey is MasterKey for who reads a log: it makes no key, and returns nil if there
// is none.
func ReadMasterKey(data string) ([]byte, error) {
	b, err := os.ReadFile(filepath.Join(natsserver.KeysDir(data), masterKeyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the key that decrypts the log: %w", err)
	}
	return base64.StdEncoding.DecodeString(strings.TrimSpace(string(b)))
}

// masterKeyFile wraps the keys that the auditor encrypts payloads with.
const masterKeyFile = "audit-master.key"

// stages starts the four stages and waits until each has caught up.
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
		// The connection ends with the pipeline, and the answers with it.
		if _, err := status.Serve(nc, string(r), nil, stats, p.cfg.Log); err != nil {
			return err
		}
		key, err := StateKey(StateKeyFile(p.cfg.Data), string(r))
		if err != nil {
			return err
		}
		cfg := stage.Config{Conn: nc, Feed: p.feed, Dir: StateDir(p.cfg.Data, string(r)), Key: key,
			Takeover: p.cfg.Takeover, Log: p.cfg.Log, Ready: func() { close(ch) }, Stats: stats}
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
		return arbiter.Run(run, c, pinned, arbiter.FrontConfig{Intake: front, Service: svc, Feed: c.Feed,
			Timeout: p.cfg.AnswerTimeout, MaxSize: cmp.Or(p.cfg.FrontEvent, p.cfg.MaxEvent)}, m)
	}); err != nil {
		return err
	}
	signer, err := keys.LoadSigner(AuditorKey(p.cfg.Data))
	if err != nil {
		return err
	}
	master, err := MasterKey(p.cfg.Data)
	if err != nil {
		return err
	}
	if err := spawn(natsserver.RoleAuditor, func(c stage.Config) error {
		return auditor.Run(run, auditor.Config{Conn: c.Conn, Feed: c.Feed, Dir: AuditDir(p.cfg.Data), Signer: signer,
			Origin: signer.Name(), Operators: pinned, Pinned: trust.Verifiers(keys.RoleAuditor), MasterKey: master,
			WitnessPolicy: WitnessPolicy(p.cfg.Data), Log: p.cfg.Log, Ready: c.Ready,
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

// fail notes the first error of a stage.
func (p *Pipeline) fail(stage string, err error) {
	if err == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = errors.Join(p.err, fmt.Errorf("%s: %w", stage, err))
	p.once.Do(func() { close(p.failed) })
}

// Failed is closed when a stage has ended with an error; Err tells which.
func (p *Pipeline) Failed() <-chan struct{} { return p.failed }

// Err is why the pipeline failed.
func (p *Pipeline) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Close drains the stages and stops the server, in the reverse order of their
// start. It returns why the pipeline failed, if it did.
func (p *Pipeline) Close() error {
	p.cancel()
	p.wg.Wait()
	p.feed.Close()
	for _, nc := range p.conns {
		nc.Close()
	}
	p.Server.Shutdown()
	return p.Err()
}
