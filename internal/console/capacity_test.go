package console

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"lazaret/streams"
)

// fill gives an index 1,000 open holds, each with so many alerts, as entries of the ledger.
func fill(t *testing.T, x *index, each int) {
	t.Helper()
	var at uint64
	stamp := time.Now().Add(-time.Hour)
	var batch []streams.Entry
	entry := func(stage string, typ streams.Type, project string, src uint64, body any) uint64 {
		b, err := streams.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		at++
		batch = append(batch, streams.Entry{Seq: at, Time: stamp.Add(time.Duration(at) * time.Millisecond), Stage: stage,
			Type: typ, Project: project, Src: src, Body: b})
		return at
	}
	for i := range 1000 {
		project, session := fmt.Sprintf("p%d", i%20), fmt.Sprintf("s%d", i%400)
		id := fmt.Sprintf("a%d", i)
		act := &streams.ActionEntry{EntryHead: streams.EntryHead{ID: id, Agent: "bot", Session: session}}
		act.Tool = fmt.Sprintf("tool%d", i%50)
		src := entry(streams.StageIngest, streams.TypeAction, project, 0, act)
		alerts := &streams.AssessmentEntry{Group: "core"}
		for j := range each {
			alerts.Alerts = append(alerts.Alerts, streams.Alert{ID: fmt.Sprintf("x%d-%d", i, j),
				Rule: fmt.Sprintf("rule-%d", j%20), Severity: severities[j%5], Project: project,
				Agent: "bot", Session: session, Subject: streams.AlertSubject{Kind: "action", ID: id},
				Message: "it names eve@evil.example, which only o1 had named", Effect: "hold", Mode: "enforce", Count: 1})
		}
		entry(streams.SentinelStage("core"), streams.TypeAssessment, project, src, alerts)
		entry(streams.StageArbiter, streams.TypeVerdict, project, src, &streams.VerdictEntry{Proposal: src,
			Type: streams.TypeAction, ID: id, Agent: "bot", Session: session, Tool: act.Tool,
			Summary: `{"to":"eve@evil.example"}`, Verdict: streams.Hold, Level: "L4", Time: stamp,
			Hold: &streams.HoldRef{ID: "h" + id, Revision: "r", Expires: stamp.Add(24 * time.Hour)},
			Reasons: []streams.Reason{{Code: streams.CodeRule, Verdict: streams.Hold, Group: "core",
				Rule: fmt.Sprintf("rule-%d", i%20), Text: "it names what only o1 had named"}}})
		if len(batch) > 200 {
			if err := x.Take(batch, true); err != nil {
				t.Fatal(err)
			}
			batch = nil
		}
	}
	if err := x.Take(batch, false); err != nil {
		t.Fatal(err)
	}
	x.ready = true
}

func TestPagesAnswerIn200MillisecondsWith100000AlertsAnd1000OpenHolds(t *testing.T) {
	c := &Console{cfg: shared.c.cfg, port: shared.c.port, origins: shared.c.origins, js: shared.c.js, index: newIndex(),
		logins: newLogins(), feeds: shared.c.feeds, ctx: shared.c.ctx}
	c.begin.Do(func() {}) // the ledger is not followed: its entries are made here
	each := 100
	if testing.Short() {
		each = 10
	}
	fill(t, c.index, each)
	if n := len(c.index.alerts); n != 1000*each {
		t.Fatalf("%d alerts", n)
	}
	if n := len(c.index.openHolds(viewer.May)); n != 1000 {
		t.Fatalf("%d open holds", n)
	}
	for i := range 200 {
		s := silenceRow{ID: fmt.Sprintf("q%d", i), Project: fmt.Sprintf("p%d", i%20)}
		s.Rule, s.Agent, s.Owner, s.Reason, s.By = "rule-1", fmt.Sprintf("bot%d", i), "o", "r", "b"
		s.Expires = time.Now().Add(time.Hour)
		c.index.silences[[2]string{s.Project, s.ID}] = s
	}
	cookie := c.cookie(c.logins.begin(&viewer), 100)
	h := c.guard(c.routes())
	for _, path := range []string{"/", "/holds", "/holds?q=tool7", "/alerts", "/alerts?severity=high&since=7d",
		"/alerts?where=severity+%3D%3D+%22high%22+%26%26+rule+contains+%22rule-1%22",
		"/alerts?rule=rule-3&tool=tool7", "/sessions", "/sessions?q=s39", "/beliefs", "/rules", "/rules?q=egress&sort=caught",
		"/rules/action-from-instruction", "/log", "/alerts?rule=rule-3&tool=tool7&silenced=show", "/sessions/p3/s3", "/tools",
		"/passkeys", "/help"} {
		best := time.Hour
		for range 8 { // the machine may be busy with others' work
			r := httptest.NewRequestWithContext(t.Context(), "GET", c.URL()+path, nil)
			r.AddCookie(cookie)
			w := httptest.NewRecorder()
			began := time.Now()
			h.ServeHTTP(w, r)
			if w.Code != 200 {
				t.Fatalf("%s: %d %s", path, w.Code, w.Body)
			}
			best = min(best, time.Since(began))
		}
		t.Logf("%v %s", best.Round(time.Millisecond/10), path)
		if best > 200*time.Millisecond*slower {
			t.Errorf("%s takes %v", path, best)
		}
	}
}

func TestTheIndexIsBoundedAndLosesNoOpenHold(t *testing.T) {
	x := newIndex()
	fill(t, x, 1)
	for len(x.alerts) <= maxAlerts+maxAlerts/10 {
		x.alerts = append(x.alerts, x.alerts...)
	}
	x.prune()
	if n := len(x.alerts); n != maxAlerts {
		t.Errorf("%d alerts", n)
	}
	for _, h := range x.openHolds(viewer.May)[:10] {
		x.close(x.holds[[2]string{h.Project, h.ID}], streams.HoldExpired, "", h.Expires)
	}
	for len(x.closed) <= maxClosed {
		x.closed = append(x.closed, x.closed...)
	}
	x.prune()
	if n := len(x.openHolds(viewer.May)); n != 990 || len(x.closed) != maxClosed {
		t.Errorf("%d open holds, %d settled ones", n, len(x.closed))
	}
}
