package natsserver_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"lazaret/internal/natsserver"
	"lazaret/internal/natstest"
	"lazaret/pkg/beliefs"
)

// freePort returns a free port of this machine.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// member is an official nats-server that runs with a configuration that Lazaret wrote.
type member struct {
	*server.Server
	conf, route string
}

// startMember starts a nats-server from a configuration file.
func startMember(t *testing.T, conf string) *server.Server {
	t.Helper()
	o, err := server.ProcessConfigFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	o.NoSigs, o.NoLog = true, true
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("nats-server did not start")
	}
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

// startCluster starts a cluster of two servers. Both use the same data folder.
func startCluster(t *testing.T, data string) []*member {
	t.Helper()
	return startClusterOf(t, data, 2)
}

// startClusterOf starts a cluster of n servers. All use the same data folder.
func startClusterOf(t *testing.T, data string, n int) []*member {
	t.Helper()
	var addrs, routes []string
	for range n {
		a := freePort(t)
		addrs, routes = append(addrs, a), append(routes, "nats://"+a)
	}
	var ms []*member
	for i, a := range addrs {
		m := &member{conf: filepath.Join(data, fmt.Sprintf("n%d.conf", i+1)), route: a}
		writeMember(t, data, m, fmt.Sprintf("n%d", i+1), routes...)
		m.Server = startMember(t, m.conf)
		ms = append(ms, m)
	}
	// To each other server, there are three routes of a pool and one of the system account.
	natstest.Eventually(t, time.Minute, "routes between the servers", func() bool {
		return !slices.ContainsFunc(ms, func(m *member) bool { return m.NumRoutes() != 4*(n-1) })
	})
	return ms
}

