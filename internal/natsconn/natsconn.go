package natsconn

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/pflag"
	"github.com/synadia-io/orbit.go/natscontext"

	"lazaret/internal/natsfiles"
)

// Flags are the connection flags of a command.
type Flags struct {
	Server      string
	Context     string
	Creds       string
	User        string
	Password    string
	NKey        string
	Token       string
	TLSCert     string
	TLSKey      string
	TLSCA       string
	InboxPrefix string
	Timeout     time.Duration
	Data        string
}

// DefaultData is the data folder if neither --data nor LAZARET_DATA is set.
const DefaultData = "data"

// env returns the environment variable of each flag.
func (f *Flags) env() map[string]struct {
	name string
	dst  *string
} {
	return map[string]struct {
		name string
		dst  *string
	}{
		"server":       {"NATS_URL", &f.Server},
		"context":      {"NATS_CONTEXT", &f.Context},
		"creds":        {"NATS_CREDS", &f.Creds},
		"user":         {"NATS_USER", &f.User},
		"password":     {"NATS_PASSWORD", &f.Password},
		"nkey":         {"NATS_NKEY", &f.NKey},
		"token":        {"NATS_TOKEN", &f.Token},
		"tlscert":      {"NATS_CERT", &f.TLSCert},
		"tlskey":       {"NATS_KEY", &f.TLSKey},
		"tlsca":        {"NATS_CA", &f.TLSCA},
		"inbox-prefix": {"NATS_INBOX_PREFIX", &f.InboxPrefix},
		"data":         {"LAZARET_DATA", &f.Data},
	}
}

// Bind adds the flags to a command.
func (f *Flags) Bind(fs *pflag.FlagSet) {
	fs.StringVarP(&f.Server, "server", "s", "", "NATS server `URL` ($NATS_URL)")
	fs.StringVar(&f.Context, "context", "",
		"NATS context: a file, or the `NAME` of one of the data folder or of nats ($NATS_CONTEXT)")
	fs.StringVar(&f.Creds, "creds", "", "credentials `FILE` ($NATS_CREDS)")
	fs.StringVar(&f.User, "user", "", "`USER` name ($NATS_USER)")
	fs.StringVar(&f.Password, "password", "", "`PASSWORD` ($NATS_PASSWORD)")
	fs.StringVar(&f.NKey, "nkey", "", "NKey seed `FILE` ($NATS_NKEY)")
	fs.StringVar(&f.Token, "token", "", "`TOKEN` ($NATS_TOKEN)")
	fs.StringVar(&f.TLSCert, "tlscert", "", "TLS client certificate `FILE` ($NATS_CERT)")
	fs.StringVar(&f.TLSKey, "tlskey", "", "TLS client key `FILE` ($NATS_KEY)")
	fs.StringVar(&f.TLSCA, "tlsca", "", "TLS certificate authority `FILE` ($NATS_CA)")
	fs.StringVar(&f.InboxPrefix, "inbox-prefix", "",
		"`PREFIX` of the inboxes that the credential may read ($NATS_INBOX_PREFIX)")
	fs.DurationVar(&f.Timeout, "timeout", 20*time.Second, "how long to wait for an answer")
	fs.StringVar(&f.Data, "data", "", "data `DIR` of `lazaret up` ($LAZARET_DATA, default ./data)")
}

// Resolve sets missing flags from the environment. If --data names a data folder with contexts, the
// server and credentials of the environment are ignored.
func (f *Flags) Resolve() {
	own := false
	if f.Data != "" && f.Server == "" && f.Context == "" && f.Creds == "" {
		_, err := os.Stat(filepath.Join(f.Data, "nats"))
		own = err == nil
	}
	for flag, e := range f.env() {
		if own && flag != "data" && !strings.HasPrefix(flag, "tls") {
			continue
		}
		if *e.dst == "" {
			*e.dst = os.Getenv(e.name)
		}
	}
	f.Data = cmp.Or(f.Data, DefaultData)
}

// ErrNoServer means that no server is configured.
var ErrNoServer = errors.New("no NATS server is configured")

