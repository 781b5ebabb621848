package natsserver

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"lazaret/pkg/durable"
)

// The servers of a cluster trust their routes: another server says for which account a
// message is. A route therefore needs, on both sides, a certificate of the cluster's own
// authority, and a password.

const (
	// authorityFor is how long a certificate of the authority is valid.
	authorityFor = 10 * 365 * 24 * time.Hour
	// serverFor is how long a server's certificate is valid.
	serverFor = 397 * 24 * time.Hour
	// RenewBefore is how long before its end doctor asks for a new certificate.
	RenewBefore = 30 * 24 * time.Hour
	// skew is how far the servers' clocks may differ.
	skew = time.Hour
)

// Files of a server's certificate, in its folder.
const (
	certFile = "cert.pem"
	keyFile  = "key.pem"
	caFile   = "ca.pem"
)

// serverName are the names of servers that can be names of folders.
var serverName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

func clusterDir(data string) string { return filepath.Join(KeysDir(data), "cluster") }

// ServerCertDir is the folder with the certificate, the key and the trusted
// authorities of one server of a cluster.
func ServerCertDir(data, name string) string {
	return filepath.Join(clusterDir(data), "servers", name)
}

// ClusterFile is the part of a server's configuration with the password of the
// routes. It is the same for all servers of the cluster.
func ClusterFile(data string) string { return filepath.Join(KeysDir(data), "cluster.conf") }

// pair is a certificate with its key.
type pair struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func (p *pair) certPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.cert.Raw})
}

func (p *pair) keyPEM() ([]byte, error) {
	b, err := x509.MarshalPKCS8PrivateKey(p.key)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: b}), err
}

// newPair makes a key and has its certificate signed by parent; nil: by itself.
func newPair(t *x509.Certificate, parent *pair, lasts time.Duration) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	t.NotBefore, t.NotAfter = now.Add(-skew), now.Add(lasts)
	signer, by := crypto.Signer(key), t
	if parent != nil {
		signer, by = parent.key, parent.cert
		if t.NotAfter.After(by.NotAfter) {
			t.NotAfter = by.NotAfter
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, by, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &pair{cert, key}, err
}

// authority signs the certificates of a cluster's servers. While it is exchanged,
// the servers also trust the next one, and then still the one before.
type authority struct {
	dir       string
	issuer    *pair
	next, old *pair // old has no key; nil: none
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name+".pem") }

// openAuthority reads a cluster's authority; it makes one if there is none.
func openAuthority(data string) (*authority, error) {
	a := &authority{dir: filepath.Join(clusterDir(data), "authority")}
	if err := os.MkdirAll(a.dir, 0o700); err != nil {
		return nil, err
	}
	for _, f := range []struct {
		name string
		dst  **pair
	}{{"issuer", &a.issuer}, {"next", &a.next}, {"old", &a.old}} {
		var err error
		if *f.dst, err = readPair(a.file(f.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the cluster's authority: %w", err)
		}
	}
	if a.issuer != nil {
		return a, nil
	}
	var err error
	a.issuer, err = a.make("issuer")
	return a, err
}

// make makes an authority and writes it under that name.
func (a *authority) make(name string) (*pair, error) {
	p, err := newPair(&x509.Certificate{
		Subject: pkix.Name{CommonName: "Lazaret cluster"}, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign,
	}, nil, authorityFor)
	if err != nil {
		return nil, err
	}
	key, err := p.keyPEM()
	if err != nil {
		return nil, err
	}
	return p, durable.WriteFile(a.file(name), append(p.certPEM(), key...), 0o600)
}

// readPair reads a certificate and, if it is there, its key from one file.
func readPair(path string) (*pair, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := new(pair)
	for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case "CERTIFICATE":
			p.cert, err = x509.ParseCertificate(block.Bytes)
		case "PRIVATE KEY":
			var k any
			if k, err = x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
				p.key, _ = k.(crypto.Signer)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if p.cert == nil {
		return nil, fmt.Errorf("%s holds no certificate", path)
	}
	return p, nil
}

// trusted are the certificates of the authorities that servers trust.
func (a *authority) trusted() []byte {
	var out []byte
	for _, p := range []*pair{a.issuer, a.next, a.old} {
		if p != nil {
			out = append(out, p.certPEM()...)
		}
	}
	return out
}

// issue writes a new certificate for a server, with a new key.
func (a *authority) issue(dir, name string, hosts []string) (*x509.Certificate, error) {
	t := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	if a.issuer.key == nil {
		return nil, fmt.Errorf("%s has no key: bring the data folder from where it is kept", a.file("issuer"))
	}
	p, err := newPair(t, a.issuer, serverFor)
	if err != nil {
		return nil, err
	}
	key, err := p.keyPEM()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	// A server that reads between two of them refuses to reload and keeps its own.
	for _, f := range []struct {
		name string
		b    []byte
	}{{caFile, a.trusted()}, {keyFile, key}, {certFile, p.certPEM()}} {
		if err := durable.WriteFile(filepath.Join(dir, f.name), f.b, 0o600); err != nil {
			return nil, err
		}
	}
	return p.cert, nil
}

// secureCluster makes what a server of a cluster needs: its certificate, unless it
// has one for these hosts, and the password of the routes.
func secureCluster(data string, c ServerConfig) error {
	if !serverName.MatchString(c.Name) {
		return fmt.Errorf("the server's name %q: a server of a cluster has a folder of its name; use letters, digits, "+
			"dots, - and _", c.Name)
	}
	hosts := []string{c.Name}
	var routes []string
	password, err := Secret(data, "cluster.key")
	if err != nil {
		return err
	}
	for _, r := range c.Routes {
		u, err := url.Parse(r)
		if err != nil || u.Hostname() == "" || u.Port() == "" || u.User != nil {
			return fmt.Errorf("route %q: use nats://HOST:PORT, without a password: it is added", r)
		}
		hosts = append(hosts, u.Hostname())
		u.User = url.UserPassword(routeUser, password)
		routes = append(routes, u.String())
	}
	if h, _, err := net.SplitHostPort(c.Cluster); err != nil {
		return fmt.Errorf("address for the other servers: %w", err)
	} else if ip := net.ParseIP(h); h != "" && (ip == nil || !ip.IsUnspecified()) {
		hosts = append(hosts, h)
	}
	slices.Sort(hosts)
	hosts = slices.Compact(hosts)
	a, err := openAuthority(data)
	if err != nil {
		return err
	}
	dir := ServerCertDir(data, c.Name)
	if p, err := readPair(filepath.Join(dir, certFile)); err != nil || !slices.Equal(hostsOf(p.cert), hosts) ||
		time.Until(p.cert.NotAfter) < RenewBefore {
		if _, err := a.issue(dir, c.Name, hosts); err != nil {
			return err
		}
	}
	var b bytes.Buffer
	// A reload sorts the routes in place while others read them: sorted ones stay as they are.
	slices.Sort(routes)
	fmt.Fprintf(&b, "# Made by \"lazaret server config\"; the same for all servers of the cluster.\nauthorization {\n  "+
		"user: %q\n  password: %q\n  timeout: 5\n}\nroutes: [\n", routeUser, password)
	for _, r := range routes {
		fmt.Fprintf(&b, "  %q\n", r)
	}
	b.WriteString("]\n")
	return durable.WriteFile(ClusterFile(data), b.Bytes(), 0o600)
}

// ClusterPorts are the HOST:PORT at which the servers of the data folder's cluster
// meet; none if it has no cluster.
func ClusterPorts(data string) ([]string, error) {
	b, err := os.ReadFile(ClusterFile(data))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		if u, err := url.Parse(strings.Trim(line, " \"\n")); err == nil && u.User != nil {
			out = append(out, u.Host)
		}
	}
	return out, err
}

