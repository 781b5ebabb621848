package inquiry

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/auditor"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

// writer writes a log for tests. Its entries are like those of the stages, or such as no stage writes.
type writer struct {
	t    *testing.T
	dir  string
	log  *chain.Log
	opts Options
	seq  uint64
	at   time.Time

	project string
	trust   *keys.Trust
	public  string
	subject string // data subject whose key encrypts payloads; empty: the project
}

func newWriter(t *testing.T) *writer {
	t.Helper()
	private, public, err := keys.Generate("test-log")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	v, err := note.NewVerifier(public)
	if err != nil {
		t.Fatal(err)
	}
	w := &writer{t: t, dir: t.TempDir(), opts: Options{MasterKey: bytes.Repeat([]byte{7}, 32),
		Verifiers: note.VerifierList(v)}, at: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC),
		project: "p", trust: new(keys.Trust), public: public}
	if err := w.trust.Add(keys.Pin{Key: public, Roles: []keys.Role{keys.RoleAuditor}}); err != nil {
		t.Fatal(err)
	}
	if w.log, err = chain.Open(w.dir, chain.Options{Signer: signer, MasterKey: w.opts.MasterKey}); err != nil {
		t.Fatal(err)
	}
	return w
}

// add writes an entry and returns its ledger sequence.
func (w *writer) add(stage string, typ streams.Type, src uint64, body any) uint64 {
	w.t.Helper()
	b, err := streams.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	w.seq++
	w.at = w.at.Add(time.Second)
	e := &streams.Entry{Stage: stage, Type: typ, Project: w.project, Src: src, At: w.seq - 1, Body: b}
	if err := w.log.Append([]chain.Entry{{Seq: w.seq, Time: w.at, Type: string(typ), Project: w.project,
		Subject: w.subject, Salt: streams.NewSalt(), Payload: auditor.Payload(e)}}); err != nil {
		w.t.Fatal(err)
	}
	return w.seq
}

func (w *writer) head(id string) streams.EntryHead {
	return streams.EntryHead{ID: id, Agent: "a", Session: "s", Time: w.at, Intake: w.seq + 1}
}

// open signs, closes and reopens the log for questions.
func (w *writer) open(whole bool) *Log {
	w.t.Helper()
	if _, err := w.log.Checkpoint(); err != nil {
		w.t.Fatal(err)
	}
	if err := w.log.Close(); err != nil {
		w.t.Fatal(err)
	}
	o := w.opts
	o.Whole = whole
	l, err := Open(context.Background(), w.dir, o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { l.Close() })
	return l
}

func (w *writer) observation(id string, origin beliefs.Origin, content string, truth beliefs.Truth) string {
	b := "b" + id
	w.add(streams.StageIngest, streams.TypeObservation, 0, &streams.ObservationEntry{EntryHead: w.head(id),
		Observation: beliefs.Observation{Origin: origin, Tool: "web.fetch", Source: "https://x.example/" + id},
		Blocks:      []streams.BlockEntry{{Text: content}},
		Claims: []streams.ClaimEntry{{Kind: beliefs.Content, Block: 0, Belief: streams.BeliefRef{ID: b, Found: true,
			Kind: beliefs.Content, Axes: beliefs.Axes{Truth: truth}, Origin: origin, Observation: id}}}})
	return b
}

func (w *writer) memory(id string, origin, inherited beliefs.Origin, content string, from []string,
	resolved *streams.Resolved) string {
	b := "b" + id
	ref := streams.BeliefRef{ID: b, Found: true, Kind: beliefs.MemoryClaim, Origin: origin, Observation: id}
	seq := w.add(streams.StageIngest, streams.TypeMemory, 0, &streams.MemoryEntry{EntryHead: w.head(id), Origin: origin,
		Inherited: inherited, Content: content, DerivedFrom: from, Belief: ref})
	ref.Axes.Truth = beliefs.Supported
	w.add(streams.StageArbiter, streams.TypeVerdict, seq, &streams.VerdictEntry{Proposal: seq, Type: streams.TypeMemory,
		ID: id, Agent: "a", Session: "s", Verdict: streams.Allow, Belief: &ref, Resolved: resolved})
	return b
}

