package console

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// fails opens a page that reports an error, and makes the usual checks of a page. The browser logs the status of the
// document as an error. It must log this once, and nothing else.
func (b *browser) fails(t *testing.T, name string, status int, title string, open func()) {
	t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(t, scheme)
		b.mu.Lock()
		b.complain = nil
		b.mu.Unlock()
		open()
		await(t, name, func() bool {
			ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
			defer cancel()
			h, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.querySelector("h1")?.textContent || ""`))
			return err == nil && h == title // an error: between two pages
		})
		if got := eval[int](t, b, `performance.getEntriesByType("navigation")[0].responseStatus`); got != status {
			t.Errorf("%s: status %d", name, got)
		}
		if bad := b.axe(t); bad != "" {
			t.Errorf("%s, %s: %s", name, scheme, bad)
		}
		here := eval[string](t, b, `location.href`)
		b.mu.Lock()
		for _, s := range b.complain {
			if !strings.Contains(s, fmt.Sprintf("responded with a status of %d", status)) || !strings.HasSuffix(s, " "+here) {
				t.Errorf("%s: the browser complains: %s", name, s)
			}
		}
		b.mu.Unlock()
	}
}

func TestSignInAndErrorPagesAreAccessibleAndAskNobodyElse(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make ci runs it")
	}
	project, hold := attack(t)
	b := newBrowser(t)
	at := func(path string) func() { return func() { b.open(t, path) } }
	b.fails(t, "no session", 401, "Sign in", at("/"))
	b.fails(t, "sign-in", 401, "Sign in", at("/login"))
	b.fails(t, "a link that was used", 401, "This link cannot be used to sign in", at("/login?code=used"))
	b.fails(t, "404 without a session", 404, "Not found", at("/nope"))
	code := link(t, viewer)
	abroad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/" {
			fmt.Fprintf(w, `<link rel="icon" href="data:,"><a href=%q>a link</a><form method="post" action=%q><button>post</button></form>`,
				code, shared.c.URL()+"/silences")
		}
	}))
	defer abroad.Close()
	press := func(what string) func() {
		return func() {
			b.run(t, chromedp.Navigate(abroad.URL), chromedp.WaitReady(chromedp.CSS(what)))
			eval[bool](t, b, `document.querySelector("`+what+`").click(), true`)
		}
	}
	b.fails(t, "a link on another site", 200, "Sign in as "+viewer.Name+"?", press("a"))
	b.fails(t, "403 of another site", 403, "Forbidden", press("button"))

	b.open(t, code)
	b.fails(t, "404", 404, "Not found", at("/nope"))
	b.fails(t, "404 of a hold", 404, "Not found", at("/holds/"+project+"/nope"))
	b.fails(t, "400", 400, "Invalid request", at("/alerts?where=nonsense"))
	b.fails(t, "403 of a viewer", 403, "Forbidden", func() {
		b.open(t, "/help")
		eval[bool](t, b, `(() => { const f = document.createElement("form"); f.method = "post"; f.action = "/silences";
			document.body.append(f); f.submit(); return true; })()`)
	})
	// The session ends while a page is open. The page must go to the login page without a click.
	b.open(t, "/holds")
	b.run(t, chromedp.WaitReady(chromedp.CSS("#hold-"+hold)))
	b.fails(t, "an expired session", 401, "Sign in", func() {
		shared.c.logins.mu.Lock()
		for _, s := range shared.c.logins.by {
			if s.user.Name == viewer.Name {
				s.saw = time.Now().Add(-SessionIdle)
			}
		}
		shared.c.logins.mu.Unlock()
		b.run(t, chromedp.WaitNotPresent(chromedp.CSS("#live")))
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, u := range b.foreign {
		if !strings.HasPrefix(u, abroad.URL) {
			t.Errorf("a request to others: %s", u)
		}
	}
}