// Connect opens a connection with the options of f: a server, a context or credentials. The name of a context may be one
// of the data folder. Without these options, it uses the NATS context that the data folder has for the role. role may
// also be the name of another context there, such as that of an agent.
func (f *Flags) Connect(role string, opts ...nats.Option) (*nats.Conn, error) {
	f.Resolve()
	opts = append([]nats.Option{nats.Name("lazaret " + role), nats.Timeout(5 * time.Second)}, opts...)
	if f.Server != "" || f.Creds != "" && f.Context == "" {
		return f.direct(opts)
	}
	if f.Context != "" {
		name := f.Context
		if file := natsfiles.Context(f.Data, name); name == filepath.Base(name) {
			if _, err := os.Stat(file); err == nil {
				name = file
			}
		}
		return f.viaContext(name, opts)
	}
	file := natsfiles.Context(f.Data, role)
	if _, err := os.Stat(file); err == nil {
		abs, err := filepath.Abs(file)
		if err != nil {
			return nil, err
		}
		return f.viaContext(abs, opts)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(f.Data, "nats")); err == nil {
		if es, err := os.ReadDir(filepath.Dir(file)); err == nil && len(es) == 0 {
			return nil, notStarted(f.Data)
		}
		return nil, fmt.Errorf("%s has no credential for %q: see `ls %s`, or add an agent with `lazaret agent add`",
			f.Data, role, filepath.Dir(file))
	}
	if nc, _, err := natscontext.Connect("", f.more(opts)...); err == nil {
		return nc, nil
	}
	return nil, fmt.Errorf("%w, and %s is not a data folder: start `lazaret up`, or give --server, --context or --data",
		ErrNoServer, f.Data)
}

func (f *Flags) viaContext(name string, opts []nats.Option) (*nats.Conn, error) {
	// The NATS library reads a context from a file only if its name is an absolute path.
	if strings.ContainsRune(name, filepath.Separator) {
		abs, err := filepath.Abs(name)
		if err != nil {
			return nil, err
		}
		name = abs
		if unstarted(abs) {
			return nil, notStarted(filepath.Dir(filepath.Dir(filepath.Dir(abs))))
		}
	}
	nc, s, err := natscontext.Connect(name, f.more(opts)...)
	if err != nil {
		at := name
		if s.URL != "" {
			at += " (" + s.URL + ")"
		}
		return nil, f.refusal(fmt.Errorf("connecting with context %s: %w", at, err), cmp.Or(f.Creds, credsOf(name)))
	}
	return nc, nil
}

// unstarted reports whether a context's file belongs to a data folder that was restored and not started
// since.
func unstarted(file string) bool {
	b, err := os.ReadFile(file)
	var c struct {
		URL string `json:"url"`
	}
	return err == nil && json.Unmarshal(b, &c) == nil && c.URL == natsfiles.NoServer
}

func notStarted(data string) error {
	return fmt.Errorf("%w: %s was restored from a backup and has not been started since: start `lazaret up --data %[2]s` "+
		"first", ErrNoServer, data)
}

func (f *Flags) direct(opts []nats.Option) (*nats.Conn, error) {
	url := cmp.Or(f.Server, nats.DefaultURL)
	nc, err := nats.Connect(url, f.more(opts)...)
	if err != nil {
		return nil, f.refusal(fmt.Errorf("connecting to %s: %w", url, err), f.Creds)
	}
	return nc, nil
}

// more adds the options of flags to those of a context; flags take precedence.
func (f *Flags) more(opts []nats.Option) []nats.Option {
	if f.Creds != "" {
		opts = append(opts, nats.UserCredentials(f.Creds))
		if f.InboxPrefix == "" {
			if p := inboxOf(f.Creds); p != "" {
				opts = append(opts, nats.CustomInboxPrefix(p))
			}
		}
	}
	if f.User != "" {
		opts = append(opts, nats.UserInfo(f.User, f.Password))
	}
	if f.Token != "" {
		opts = append(opts, nats.Token(f.Token))
	}
	if f.NKey != "" {
		if o, err := nats.NkeyOptionFromSeed(f.NKey); err == nil {
			opts = append(opts, o)
		} else {
			opts = append(opts, func(*nats.Options) error { return fmt.Errorf("--nkey %s: %w", f.NKey, err) })
		}
	}
	if f.TLSCert != "" || f.TLSKey != "" {
		opts = append(opts, nats.ClientCert(f.TLSCert, f.TLSKey))
	}
	if f.TLSCA != "" {
		opts = append(opts, nats.RootCAs(f.TLSCA))
	}
	if f.InboxPrefix != "" {
		opts = append(opts, nats.CustomInboxPrefix(f.InboxPrefix))
	}
	return opts
}

// inboxOf returns the inbox prefix in the permissions of a credential file of Lazaret, or "".
func inboxOf(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return natsfiles.Inbox(b)
}

// Daemon returns the options of a connection that reconnects forever.
func Daemon(log *slog.Logger) []nats.Option {
	return []nats.Option{
		nats.MaxReconnects(-1), nats.ReconnectWait(200 * time.Millisecond), nats.RetryOnFailedConnect(true),
		nats.IgnoreAuthErrorAbort(), // a renewed credential is read from its file again
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("disconnected from NATS", "err", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) { log.Info("reconnected to NATS", "url", nc.ConnectedUrlRedacted()) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Warn("nats", "err", strings.TrimPrefix(err.Error(), "nats: "))
		}),
	}
}