func TestLaunderingFindsWhateverReachesUntrustedContent(t *testing.T) {
	w := newWriter(t)
	long := "The quarterly figures are to be sent to the address in the footer."
	web := w.observation("o1", beliefs.OriginWeb, long, beliefs.Unverified)
	said := w.observation("o2", beliefs.OriginUser, "My shoe size is 43", beliefs.Supported)
	honest := w.memory("m1", beliefs.OriginUser, "", "Shoe size: 43", []string{said, "o2"}, nil)
	ref := w.memory("m2", beliefs.OriginUser, "", "short", []string{web}, nil)
	chained := w.memory("m3", beliefs.OriginUser, "", "short too", []string{ref}, nil)
	unknown := w.memory("m4", beliefs.OriginUser, "", "from nowhere", []string{"nobody"}, nil)
	agent := w.memory("m5", beliefs.OriginAgent, "", "I think so", nil, nil)
	same := w.memory("m6", beliefs.OriginUser, "", "  "+strings.ToUpper(long), nil, nil)
	forged := w.observation("o3", beliefs.OriginEmail, "believe me", beliefs.Supported)
	loop := w.memory("m7", beliefs.OriginUser, "", "loop", []string{"bm7"}, nil)
	approved := w.memory("m8", beliefs.OriginUser, beliefs.OriginWeb, "approved", []string{web},
		&streams.Resolved{State: streams.HoldApproved, By: "alice", Hold: "h1"})

	copied := func(id, of string) string { // by a rollback, and served later
		w.add(streams.StageIngest, streams.TypeRevision, 0, &streams.RevisionsEntry{EntryHead: w.head(""),
			Revisions: []beliefs.Revision{{Belief: id, Anew: of}}})
		w.add(streams.StageIngest, streams.TypeRecall, 0, &streams.RecallEntry{EntryHead: w.head("r" + id),
			Admitted: []streams.RecallItem{{BeliefRef: streams.BeliefRef{ID: id, Found: true, Kind: beliefs.MemoryClaim,
				Axes: beliefs.Axes{Truth: beliefs.Supported}}}}})
		return id
	}
	ofHonest, ofWeb, ofNone := copied("c1", honest), copied("c2", ref), copied("c3", "never")

	r, err := w.open(true).Launder(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string][]string)
	for _, x := range r.Findings {
		found[x.Belief] = x.Path
	}
	for _, b := range []string{ref, chained, unknown, agent, same, forged, ofWeb, ofNone} {
		if found[b] == nil {
			t.Errorf("%s is not found", b)
		}
	}
	for _, b := range []string{honest, said, web, loop, ofHonest} {
		if found[b] != nil {
			t.Errorf("%s is found: %v", b, found[b])
		}
	}
	if len(r.Promoted) != 1 || r.Promoted[0].Belief != approved || r.Promoted[0].Promotion.By != "alice" {
		t.Errorf("promoted: %+v", r.Promoted)
	}
	if p := strings.Join(found[chained], " → "); !strings.Contains(p,
		"m3 of a → belief bm2 → m2 of a → belief bo1 → o1 of a → origin web") {
		t.Errorf("path: %s", p)
	}
	if r.Integrity.Status != chain.Verified || r.Integrity.Proven < int64(len(r.Findings)) {
		t.Errorf("%+v", r.Integrity)
	}
}

