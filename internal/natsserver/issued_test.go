package natsserver_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"lazaret/internal/natsconn"
	"lazaret/internal/natsserver"
	"lazaret/internal/natstest"
	"lazaret/pkg/beliefs"
)

// bot returns a grant for an agent.
func bot(name string, lasts time.Duration) natsserver.Grant {
	return natsserver.Grant{Name: "acme." + name, Agent: &natsserver.Agent{Project: "acme", Name: name,
		Origins: []beliefs.Origin{beliefs.OriginTool}}, Lasts: lasts}
}

func install(t *testing.T, m *natsserver.Minter, g natsserver.Grant) {
	t.Helper()
	if err := m.Install(g, "", false); err != nil {
		t.Fatal(err)
	}
}

// hold connects with a credential file. It reconnects without end, as a daemon does.
func hold(t *testing.T, url, file, inbox string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, nats.UserCredentials(file), nats.CustomInboxPrefix(inbox), nats.MaxReconnects(-1),
		nats.ReconnectWait(20*time.Millisecond), nats.IgnoreAuthErrorAbort())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// accepts reports whether the server accepts a credential.
func accepts(t *testing.T, url string, creds []byte) bool {
	t.Helper()
	nc, err := nats.Connect(url, nats.UserCredentialBytes(creds), nats.Timeout(5*time.Second),
		nats.IgnoreDiscoveredServers())
	if err == nil {
		nc.Close()
		return true
	}
	if !natsconn.Refused(err) {
		t.Fatal(err)
	}
	return false
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPromiseA12ARevokedCredentialIsDisconnectedAndRefused(t *testing.T) {
	data := t.TempDir()
	s := startServer(t, data)
	install(t, s.Minter(), bot("bad", time.Hour))
	install(t, s.Minter(), bot("good", time.Hour))
	badFile, goodFile := natsserver.CredsFile(data, "acme.bad"), natsserver.CredsFile(data, "acme.good")
	bad, good := hold(t, s.URL(), badFile, "_INBOX.acme.bad"), hold(t, s.URL(), goodFile, "_INBOX.acme.good")
	m, err := natsserver.OpenMinter(data) // as the command does in another process
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if r, err := m.Revoke("acme.bad", false); r.Credentials != 1 || err != nil {
		t.Fatal(r, err)
	}
	natstest.Eventually(t, 10*time.Second, "the end of the revoked connection", func() bool { return !bad.IsConnected() })
	t.Logf("disconnected after %v", time.Since(began))
	if accepts(t, s.URL(), read(t, badFile)) {
		t.Error("the revoked credential is accepted")
	}
	if err := good.Flush(); err != nil || good.Stats().Reconnects != 0 {
		t.Errorf("another agent's connection: %v, %d reconnects", err, good.Stats().Reconnects)
	}
	// The revoked credential must stay refused after a renewal and after a restart.
	if err := m.Install(bot("bad", time.Hour), "", true); err != nil {
		t.Fatal(err)
	}
	s.Shutdown()
	s = startServer(t, data)
	if accepts(t, s.URL(), read(t, badFile)) || !accepts(t, s.URL(), read(t, goodFile)) {
		t.Error("after a restart the wrong credential is accepted")
	}
	cs, err := natsserver.Credentials(data)
	if err != nil || len(cs) != 2 || cs[0].State(time.Now()) != "revoked" || cs[1].State(time.Now()) != "valid" {
		t.Errorf("the register lists %+v, %v", cs, err)
	}
	if _, err := m.Revoke("acme.nobody", false); err == nil {
		t.Error("a credential that nobody made was revoked")
	}
}

func TestPromiseA12ACredentialThatIsNotListedIsRevokedByItsKey(t *testing.T) {
	s := startServer(t, t.TempDir())
	creds, err := s.Minter().Agent(*bot("x", 0).Agent)
	if err != nil {
		t.Fatal(err)
	}
	if !accepts(t, s.URL(), creds) {
		t.Fatal("refused before it was revoked")
	}
	c, _ := decode(t, creds)
	if _, err := s.Minter().Revoke(c.Subject, false); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, 10*time.Second, "refusal", func() bool { return !accepts(t, s.URL(), creds) })
}

