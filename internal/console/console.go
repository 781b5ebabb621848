package console

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"lazaret/internal/wire"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/net/netutil"
)

// DefaultListen is the default listen address.
const DefaultListen = "127.0.0.1:4281"

// Limits of the console.
const (
	maxConns   = 256
	maxFeeds   = 64 // maximum number of pages that wait for changes at the same time
	maxBody    = 128 << 10
	headerTime = 5 * time.Second
	readTime   = 10 * time.Second
	writeTime  = 20 * time.Second
	askTime    = 10 * time.Second // timeout of a request to the stages
)

// Config configures a console.
type Config struct {
	Data   string // the data folder, with trust.yaml and console/
	Listen string // HOST:PORT; empty: DefaultListen
	// Conn is a connection with an operator's credential. The console closes it.
	Conn *nats.Conn
	// Origin is the URL that people open, such as https://lazaret.example.org. The default is http://localhost with the
	// port. A passkey is valid only for the host name of this URL. It does not work if the host is an IP address.
	Origin string
	TLS    *tls.Config // nil: plain HTTP
	Log    *slog.Logger
}

// Console is a running console.
type Console struct {
	Addr string // HOST:PORT

	cfg     Config
	port    string
	origins []string // Origin headers that are allowed; the first one is the console's URL
	js      jetstream.JetStream
	http    *http.Server
	index   *index
	logins  *logins
	looks   looks
	pol     policyNow
	set     rulesNow
	judging chan struct{} // semaphore: only one comparison of rule sets runs at a time
	tasks   tasks
	journal *journal
	feeds   chan struct{}

	ctx   context.Context
	stop  context.CancelFunc
	begin sync.Once
	wg    sync.WaitGroup
}

//go:embed static
var static embed.FS

// Start starts a console. The console serves pages until Close is called.
func Start(cfg Config) (*Console, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Listen = cmp.Or(cfg.Listen, DefaultListen)
	js := wire.JetStream(cfg.Conn)
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("serving the console: %w", err)
	}
	c := &Console{Addr: l.Addr().String(), cfg: cfg, js: js, index: newIndex(), logins: newLogins(),
		feeds: make(chan struct{}, maxFeeds), judging: make(chan struct{}, 1)}
	c.journal = newJournal(func(ctx context.Context, subject string, body []byte) error {
		_, err := js.Publish(ctx, subject, body)
		return err
	}, cfg.Log)
	c.ctx, c.stop = context.WithCancel(context.Background())
	_, c.port, _ = net.SplitHostPort(c.Addr)
	scheme := "http://"
	if cfg.TLS != nil {
		scheme = "https://"
	}
	if cfg.Origin != "" {
		c.origins = append(c.origins, strings.TrimSuffix(cfg.Origin, "/"))
	}
	for _, host := range []string{"localhost", "127.0.0.1", "[::1]"} {
		c.origins = append(c.origins, scheme+net.JoinHostPort(strings.Trim(host, "[]"), c.port))
	}
	c.http = &http.Server{
		Handler: c.guard(c.routes()), TLSConfig: cfg.TLS, ReadHeaderTimeout: headerTime, ReadTimeout: readTime,
		IdleTimeout:    time.Minute,
		MaxHeaderBytes: 16 << 10, BaseContext: func(net.Listener) context.Context { return c.ctx },
		ErrorLog: slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
	}
	if err := noteURL(cfg.Data, c.URL()); err != nil {
		cfg.Log.Warn("the console's URL is not stored, so console login needs --origin", "err", err)
	}
	l = netutil.LimitListener(l, maxConns)
	c.wg.Go(func() {
		err := error(nil)
		if cfg.TLS != nil {
			err = c.http.ServeTLS(l, "", "")
		} else {
			err = c.http.Serve(l)
		}
		if !errors.Is(err, http.ErrServerClosed) {
			cfg.Log.Error("the console has stopped serving", "err", err)
		}
	})
	return c, nil
}

// URL returns the URL that people open, or "" for a nil console.
func (c *Console) URL() string {
	if c == nil {
		return ""
	}
	return c.origins[0]
}

