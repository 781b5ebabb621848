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

	"lazaret/pkg/files"
)

// The servers of a cluster trust each other: a server itself states the account of each message that it sends to
// another one. Therefore both servers of a connection (route) need a certificate of the cluster's own authority, and a
// password.

const (
	// authorityFor is the validity of the authority's certificate.
	authorityFor = 10 * 365 * 24 * time.Hour
	// serverFor is the validity of a server's certificate.
	serverFor = 397 * 24 * time.Hour
	// RenewBefore is a remaining validity. If a certificate has less, `lazaret doctor` asks for a new one.
	RenewBefore = 30 * 24 * time.Hour
	// skew is the difference between the servers' clocks that is tolerated.
	skew = time.Hour
)

// Files in the folder that ServerCertDir returns.
const (
	certFile = "cert.pem"
	keyFile  = "key.pem"
	caFile   = "ca.pem"
)

// serverName matches names of servers that can safely be used as folder names.
var serverName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

func clusterDir(data string) string { return filepath.Join(KeysDir(data), "cluster") }

// ServerCertDir is the folder of one server of a cluster. It has the server's certificate and key, and the certificates
// of the authorities that the server trusts.
func ServerCertDir(data, name string) string {
	return filepath.Join(clusterDir(data), "servers", name)
}

// ClusterFile returns the path of a file that is included in the configuration of each server of a cluster. It has the
// routes and their password, which are the same for all servers.
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

// newPair generates a key and a certificate signed by parent. If parent is nil, the certificate is
// self-signed.
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

// authority is the certificate authority of a cluster. It signs the certificates of the servers. The authority itself
// is replaced in three steps, which are the values of Exchange.
type authority struct {
	dir    string
	issuer *pair
	// successor and predecessor, which servers also trust during an exchange; nil if there is none; old has no key
	next, old *pair
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name+".pem") }

// openAuthority reads a cluster's authority. It creates one if there is none.
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
			return nil, fmt.Errorf("reading the cluster's authority: %w", err)
		}
	}
	if a.issuer != nil {
		return a, nil
	}
	var err error
	a.issuer, err = a.make("issuer")
	return a, err
}

// make creates a new authority and writes it to the file with this name.
func (a *authority) make(name string) (*pair, error) {
	p, err := newPair(&x509.Certificate{Subject: pkix.Name{CommonName: "Lazaret cluster"}, IsCA: true,
		BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign}, nil, authorityFor)
	if err != nil {
		return nil, err
	}
	key, err := p.keyPEM()
	if err != nil {
		return nil, err
	}
	err = files.Create(a.file(name), append(p.certPEM(), key...), 0o600)
	if errors.Is(err, fs.ErrExist) {
		return readPair(a.file(name)) // another process has just made it
	}
	return p, err
}

// readPair reads a file with a certificate and, in most cases, its key.
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

// trusted returns the certificates of the authorities that servers trust, in PEM.
func (a *authority) trusted() []byte {
	var out []byte
	for _, p := range []*pair{a.issuer, a.next, a.old} {
		if p != nil {
			out = append(out, p.certPEM()...)
		}
	}
	return out
}

// issue writes a new certificate with a new key for a server.
func (a *authority) issue(dir, name string, hosts []string) (*x509.Certificate, error) {
	t := &x509.Certificate{Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	if a.issuer.key == nil {
		return nil, fmt.Errorf("%s has no key: use the complete data folder", a.file("issuer"))
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
	// A server that reloads between two of these writes finds files that do not match. It then refuses the reload and
	// keeps its old certificate.
	for _, f := range []struct {
		name string
		b    []byte
	}{{caFile, a.trusted()}, {keyFile, key}, {certFile, p.certPEM()}} {
		if err := files.Write(filepath.Join(dir, f.name), f.b, 0o600); err != nil {
			return nil, err
		}
	}
	return p.cert, nil
}

// secureCluster creates the files that a server of a cluster needs: the password of the routes and the server's
// certificate. It keeps a certificate that is for the same hosts and does not expire within RenewBefore.
func secureCluster(data string, c ServerConfig) error {
	if !serverName.MatchString(c.Name) {
		return fmt.Errorf("the server's name %q is used as the name of a folder: use letters, digits, dots, "+
			"- and _", c.Name)
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
			return fmt.Errorf("route %q: use nats://HOST:PORT, without a user or password: this command adds them", r)
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
	// At a reload, nats-server sorts the routes in place while other goroutines read them. If they are sorted already,
	// the sort changes nothing.
	slices.Sort(routes)
	fmt.Fprintf(&b, "# Made by \"lazaret server config\"; the same for all servers of the cluster.\nauthorization {\n  "+
		"user: %q\n  password: %q\n  timeout: 5\n}\nroutes: [\n", routeUser, password)
	for _, r := range routes {
		fmt.Fprintf(&b, "  %q\n", r)
	}
	b.WriteString("]\n")
	return files.Write(ClusterFile(data), b.Bytes(), 0o600)
}

// ClusterPorts returns the addresses (HOST:PORT) at which the cluster's servers accept routes. If the data folder has
// no cluster, it returns none.
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

// routeUser is the user name on routes.
const routeUser = "route"

// hostsOf returns the sorted host names and IP addresses in a certificate.
func hostsOf(c *x509.Certificate) []string {
	hosts := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	slices.Sort(hosts)
	return hosts
}

// ServerCert describes the certificate of a server of a cluster.
type ServerCert struct {
	Server  string
	Expires time.Time
}

// ServerCerts returns the server certificates in a data folder, sorted by server.
func ServerCerts(data string) ([]ServerCert, error) {
	certs, err := files.Glob(ServerCertDir(data, ""), "*/"+certFile)
	if err != nil {
		return nil, err
	}
	var out []ServerCert
	for _, f := range certs {
		p, err := readPair(f)
		if err != nil {
			return nil, err
		}
		out = append(out, ServerCert{filepath.Base(filepath.Dir(f)), p.cert.NotAfter})
	}
	return out, nil
}

// Exchange says which step was taken last to replace a cluster's certificate authority.
type Exchange int

// ExchangeNone means that the authority is not being replaced. The other values are the three steps. Before each
// further step, all servers must reload their configuration.
const (
	ExchangeNone    Exchange = iota
	ExchangeTrusted          // the servers also trust the next authority
	ExchangeIssued           // the servers have certificates of the new authority
	ExchangeDone             // the old authority is no longer trusted
)

// RenewCluster issues new certificates to all servers of a cluster. If exchange is set, it first takes the next step of
// replacing the certificate authority. A running server uses the new files after it has reloaded its configuration.
func RenewCluster(data string, exchange bool) (step Exchange, certs []ServerCert, err error) {
	had, err := ServerCerts(data)
	if err != nil {
		return 0, nil, err
	}
	if len(had) == 0 {
		return 0, nil, fmt.Errorf("%s has no certificate of a server: lazaret server config makes them", clusterDir(data))
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

// exchange takes the next step of replacing the authority. If exchange is interrupted, it can be called again.
func (a *authority) exchange() (Exchange, error) {
	var err error
	switch {
	case a.next != nil:
		a.old = &pair{cert: a.issuer.cert}
		if err := files.Write(a.file("old"), a.old.certPEM(), 0o600); err != nil {
			return 0, err
		}
		a.issuer, a.next = a.next, nil
		return ExchangeIssued, files.Rename(a.file("next"), a.file("issuer"))
	case a.old != nil:
		a.old = nil
		return ExchangeDone, os.Remove(a.file("old"))
	default:
		a.next, err = a.make("next")
		return ExchangeTrusted, err
	}
}
