package gateway

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"lazaret/internal/natsfiles"
	"lazaret/internal/natsserver"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// decideAt asks a gateway about a read, and returns the status and the problem.
func decideAt(t *testing.T, g *Gateway, secret string) (int, *Problem) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", g.URL()+"/v1/decide",
		strings.NewReader(`{"tool":"read_file"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+secret)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	prob := new(Problem)
	if res.StatusCode != http.StatusOK {
		b, err := io.ReadAll(res.Body)
		if err := errors.Join(err, streams.Unmarshal(b, prob)); err != nil {
			t.Fatal(err)
		}
	}
	return res.StatusCode, prob
}

// If the server refuses a credential, a gateway in the server's process and a gateway apart must give the same answer:
// 401 with the code for a refused credential. They must not report an outage, after which a client would ask again.
func TestAGatewaySaysThatTheServerRefusesACredential(t *testing.T) {
	p := newPipe(t)
	apart, err := Start(Config{Data: p.data, Listen: "127.0.0.1:0", Dial: p.dial})
	if err != nil {
		t.Fatal(err)
	}
	defer apart.Close()
	gateways := map[string]*Gateway{"in the process": p.Gateway, "apart": apart}
	// refused waits until each gateway has tried to connect again and gives this answer.
	refused := func(credential, secret string) {
		t.Helper()
		for where, g := range gateways {
			d, since := g.login(credential), time.Now()
			again := func() bool { d.mu.Lock(); defer d.mu.Unlock(); return d.tried.After(since) }
			eventually(t, credential+", "+where+": LZ209", func() bool {
				code, prob := decideAt(t, g, secret)
				return code == http.StatusUnauthorized && prob.Code == streams.CodeCredential &&
					strings.Contains(prob.Detail, "was revoked or has expired") && again()
			})
		}
	}
	grant := func(name string, lasts time.Duration) string {
		t.Helper()
		g := natsserver.Grant{Name: "refused." + name, Agent: &natsserver.Agent{Project: "refused", Name: name,
			Origins: beliefs.Origins()}, Lasts: lasts}
		if err := p.Server.Minter().Install(g, p.Server.URL(), false); err != nil {
			t.Fatal(err)
		}
		return p.token(t, g.Name)
	}

	expired := grant("expired", 3*time.Second) // a JWT has whole seconds
	for where, g := range gateways {
		if code, prob := decideAt(t, g, expired); code != http.StatusOK {
			t.Fatalf("%s: before it expires: %d %+v", where, code, prob)
		}
	}
	refused("refused.expired", expired)
	// The token of an expired credential works again once the credential is replaced.
	hour := time.Hour
	if _, err := p.Server.Minter().Rotate("refused.expired", &hour, false); err != nil {
		t.Fatal(err)
	}
	for where, g := range gateways {
		eventually(t, "after a rotation, "+where, func() bool { code, _ := decideAt(t, g, expired); return code == 200 })
	}

	grant("revoked", time.Hour)
	user, _, err := natsfiles.User(natsfiles.Creds(p.data, "refused.revoked"))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := p.Server.Minter().Revoke(user, false); err != nil || r.Credentials != 1 || r.Tokens != 1 ||
		r.Name != "refused.revoked" {
		t.Fatalf("%+v, %v", r, err)
	}
	// The credential was revoked, and this data folder still has a token for it, as if the revocation was made in
	// another data folder.
	refused("refused.revoked", p.token(t, "refused.revoked"))
}

// A credential file is missing. The answer must name the credential but no path on the gateway's machine. The log has
// the path.
func TestAMissingCredentialNamesNoPath(t *testing.T) {
	p := newPipe(t)
	project, secret := p.agent(t, beliefs.Origins())
	if err := os.Remove(natsfiles.Creds(p.data, project+".bot")); err != nil {
		t.Fatal(err)
	}
	code, prob := decideAt(t, p.Gateway, secret)
	if code != http.StatusUnauthorized || prob.Code != streams.CodeToken || strings.Contains(prob.Detail, p.data) ||
		!strings.Contains(prob.Detail, project+".bot is missing") {
		t.Errorf("%d %+v", code, prob)
	}
}
