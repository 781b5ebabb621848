package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"lazaret/pkg/beliefs"
)

func TestASilenceHidesAlertsUntilItEndsAndChangesNoVerdict(t *testing.T) {
	long(t)
	project, hold := attackAs(t, "silent")
	b := newBrowser(t)
	b.open(t, link(t, User{Name: "silvia", Role: RoleApprover, Ceiling: beliefs.Secret}))
	group := "/alerts?rule=read-command-score&tool=GoogleCalendarReadEvents&project=" + project
	b.open(t, group)
	b.run(t, chromedp.WaitReady(chromedp.CSS("#silence form")))
	eval[bool](t, b, `document.querySelector("#silence").open = true`)
	if bad := b.axe(t); bad != "" {
		t.Error(bad)
	}
	eval[bool](t, b, `(() => { const f = document.querySelector("#silence form");
		f.elements.reason.value = "the calendar of the demo"; f.requestSubmit(); return true; })()`)
	b.run(t, chromedp.WaitReady(chromedp.CSS("#silences form")))
	text := eval[string](t, b, `document.querySelector("main").innerText`)
	for _, want := range []string{"read-command-score", "silvia", "the calendar of the demo", "not shown"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q: %q", want, text)
		}
	}
	if bad := b.axe(t); bad != "" {
		t.Error(bad)
	}
	c := visitor(t, viewer)
	if _, body := get(t, c, group); strings.Contains(body, "reads like an order") {
		t.Error("a silenced alert is listed")
	}
	if _, body := get(t, c, group+"&silenced=show"); !strings.Contains(body, "reads like an order") {
		t.Error("a silenced alert cannot be seen")
	}
	// While the alerts are silenced, the same attack must still be held.
	if h, err := shared.c.findHold(t.Context(), project, hold); err != nil || h.State != "open" {
		t.Errorf("the hold is %+v, %v", h, err)
	}
	eval[bool](t, b, `document.querySelector("#silences form").requestSubmit(), true`)
	await(t, "the end of the silence", func() bool {
		_, body := get(t, c, group)
		return strings.Contains(body, "reads like an order")
	})
	b.run(t, chromedp.WaitNotPresent(chromedp.CSS("#silences form")))
	// The form signs the user out.
	b.open(t, "/")
	eval[bool](t, b, `document.querySelector("form.who").requestSubmit(), true`)
	await(t, "the end of the session", func() bool {
		return eval[string](t, b, `document.querySelector("h1")?.textContent || ""`) == "Sign in"
	})
	post := func(u User, origin string, form url.Values) int {
		t.Helper()
		c := visitor(t, u)
		r, err := http.NewRequestWithContext(t.Context(), "POST", shared.c.URL()+"/silences", strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", origin)
		res, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	form := url.Values{"project": {project}, "rule": {"read-command-score"}, "for": {"1 hour"}, "owner": {"o"}, "reason": {"r"}}
	approver := User{Name: "anna", Role: RoleApprover}
	if code := post(viewer, shared.c.URL(), form); code != 403 {
		t.Errorf("of a viewer: %d", code)
	}
	if code := post(User{Name: "carl", Role: RoleApprover, Projects: []string{"elsewhere"}}, shared.c.URL(), form); code != 403 {
		t.Errorf("of a project that the user may not see: %d", code)
	}
	if code := post(approver, "https://evil.example", form); code != 403 {
		t.Errorf("of another site: %d", code)
	}
	form.Set("owner", "")
	if code := post(approver, shared.c.URL(), form); code != 400 {
		t.Errorf("without an owner: %d", code)
	}
}

func TestAWrongAlertDraftsAnExceptionWithATestThatPasses(t *testing.T) {
	long(t)
	project, _ := attackAs(t, "wrong")
	b := newBrowser(t)
	b.open(t, link(t, User{Name: "wanda", Role: RoleApprover, Ceiling: beliefs.Secret}))
	b.open(t, "/alerts?rule=read-command-score&tool=GoogleCalendarReadEvents&project="+project)
	eval[bool](t, b, `document.querySelector("td a[href^='/exceptions/draft']").click(), true`)
	b.run(t, chromedp.WaitReady(chromedp.CSS("#drafted")))
	if bad := b.axe(t); bad != "" {
		t.Error(bad)
	}
	text := eval[string](t, b, `document.querySelector("main").innerText`)
	if !strings.Contains(text, "The drafted test passes") || !strings.Contains(text, "owner: wanda") {
		t.Errorf("%s", text)
	}
	eval[bool](t, b, `document.querySelector("a[href^='/whatif/']").click(), true`)
	b.run(t, chromedp.WaitReady(chromedp.CSS("#judged")))
	if text := eval[string](t, b, `document.querySelector("#judged").innerText`); !strings.Contains(text, "other alert") {
		t.Errorf("%s", text)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.foreign)+len(b.complain) > 0 {
		t.Errorf("requests to others %v, complaints %v", b.foreign, b.complain)
	}
}
