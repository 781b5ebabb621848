package console

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"lazaret/examples"
	"lazaret/internal/embedded"
	"lazaret/internal/natsserver"
	"lazaret/internal/replay"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// shared is a pipeline with a console that all tests of this package use, because starting one takes seconds.
var shared struct {
	data string
	p    *embedded.Pipeline
	c    *Console
	nc   *nats.Conn
}

func TestMain(m *testing.M) {
	code := func() int {
		dir, err := os.MkdirTemp("", "console-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		p, err := embedded.Start(context.Background(), embedded.Config{Data: dir, Listen: "127.0.0.1:0", NoSync: true})
		if err != nil {
			panic(err)
		}
		defer p.Close()
		shared.data, shared.p = dir, p
		nc, err := p.Server.Connect(natsserver.RoleOperator)
		if err != nil {
			panic(err)
		}
		shared.nc = nc
		own, err := p.Server.Connect(natsserver.RoleOperator)
		if err != nil {
			panic(err)
		}
		shared.c, err = Start(Config{Data: dir, Listen: "127.0.0.1:0", Conn: own})
		if err != nil {
			panic(err)
		}
		defer shared.c.Close()
		return m.Run()
	}()
	os.Exit(code)
}

// attack plays the attack of the demo. It returns the project and the id of the hold that is open after it.
func attack(t *testing.T) (project, hold string) { return attackAs(t, "demo") }

func attackAs(t *testing.T, name string) (project, hold string) {
	t.Helper()
	return playAs(t, name, examples.PoisonedSession)
}

// playAs plays a recorded session in a project of the given name. It returns the project and the id of its hold.
func playAs(t *testing.T, name string, session []byte) (project, hold string) {
	t.Helper()
	nc, err := shared.p.Server.Connect(natsserver.RoleReplay)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	scripts, err := replay.Read(bytes.NewReader(session), name+".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for i := range scripts {
		scripts[i].Project = streams.SyntheticPrefix + name
	}
	if err := replay.Play(t.Context(), nc, scripts, replay.Options{}); err != nil {
		t.Fatal(err)
	}
	project = scripts[0].Project
	shared.c.watch()
	await(t, "the hold in the index", func() bool {
		for _, h := range shared.c.index.openHolds(func(p string) bool { return p == project }) {
			hold = h.ID
		}
		return hold != ""
	})
	return project, hold
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not seen within 30 s: %s", what)
		}
	}
}

// link returns a login link for a user.
func link(t *testing.T, u User) string {
	t.Helper()
	code, err := NewLogin(shared.data, u, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return shared.c.LoginURL(code)
}

// visitor returns an HTTP client that is signed in as a user and keeps its cookies.
func visitor(t *testing.T, u User) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Jar: jar}
	if code, body := get(t, c, link(t, u)); code != 200 {
		t.Fatalf("signing in: %d %s", code, body)
	}
	return c
}

// outcome requests a page again and again until the page's task is done. Then it returns the page.
func outcome(t *testing.T, c *http.Client, url string) (code int, body string) {
	t.Helper()
	await(t, "the outcome of "+url, func() bool {
		code, body = get(t, c, url)
		return !strings.Contains(body, `id="running"`)
	})
	return code, body
}

func get(t *testing.T, c *http.Client, url string) (int, string) {
	t.Helper()
	if strings.HasPrefix(url, "/") {
		url = shared.c.URL() + url
	}
	res, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

var viewer = User{Name: "vera", Role: RoleViewer, Ceiling: beliefs.Internal}

func TestThePagesTellTheDemosAttackWithoutScript(t *testing.T) {
	project, hold := attack(t)
	c := visitor(t, viewer)
	for _, x := range []struct{ path, want string }{
		{"/", "GmailSendEmail"},
		{"/holds", hold},
		{"/holds/" + project + "/" + hold, "amy.watson@gmail.com</strong>"}, // marked in the sentence
		{"/holds/" + project + "/" + hold, "Peanut: Severe"},                // of the arguments, which a list cuts
		{"/holds/" + project + "/" + hold, "GoogleCalendarReadEvents"},
		{"/alerts", "read-command-score"},
		{"/alerts?where=effect+%3D%3D+%22hold%22", "action-from-instruction"},
		{"/alerts?rule=read-command-score&tool=GoogleCalendarReadEvents", "reads like an order"},
		{"/sessions", project},
		{"/sessions/" + project + "/s1", "what it says"},
		{"/sessions/" + project + "/s1", "GmailSendEmail"},
		{"/beliefs?project=" + project, "unverified"},
		{"/log", "lazaret"},
	} {
		code, body := get(t, c, x.path)
		if code != 200 || !strings.Contains(body, x.want) {
			t.Errorf("%s: %d, no %q in it", x.path, code, x.want)
		}
	}
	if code, body := get(t, c, "/alerts?where=nonsense"); code != 400 || !strings.Contains(body, "unknown name") {
		t.Errorf("a search that cannot be read: %d", code)
	}
	await(t, "a proof of the first entry", func() bool {
		_, body := get(t, c, "/log?project="+project+"&entry=replayed/e1")
		return strings.Contains(body, "Proven.")
	})
}

// The index changes after a page was rendered and before the page connects to /events. The page must still be told of
// the change.
func TestAPageHearsOfAChangeThatCameBeforeItsConnection(t *testing.T) {
	attack(t)
	_, version, _ := shared.c.index.state()
	if version == 0 {
		t.Fatal("the index has no version")
	}
	res, err := visitor(t, viewer).Get(fmt.Sprintf("%s/events?since=%d", shared.c.URL(), version-1))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			if name != "change" {
				t.Errorf("the first event is %q", name)
			}
			return
		}
	}
	t.Error("the connection ended without an event")
}