func TestPromiseA12AnExpiredCredentialIsDisconnectedAndRefused(t *testing.T) {
	data := t.TempDir()
	s := startServer(t, data)
	install(t, s.Minter(), bot("b", 2*time.Second))
	file := natsserver.CredsFile(data, "acme.b")
	nc := hold(t, s.URL(), file, "_INBOX.acme.b")
	natstest.Eventually(t, 20*time.Second, "the end of the expired connection", func() bool { return !nc.IsConnected() })
	natstest.Eventually(t, 10*time.Second, "refusal", func() bool {
		return !accepts(t, s.URL(), read(t, file))
	}) // expiry has a resolution of one second
	for what, lasts := range map[string]time.Duration{"acme.never": 0, "acme.default": natsserver.AgentExpires} {
		g := bot(strings.TrimPrefix(what, "acme."), lasts)
		install(t, s.Minter(), g)
		c, _ := decode(t, read(t, natsserver.CredsFile(data, what)))
		if left := time.Until(time.Unix(c.Expires, 0)); (c.Expires == 0) != (lasts == 0) ||
			lasts > 0 && (left > lasts || left < lasts-time.Minute) {
			t.Errorf("%s expires at %d", what, c.Expires)
		}
	}
}

func TestPromiseA12ARotationGoesOnWithTheNewKeyAndRefusesTheOldOne(t *testing.T) {
	data := t.TempDir()
	s := startServer(t, data)
	m := s.Minter()
	install(t, m, bot("b", time.Hour))
	file := natsserver.CredsFile(data, "acme.b")
	nc := hold(t, s.URL(), file, "_INBOX.acme.b")
	old := read(t, file)
	if _, err := m.Rotate("acme.b", nil, true); err != nil {
		t.Fatal(err)
	}
	second := read(t, file)
	if !accepts(t, s.URL(), old) || !accepts(t, s.URL(), second) {
		t.Error("with the old one kept, both are valid")
	}
	if r, err := m.Revoke("acme.b", true); r.Credentials != 1 || err != nil {
		t.Fatal(r, err)
	}
	natstest.Eventually(t, 10*time.Second, "refusal of the old one", func() bool { return !accepts(t, s.URL(), old) })
	natstest.Eventually(t, 10*time.Second, "the host's return with the new file", func() bool {
		return nc.IsConnected() && nc.Stats().Reconnects > 0
	})
	if _, err := m.Rotate("acme.b", nil, false); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, 10*time.Second, "refusal of the second", func() bool { return !accepts(t, s.URL(), second) })
	third := read(t, file)
	if !accepts(t, s.URL(), third) {
		t.Error("the newest is refused")
	}
	a, key := decode(t, second)
	b, key3 := decode(t, third)
	if bytes.Equal(key, key3) || strings.Join(a.Pub.Allow, " ") != strings.Join(b.Pub.Allow, " ") {
		t.Error("a rotation changes the key and keeps the rights")
	}
}

func TestPromiseA12TheKeyThatSignsIsNotTheAccountsIdentity(t *testing.T) {
	data := t.TempDir()
	s := startServer(t, data)
	creds, err := s.Minter().Role(natsserver.RoleOperator)
	if err != nil {
		t.Fatal(err)
	}
	c, _ := decode(t, creds)
	if c.Issuer == c.IssuerAccount || c.IssuerAccount == "" {
		t.Errorf("issuer %s, account %s", c.Issuer, c.IssuerAccount)
	}
	// The account's private key is not stored.
	if _, err := os.Stat(filepath.Join(natsserver.KeysDir(data), "account.nk")); !errors.Is(err, os.ErrNotExist) {
		t.Error("account.nk is there:", err)
	}
}

