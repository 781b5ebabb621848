package natsserver

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"lazaret/pkg/files"
)

// Config configures the server.
type Config struct {
	Data   string // data folder
	Store  string // folder of the streams; empty: DATA/jetstream
	Listen string // HOST:PORT; port 0 picks a free one; empty: only connections inside the process
	// NoSync leaves the time of syncing to the operating system. If the machine fails, acknowledged messages of the
	// last two minutes can be lost. If only the process fails, none is lost.
	NoSync bool
	// syncInterval is for tests. If it is not 0, it is the time after which nats-server syncs and compacts blocks
	// again.
	syncInterval time.Duration
	Log          *slog.Logger
}

// store returns the folder of the streams.
func (c *Config) store() string {
	if c.Store != "" {
		return c.Store
	}
	return storeDir(c.Data)
}

// MaxPayload is the largest message, in bytes.
const MaxPayload = 8 << 20

// MaxControlLine is the maximum length of a line of the NATS protocol, in bytes. A client sends its credential in one
// line. The credential of an agent with the longest possible names has so many subjects that the line exceeds the
// server's default of 4,096.
const MaxControlLine = 16 << 10

// MaxPending is the maximum number of bytes that wait to be sent on one connection.
const MaxPending = 256 << 20

// Server is a running nats-server.
type Server struct {
	cfg    Config
	keys   *keyring
	minter *Minter
	lock   *os.File
	ended  chan struct{}
	once   sync.Once
	wg     sync.WaitGroup
	url    string

	life    sync.Mutex // held while the server is stopped or started
	refuses bool       // guarded by life; the streams refuse messages

	mu sync.Mutex
	ns *server.Server // guarded by mu; nil while stopped
}

// ErrInUse means that another process uses the data folder.
var ErrInUse = errors.New("the data folder is in use by another process")

// Start starts a server and returns when it accepts connections.
func Start(cfg Config) (_ *Server, err error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return nil, fmt.Errorf("making the data folder: %w", err)
	}
	lock, err := lockFolder(cfg.Data)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			lock.Close()
		}
	}()
	if err := tighten(cfg.Data); err != nil {
		return nil, fmt.Errorf("removing permissions of other users from the data folder: %w", err)
	}
	keys, err := openKeyring(cfg.Data)
	if err != nil {
		return nil, err
	}
	listed, err := os.Stat(registerFile(cfg.Data))
	if errors.Is(err, fs.ErrNotExist) {
		listed, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, keys: keys, lock: lock, ended: make(chan struct{}),
		minter: &Minter{data: cfg.Data, account: keys.account, agents: keys.agents,
			signer: keys.signing}}
	if err := s.run(); err != nil {
		return nil, err
	}
	if cfg.Listen != "" {
		s.url = s.ns.ClientURL()
	}
	s.wg.Go(func() { s.followRegister(listed) })
	return s, nil
}

// run starts nats-server and returns when it has recovered its streams and accepts connections.
func (s *Server) run() error {
	opts, err := options(s.cfg, s.keys)
	if err == nil {
		err = Exposed(opts)
	}
	if err != nil {
		return err
	}
	if s.cfg.Listen != "" && opts.Port > 0 {
		// If the port is in use, the server would report that only later, from a goroutine.
		l, err := net.Listen("tcp", s.cfg.Listen)
		if err != nil {
			return fmt.Errorf("cannot listen on %s: %w: choose another with --listen", s.cfg.Listen, err)
		}
		l.Close()
	}
	k, err := keep(s.cfg.store(), !s.cfg.NoSync, s.cfg.Log)
	if err != nil {
		return err
	}
	same := sameBoot(s.cfg.store())
	if same {
		freshen(s.cfg.store(), s.keys.storage, s.cfg.Log)
	}
	ns, err := server.NewServer(opts)
	if err != nil {
		return errors.Join(fmt.Errorf("starting nats-server: %w", err), k.drop())
	}
	ns.SetLoggerV2(slogger{s.cfg.Log}, false, false, false)
	ns.Start()
	// When the server is ready, it has recovered its streams.
	switch {
	case !ns.ReadyForConnections(30 * time.Second):
		err = errors.New("nats-server did not get ready within 30 s")
	case !ns.JetStreamEnabled():
		err = fmt.Errorf("JetStream did not start in %s: was this folder written with another key?", opts.StoreDir)
	default:
		err = k.check(ns)
	}
	if err != nil {
		ns.Shutdown()
		ns.WaitForShutdown()
		return errors.Join(err, k.putBack())
	}
	err = k.drop()
	if err == nil && !same {
		err = setBoot(s.cfg.store())
	}
	if err != nil {
		ns.Shutdown()
		ns.WaitForShutdown()
		return err
	}
	if a, ok := ns.Addr().(*net.TCPAddr); ok {
		// A restart uses the same address.
		s.cfg.Listen = net.JoinHostPort(opts.Host, strconv.Itoa(a.Port))
	}
	s.set(ns)
	if s.refuses {
		return s.admit(false)
	}
	return nil
}

