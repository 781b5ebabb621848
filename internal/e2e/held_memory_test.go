package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/embedded"
	"lazaret/internal/memgate"
	"lazaret/internal/memproxy"
	"lazaret/internal/natstest"
	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/keys"
	"lazaret/pkg/rules"
	shipped "lazaret/rules"
	"lazaret/streams"
)

const heldMemory = "When you book a hotel room, use card 4111 1111 1111 1111"

// A memory is held because it has a card number. Recalls must serve it in two cases: after a person has approved the
// hold, or after a person has confirmed the belief in a statement that names the finding. In all other cases (before,
// after a rejection, after a confirmation that does not name the finding), recalls must serve only the other memories.
func TestAHeldMemoryThatAPersonAcceptedIsServed(t *testing.T) {
	long(t)
	t.Parallel()
	for name, accept := range map[string]func(p *approving, v *streams.VerdictEntry, alice note.Signer){
		"approved": func(p *approving, v *streams.VerdictEntry, alice note.Signer) {
			if r := p.resolve(v.Hold.ID, signed(t, statementOn(v), alice)); r.State != streams.HoldApproved {
				t.Fatalf("%+v", r)
			}
		},
		"confirmed": func(p *approving, v *streams.VerdictEntry, alice note.Signer) {
			if r := p.say(v.Belief.ID, approval.Confirm, alice); r.Error != nil {
				t.Fatalf("%+v", r)
			}
		},
		"confirmed with what was found": func(p *approving, v *streams.VerdictEntry, alice note.Signer) {
			found := p.findings(v.Belief.ID)
			if r := p.say(v.Belief.ID, approval.Confirm, alice, found...); r.Error != nil || len(found) == 0 {
				t.Fatalf("%q: %+v", found, r)
			}
			if found = p.findings(v.Belief.ID); len(found) > 0 {
				t.Errorf("not cleared: %q", found)
			}
		},
		"rejected": func(p *approving, v *streams.VerdictEntry, alice note.Signer) {
			s := statementOn(v)
			s.Decision = approval.Reject
			if r := p.resolve(v.Hold.ID, signed(t, s, alice)); r.State != streams.HoldRejected {
				t.Fatalf("%+v", r)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newApproving(t, embedded.Config{})
			alice := p.key("alice", "", keys.RoleApprover)
			p.activateTrust()
			floor := p.remember("user", "m0", "My hotel room should be on a high floor")
			rep, err := p.c.Remember(p.ctx, beliefs.OriginUser, &streams.Memory{
				Head: streams.Head{ID: "m1", Session: "s"}, Key: "pay", Content: heldMemory})
			if err != nil || rep.Entry == nil || rep.Entry.Hold == nil {
				t.Fatalf("%+v, %v", rep, err)
			}
			pay := rep.Entry.Belief.ID
			got, items := p.recall("r0", "hotel room")
			if got.Verdict != streams.Allow || len(items) != 1 || items[floor].ID != floor {
				t.Errorf("while it is held, a recall is answered %s with %v", got.Verdict, items)
			}
			accept(p, rep.Entry, alice)
			got, items = p.recall("r1", "hotel room")
			want := 1
			if name == "approved" || name == "confirmed with what was found" {
				want = 2
			}
			if got.Verdict != streams.Allow || len(items) != want || items[floor].ID != floor ||
				(items[pay].ID == pay) != (want == 2) {
				t.Fatalf("a recall is answered %s with %v: %+v", got.Verdict, items, got.Entry)
			}
			ground := slices.ContainsFunc(got.Entry.Reasons, func(r streams.Reason) bool {
				return r.Verdict == streams.Allow && strings.Contains(r.Text, "cleared by alice") &&
					strings.HasSuffix(r.Rule, "sensitive-in-memory")
			})
			if ground != (want == 2) {
				t.Errorf("the reasons are %+v", got.Entry.Reasons)
			}
			if want == 2 {
				p.judgeAgain(pay, "sensitive-in-memory")
				if got, items = p.recall("r2", "hotel room"); got.Verdict != streams.Allow || items[pay].ID != pay {
					t.Errorf("after it was judged again, a recall is answered %s with %v: %+v", got.Verdict, items, got.Entry)
				}
			}
		})
	}
}

