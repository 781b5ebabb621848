package console

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"lazaret/streams"
)

func TestRulesAreCountedByWhatTheyAloneCaughtAndSmothered(t *testing.T) {
	x := newIndex()
	at := uint64(0)
	take := func(typ streams.Type, src uint64, body any) {
		t.Helper()
		b, err := streams.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		at++
		x.take(&streams.Entry{Seq: at, Stage: streams.StageArbiter, Type: typ, Project: "p", Src: src, Body: b})
	}
	rule := func(id string) streams.Reason {
		return streams.Reason{Code: streams.CodeRule, Verdict: streams.Hold, Rule: id, Group: "core"}
	}
	verdict := func(proposal uint64, v streams.Verdict, hold string, reasons ...streams.Reason) {
		t.Helper()
		e := &streams.VerdictEntry{Proposal: proposal, Verdict: v, Reasons: reasons}
		if hold != "" {
			e.Hold = &streams.HoldRef{ID: hold}
		}
		take(streams.TypeVerdict, proposal, e)
	}
	settle := func(proposal uint64, hold, state string) {
		t.Helper()
		v := streams.Allow
		if state == streams.HoldRejected {
			v = streams.Deny
		}
		take(streams.TypeVerdict, proposal, &streams.VerdictEntry{Proposal: proposal, Verdict: v,
			Resolved: &streams.Resolved{Hold: hold, State: state}})
	}
	floor := streams.Reason{Code: streams.CodeFloor, Verdict: streams.Hold}
	verdict(101, streams.Hold, "h1", rule("a"))
	settle(101, "h1", streams.HoldApproved) // only reason; smothered
	verdict(102, streams.Hold, "h2", rule("a"))
	settle(102, "h2", streams.HoldRejected) // only reason; caught
	verdict(103, streams.Deny, "", rule("a"), rule("a"))
	verdict(104, streams.Hold, "h4", rule("a"), rule("b")) // neither is the only reason
	settle(104, "h4", streams.HoldApproved)
	verdict(105, streams.Hold, "h5", rule("a"), floor) // held for other reasons anyway
	settle(105, "h5", streams.HoldApproved)
	verdict(106, streams.Hold, "h6", rule("a"))
	verdict(106, streams.Hold, "h6", rule("a"), rule("b")) // no longer the only reason
	verdict(107, streams.Hold, "h7", rule("a"))
	verdict(108, streams.Allow, "")
	n := x.ruleCounts(func(string) bool { return true })
	if a := n["a"]; a == nil || a.Held != 7 || a.Approved != 1 || a.Rejected != 1 || a.Denied != 1 || a.Others != 1 ||
		a.Caught() != 2 || a.Alone() != 4 {
		t.Errorf("%+v", a)
	}
	if b := n["b"]; b == nil || b.Held != 2 || b.Alone() != 0 {
		t.Errorf("%+v", b)
	}
	if n := x.ruleCounts(func(string) bool { return false }); len(n) != 0 {
		t.Errorf("of projects that may not be seen: %v", n)
	}
}

func TestRulesShowWhatTheyDidAndLeadToTheirAlerts(t *testing.T) {
	long(t)
	project, hold := attackAs(t, "rules")
	b := newBrowser(t)
	b.open(t, link(t, viewer))
	b.open(t, "/rules?q=action-from-instruction")
	b.run(t, chromedp.Click(chromedp.CSS(`a[href="/rules/action-from-instruction"]`)),
		chromedp.WaitVisible(chromedp.CSS("dl.figures")))
	if s := eval[string](t, b, `document.querySelector("main").innerText`); !strings.Contains(s, "Held by it") ||
		!strings.Contains(s, project) {
		t.Errorf("the rule's page says %q", s)
	}
	// In a comparison with the rule set without this rule, the action of the demo must not be held.
	b.open(t, "/backtest?with=without&rule=action-from-instruction&since=all&project="+project)
	s := eval[string](t, b, `document.querySelector("main").innerText`)
	if !strings.Contains(s, "GmailSendEmail") || !strings.Contains(s, "−action-from-instruction") {
		t.Errorf("the back-test says %q", s)
	}
	b.open(t, "/rules?sort=cost")
	if s := eval[string](t, b, `document.querySelector("main").innerText`); !strings.Contains(s, "Costs were measured on") {
		t.Errorf("costs are not shown: %q", s)
	}
	b.open(t, "/sessions/"+project+"/s1")
	b.run(t, chromedp.Click(chromedp.CSS(`a[href^="/whatif/"]`)), chromedp.WaitVisible(chromedp.CSS("select[name=with]")))
	b.open(t, "/whatif/"+project+"/s1?with=without&rule=action-from-instruction")
	if n := eval[int](t, b, `document.querySelectorAll("td a[href*='#e']").length`); n == 0 {
		t.Errorf("no event of hold %s is judged differently: %q", hold,
			eval[string](t, b, `document.querySelector("main").innerText`))
	}
	c := visitor(t, viewer)
	for path, want := range map[string]int{"/backtest?with=nonsense&project=" + project: 400, "/rules?sort=x": 400,
		"/backtest?with=without&rule=nope&project=" + project: 400, "/backtest?with=draft&draft=%3A&project=" + project: 400,
		"/rules/nope": 404, "/whatif/" + project + "/nope": 404} {
		if code, _ := outcome(t, c, path); code != want {
			t.Errorf("%s: %d", path, code)
		}
	}
	other := visitor(t, User{Name: "carl", Role: RoleViewer, Projects: []string{"elsewhere"}})
	for _, path := range []string{"/backtest?with=same&project=" + project, "/whatif/" + project + "/s1?with=same"} {
		if code, _ := get(t, other, path); code != 404 {
			t.Errorf("%s of a project that the user may not see: %d", path, code)
		}
	}
	if _, body := get(t, other, "/rules?q=action-from-instruction"); strings.Contains(body, `class="n">1<`) {
		t.Error("counts of a project that the user may not see are shown")
	}
}

func TestADraftedExceptionIsJudgedBesideThoseInForce(t *testing.T) {
	project, _ := attackAs(t, "draft")
	draft := "exceptions:\n- id: letters\n  rules: [action-from-instruction]\n  when: action.tool == \"GmailSendEmail\"\n" +
		"  owner: olga\n  reason: agreed\n  expires: \"2999-01-01\"\n"
	c := visitor(t, viewer)
	_, body := outcome(t, c, "/whatif/"+project+"/s1?with=draft&draft="+url.QueryEscape(draft))
	if !strings.Contains(body, "other alert") && !strings.Contains(body, "no longer held") {
		t.Errorf("%s", body)
	}
	r := httptest.NewRequest("GET", "/", nil)
	set, bundle, err := shared.c.rules(r.Context())
	if err != nil {
		t.Fatal(err)
	}
	s, err := withExceptions(bundle, draft)
	if err != nil || len(s.Exceptions) != len(set.Exceptions)+1 {
		t.Errorf("%v, %v", s, err)
	}
}
