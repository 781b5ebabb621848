package console

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"lazaret/internal/ingest"
	"lazaret/internal/query"
	"lazaret/streams"
)

// fill adds ledger entries with 1,000 open holds to an index. Each hold has the given number of alerts.
func fill(t *testing.T, x *index, each int) {
	t.Helper()
	at := x.Next()
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
	each, agents := 100, 50
	if testing.Short() {
		each, agents = 10, 3
	}
	project, hold := attackAs(t, "load")
	tools, list := offerTools(t, "loadtools", "load", "notes", tool("read_note", "Reads a note."),
		tool("delete_note", "Deletes one."))
	// The holds in the queue are real ones: the arbiter has them too, not only the index.
	queue := url.Values{}
	for i := range agents {
		name := fmt.Sprintf("load%d", i)
		for _, id := range heldLetters(t, name, 20) {
			if len(queue["hold"]) < maxQueue {
				queue.Add("hold", name+"/"+id)
			}
		}
	}
	x := shared.c.index
	c := &Console{cfg: shared.c.cfg, port: shared.c.port, origins: shared.c.origins, js: shared.c.js, index: newIndex(),
		logins: newLogins(), feeds: shared.c.feeds, ctx: shared.c.ctx, judging: make(chan struct{}, 1)}
	c.begin.Do(func() {}) // the console must not read the ledger, because the test adds the entries itself
	ctx, stop := context.WithCancel(t.Context())
	followed := make(chan error, 1)
	go func() { followed <- c.index.follow(ctx, shared.nc, slog.New(slog.DiscardHandler)) }()
	await(t, "the ledger in the index", func() bool { return c.index.Next() >= x.Next() })
	stop()
	<-followed
	fill(t, c.index, each)
	if n := len(c.index.alerts); n < 1000*each {
		t.Fatalf("%d alerts", n)
	}
	if n := len(c.index.openHolds(viewer.May)); n < 1000+20*agents {
		t.Fatalf("%d open holds", n)
	}
	for i := range 200 {
		s := silenceRow{ID: fmt.Sprintf("q%d", i), Project: fmt.Sprintf("p%d", i%20)}
		s.Rule, s.Agent, s.Owner, s.Reason, s.By = "rule-1", fmt.Sprintf("bot%d", i), "o", "r", "b"
		s.Expires = time.Now().Add(time.Hour)
		c.index.silences[[2]string{s.Project, s.ID}] = s
	}
	var belief, draft string
	var ans ingest.BeliefsAnswer
	if err := query.Ask(t.Context(), shared.nc, ingest.AskBeliefs, streams.PartitionOf(project),
		ingest.BeliefsRequest{Project: project}, &ans); err != nil || len(ans.Beliefs) == 0 {
		t.Fatalf("%d beliefs, %v", len(ans.Beliefs), err)
	}
	belief = "/beliefs/" + project + "/" + ans.Beliefs[0].ID
	c.index.eachAlert(func(p string) bool { return p == project }, func(a *alertRow) bool {
		draft = a.Wrong()
		return a.Rule != "read-command-score"
	})
	row, _ := c.index.findCatalogue(tools, streams.ReplayAgent, "notes")
	cookie := c.cookie(c.logins.begin(&viewer), 100)
	h := c.guard(c.routes())
	ask := func(path string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), "GET", c.URL()+path, nil)
		r.AddCookie(cookie)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 200 {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		return w
	}
	head, err := c.logHead(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/holds", "/holds?q=tool7", "/holds?state=settled", "/alerts",
		"/alerts?severity=high&since=7d",
		"/alerts?where=severity+%3D%3D+%22high%22+%26%26+rule+contains+%22rule-1%22",
		"/alerts?rule=rule-3&tool=tool7", "/sessions", "/sessions?q=s39", "/beliefs", "/rules", "/rules?q=egress&sort=caught",
		"/rules/action-from-instruction", "/log", "/alerts?rule=rule-3&tool=tool7&silenced=show", "/sessions/p3/s3", "/tools",
		"/passkeys", "/help", "/prompts", "/holds/" + project + "/" + hold, "/holds/" + tools + "/" + list,
		"/queue?" + queue.Encode(),
		draft, belief, belief + "/quarantine", fmt.Sprintf("/tools/%s/%d", tools, row.Latest().At),
		"/log?project=" + project + "&entry=replayed/e1", "/log?kept=" + url.QueryEscape(head.Checkpoint),
		"/log/proof?project=" + project + "&entry=replayed/e1", "/sessions/" + project + "/s1",
		"/whatif/" + project + "/s1", "/whatif/" + project + "/s1?with=without&rule=action-from-instruction", "/backtest",
		"/backtest?with=without&rule=action-from-instruction&since=all&project=" + project} {
		best := time.Hour
		for range 8 { // the machine may be busy
			began := time.Now()
			ask(path)
			best = min(best, time.Since(began))
		}
		t.Logf("%v %s", best.Round(time.Millisecond/10), streams.Clip(path, 90))
		if best > 200*time.Millisecond*slower {
			t.Errorf("%s takes %v", path, best)
		}
		await(t, "the outcome of "+path, func() bool { return !strings.Contains(ask(path).Body.String(), `id="running"`) })
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