func writeMember(t *testing.T, data string, m *member, name string, routes ...string) {
	t.Helper()
	var b bytes.Buffer
	c := natsserver.ServerConfig{Name: name, Listen: "127.0.0.1:-1", Store: filepath.Join(data, name),
		ClusterName: "lazaret", Cluster: m.route, Routes: routes,
		KeyFile: filepath.Join("keys", "jetstream.conf")}
	if err := natsserver.WriteConfig(&b, data, c); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(m.conf, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// role connects to a server with the credential of a role.
func (m *member) role(t *testing.T, data string, r natsserver.Role) *nats.Conn {
	t.Helper()
	minter, err := natsserver.OpenMinter(data)
	if err != nil {
		t.Fatal(err)
	}
	creds, err := minter.Role(r)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(m.ClientURL(), nats.UserCredentialBytes(creds), nats.CustomInboxPrefix(r.InboxPrefix()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// accountOf returns the account's public key in a credential.
func accountOf(t *testing.T, data string) string {
	t.Helper()
	minter, err := natsserver.OpenMinter(data)
	if err != nil {
		t.Fatal(err)
	}
	creds, err := minter.Agent(natsserver.Agent{Project: "acme", Name: "bot",
		Origins: []beliefs.Origin{beliefs.OriginTool}})
	if err != nil {
		t.Fatal(err)
	}
	token, err := nkeys.ParseDecoratedJWT(creds)
	if err != nil {
		t.Fatal(err)
	}
	c, err := jwt.DecodeUserClaims(token)
	if err != nil {
		t.Fatal(err)
	}
	if c.IssuerAccount != "" {
		return c.IssuerAccount
	}
	return c.Issuer
}

func TestPromiseA1AServerThatKnowsOnlyTheAccountsKeyDoesNotJoinTheCluster(t *testing.T) {
	data := t.TempDir()
	ms := startCluster(t, data)
	svc := ms[0].role(t, data, natsserver.RoleService)
	heard, err := svc.SubscribeSync("lz.svc.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := svc.Flush(); err != nil {
		t.Fatal(err)
	}
	account := accountOf(t, data)
	outside := t.TempDir() // the outsider's own authority
	writeMember(t, outside, &member{conf: filepath.Join(outside, "x.conf"), route: "127.0.0.1:1"}, "x",
		"nats://127.0.0.1:1")
	own := natsserver.ServerCertDir(outside, "x")
	password := routePassword(t, data)
	for name, c := range map[string]struct{ tls, url string }{
		"without TLS":                    {"", "nats://" + ms[0].route},
		"without TLS, with the password": {"", "nats://route:" + password + "@" + ms[0].route},
		"with a certificate of its own": {fmt.Sprintf("tls { cert_file: %q, key_file: %q, ca_file: %q }", own+"/cert.pem",
			own+"/key.pem", natsserver.ServerCertDir(data, "n1")+"/ca.pem"),
			"nats://route:" + password + "@" + ms[0].route},
		"with a server's certificate, without the password": {
			fmt.Sprintf("tls { cert_file: %[1]q, key_file: %[2]q, ca_file: %[3]q }",
				natsserver.ServerCertDir(data, "n2")+"/cert.pem", natsserver.ServerCertDir(data, "n2")+"/key.pem",
				natsserver.ServerCertDir(data, "n2")+"/ca.pem"), "nats://" + ms[0].route},
	} {
		t.Run(name, func(t *testing.T) {
			conf := filepath.Join(t.TempDir(), "rogue.conf")
			text := fmt.Sprintf("server_name: rogue\nlisten: \"127.0.0.1:-1\"\ncluster { name: lazaret\n listen: "+
				"\"127.0.0.1:-1\"\n %s\n routes: [ %q ] }\naccounts { %s: { users: [ {user: a, password: b} ] } }\n", c.tls,
				c.url, account)
			if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			log := new(routeLog)
			o, err := server.ProcessConfigFile(conf)
			if err != nil {
				t.Fatal(err)
			}
			o.NoSigs = true
			rogue, err := server.NewServer(o)
			if err != nil {
				t.Fatal(err)
			}
			rogue.SetLoggerV2(log, true, false, false)
			rogue.Start()
			defer func() { rogue.Shutdown(); rogue.WaitForShutdown() }()
			if !rogue.ReadyForConnections(10 * time.Second) {
				t.Fatal("the outsider's server did not start")
			}
			// The outsider tries again and again to join. No try may succeed.
			natstest.Eventually(t, 30*time.Second, "two tries of the outsider", func() bool {
				return rogue.NumRoutes() > 0 || log.tries() >= 2
			})
			if n := rogue.NumRoutes(); n > 0 {
				t.Errorf("the outsider has %d routes", n)
			}
			nc, err := nats.Connect(rogue.ClientURL(), nats.UserInfo("a", "b"))
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			if err := nc.Publish("lz.svc.decide.acme.bot", []byte("{}")); err != nil {
				t.Fatal(err)
			}
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
			if m, err := heard.NextMsg(300 * time.Millisecond); err == nil {
				t.Errorf("the outsider was heard: %s %s", m.Subject, m.Data)
			}
			if n := ms[0].NumRoutes(); n != ms[1].NumRoutes() {
				t.Errorf("routes: %d and %d", n, ms[1].NumRoutes())
			}
		})
	}
}

func TestPromiseA1DoctorTriesTheClusterPortFromOutside(t *testing.T) {
	data := t.TempDir()
	ms := startCluster(t, data)
	expires, err := natsserver.ProbeRoute(t.Context(), ms[0].route)
	if err != nil {
		t.Errorf("our own configuration: %v", err)
	}
	if time.Until(expires) < natsserver.RenewBefore {
		t.Errorf("the certificate ends at %v", expires)
	}
	if _, err := natsserver.ProbeRoute(t.Context(), freePort(t)); !errors.Is(err, natsserver.ErrNoPort) {
		t.Errorf("a port that nobody listens on: %v", err)
	}
	open, err := server.NewServer(&server.Options{ServerName: "open", Host: "127.0.0.1", Port: -1,
		Cluster: server.ClusterOpts{Name: "x", Host: "127.0.0.1", Port: -1}, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	open.Start()
	defer open.Shutdown()
	open.ReadyForConnections(10 * time.Second)
	if _, err := natsserver.ProbeRoute(t.Context(), open.ClusterAddr().String()); err == nil ||
		!strings.Contains(err.Error(), "without TLS") {
		t.Errorf("an open port: %v", err)
	}
	// TLS without client certificates.
	cert, err := tls.LoadX509KeyPair(natsserver.ServerCertDir(data, "n1")+"/cert.pem", natsserver.ServerCertDir(data,
		"n1")+"/key.pem")
	if err != nil {
		t.Fatal(err)
	}
	half, err := server.NewServer(&server.Options{ServerName: "half", Host: "127.0.0.1", Port: -1, NoSigs: true,
		NoLog: true,
		Cluster: server.ClusterOpts{Name: "x", Host: "127.0.0.1", Port: -1, TLSTimeout: 5,
			TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}}}})
	if err != nil {
		t.Fatal(err)
	}
	half.Start()
	defer half.Shutdown()
	half.ReadyForConnections(10 * time.Second)
	if _, err := natsserver.ProbeRoute(t.Context(), half.ClusterAddr().String()); err == nil ||
		!strings.Contains(err.Error(), "without a certificate") {
		t.Errorf("TLS without certificates: %v", err)
	}
}

func TestPromiseA1AnOpenClusterPortIsRefused(t *testing.T) {
	data := t.TempDir()
	ms := startCluster(t, data)
	b, err := os.ReadFile(ms[0].conf)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := natsserver.Secret(data, "cluster.key")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), secret) || strings.Contains(string(b), "route:") {
		t.Error("the configuration holds the password of the routes")
	}
	want := slices.Sorted(slices.Values([]string{ms[0].route, ms[1].route}))
	if ports, err := natsserver.ClusterPorts(data); err != nil || !slices.Equal(ports, want) {
		t.Errorf("ports %v, %v", ports, err)
	}
	write := func(cut ...string) string {
		text := strings.ReplaceAll(string(b), ms[0].route, "0.0.0.0:6222")
		for _, c := range cut {
			if !strings.Contains(text, c) {
				t.Fatalf("the configuration has no %q", c)
			}
			text = strings.Replace(text, c, "", 1)
		}
		f := filepath.Join(data, "edited.conf")
		if err := os.WriteFile(f, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return f
	}
	if err := natsserver.CheckConfig(write()); err != nil {
		t.Errorf("what we write: %v", err)
	}
	ca := fmt.Sprintf("ca_file: %q", natsserver.ServerCertDir(data, "n1")+"/ca.pem")
	for what, cut := range map[string][]string{
		"public authority": {ca},
		"authorization":    {`include "keys/cluster.conf"`},
	} {
		if err := natsserver.CheckConfig(write(cut...)); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("without %v: %v", cut, err)
		}
	}
	for text, bad := range map[string]bool{
		"cluster { name: x, listen: \"0.0.0.0:6222\" }":                                         true,
		"cluster { name: x, listen: \"10.0.0.1:6222\" }":                                        true,
		"cluster { name: x, port: 6222 }":                                                       true,
		"cluster { name: x, listen: \"127.0.0.1:6222\" }":                                       false,
		"cluster { name: x, listen: \"localhost:6222\" }":                                       false,
		"server_name: a\ngateway { name: x, listen: \"0.0.0.0:7222\" }":                         true,
		"server_name: a\ngateway { name: x, listen: \"[::1]:7222\" }":                           false,
		"leafnodes { listen: \"0.0.0.0:7422\" }":                                                true,
		"leafnodes { listen: \"127.0.0.1:7422\" }":                                              false,
		"listen: \"0.0.0.0:4222\"":                                                              false,
		"cluster { name: x, listen: \"0.0.0.0:6222\", authorization { user: a, password: b } }": true,
	} {
		f := filepath.Join(data, "other.conf")
		if err := os.WriteFile(f, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := natsserver.CheckConfig(f); (err != nil) != bad {
			t.Errorf("the configuration %s: %v", text, err)
		}
	}
	for _, bad := range []natsserver.ServerConfig{
		{Name: "../x", Routes: []string{"nats://n1:6222"}},
		{Name: "n1", Routes: []string{"nats://a:b@n1:6222"}},
		{Name: "n1", Routes: []string{"n1"}},
		{Name: "n1", Routes: []string{"nats://n1"}},
	} {
		bad.Listen, bad.Store, bad.ClusterName, bad.Cluster = "127.0.0.1:4222", "/s", "c", "0.0.0.0:6222"
		if err := natsserver.WriteConfig(new(bytes.Buffer), t.TempDir(), bad); err == nil {
			t.Errorf("%+v was written", bad)
		}
	}
}

func TestPromiseA1CertificatesAreRenewedAndExchangedWithoutARestart(t *testing.T) {
	data := t.TempDir()
	ms := startCluster(t, data)
	reload := func() {
		t.Helper()
		for _, m := range ms {
			if err := m.Reload(); err != nil { // what SIGHUP does
				t.Fatal(err)
			}
		}
	}
	// restart restarts a server. Its new routes then use the certificates that are in the files now.
	restart := func() {
		t.Helper()
		ms[1].Shutdown()
		ms[1].WaitForShutdown()
		ms[1].Server = startMember(t, ms[1].conf)
		natstest.Eventually(t, 30*time.Second, "routes after a restart", func() bool {
			return ms[0].NumRoutes() > 0 && ms[1].NumRoutes() > 0
		})
	}
	before := served(t, ms[0].route)
	if _, _, err := natsserver.RenewCluster(data, false); err != nil {
		t.Fatal(err)
	}
	if got := served(t, ms[0].route); !got.Equal(before) {
		t.Fatal("the certificate changed before the reload")
	}
	routes := routeIDs(t, ms[0])
	reload()
	after := served(t, ms[0].route)
	if after.Equal(before) || !after.Equal(onDisk(t, data, "n1")) {
		t.Error("the new certificate is not served after the reload")
	}
	if now := routeIDs(t, ms[0]); !slices.Equal(now, routes) {
		t.Errorf("routes: %v before the reload, %v after it", routes, now)
	}
	restart()

	// Replace the authority. At each step, one server has reloaded its files and the other has not. They must still
	// accept each other.
	old := authorities(t, data, "n1")
	for i, want := range []natsserver.Exchange{natsserver.ExchangeTrusted, natsserver.ExchangeIssued,
		natsserver.ExchangeDone} {
		step, _, err := natsserver.RenewCluster(data, true)
		if err != nil || step != want {
			t.Fatalf("step %d: %v, %v", i+1, step, err)
		}
		restart() // n2 now has the files of this step, n1 still those of the step before
		reload()
		if !served(t, ms[0].route).Equal(onDisk(t, data, "n1")) {
			t.Errorf("step %d: the certificate on disk is not served", i+1)
		}
		restart()
	}
	now := authorities(t, data, "n1")
	if len(old) != 1 || len(now) != 1 || now[0].Equal(old[0]) {
		t.Errorf("%d authorities before, %d after", len(old), len(now))
	}
	pool := x509.NewCertPool()
	pool.AddCert(old[0])
	if _, err := served(t, ms[0].route).Verify(x509.VerifyOptions{Roots: pool,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err == nil {
		t.Error("the certificate still verifies with the old authority")
	}
	if _, err := natsserver.ProbeRoute(t.Context(), ms[0].route); err != nil {
		t.Error(err)
	}
}

func TestPromiseA1TheEmbeddedServerListensForNoOtherServers(t *testing.T) {
	s := startServer(t, t.TempDir())
	v, err := s.Varz()
	if err != nil {
		t.Fatal(err)
	}
	if v.Cluster.Port != 0 || v.Gateway.Port != 0 || v.LeafNode.Port != 0 {
		t.Errorf("it listens for others: %+v %+v %+v", v.Cluster, v.Gateway, v.LeafNode)
	}
}

// routeIDs returns the ids of the routes of a server.
func routeIDs(t *testing.T, m *member) (ids []uint64) {
	t.Helper()
	z, err := m.Routez(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range z.Routes {
		ids = append(ids, r.Rid)
	}
	slices.Sort(ids)
	return ids
}

// routePassword returns the routes' password in the file that all servers include.
func routePassword(t *testing.T, data string) string {
	t.Helper()
	p, err := natsserver.Secret(data, "cluster.key")
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("+", "%2B", "/", "%2F", "=", "%3D").Replace(p)
}

// served returns the certificate that a server presents at its port for routes.
func served(t *testing.T, addr string) *x509.Certificate {
	t.Helper()
	c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0]
}

func authorities(t *testing.T, data, name string) []*x509.Certificate {
	return certsIn(t, filepath.Join(natsserver.ServerCertDir(data, name), "ca.pem"))
}

func onDisk(t *testing.T, data, name string) *x509.Certificate {
	return certsIn(t, filepath.Join(natsserver.ServerCertDir(data, name), "cert.pem"))[0]
}

func certsIn(t *testing.T, file string) (out []*x509.Certificate) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for p, rest := pem.Decode(b); p != nil; p, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(p.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

// routeLog counts how often a server failed to join a cluster.
type routeLog struct{ n atomic.Int64 }

func (l *routeLog) tries() int64 { return l.n.Load() }
func (l *routeLog) count(f string, v []any) {
	s := fmt.Sprintf(f, v...)
	if strings.Contains(s, "Router connection closed") || strings.Contains(s, "TLS route handshake error") ||
		strings.Contains(s, "Error trying to connect to route") {
		l.n.Add(1)
	}
}
func (l *routeLog) Noticef(f string, v ...any) { l.count(f, v) }
func (l *routeLog) Warnf(f string, v ...any)   { l.count(f, v) }
func (l *routeLog) Errorf(f string, v ...any)  { l.count(f, v) }
func (l *routeLog) Debugf(f string, v ...any)  { l.count(f, v) }
func (l *routeLog) Fatalf(f string, v ...any)  {}
func (l *routeLog) Tracef(f string, v ...any)  {}
