package console

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"lazaret/client"
	"lazaret/internal/embedded"
	"lazaret/internal/malformed"
	"lazaret/internal/natsfiles"
	"lazaret/internal/natsserver"
	"lazaret/streams"
)

// TestMalformedRequestsAndKilledClientsStopNothing sends 10,000 malformed requests to all paths of the console, most of
// them as a signed-in user. It also kills 100 clients during a request. Meanwhile another user must get pages, and a
// project must get its verdicts. In the end the open hold must be unchanged.
func TestMalformedRequestsAndKilledClientsStopNothing(t *testing.T) {
	project, hold := attackAs(t, "malformed")
	log := new(malformed.Log)
	own, err := shared.p.Server.Connect(natsserver.RoleOperator)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Start(Config{Data: shared.data, Listen: "127.0.0.1:0", Conn: own,
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.watch()
	signIn := func(name string) []*http.Cookie {
		code, err := NewLogin(shared.data, User{Name: name, Role: RoleApprover}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.LoginURL(code), nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if len(res.Cookies()) == 0 {
			t.Fatalf("signing in: %s", res.Status)
		}
		return res.Cookies()
	}
	file := natsfiles.Creds(shared.data, "agent")
	nc, err := nats.Connect(shared.p.Server.URL(), nats.UserCredentials(file),
		nats.CustomInboxPrefix(natsserver.AgentInbox(embedded.DefaultProject, embedded.DefaultAgent)))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	neighbour, err := client.New(nc, embedded.DefaultProject, embedded.DefaultAgent)
	if err != nil {
		t.Fatal(err)
	}
	mallory, reader := signIn("mallory"), signIn("reader")
	at := "/holds/" + url.PathEscape(project) + "/" + hold
	x := &malformed.Target{Addr: strings.TrimPrefix(c.URL(), "http://"), Seed: 31,
		Parts: map[string][]string{"project": {project}, "id": {hold}, "session": {"s", "s1"},
			"rule": {"secret-egress"}, "entry": {"1", "-1", "99999999999999999999"}},
		Bodies: []string{`project=demo&rule=%zz&for=1+hour`, `{"verb":"approve"}`, `{"approval":{}}`, `{"response":{"clientDataJSON":"AA=="}}`,
			`{"id":"x","rawId":"x","type":"public-key","response":{"attestationObject":"o2"}}`},
		Prepare: func(rnd *rand.Rand, r *http.Request) {
			if rnd.IntN(8) > 0 {
				r.AddCookie(mallory[0])
			}
			if rnd.IntN(2) == 0 {
				r.Header.Set("Origin", c.URL())
				r.Header.Set("Sec-Fetch-Site", "same-origin")
			}
			if r.URL.Path == "/logout" { // the user stays signed in
				r.Header.Del("Cookie")
			}
		},
		Check: func(r *http.Request, status int, _ string) error {
			if status >= 500 && (status != http.StatusServiceUnavailable || r.URL.Path != "/events") { // no free feed
				return fmt.Errorf("status %d", status)
			}
			return nil
		},
		Killed: func(i int) string {
			return malformed.Post(at, `{"verb":"reject","reason":"killed"}`, "Cookie", mallory[0].String(), "Origin", c.URL())
		},
		Meanwhile: func(int) error {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.URL()+at, nil)
			if err != nil {
				return err
			}
			req.AddCookie(reader[0])
			res, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				return err
			}
			res.Body.Close()
			if res.StatusCode != http.StatusOK {
				return fmt.Errorf("the hold's page: %s", res.Status)
			}
			rep, err := neighbour.Decide(t.Context(), &streams.Action{Head: streams.Head{Session: "s"}, Tool: "read_file"})
			if err != nil || rep.Verdict != streams.Allow {
				return fmt.Errorf("the verdict: %+v, %w", rep, err)
			}
			return nil
		},
	}
	x.Paths = []string{"/", "/static/{file}", "/login", "/logout", "/events", "/holds", "/holds/{project}/{id}", "/queue",
		"/alerts", "/exceptions/draft", "/silences", "/sessions", "/sessions/{project}/{session}",
		"/whatif/{project}/{session}", "/beliefs", "/beliefs/{project}/{id}", "/beliefs/{project}/{id}/quarantine", "/rules",
		"/rules/{rule}", "/backtest", "/tools", "/tools/{project}/{entry}", "/log", "/log/proof", "/passkeys", "/help"}
	x.Run(t, malformed.Requests(), 100)
	open := c.index.openHolds(func(p string) bool { return p == project })
	if len(open) != 1 || open[0].ID != hold {
		t.Errorf("after the requests the open holds are %+v", open)
	}
	log.NoPanic(t)
}