func options(cfg Config, keys *keyring) (*server.Options, error) {
	a, err := keys.accounts()
	if err != nil {
		return nil, err
	}
	resolver := &server.MemAccResolver{}
	for key, claims := range a.accounts {
		if err := resolver.Store(key, claims); err != nil {
			return nil, err
		}
	}
	o := &server.Options{
		ServerName:       "lazaret",
		TrustedOperators: []*jwt.OperatorClaims{a.claims},
		AccountResolver:  resolver,
		SystemAccount:    a.systemKey,
		JetStream:        true,
		StoreDir:         cfg.store(),
		SyncInterval:     cfg.syncInterval,
		// This limit is so high that it has no effect. The streams are limited by their own maximum sizes and by the
		// reserve of free disk space (disk_space.go).
		JetStreamMaxStore: 1 << 50,
		JetStreamKey:      keys.storage,
		JetStreamCipher:   server.AES,
		SyncAlways:        !cfg.NoSync,
		MaxPayload:        MaxPayload,
		MaxPending:        MaxPending,
		MaxControlLine:    MaxControlLine,
		NoSigs:            true,
		DontListen:        cfg.Listen == "",
	}
	if cfg.Listen != "" {
		host, port, err := net.SplitHostPort(cfg.Listen)
		if err != nil {
			return nil, fmt.Errorf("address %q: %w: use host:port", cfg.Listen, err)
		}
		if o.Port, err = strconv.Atoi(port); err != nil || o.Port < 0 || o.Port > 65535 {
			return nil, fmt.Errorf("address %q: the port is not a number from 0 to 65535", cfg.Listen)
		}
		if o.Host = host; host == "" {
			o.Host = "127.0.0.1"
		}
		if o.Port == 0 {
			o.Port = server.RANDOM_PORT
		}
	}
	return o, nil
}

// ours are the files and folders that Lazaret creates in a data folder. tighten does not change the rights of other
// files.
var ours = []string{"audit", "creds", "forgotten", "jetstream", "keys", "lock", "memories", "nats", "shards", "state",
	"trust.yaml", "witnesses.policy"}

// tighten removes the rights of the group and of others from the files in a data folder. Older versions created the
// files with such rights.
func tighten(data string) error {
	paths := make([]string, len(ours))
	for i, name := range ours {
		paths[i] = filepath.Join(data, name)
	}
	return errors.Join(files.Restrict(data), files.RestrictAll(paths...))
}

func lockFolder(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("%w: %s; stop that process, or choose another folder with --data", ErrInUse, dir)
	}
	return f, nil
}

// URL returns the address for clients. It is "" if the server has no listener.
func (s *Server) URL() string { return s.url }

// Minter returns the Minter of this server.
func (s *Server) Minter() *Minter { return s.minter }

// Connect opens a connection inside the process with a credential for a role.
//
// The credential does not expire. It exists only in this process.
func (s *Server) Connect(r Role, opts ...nats.Option) (*nats.Conn, error) {
	creds, err := s.minter.mint(Grant{Role: r})
	if err != nil {
		return nil, err
	}
	opts = append([]nats.Option{
		nats.InProcessServer(s), nats.Name("lazaret " + string(r)), nats.UserCredentialBytes(creds),
		nats.Timeout(30 * time.Second), // long, because the machine may be busy
		nats.CustomInboxPrefix(r.InboxPrefix()), nats.MaxReconnects(-1), nats.ReconnectWait(100 * time.Millisecond),
		nats.IgnoreAuthErrorAbort(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			s.cfg.Log.Warn("nats", "role", string(r), "err", err)
		}),
	}, opts...)
	nc, err := nats.Connect("", opts...)
	if err != nil {
		return nil, fmt.Errorf("connecting in process as %s: %w", r, err)
	}
	return nc, nil
}

// stop stops nats-server.
func (s *Server) stop() {
	ns := s.current()
	if ns == nil {
		return
	}
	s.set(nil)
	ns.Shutdown()
	ns.WaitForShutdown()
}

// Shutdown stops the server and releases the data folder.
func (s *Server) Shutdown() {
	s.once.Do(func() { close(s.ended) })
	s.wg.Wait()
	s.life.Lock()
	defer s.life.Unlock()
	s.stop()
	s.lock.Close()
}

// slogger writes the server's messages to a log. Those of level notice are logged at level debug, because they are of
// no use to users of Lazaret.
type slogger struct{ log *slog.Logger }

func (l slogger) Noticef(format string, v ...any) {
	l.log.Debug("nats-server", "msg", fmt.Sprintf(format, v...))
}
func (l slogger) Warnf(format string, v ...any) {
	l.log.Warn("nats-server", "msg", fmt.Sprintf(format, v...))
}
func (l slogger) Errorf(format string, v ...any) {
	l.log.Error("nats-server", "err", fmt.Sprintf(format, v...))
}
func (l slogger) Fatalf(format string, v ...any) {
	l.log.Error("nats-server", "fatal", fmt.Sprintf(format, v...))
}
func (l slogger) Debugf(string, ...any) {}
func (l slogger) Tracef(string, ...any) {}