// LoginURL returns the link with which a user signs in. code is a code of NewLogin.
func (c *Console) LoginURL(code string) string { return c.URL() + "/login?code=" + code }

func (c *Console) secure() bool { return strings.HasPrefix(c.origins[0], "https://") }

// Close stops serving and closes the connection.
func (c *Console) Close() {
	if c == nil {
		return
	}
	c.stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if c.http.Shutdown(ctx) != nil {
		c.http.Close()
	}
	c.wg.Wait()
	c.cfg.Conn.Close()
}

// watch starts to follow the ledger. After the first call, it does nothing.
func (c *Console) watch() {
	c.begin.Do(func() {
		c.wg.Go(func() { // compile the rules now, so that the first page does not wait for it
			ctx, cancel := context.WithTimeout(c.ctx, askTime)
			defer cancel()
			if _, _, err := c.rules(ctx); err != nil && c.ctx.Err() == nil {
				c.cfg.Log.Warn("the active rule set cannot be read", "err", err)
			}
		})
		c.wg.Go(func() {
			for c.ctx.Err() == nil {
				if err := c.index.follow(c.ctx, c.cfg.Conn, c.cfg.Log); err != nil && c.ctx.Err() == nil {
					c.cfg.Log.Warn("the ledger cannot be followed, trying again", "err", err)
				}
				select {
				case <-c.ctx.Done():
				case <-time.After(time.Second):
				}
			}
		})
	})
}

// handler handles the request for a page. It sets p.Data and returns the name of the template.
type handler func(r *http.Request, p *page) (name string, err error)

func (c *Console) routes() http.Handler {
	mux := http.NewServeMux()
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // the folder is embedded
	}
	served := http.StripPrefix("/static/", http.FileServerFS(files))
	mux.HandleFunc("GET /static/", func(w http.ResponseWriter, r *http.Request) {
		if !utf8.ValidString(r.URL.Path) { // a path that file systems reject
			c.fail(w, r, http.StatusNotFound, "Not found", "There is no such file.")
			return
		}
		served.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /login", c.login)
	mux.HandleFunc("POST /logout", c.logout)
	mux.HandleFunc("GET /events", c.events)
	for pattern, h := range map[string]handler{
		"GET /{$}":                               c.nowPage,
		"GET /holds":                             c.holdsPage,
		"GET /holds/{project}/{id}":              c.holdPage,
		"GET /exceptions/draft":                  c.draftPage,
		"GET /queue":                             c.queuePage,
		"GET /alerts":                            c.alertsPage,
		"GET /sessions":                          c.sessionsPage,
		"GET /sessions/{project}/{session}":      c.sessionPage,
		"GET /whatif/{project}/{session}":        c.whatIfPage,
		"GET /beliefs":                           c.beliefsPage,
		"GET /beliefs/{project}/{id}":            c.beliefPage,
		"GET /rules":                             c.rulesPage,
		"GET /rules/{rule}":                      c.rulePage,
		"GET /backtest":                          c.backtestPage,
		"GET /tools":                             c.toolsPage,
		"GET /prompts":                           c.promptsPage,
		"GET /tools/{project}/{entry}":           c.cataloguePage,
		"GET /beliefs/{project}/{id}/quarantine": c.quarantinePage,
		"GET /log":                               c.logPage,
		"GET /passkeys":                          c.passkeysPage,
		"GET /help": func(_ *http.Request, p *page) (string, error) {
			p.Title = "Keys and words"
			return "help", nil
		},
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { c.serve(w, r, h) })
	}
	mux.HandleFunc("GET /log/proof", c.proofFile)
	mux.HandleFunc("POST /silences", c.silence)
	mux.HandleFunc("POST /passkeys", c.serveJSON(c.register))
	mux.HandleFunc("POST /holds/{project}/{id}", c.serveJSON(c.resolve))
	mux.HandleFunc("POST /beliefs/{project}/{id}", c.serveJSON(c.attest))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		c.fail(w, r, http.StatusNotFound, "Not found", "There is no such page.")
	})
	return mux
}