// routeUser is the name that servers of a cluster give each other.
const routeUser = "route"

// hostsOf are the sorted names and addresses in a certificate.
func hostsOf(c *x509.Certificate) []string {
	hosts := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	slices.Sort(hosts)
	return hosts
}

// ServerCert is a certificate of a cluster's server.
type ServerCert struct {
	Server  string
	Expires time.Time
}

// ServerCerts are the certificates in a data folder, by server.
func ServerCerts(data string) ([]ServerCert, error) {
	files, err := filepath.Glob(filepath.Join(ServerCertDir(data, "*"), certFile))
	if err != nil {
		return nil, err
	}
	var out []ServerCert
	for _, f := range files {
		p, err := readPair(f)
		if err != nil {
			return nil, err
		}
		out = append(out, ServerCert{filepath.Base(filepath.Dir(f)), p.cert.NotAfter})
	}
	return out, nil
}

// Exchange is how far the exchange of a cluster's authority has come.
type Exchange int

// The three steps, each to be taken up by all servers before the next.
const (
	ExchangeNone    Exchange = iota
	ExchangeTrusted          // all trust the next authority too
	ExchangeIssued           // all have certificates of the new authority
	ExchangeDone             // nobody trusts the old one
)

// RenewCluster issues new certificates to all servers of a cluster. With exchange
// it also takes the next step of exchanging their authority. Running servers take
// them up when their configuration is reloaded.
func RenewCluster(data string, exchange bool) (step Exchange, certs []ServerCert, err error) {
	had, err := ServerCerts(data)
	if err != nil {
		return 0, nil, err
	}
	if len(had) == 0 {
		return 0, nil, fmt.Errorf("%s holds no certificate of a server: lazaret server config makes them", clusterDir(data))
	}
	a, err := openAuthority(data)
	if err != nil {
		return 0, nil, err
	}
	if exchange {
		if step, err = a.exchange(); err != nil {
			return 0, nil, err
		}
	}
	for _, s := range had {
		dir := ServerCertDir(data, s.Server)
		p, err := readPair(filepath.Join(dir, certFile))
		if err != nil {
			return step, nil, err
		}
		cert, err := a.issue(dir, s.Server, hostsOf(p.cert))
		if err != nil {
			return step, nil, err
		}
		certs = append(certs, ServerCert{s.Server, cert.NotAfter})
	}
	return step, certs, nil
}

// exchange takes the next step. Each leaves files from which it can be taken again.
func (a *authority) exchange() (Exchange, error) {
	var err error
	switch {
	case a.next != nil:
		a.old = &pair{cert: a.issuer.cert}
		if err := durable.WriteFile(a.file("old"), a.old.certPEM(), 0o600); err != nil {
			return 0, err
		}
		a.issuer, a.next = a.next, nil
		return ExchangeIssued, os.Rename(a.file("next"), a.file("issuer"))
	case a.old != nil:
		a.old = nil
		return ExchangeDone, os.Remove(a.file("old"))
	default:
		a.next, err = a.make("next")
		return ExchangeTrusted, err
	}
}
