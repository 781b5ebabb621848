package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/net/netutil"

	"lazaret/internal/token"
)

// DefaultListen is the default listen address.
const DefaultListen = "127.0.0.1:4280"

// Limits of the gateway. Byte limits are per request.
const (
	MaxConns    = 1024     // open connections
	MaxHeader   = 16 << 10 // bytes of all headers
	MaxBody     = 2 << 20  // bytes; the largest message of the intake
	MaxBatch    = 4 << 20  // bytes of a CloudEvents batch
	MaxEvents   = 256      // events in a batch
	MaxHook     = 8 << 20  // bytes of a hook event, which includes the tool's result
	MaxInFlight = 64       // concurrent requests of one token
	MaxWaiting  = 64       // concurrent requests of one token that wait for a hold or read a feed
	MaxWait     = 5 * time.Minute

	headerTime = 5 * time.Second  // timeout of reading the headers
	bodyTime   = 10 * time.Second // timeout of reading the body
	answerTime = 20 * time.Second // timeout of the pipeline's reply
	writeTime  = 10 * time.Second // timeout of writing a reply or one event of a feed
	idleTime   = time.Minute      // maximum time between two requests on a connection
)

// Config configures a gateway.
type Config struct {
	Data   string // the data folder, which contains creds/
	Memory string // the folder for files of the memory tool; default: memories in Data
	Hooks  string // the folder for state of the hooks; default: hooks in Data
	Listen string // HOST:PORT; empty: DefaultListen
	// Dial connects with the named credential. It adds opts to the options that the credential needs.
	Dial func(name string, opts ...nats.Option) (*nats.Conn, error)
	TLS  *tls.Config // nil: plain HTTP
	Log  *slog.Logger
}

// Gateway is a running gateway.
type Gateway struct {
	Addr string // HOST:PORT

	cfg    Config
	tokens *token.Set
	http   *http.Server
	stop   context.CancelFunc
	done   chan struct{}

	files sync.Mutex // held while the memory tool changes files

	mu     sync.Mutex
	logins map[string]*login   // by credential; guarded by mu
	users  map[string]*limiter // by token; guarded by mu
}

// Start starts a gateway, which serves until Close.
func Start(cfg Config) (*Gateway, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Listen = cmp.Or(cfg.Listen, DefaultListen)
	cfg.Memory = cmp.Or(cfg.Memory, filepath.Join(cfg.Data, "memories"))
	cfg.Hooks = cmp.Or(cfg.Hooks, filepath.Join(cfg.Data, "hooks"))
	if err := tidy(cfg.Memory); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("serving HTTP: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	g := &Gateway{Addr: l.Addr().String(), cfg: cfg, tokens: token.Open(cfg.Data), stop: stop, done: make(chan struct{}),
		logins: make(map[string]*login), users: make(map[string]*limiter)}
	g.http = &http.Server{
		Handler: g.handler(), TLSConfig: cfg.TLS,
		ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: MaxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
	}
	l = netutil.LimitListener(l, MaxConns)
	go func() {
		defer close(g.done)
		var err error
		if cfg.TLS != nil {
			err = g.http.ServeTLS(l, "", "")
		} else {
			err = g.http.Serve(l)
		}
		if !errors.Is(err, http.ErrServerClosed) {
			cfg.Log.Error("the gateway has stopped serving", "err", err)
		}
	}()
	return g, nil
}

// URL returns the gateway's address, or "" for a nil gateway.
func (g *Gateway) URL() string {
	if g == nil {
		return ""
	}
	if g.cfg.TLS != nil {
		return "https://" + g.Addr
	}
	return "http://" + g.Addr
}

// Close stops the gateway. It waits at most a second for requests in progress.
func (g *Gateway) Close() {
	if g == nil {
		return
	}
	select {
	case <-g.done:
		return
	default:
	}
	g.stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if g.http.Shutdown(ctx) != nil {
		g.http.Close()
	}
	<-g.done
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, d := range g.logins {
		d.close()
	}
}

// limiter limits the concurrent requests of one token.
type limiter struct{ asking, waiting chan struct{} }

// limits returns the limiter of a token.
func (g *Gateway) limits(id string) *limiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.users[id]
	if l == nil {
		l = &limiter{make(chan struct{}, MaxInFlight), make(chan struct{}, MaxWaiting)}
		g.users[id] = l
	}
	return l
}

// enter takes a slot of the semaphore places, and reports whether one was free. leave frees the slot; it may be
// called more than once.
func enter(places chan struct{}) (leave func(), ok bool) {
	select {
	case places <- struct{}{}:
		return sync.OnceFunc(func() { <-places }), true
	default:
		return nil, false
	}
}

// login returns the login of a credential, and creates it on first use.
func (g *Gateway) login(credential string) *login {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.logins[credential]
	if d == nil {
		d = newLogin(credential, &g.cfg)
		g.logins[credential] = d
	}
	return d
}