// failure is an error with a message that the page shows to the user.
type failure struct {
	status      int
	title, text string
}

func (f *failure) Error() string { return f.text }

func notFound(format string, args ...any) error {
	return &failure{http.StatusNotFound, "Not found", fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) error {
	return &failure{http.StatusBadRequest, "Invalid request", fmt.Sprintf(format, args...)}
}

// serve renders a page. If nobody is signed in, it renders a page that says how to sign in.
func (c *Console) serve(w http.ResponseWriter, r *http.Request, h handler) {
	u := c.user(r)
	if u == nil {
		// the session ended while a page was open: send the page to the login page, without an error in the browser
		if r.Header.Get("HX-Request") != "" {
			w.Header().Set("HX-Redirect", "/login")
			return
		}
		c.fail(w, r, http.StatusUnauthorized, "Sign in",
			"Open the login link that the terminal printed, or make a new one: lazaret console login NAME.")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTime)
	defer cancel()
	p := c.pageFor(r, u)
	name, err := h(r.WithContext(ctx), p)
	var f *failure
	switch {
	case errors.As(err, &f):
		c.fail(w, r, f.status, f.title, f.text)
	case err != nil:
		c.cfg.Log.Warn("a page cannot be built", "path", r.URL.Path, "err", err)
		c.fail(w, r, http.StatusServiceUnavailable, "The pipeline does not answer", err.Error())
	default:
		if p.Again {
			w.Header().Set("Refresh", "1")
		}
		c.render(w, http.StatusOK, name, p)
	}
}

// fail renders an error page.
func (c *Console) fail(w http.ResponseWriter, r *http.Request, status int, title, text string) {
	p := &page{Title: title, Data: text, c: c}
	if u := c.user(r); u != nil {
		p = c.newPage(u)
		p.Title, p.Data = title, text
	}
	c.render(w, status, "message", p)
}

func (c *Console) render(w http.ResponseWriter, status int, name string, p *page) {
	var b bytes.Buffer
	if err := pages()[name].ExecuteTemplate(&b, "layout", p); err != nil {
		c.cfg.Log.Error("a page cannot be rendered", "page", name, "err", err)
		http.Error(w, "the page cannot be rendered", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime))
	w.Write(b.Bytes())
}

// quiet and beat are the shortest and the longest time between two events that a page receives.
const (
	quiet = time.Second
	beat  = 5 * time.Second
)

// events sends an event to a page (a server-sent event) whenever the index changes. It ends when the page is closed or
// the session ends. The query parameter since is the version of the index that the page shows. So events also reports a
// change that came before the page was connected.
func (c *Console) events(w http.ResponseWriter, r *http.Request) {
	select {
	case c.feeds <- struct{}{}:
		defer func() { <-c.feeds }()
	default:
		http.Error(w, "too many pages are refreshed already", http.StatusServiceUnavailable)
		return
	}
	rc := http.NewResponseController(w)
	if c.user(r) == nil {
		http.Error(w, "sign in", http.StatusUnauthorized)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return // the response cannot be streamed
	}
	rc.SetReadDeadline(time.Time{})
	send := func(s string) bool {
		rc.SetWriteDeadline(time.Now().Add(writeTime))
		_, err := w.Write([]byte(s))
		return err == nil && rc.Flush() == nil
	}
	if !send("retry: 2000\n\n") {
		return
	}
	_, shown, _ := c.index.state()
	if n, err := strconv.ParseUint(r.URL.Query().Get("since"), 10, 64); err == nil {
		shown = n
	}
	for {
		_, version, changed := c.index.state()
		name := "change"
		if version == shown {
			select {
			case <-r.Context().Done():
				return
			case <-changed:
				_, version, _ = c.index.state()
			case <-time.After(beat):
				name = "beat"
			}
		}
		shown = version
		pause := quiet
		over := c.user(r) == nil
		if over { // the page then asks for its content and is sent to the login page
			name, pause = "change", beat
		}
		if !send("event: " + name + "\ndata: \n\n") {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(pause):
		}
		if over {
			return
		}
	}
}