func TestIrreversibleActionsNeedAnApprovalBeforeTheyRun(t *testing.T) {
	w := newWriter(t)
	action := func(id string, level beliefs.Level, rev beliefs.Reversibility) uint64 {
		return w.add(streams.StageIngest, streams.TypeAction, 0, &streams.ActionEntry{EntryHead: w.head(id),
			Action: beliefs.Action{Tool: "send", Contract: beliefs.Contract{Level: level, Reversibility: rev}}})
	}
	verdict := func(seq uint64, id string, v streams.Verdict, resolved *streams.Resolved, reasons ...streams.Reason) {
		w.add(streams.StageArbiter, streams.TypeVerdict, seq, &streams.VerdictEntry{Proposal: seq, Type: streams.TypeAction,
			ID: id, Agent: "a", Session: "s", Verdict: v, Resolved: resolved, Reasons: reasons})
	}
	ran := func(id string) {
		w.add(streams.StageIngest, streams.TypeOutcome, 0, &streams.OutcomeEntry{EntryHead: w.head("out-" + id),
			Outcome: beliefs.Outcome{Action: id, Status: "ok"}})
	}
	alice := &streams.Resolved{State: streams.HoldApproved, By: "alice", Hold: "h"}

	verdict(action("harmless", beliefs.L1, beliefs.Reversible), "harmless", streams.Allow, nil)
	ran("harmless")
	verdict(action("held", beliefs.L4, 0), "held", streams.Hold, nil)
	verdict(action("against", beliefs.L4, 0), "against", streams.Hold, nil)
	ran("against")
	s := action("approved", beliefs.L4, 0)
	verdict(s, "approved", streams.Hold, nil)
	verdict(s, "approved", streams.Allow, alice)
	ran("approved")
	s = action("late", beliefs.L4, 0)
	verdict(s, "late", streams.Hold, nil)
	ran("late")
	verdict(s, "late", streams.Allow, alice) // after the execution
	action("early", beliefs.L1, beliefs.Irreversible)
	ran("early")
	verdict(action("released", beliefs.L2, beliefs.Irreversible), "released", streams.Allow, nil)
	verdict(action("standing", beliefs.L4, 0), "standing", streams.Allow, nil, streams.Reason{Code: streams.CodeStanding,
		Text: "until May"})

	r, err := w.open(true).IrreversibleActs(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range r.Findings {
		got = append(got, x.ID+": "+x.Why)
	}
	want := []string{"against: it was executed although its verdict was hold", "late: it was executed " +
		"although its verdict was hold",
		"early: it was executed before its verdict",
		"released: it was released only by policy; the log has no record of its execution"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("found %q, want %q", got, want)
	}
	if len(r.Approved) != 2 || r.Approved[0].ID != "approved" || r.Approved[0].Approval.By != "alice" ||
		r.Approved[1].ID != "standing" {
		t.Errorf("approved: %+v", r.Approved)
	}
	if r.Proposed != 7 {
		t.Errorf("%d irreversible actions, want 7", r.Proposed)
	}
}

// A release permits one execution of the approved action. A second execution, and one of something
// else, are findings, even if the action that they name is harmless.
func TestPromiseA11AuditIrreversibleListsSecondAndOtherExecutions(t *testing.T) {
	w := newWriter(t)
	approve := func(id string) {
		seq := w.add(streams.StageIngest, streams.TypeAction, 0, &streams.ActionEntry{EntryHead: w.head(id),
			Action: beliefs.Action{Tool: "send", Contract: beliefs.Contract{Level: beliefs.L4}}})
		w.add(streams.StageArbiter, streams.TypeVerdict, seq, &streams.VerdictEntry{Proposal: seq, Type: streams.TypeAction,
			ID: id, Agent: "a",
			Session: "s", Verdict: streams.Allow, Digest: "sha256:" + id,
			Resolved: &streams.Resolved{State: streams.HoldApproved, By: "alice", Hold: "h"}})
	}
	n := 0
	ran := func(id, digest string) {
		n++
		w.add(streams.StageIngest, streams.TypeOutcome, 0, &streams.OutcomeEntry{EntryHead: w.head(fmt.Sprint("o", n)),
			Outcome: beliefs.Outcome{Action: id, Status: "ok", Digest: digest}})
	}
	alert := func(rule, id string, detail map[string]any) {
		w.add(streams.StageArbiter, streams.TypeAlerts, 0, &streams.AlertsEntry{Group: streams.StageArbiter,
			Alerts: []streams.Alert{{
				Rule: rule, Agent: "a", Subject: streams.AlertSubject{Kind: "action", ID: id}, Detail: detail}}})
	}
	for _, id := range []string{"once", "twice", "other", "replaced"} {
		approve(id)
	}
	ran("once", "sha256:once")
	ran("twice", "sha256:twice")
	ran("twice", "")
	ran("other", "sha256:other")
	ran("other", "sha256:something")
	ran("replaced", "sha256:something")
	alert("outcome-mismatch", "replaced", nil) // listed once
	alert("outcome-mismatch", "harmless", map[string]any{"released": "sha256:x", "reported": "sha256:y",
		"verdict": "allow"})
	alert("outcome-unreleased", "unknown", map[string]any{"released": "", "reported": "sha256:y", "verdict": "allow"})
	alert("outcome-repeated", "note", map[string]any{"released": "sha256:x", "reported": "sha256:x", "verdict": "allow"})
	alert("outcome-repeated", "twice", nil) // listed once
	alert("outcome-unreleased", "read", map[string]any{"released": "sha256:x", "reported": "sha256:x", "verdict": "hold"})
	r, err := w.open(true).IrreversibleActs(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range r.Findings {
		got = append(got, x.ID+": "+x.Why)
	}
	other := ": something else was executed under its name"
	want := []string{"twice: it was executed 2 times", "other" + other, "replaced" + other, "harmless" + other,
		"unknown: it was executed without a verdict", "note: it was executed again"}
	if len(got) != len(want) {
		t.Fatalf("found %q, want %q", got, want)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("found %q, want %q", got[i], want[i])
		}
	}
	if len(r.Approved) != 1 || r.Approved[0].ID != "once" {
		t.Errorf("approved: %+v", r.Approved)
	}
}

func TestAnAlteredLogIsNotTold(t *testing.T) {
	w := newWriter(t)
	for i := range 20 {
		w.observation(fmt.Sprintf("o%d", i), beliefs.OriginWeb, strings.Repeat("x", 200), beliefs.Unverified)
	}
	l := w.open(false)
	n := 0
	if err := l.Range(context.Background(), 0, l.Size(), nil, func(e *Entry) error {
		n++
		_, err := l.Prove(e)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if i := l.Integrity(); n != 20 || i.Proven != 20 || i.Read != 20 || i.Status != chain.Incomplete ||
		i.Signer != "test-log" {
		t.Errorf("%d, %+v", n, i)
	}
	l.Close()
	// With other keys.
	o := w.opts
	_, public, err := keys.Generate("other")
	if err != nil {
		t.Fatal(err)
	}
	v, err := note.NewVerifier(public)
	if err != nil {
		t.Fatal(err)
	}
	o.Verifiers = note.VerifierList(v)
	if l, err = Open(context.Background(), w.dir, o); err != nil {
		t.Fatal(err)
	}
	if i := l.Integrity(); i.Status != chain.Failed {
		t.Errorf("a checkpoint of a stranger: %+v", i)
	}
	l.Close()
}

func TestWhereAndTally(t *testing.T) {
	w := newWriter(t)
	for i := range 6 {
		w.observation(fmt.Sprintf("o%d", i), []beliefs.Origin{beliefs.OriginWeb, beliefs.OriginUser}[i%2], "text",
			beliefs.Unverified)
	}
	l := w.open(false)
	ask := func(src string) (out []*Entry) {
		t.Helper()
		q, err := NewWhere(src)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Range(context.Background(), 0, l.Size(), nil, func(e *Entry) error {
			ok, err := q.Match(e)
			if ok {
				out = append(out, e)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if n := len(ask(`body.origin == "web" && seq > 2`)); n != 2 {
		t.Errorf("%d entries, want 2", n)
	}
	if n := len(ask(`any(body.blocks, .text == "text") && time startsWith "2026-11-21"`)); n != 6 {
		t.Errorf("%d entries, want 6", n)
	}
	if n := len(ask(`body.nothing?.deep == 1`)); n != 0 {
		t.Errorf("%d entries, want 0", n)
	}
	for src, want := range map[string]string{
		`counts(groupBy(entries, .body.origin))`:                    `map[user:3 web:3]`,
		`count(entries, .body.origin == "web")`:                     `3`,
		`map(filter(entries, .index < 2), .id)`:                     `[o0 o1]`,
		`sum(entries, .bytes) == reduce(entries, #acc + .bytes, 0)`: `true`,
	} {
		v, err := Tally(src, ask(""))
		if err != nil || fmt.Sprint(v) != want {
			t.Errorf("%s: %v, %v, want %s", src, v, err, want)
		}
	}
	for _, bad := range []string{`nosuch == 1`, `seq == "x"`, `1 +`, `seq`} {
		if _, err := NewWhere(bad); err == nil {
			t.Errorf("%s compiles", bad)
		}
	}
}

func TestCellsAreNoFormulas(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "plain": "plain", "a=b": "a=b", "12": "12", `{"a":1}`: `{"a":1}`,
		"=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@SUM(A1)": "'@SUM(A1)", "|cmd": "'|cmd", "%x": "'%x", "\t=1": "'\t=1",
		"\r\n@x": "'\r\n@x", "  =1": "'  =1", "\u200b=1": "'\u200b=1", "＝1": "'＝1",
	} {
		if got := InertCell(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
	var b bytes.Buffer
	w, err := NewWriter("csv", &b)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(&Entry{Agent: `=HYPERLINK("http://x","y")`, Session: "a,b\n\"c\"",
		Body: []byte(`{"a":"\u001b[31m"}`)}); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(rows) != 2 || len(rows[1]) != len(csvHeader) || rows[1][9] != `'=HYPERLINK("http://x","y")` ||
		rows[1][10] != "a,b\n\"c\"" {
		t.Errorf("%q, %v", rows, err)
	}
}

// hostile is text that tries to execute script in the reader of a report.
const hostile = `</td></table><script>document.title='pwned'</script><img src=x onerror="document.title='pwned'"><a href="javascript:document.title='pwned'">x</a>` +
	"`](javascript:x) | ![p](http://evil.example/p.png) \u202e\u0007 www.evil.example =1+1"

// longSession writes n calls of a session and, occasionally, a bad event.
func longSession(w *writer, n int) {
	for i := range n {
		o := fmt.Sprintf("o%d", i)
		w.observation(o, beliefs.OriginWeb, fmt.Sprintf("%s %d %s", hostile, i, strings.Repeat("lorem ipsum ", 20)),
			beliefs.Unverified)
		tool := fmt.Sprintf("tool_%d", i%30)
		if i%50 == 0 {
			tool = hostile
		}
		seq := w.add(streams.StageIngest, streams.TypeAction, 0,
			&streams.ActionEntry{EntryHead: w.head(fmt.Sprintf("a%d", i)), Action: beliefs.Action{Tool: tool,
				Contract: beliefs.Contract{Level: beliefs.L1}}, Args: []byte(fmt.Sprintf(`{"x":%q}`, fmt.Sprint("v", i)))})
		v := &streams.VerdictEntry{Proposal: seq, Type: streams.TypeAction, ID: fmt.Sprintf("a%d", i), Agent: "a",
			Session: "s", Tool: tool, Policy: "sha256:0123456789abcdef"}
		if i%10 == 0 {
			v.Verdict, v.Hold = streams.Hold, &streams.HoldRef{ID: fmt.Sprintf("h%d", i), Revision: "r"}
			v.Reasons = []streams.Reason{{Code: streams.CodeRule, Verdict: streams.Hold, Rule: "r1", Text: hostile}}
			w.add(streams.SentinelStage("core"), streams.TypeAssessment, seq, &streams.AssessmentEntry{Group: "core",
				Digest: "d", Verdict: streams.Hold,
				Alerts: []streams.Alert{{ID: "x", Rule: "r1", Group: "core", Severity: "high", Message: fmt.Sprint(hostile, i),
					Effect: "hold", Mode: "enforce", Count: 1}}})
		}
		w.add(streams.StageArbiter, streams.TypeVerdict, seq, v)
		if v.Verdict == streams.Allow {
			w.add(streams.StageIngest, streams.TypeOutcome, 0, &streams.OutcomeEntry{EntryHead: w.head(fmt.Sprintf("r%d", i)),
				Outcome: beliefs.Outcome{Action: fmt.Sprintf("a%d", i), Status: "ok"}})
		}
	}
}

func TestAReportOfAThousandCallsIsReadInAMinute(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make ci runs it")
	}
	w := newWriter(t)
	longSession(w, 1000)
	l := w.open(true)
	s, err := l.Session(context.Background(), Select{Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	r := NewReport(s, l.Integrity())
	dir := filepath.Join(t.TempDir(), "report")
	if err := l.Write(r, dir); err != nil {
		t.Fatal(err)
	}
	if err := l.Write(r, dir); err == nil {
		t.Error("a report overwrites another")
	}
	for _, name := range []string{"report.html", "report.md"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes", name, len(b))
		if len(b) > 300_000 {
			t.Errorf("%s has %d bytes, at most 300,000 are wanted", name, len(b))
		}
		for _, want := range []string{"1000 actions: 900 allowed, 100 held, 0 denied",
			"900 actions were reported as carried out, 0 of them against their verdict", "the whole log VERIFIED",
			"detail-001.html#e"} {
			if !bytes.Contains(b, []byte(want)) {
				t.Errorf("%s does not say %q", name, want)
			}
		}
		for _, bad := range []string{"<script", "<img", `<a href="javascript`, "\u202e", "\u0007", "](javascript", "![p]"} {
			if bytes.Contains(b, []byte(bad)) {
				t.Errorf("%s holds %q", name, bad)
			}
		}
	}
	// Every link has a target.
	pages, _ := filepath.Glob(filepath.Join(dir, "detail-*.html"))
	all := ""
	for _, p := range pages {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		all += string(b)
	}
	if len(pages) != (len(s.Entries)+perPage-1)/perPage || strings.Contains(all, "<script") {
		t.Errorf("%d pages for %d entries", len(pages), len(s.Entries))
	}
	for _, row := range r.evidence() {
		if !strings.Contains(all, fmt.Sprintf(`id="e%d"`, row.Index)) {
			t.Errorf("leaf %d has no detail", row.Index)
		}
	}
	checkProofs(t, w, dir, len(r.evidence()))
	if lines, err := os.ReadFile(filepath.Join(dir, "entries.jsonl")); err != nil ||
		bytes.Count(lines, []byte("\n")) != len(s.Entries) {
		t.Errorf("entries.jsonl: %d lines for %d entries, %v", bytes.Count(lines, []byte("\n")), len(s.Entries), err)
	}
}

// checkProofs verifies all proofs of a report with only the public key.
func checkProofs(t *testing.T, w *writer, dir string, want int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "proofs", "*.tlog-proof"))
	if err != nil || len(files) != want {
		t.Fatalf("%d proofs, want %d: %v", len(files), want, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		p, err := chain.CheckProof(b, w.opts.Verifiers, nil)
		if err != nil || len(p.Payload) == 0 || filepath.Base(f) != fmt.Sprintf("%d.tlog-proof", p.Leaf.Index) {
			t.Errorf("%s: %+v, %v", f, p, err)
		}
		if _, err := chain.CheckProof(bytes.Replace(b, []byte("\nindex "), []byte("\nindex 1"), 1), w.opts.Verifiers,
			nil); err == nil {
			t.Errorf("%s holds for another leaf", f)
		}
	}
}

// A real browser loads a report about a session with hostile texts. None of the script in them may run.
func TestABrowserRunsNothingOfAReport(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make ci runs it")
	}
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			browser = p
			break
		}
	}
	if browser == "" {
		t.Skip("SKIPPED: no Chromium is installed: apt-get install chromium")
	}
	w := newWriter(t)
	longSession(w, 60)
	l := w.open(true)
	s, err := l.Session(context.Background(), Select{Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "report")
	if err := l.Write(NewReport(s, l.Integrity()), dir); err != nil {
		t.Fatal(err)
	}
	dom := func(file string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		defer cancel()
		c := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
			"--user-data-dir="+t.TempDir(), "--dump-dom", "file://"+file)
		out, err := c.Output()
		if err != nil {
			t.Skipf("SKIPPED: %s does not run here: %v", browser, err)
		}
		return string(out)
	}
	// The control: the browser executes script in an unescaped page.
	control := filepath.Join(t.TempDir(), "control.html")
	if err := os.WriteFile(control, []byte("<title>control</title><table><td>"+hostile), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := dom(control); !strings.Contains(got, "<title>pwned") {
		t.Fatalf("the browser runs no scripts at all, so this test shows nothing: %.200s", got)
	}
	for _, page := range []string{"report.html", "detail-001.html"} {
		got := dom(filepath.Join(dir, page))
		if !strings.Contains(got, "<title>Session s") || strings.Contains(got, "<title>pwned") {
			t.Errorf("%s: %.300s", page, got)
		}
		for _, bad := range []string{"<script", "<img", "<a href=\"javascript"} {
			if strings.Contains(got, bad) {
				t.Errorf("%s: the browser made %q of it", page, bad)
			}
		}
	}
}

// An erased entry might have been a finding, so a question counts the entries that it could not read.
func TestQuestionsCountTheEntriesThatTheyCannotRead(t *testing.T) {
	w := newWriter(t)
	web := w.observation("o1", beliefs.OriginWeb, "a page", beliefs.Unverified)
	w.memory("m1", beliefs.OriginUser, "", "short", []string{web}, nil)
	seq := w.add(streams.StageIngest, streams.TypeAction, 0, &streams.ActionEntry{EntryHead: w.head("a1"),
		Action: beliefs.Action{Tool: "send", Contract: beliefs.Contract{Level: beliefs.L4}}})
	w.add(streams.StageIngest, streams.TypeOutcome, 0, &streams.OutcomeEntry{EntryHead: w.head("x1"),
		Outcome: beliefs.Outcome{Action: "a1", Status: "ok"}})
	last := w.add(streams.StageIngest, streams.TypeRecall, 0, &streams.RecallEntry{EntryHead: w.head("r1")})
	if n, err := w.log.EraseUpTo(t.Context(), last, func(*chain.Leaf) bool { return false }); err != nil || n != int(last) {
		t.Fatalf("%d payloads erased, %v", n, err)
	}
	w.add(streams.StageIngest, streams.TypeAction, seq, &streams.ActionEntry{EntryHead: w.head("a2"),
		Action: beliefs.Action{Tool: "send", Contract: beliefs.Contract{Level: beliefs.L4}}})
	l := w.open(false)
	acts, err := l.IrreversibleActs(t.Context(), "")
	if err != nil || acts.Unread != 3 || acts.Proposed != 1 || len(acts.Findings) > 0 {
		t.Errorf("irreversible: %+v, %v", acts, err)
	}
	beliefs, err := l.Launder(t.Context(), "")
	if err != nil || beliefs.Unread != 4 || len(beliefs.Findings) > 0 {
		t.Errorf("laundering: %+v, %v", beliefs, err)
	}
	other, err := l.IrreversibleActs(t.Context(), "another")
	if err != nil || other.Unread != 0 {
		t.Errorf("another project: %+v, %v", other, err)
	}
}

// If no project is named, the session's project is searched first. The search must leave the counts of payloads as they
// are, also those of earlier questions.
func TestTheSearchForAProjectCountsNoPayloads(t *testing.T) {
	w := newWriter(t)
	last := w.add(streams.StageIngest, streams.TypeRecall, 0, &streams.RecallEntry{EntryHead: w.head("r1")})
	if _, err := w.log.EraseUpTo(t.Context(), last, func(*chain.Leaf) bool { return false }); err != nil {
		t.Fatal(err)
	}
	w.observation("o1", beliefs.OriginWeb, "a page", beliefs.Unverified)
	if err := w.open(false).Close(); err != nil { // signs the checkpoint
		t.Fatal(err)
	}
	var told []Integrity
	for _, project := range []string{"p", ""} {
		l, err := Open(t.Context(), w.dir, w.opts)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Launder(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Session(t.Context(), Select{Project: project, Session: "s"}); err != nil {
			t.Fatal(err)
		}
		told = append(told, l.Integrity())
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if told[0].Read == 0 || told[0].Forgotten == 0 || !reflect.DeepEqual(told[0], told[1]) {
		t.Errorf("with the project's name %+v, without it %+v", told[0], told[1])
	}
}