// In an installation of an older version, the account's own key signed the credentials. These never expire, and there
// is no register. The current version must start with such a folder, and must be able to revoke the credentials.
func TestPromiseA12AnOldDataFolderStillStartsAndItsCredentialsCanBeRevoked(t *testing.T) {
	data := t.TempDir()
	keys := natsserver.KeysDir(data)
	if err := os.MkdirAll(keys, 0o755); err != nil {
		t.Fatal(err)
	}
	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := account.Seed()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(keys, "account.nk"), append(seed, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	// Before the first start of the new version, credentials must be made in the old way.
	before, err := natsserver.OpenMinter(data)
	if err != nil {
		t.Fatal(err)
	}
	old, err := before.Agent(*bot("old", 0).Agent)
	if err != nil {
		t.Fatal(err)
	}
	c, _ := decode(t, old)
	if pub, _ := account.PublicKey(); c.Issuer != pub {
		t.Fatalf("issued by %s", c.Issuer)
	}
	if err := os.MkdirAll(filepath.Join(data, "creds"), 0o755); err != nil {
		t.Fatal(err)
	}
	role, err := before.Role(natsserver.RoleOperator)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"acme.old": old, "operator": role} {
		if err := os.WriteFile(natsserver.CredsFile(data, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := startServer(t, data)
	if !accepts(t, s.URL(), old) || !accepts(t, s.URL(), role) {
		t.Fatal("the credentials of the older version are refused")
	}
	// Install must sign the credentials of roles again with the signing key, but not those of agents.
	if err := s.Minter().Install(natsserver.Grant{Name: "operator", Role: natsserver.RoleOperator, Lasts: time.Hour}, "",
		true); err != nil {
		t.Fatal(err)
	}
	now, key := decode(t, read(t, natsserver.CredsFile(data, "operator")))
	was, oldKey := decode(t, role)
	if now.IssuerAccount != was.Issuer || now.Expires == 0 || !bytes.Equal(key, oldKey) ||
		!accepts(t, s.URL(), read(t, natsserver.CredsFile(data, "operator"))) {
		t.Errorf("the operator's credential was not signed anew: %+v", now)
	}
	cs, err := natsserver.Credentials(data)
	if err != nil || len(cs) != 2 || cs[0].Agent == nil || cs[0].Agent.Name != "old" || len(cs[0].Agent.Origins) != 1 ||
		cs[0].Agent.Kinds != nil {
		t.Fatalf("the older version's credential is listed as %+v, %v", cs[0], err)
	}
	// A credential that is up to date must not be signed again.
	was2 := read(t, natsserver.CredsFile(data, "operator"))
	if err := s.Minter().Install(natsserver.Grant{Name: "operator", Role: natsserver.RoleOperator, Lasts: time.Hour}, "",
		true); err != nil || !bytes.Equal(was2, read(t, natsserver.CredsFile(data, "operator"))) {
		t.Error("signed again without need:", err)
	}
	// The account's own key may be deleted.
	if err := os.Remove(filepath.Join(keys, "account.nk")); err != nil {
		t.Fatal(err)
	}
	s.Shutdown()
	s = startServer(t, data)
	if !accepts(t, s.URL(), old) {
		t.Error("without the account's own key an old credential is refused")
	}
	if _, err := s.Minter().Revoke("acme.old", false); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, 10*time.Second, "refusal", func() bool { return !accepts(t, s.URL(), old) })
}

func TestPromiseA12AServerOfOnesOwnRefusesARevokedCredentialAfterAReload(t *testing.T) {
	data := t.TempDir()
	ms := startCluster(t, data)
	m, err := natsserver.OpenMinter(data)
	if err != nil {
		t.Fatal(err)
	}
	install(t, m, bot("b", time.Hour))
	install(t, m, bot("good", time.Hour))
	file, good := natsserver.CredsFile(data, "acme.b"), natsserver.CredsFile(data, "acme.good")
	for _, s := range ms { // every server of a pipeline has clients
		if !accepts(t, s.ClientURL(), read(t, file)) {
			t.Fatal("refused before it was revoked")
		}
	}
	nc := hold(t, ms[0].ClientURL(), file, "_INBOX.acme.b")
	stays := hold(t, ms[0].ClientURL(), good, "_INBOX.acme.good")
	if _, err := m.Revoke("acme.b", false); err != nil {
		t.Fatal(err)
	}
	for _, s := range ms {
		if err := s.Reload(); err != nil { // what SIGHUP does
			t.Fatal(err)
		}
		if accepts(t, s.ClientURL(), read(t, file)) {
			t.Errorf("%s accepts the revoked credential after the reload", s.Name())
		}
		if !accepts(t, s.ClientURL(), read(t, good)) {
			t.Errorf("%s refuses another agent's credential after the reload", s.Name())
		}
	}
	natstest.Eventually(t, 10*time.Second, "the end of the revoked connection", func() bool { return !nc.IsConnected() })
	if err := stays.Flush(); err != nil || stays.Stats().Reconnects != 0 {
		t.Errorf("another agent's connection: %v, %d reconnects", err, stays.Stats().Reconnects)
	}
}

// decode reads a credential file.
func decode(t *testing.T, creds []byte) (*jwt.UserClaims, []byte) {
	t.Helper()
	token, err := nkeys.ParseDecoratedJWT(creds)
	if err != nil {
		t.Fatal(err)
	}
	kp, err := nkeys.ParseDecoratedUserNKey(creds)
	if err != nil {
		t.Fatal(err)
	}
	seed, err := kp.Seed()
	if err != nil {
		t.Fatal(err)
	}
	c, err := jwt.DecodeUserClaims(token)
	if err != nil {
		t.Fatal(err)
	}
	return c, seed
}

// nats-server drops the answers that agents wait for if it gets new claims of the account of the streams.
func TestAnAnswerArrivesWhileOtherAgentsCredentialsChange(t *testing.T) {
	data := t.TempDir()
	s := startServer(t, data)
	a, svc := agentCreds(t, s, "acme", "bot", beliefs.OriginTool), roleUser(t, s, natsserver.RoleService)
	requests, err := svc.SubscribeSync("lz.svc.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := svc.Flush(); err != nil {
		t.Fatal(err)
	}
	answers, err := a.SubscribeSync("_INBOX.acme.bot.x")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.PublishRequest("lz.svc.decide.acme.bot", "_INBOX.acme.bot.x", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	m, err := requests.NextMsg(10 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	install(t, s.Minter(), bot("bad", time.Hour))
	bad := hold(t, s.URL(), natsserver.CredsFile(data, "acme.bad"), "_INBOX.acme.bad")
	if _, err := s.Minter().Revoke("acme.bad", false); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, 10*time.Second, "the end of the revoked connection", func() bool {
		return !bad.IsConnected()
	})
	if err := svc.Publish(m.Reply, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if _, err := answers.NextMsg(10 * time.Second); err != nil {
		t.Error("the answer:", err)
	}
}

// The server renews the credential of an agent into the agents' account, for the same key. A copy of the earlier
// credential is still valid, so the credential does not count as one of the agents' account, and a revocation must
// reach the copy.
func TestARenewedCredentialIsRevokedInBothAccounts(t *testing.T) {
	data := t.TempDir()
	s := startServer(t, data)
	file := filepath.Join(natsserver.KeysDir(data), "agents.pub")
	key := read(t, file)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	older, err := natsserver.OpenMinter(data)
	if err != nil {
		t.Fatal(err)
	}
	install(t, older, bot("b", time.Hour))
	if err := os.WriteFile(file, key, 0o600); err != nil {
		t.Fatal(err)
	}
	old := read(t, natsserver.CredsFile(data, "acme.b"))
	if err := s.Minter().Install(bot("b", time.Hour), "", true); err != nil {
		t.Fatal(err)
	}
	renewed := read(t, natsserver.CredsFile(data, "acme.b"))
	was, _ := decode(t, old)
	if now, _ := decode(t, renewed); now.Subject != was.Subject || now.IssuerAccount == was.IssuerAccount {
		t.Fatalf("renewed from %+v to %+v", was, now)
	}
	inside := func() bool {
		t.Helper()
		cs, err := natsserver.Credentials(data)
		if err != nil {
			t.Fatal(err)
		}
		in, err := cs[len(cs)-1].InAgentsAccount(data)
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	if inside() {
		t.Error("the key of the renewed credential has no credential in the account of the streams")
	}
	if !accepts(t, s.URL(), old) || !accepts(t, s.URL(), renewed) {
		t.Fatal("refused before it was revoked")
	}
	if _, err := s.Minter().Rotate("acme.b", nil, false); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, 10*time.Second, "refusal", func() bool {
		return !accepts(t, s.URL(), old) && !accepts(t, s.URL(), renewed)
	})
	if !inside() {
		t.Error("after the rotation, the latest credential is not in the agents' account")
	}
}

// The earlier credential of a moved key is valid in the account of the streams. A restore must not forget this.
func TestAMergeKeepsThatACredentialWasMoved(t *testing.T) {
	const list = `{"credentials":[{"name":"acme.bot","agent":{"project":"acme","name":"bot","origins":["tool"]},` +
		`"user":"UABC","issued":"2026-11-0%dT00:00:00Z"%s}]}`
	for _, moved := range []bool{true, false} { // in the folder of keys, or in the data folder
		data, saved := t.TempDir(), t.TempDir()
		register := filepath.Join(natsserver.KeysDir(data), "credentials.json")
		if err := os.MkdirAll(filepath.Dir(register), 0o700); err != nil {
			t.Fatal(err)
		}
		texts := []string{fmt.Sprintf(list, 1, ""), fmt.Sprintf(list, 2, `,"moved":true`)}
		if !moved {
			slices.Reverse(texts)
		}
		for i, f := range []string{register, filepath.Join(saved, "credentials.json")} {
			if err := os.WriteFile(f, []byte(texts[i]), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := natsserver.MergeRegister(data, saved); err != nil {
			t.Fatal(err)
		}
		cs, err := natsserver.Credentials(data)
		if err != nil || len(cs) != 1 || !cs[0].Moved {
			t.Errorf("moved in the saved folder %t: %+v, %v", moved, cs, err)
		}
	}
}