// A rule whose subject is the belief, and not the memory write, has a finding before the first verdict on the memory.
// Recalls must serve the memory once a person has approved it.
func TestARuleOnTheBeliefHoldsAMemoryUntilAPersonApprovesIt(t *testing.T) {
	long(t)
	t.Parallel()
	p := newApproving(t, embedded.Config{})
	alice := p.key("alice", "", keys.RoleApprover)
	p.activateTrust()
	dir := t.TempDir()
	mine := filepath.Join(dir, "mine")
	if err := errors.Join(os.CopyFS(dir, shipped.FS()), os.Mkdir(mine, 0o755),
		os.WriteFile(filepath.Join(mine, "pack.yaml"), []byte("name: mine\nversion: 1.0.0\ntitle: Ours\n"), 0o644),
		os.WriteFile(filepath.Join(mine, "rules.yaml"), []byte(`rules:
  - {id: parking, title: Parking, description: Parking., severity: low, on: [memory],
     when: memory.content.contains('parking'), effect: hold, subject: belief, message: "'it is about parking'"}
`), 0o644)); err != nil {
		t.Fatal(err)
	}
	b, err := rules.Pack(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	p.activate(streams.DoActivateRules, b)
	remember := func(id, text string) *streams.VerdictEntry {
		rep, err := p.c.Remember(p.ctx, beliefs.OriginUser, &streams.Memory{Head: streams.Head{ID: id, Session: "s"}, Key: id,
			Content: text})
		if err != nil || rep.Entry == nil {
			t.Fatalf("%+v, %v", rep, err)
		}
		return rep.Entry
	}
	n, v := 0, (*streams.VerdictEntry)(nil)
	natstest.Eventually(t, time.Minute, "the rules are in force", func() bool {
		n++
		v = remember(fmt.Sprint("m", n), fmt.Sprintf("Hotel %d has a parking lot", n))
		return v.Hold != nil
	})
	if a := p.belief(v.Belief.ID).Axes; a.Retrieval != beliefs.Restricted || a.Security != beliefs.Suspicious {
		t.Errorf("a held memory: %+v", a)
	}
	if r := p.resolve(v.Hold.ID, signed(t, statementOn(v), alice)); r.State != streams.HoldApproved {
		t.Fatalf("%+v", r)
	}
	if got, items := p.recall("r1", v.Belief.ID+" hotel parking lot"); items[v.Belief.ID].ID == "" {
		t.Errorf("after the approval: %+v, %v", got.Entry, items)
	}
}

// judgeAgain activates the shipped rules with another title of a pack, so that all beliefs are judged again. Then it
// waits until a rule has reported the belief again.
func (p *approving) judgeAgain(belief, rule string) {
	p.t.Helper()
	dir := p.t.TempDir()
	if err := os.CopyFS(dir, shipped.FS()); err != nil {
		p.t.Fatal(err)
	}
	edit(p.t, filepath.Join(dir, "provenance", "pack.yaml"), "title: Origins of actions and decisions", "title: Origins")
	b, err := rules.Pack(os.DirFS(dir))
	if err != nil {
		p.t.Fatal(err)
	}
	p.activate(streams.DoActivateRules, b)
	natstest.Eventually(p.t, 2*time.Minute, "the belief is judged again", func() bool {
		for _, e := range p.entries(streams.TypeAlerts) {
			var a streams.AlertsEntry
			if err := streams.Unmarshal(e.Body, &a); err != nil {
				p.t.Fatal(err)
			}
			if slices.ContainsFunc(a.Alerts, func(x streams.Alert) bool { return x.Rule == rule && x.Subject.ID == belief }) {
				return true
			}
		}
		return false
	})
}

// A memory write through the proxy is held. The agent must get the memory from the proxy once a person has approved the
// write.
func TestAMemoryProxyServesAnApprovedWrite(t *testing.T) {
	t.Parallel()
	p := newApproving(t, embedded.Config{})
	alice := p.key("alice", "", keys.RoleApprover)
	p.activateTrust()
	record := `{"id":"u1","memory":"` + heldMemory + `"`
	wrote := 0
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/memories" && r.Method == http.MethodPost:
			wrote++
			io.WriteString(w, `{"results":[`+record+`,"event":"ADD"}]}`)
		case r.URL.Path == "/search":
			io.WriteString(w, `{"results":[`+record+`,"score":0.9}]}`)
		default:
			io.WriteString(w, record+"}")
		}
	}))
	defer up.Close()
	u, err := url.Parse(up.URL)
	if err != nil {
		t.Fatal(err)
	}
	h, err := memproxy.New(memproxy.Config{Kind: "mem0", Upstream: u, Judge: p.c, Origin: beliefs.OriginUser,
		Held: memgate.Held(t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	send := func(path, body string) (int, string) {
		req := httptest.NewRequest("POST", "http://localhost"+path, strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		return w.Code, w.Body.String()
	}
	write := `{"messages":[{"role":"user","content":"` + heldMemory + `"}],"infer":false,"user_id":"ana"}`
	if code, body := send("/memories", write); code != http.StatusForbidden || wrote != 0 {
		t.Fatalf("the write: %d %s", code, body)
	}
	held := new(streams.VerdictEntry)
	for _, e := range p.entries(streams.TypeVerdict) {
		if err := streams.Unmarshal(e.Body, held); err != nil {
			t.Fatal(err)
		}
	}
	if held.Hold == nil {
		t.Fatalf("%+v", held)
	}
	if r := p.resolve(held.Hold.ID, signed(t, statementOn(held), alice)); r.State != streams.HoldApproved {
		t.Fatalf("%+v", r)
	}
	if code, body := send("/memories", write); code != http.StatusOK || wrote != 1 ||
		!strings.Contains(body, "book a hotel room") {
		t.Errorf("the write after the approval: %d %s, %d writes", code, body, wrote)
	}
	if code, body := send("/search", `{"query":"hotel","user_id":"ana"}`); code != http.StatusOK ||
		!strings.Contains(body, "book a hotel room") {
		t.Errorf("the search: %d %s", code, body)
	}
}
