package gateway

import (
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

// DefaultListen is where the gateway listens unless told otherwise.
const DefaultListen = "127.0.0.1:4280"

// Limits of the gateway. Bytes are of one request.
const (
	MaxConns    = 1024     // open connections
	MaxHeader   = 16 << 10 // bytes of all headers
	MaxBody     = 2 << 20  // bytes; the intake takes messages of that size
	MaxBatch    = 4 << 20  // bytes of a CloudEvents batch
	MaxEvents   = 256      // of a batch
	MaxHook     = 8 << 20  // bytes of a hook's event, with all that a tool returned
	MaxInFlight = 64       // requests of one token that are answered at once
	MaxWaiting  = 64       // requests of one token that wait for a hold or listen to a feed
	MaxWait     = 5 * time.Minute

	headerTime = 5 * time.Second  // to send the headers
	bodyTime   = 10 * time.Second // to send the body
	answerTime = 20 * time.Second // for the pipeline to answer
	writeTime  = 10 * time.Second // for the client to take an answer, or one event of a feed
	idleTime   = time.Minute      // between two requests of a connection
)

// Config is how a gateway runs.
type Config struct {
	Data   string // the folder with creds/
	Memory string // the folder for files of the memory tool; empty: memories in Data
	Hooks  string // the folder for what hooks keep; empty: hooks in Data
	Listen string // HOST:PORT; empty: DefaultListen
	// Dial connects with the credential of that name. The options come on top of
	// those that the credential needs.
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

	files sync.Mutex // held while files of the memory tool are changed

	mu    sync.Mutex
	doors map[string]*door    // by credential; guarded by mu
	users map[string]*limiter // by token; guarded by mu
}

// Start listens and serves until Close.
func Start(cfg Config) (*Gateway, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Listen == "" {
		cfg.Listen = DefaultListen
	}
	if cfg.Memory == "" {
		cfg.Memory = filepath.Join(cfg.Data, "memories")
	}
	if cfg.Hooks == "" {
		cfg.Hooks = filepath.Join(cfg.Data, "hooks")
	}
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("serving HTTP: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	g := &Gateway{Addr: l.Addr().String(), cfg: cfg, tokens: token.Open(cfg.Data), stop: stop, done: make(chan struct{}),
		doors: make(map[string]*door), users: make(map[string]*limiter)}
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
			cfg.Log.Error("HTTP is served no more", "err", err)
		}
	}()
	return g, nil
}

// URL is the gateway's address; empty of nil.
func (g *Gateway) URL() string {
	if g == nil {
		return ""
	}
	if g.cfg.TLS != nil {
		return "https://" + g.Addr
	}
	return "http://" + g.Addr
}

// Close answers what is being answered, for at most a second, and stops.
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
	for _, d := range g.doors {
		d.close()
	}
}

// limiter bounds what one token may have in flight.
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

// enter takes a place, if one is free. The place may be given back more than once.
func enter(places chan struct{}) (leave func(), ok bool) {
	select {
	case places <- struct{}{}:
		return sync.OnceFunc(func() { <-places }), true
	default:
		return nil, false
	}
}

// door returns the door of a credential.
func (g *Gateway) door(credential string) *door {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.doors[credential]
	if d == nil {
		d = newDoor(credential, &g.cfg)
		g.doors[credential] = d
	}
	return d
}
