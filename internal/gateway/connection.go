package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"lazaret/client"
	"lazaret/internal/natsconn"
	"lazaret/internal/natsfiles"
	"lazaret/streams"
)

// again is how long the error of a failed connection attempt is returned to later requests before the
// next attempt.
const again = time.Second

// login is the use of one credential: its NATS connection, and the held proposals that were made with it.
type login struct {
	name string
	cfg  *Config

	mu     sync.Mutex
	now    *session  // guarded by mu, like all fields below; nil if not connected
	err    error     // error of the last attempt to connect
	tried  time.Time // time of the last attempt to connect
	holds  holds
	denied map[string][]*watch // pending requests by subject; they are cancelled if the server denies the subject
}

// session is a connection and the agent that its credential belongs to.
type session struct {
	nc             *nats.Conn
	project, agent string         // empty for the credential of a role
	client         *client.Client // nil for the credential of a role
	refused        atomic.Bool    // the server refuses the credential
}

// watch cancels a pending request when the server denies its subject.
type watch struct{ cancel context.CancelCauseFunc }

func newLogin(name string, cfg *Config) *login {
	return &login{name: name, cfg: cfg, denied: make(map[string][]*watch)}
}

func (d *login) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now != nil {
		d.now.nc.Close()
		d.now = nil
	}
}

// open returns the login's session. It connects first if there is none.
func (d *login) open() (*session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now != nil && !d.now.nc.IsClosed() {
		return d.now, nil
	}
	if d.err != nil && time.Since(d.tried) < again {
		return nil, d.err
	}
	d.now, d.err = d.dial()
	d.tried = time.Now()
	return d.now, d.err
}

// dial connects with the login's credential. Its errors are of type *Problem.
func (d *login) dial() (*session, error) {
	s := new(session)
	var err error
	if s.project, s.agent, err = speaker(natsfiles.Creds(d.cfg.Data, d.name)); err != nil {
		// The error may have the path of the file, which is not for the caller.
		d.cfg.Log.Error("the gateway cannot read the credential of a token", "credential", d.name, "err", err)
		return nil, problem(streams.CodeToken, "the token's credential %s is missing or damaged in the gateway's data "+
			"folder; its log has the reason", d.name)
	}
	s.nc, err = d.cfg.Dial(d.name, nats.Name("lazaret gateway "+d.name), nats.Timeout(5*time.Second),
		nats.MaxReconnects(-1), nats.ReconnectWait(200*time.Millisecond),
		nats.ReconnectBufSize(-1), // fail at once instead of buffering while disconnected
		nats.PermissionErrOnSubscribe(true), nats.ErrorHandler(d.failed))
	switch {
	case natsconn.Refused(err):
		return nil, d.refusal()
	case err != nil:
		d.cfg.Log.Warn("the gateway cannot connect", "credential", d.name, "err", err)
		return nil, problem(streams.CodeUnavailable, "the NATS server cannot be reached")
	}
	if s.agent != "" {
		if s.client, err = client.New(s.nc, s.project, s.agent); err != nil {
			s.nc.Close()
			return nil, problem(streams.CodeToken, "the credential %s: %v", d.name, err)
		}
	}
	return s, nil
}

func (d *login) refusal() *Problem {
	return problem(streams.CodeCredential, "the NATS server refuses the credential %s: it was revoked or has expired",
		d.name)
}

// speaker returns the project and agent of a credential file; both are empty if it is not an agent's but a role's. It
// does not verify the credential: the server does.
func speaker(file string) (project, agent string, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", "", err
	}
	text, err := nkeys.ParseDecoratedJWT(b)
	if err != nil {
		return "", "", err
	}
	c, err := jwt.DecodeUserClaims(text)
	if err != nil {
		return "", "", err
	}
	project, agent, ok := strings.Cut(c.Name, "/")
	if !ok {
		return "", "", nil
	}
	return project, agent, nil
}

var errDenied = errors.New("the NATS server denies the subject to this credential")

// failed handles the connection's asynchronous errors. nats.go calls it.
func (d *login) failed(nc *nats.Conn, _ *nats.Subscription, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case errors.Is(err, nats.ErrPermissionViolation):
		_, rest, _ := strings.Cut(err.Error(), `"`)
		subject, _, _ := strings.Cut(rest, `"`)
		for _, w := range d.denied[subject] {
			w.cancel(fmt.Errorf("%w: %s", errDenied, subject))
		}
	case natsconn.Refused(err):
		// The next request connects again with the credential that is then in the file.
		if d.now != nil && d.now.nc == nc {
			d.now.refused.Store(true)
			d.now = nil
		}
		go nc.Close()
	default:
		d.cfg.Log.Debug("nats", "credential", d.name, "err", err)
	}
}

// asking calls f with a context that is canceled with errDenied when the server denies the subject. The
// server reports a denied publish as an asynchronous error, so the reply that f awaits never comes.
func (d *login) asking(ctx context.Context, subject string, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &watch{cancel}
	d.mu.Lock()
	d.denied[subject] = append(d.denied[subject], w)
	d.mu.Unlock()
	err := f(ctx)
	d.mu.Lock()
	list := d.denied[subject]
	for i, x := range list {
		if x == w {
			list = append(list[:i], list[i+1:]...)
			break
		}
	}
	if d.denied[subject] = list; len(list) == 0 {
		delete(d.denied, subject)
	}
	d.mu.Unlock()
	if cause := context.Cause(ctx); errors.Is(cause, errDenied) {
		return problem(streams.CodeForbidden, "%v", cause)
	}
	return err
}
