package streams_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"pgregory.net/rapid"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

func genID(t *rapid.T) string {
	return rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`).Draw(t, "id")
}

func TestIntakeSubjectsParseBackToTheirParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		project, agent := genID(t), genID(t)
		if project == "_" {
			t.Skip("the pipeline's own project")
		}
		kind := rapid.SampledFrom(streams.Kinds).Draw(t, "kind")
		var origin beliefs.Origin
		if kind.HasOrigin() {
			origin = rapid.SampledFrom(beliefs.Origins()).Draw(t, "origin")
		}
		s, err := streams.IntakeSubject(project, agent, kind, origin)
		if err != nil {
			t.Fatal(err)
		}
		// The server's transform inserts the partition.
		p := streams.PartitionOf(project)
		stored := strings.Replace(s, "lz.in.", "lz.in."+itoa(p)+".", 1)
		got, err := streams.ParseIntake(stored)
		if err != nil {
			t.Fatal(err)
		}
		want := streams.Address{Partition: p, Project: project, Agent: agent, Kind: kind, Origin: origin}
		if got != want {
			t.Fatalf("%s parses to %+v, want %+v", stored, got, want)
		}
	})
}

func itoa(p int) string { return strings.TrimPrefix(streams.ControlSubject(p), "lz.ctl.") }

func TestSubjectsRefuseWhatIsNoIdentifier(t *testing.T) {
	for _, bad := range []string{"", "a.b", "a b", "*", ">", "a>", "ä", "a/b", "a\x00", streams.SystemProject + ".",
		strings.Repeat("x", 65), "$JS"} {
		if _, err := streams.IntakeSubject(bad, "agent", streams.KindAct, ""); err == nil {
			t.Errorf("project %q was accepted", bad)
		}
		if _, err := streams.IntakeSubject("project", bad, streams.KindAct, ""); err == nil {
			t.Errorf("agent %q was accepted", bad)
		}
		if _, err := streams.LiveSubject("project", "alert", bad); err == nil {
			t.Errorf("live token %q was accepted", bad)
		}
		if _, err := streams.ServiceSubject(streams.SvcDecide, bad, "agent", ""); err == nil {
			t.Errorf("service project %q was accepted", bad)
		}
	}
	if _, err := streams.IntakeSubject("p", "a", streams.KindAct, "user"); err == nil {
		t.Error("an action with an origin was accepted")
	}
	if _, err := streams.IntakeSubject("p", "a", streams.KindObs, ""); err == nil {
		t.Error("an observation without origin was accepted")
	}
}

func FuzzParseIntake(f *testing.F) {
	for _, s := range []string{"lz.in.3.p.a.act", "lz.in.3.p.a.obs.tool", "lz.ctl.7", "lz.in.16.p.a.act", "lz.in..",
		"lz.in.3.p.a.obs", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := streams.ParseIntake(s)
		if err != nil {
			return
		}
		if a.Kind == streams.KindCtl {
			if streams.ControlSubject(a.Partition) != s {
				t.Fatalf("%q parses to %+v, which is another subject", s, a)
			}
			return
		}
		back, err := streams.IntakeSubject(a.Project, a.Agent, a.Kind, a.Origin)
		if err != nil {
			t.Fatalf("%q parses to %+v, which cannot be built: %v", s, a, err)
		}
		if strings.Replace(back, "lz.in.", "lz.in."+itoa(a.Partition)+".", 1) != s {
			t.Fatalf("%q parses to %+v, which is %q", s, a, back)
		}
	})
}

func FuzzParseService(f *testing.F) {
	for _, s := range []string{"lz.svc.decide.p.a", "lz.svc.remember.p.a.user", "lz.svc.recall.p.a", "lz.svc.x.p.a",
		"lz.svc."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		svc, a, err := streams.ParseService(s)
		if err != nil {
			return
		}
		if back, err := streams.ServiceSubject(svc, a.Project, a.Agent, a.Origin); err != nil || back != s {
			t.Fatalf("%q parses to %v %+v, which is %q (%v)", s, svc, a, back, err)
		}
	})
}

func TestEventsAreRefusedWithACodeAndAPlace(t *testing.T) {
	long := strings.Repeat("x", streams.MaxNameLen+1)
	for _, c := range []struct {
		name string
		kind streams.Kind
		ceID string
		body string
		code streams.Code
		says string
		sess string
	}{
		{"no JSON", streams.KindObs, "", `{"id":"a","session":"s1","content":`, streams.CodeMalformed, "JSON", "s1"},
		{"wrong type", streams.KindObs, "", `{"id":"a","session":"s1","content":7}`, streams.CodeMalformed, "/content", "s1"},
		{"duplicate key", streams.KindObs, "", `{"id":"a","id":"b"}`, streams.CodeMalformed, "duplicate", ""},
		{"invalid UTF-8", streams.KindObs, "", "{\"id\":\"a\",\"content\":\"\xff\"}", streams.CodeMalformed, "UTF-8", ""},
		{"no id", streams.KindObs, "", `{"content":"x"}`, streams.CodeInvalid, "no id", ""},
		{"illegal id", streams.KindObs, "", `{"id":"a b"}`, streams.CodeInvalid, "id", ""},
		{"two ids", streams.KindObs, "x", `{"id":"a"}`, streams.CodeInvalid, "ce-id", ""},
		{"illegal session", streams.KindObs, "", `{"id":"a","session":"a.b"}`, streams.CodeInvalid, "session", ""},
		{"two contents", streams.KindObs, "", `{"id":"a","session":"s","content":"x","blocks":[{"text":"y"}]}`,
			streams.CodeInvalid, "blocks", "s"},
		{"empty memory", streams.KindMem, "", `{"id":"a"}`, streams.CodeInvalid, "content", ""},
		{"long key", streams.KindMem, "", `{"id":"a","content":"x","key":"` + long + `"}`, streams.CodeInvalid, "key", ""},
		{"recall of nothing", streams.KindRecall, "", `{"id":"a"}`, streams.CodeInvalid, "query", ""},
		{"endless recall", streams.KindRecall, "", `{"id":"a","query":"x","limit":1000}`, streams.CodeInvalid, "limit", ""},
		{"action without tool", streams.KindAct, "", `{"id":"a"}`, streams.CodeInvalid, "tool", ""},
		{"zero byte in a tool", streams.KindAct, "", `{"id":"a","tool":"\u0000requests"}`, streams.CodeInvalid, "zero byte", ""},
		{"arguments that are no object", streams.KindAct, "", `{"id":"a","tool":"t","args":[1]}`, streams.CodeInvalid,
			"args", ""},
		{"confidence above one", streams.KindAct, "", `{"id":"a","tool":"t","confidence":1.5}`, streams.CodeInvalid,
			"confidence", ""},
		{"unknown host verdict", streams.KindAct, "", `{"id":"a","tool":"t","host_verdict":"maybe"}`, streams.CodeInvalid,
			"maybe", ""},
		{"unknown phase", streams.KindSession, "", `{"id":"a","session":"s","phase":"pause"}`, streams.CodeInvalid, "phase",
			"s"},
		{"answer of the API", streams.KindObs, "",
			`{"type":"io.nats.jetstream.api.v1.stream_msg_get_response","message":{"subject":"s","seq":5}}`, streams.CodeNotEvent,
			"an answer", ""},
		{"body of an entry", streams.KindObs, "", `{"id":"a","session":"s","intake":5,"print":7,"blocks":[{"text":"t"}]}`,
			streams.CodeNotEvent, "an entry of the ledger", ""},
		{"acknowledgement", streams.KindObs, "", `{"stream":"LZ_INTAKE","seq":5}`, streams.CodeNotEvent, "acknowledgement",
			""},
		{"unknown kind", streams.KindCtl, "", `{}`, streams.CodeUnknownKind, "kind", ""},
		{"too large", streams.KindObs, "", `{"id":"` + strings.Repeat("a", 200) + `"}`, streams.CodeTooLarge, "bytes", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			size := 0
			if c.code == streams.CodeTooLarge {
				size = 100
			}
			_, err := streams.ParseEvent(streams.Address{Kind: c.kind}, c.ceID, []byte(c.body), size)
			var r *streams.RejectError
			if !errors.As(err, &r) {
				t.Fatalf("error is %v, want a *RejectError", err)
			}
			if r.Code != c.code || !strings.Contains(r.Reason, c.says) || r.Session != c.sess {
				t.Errorf("got %s %q session %q, want %s with %q, session %q", r.Code, r.Reason, r.Session, c.code, c.says, c.sess)
			}
			if _, ok := r.Code.Doc(); !ok {
				t.Errorf("code %s is not documented", r.Code)
			}
		})
	}
}

func TestEventsTolerateFieldsThatTheyDoNotKnow(t *testing.T) {
	e, err := streams.ParseEvent(streams.Address{Kind: streams.KindObs}, "ce-1",
		[]byte(`{"session":"s","content":"x","novelty":{"a":[1,2]}}`), 0)
	if err != nil {
		t.Fatal(err)
	}
	if h := streams.HeadOf(e); h.ID != "ce-1" || h.Session != "s" {
		t.Errorf("head is %+v", h)
	}
}

func FuzzParseEvent(f *testing.F) {
	f.Add("obs", `{"id":"a","content":"x"}`)
	f.Add("act", `{"id":"a","tool":"t","args":{"to":"x"},"level":"L3"}`)
	f.Add("mem", `{"id":"a","content":"x","derived_from":["b"],"sensitivity":"secret"}`)
	f.Add("recall", `{"id":"a","query":"x","limit":3}`)
	f.Add("tools", `{"id":"a","tools":[{"name":"t"}]}`)
	f.Fuzz(func(t *testing.T, kind, body string) {
		e, err := streams.ParseEvent(streams.Address{Kind: streams.Kind(kind)}, "", []byte(body), 0)
		if err != nil {
			var r *streams.RejectError
			if !errors.As(err, &r) {
				t.Fatalf("error %v has no code", err)
			}
			return
		}
		b, err := streams.Marshal(e)
		if err != nil {
			t.Fatalf("%s event %q parses but does not encode: %v", kind, body, err)
		}
		again, err := streams.ParseEvent(streams.Address{Kind: streams.Kind(kind)}, "", b, 8<<20)
		if err != nil {
			t.Fatalf("%s event %q encodes to %q, which is refused: %v", kind, body, b, err)
		}
		if b2, _ := streams.Marshal(again); string(b2) != string(b) {
			t.Fatalf("encoding is not stable: %q, then %q", b, b2)
		}
	})
}

func TestEntriesTravel(t *testing.T) {
	e := streams.Entry{Partition: 3, Stage: "sentinel-core", Type: streams.TypeAlerts, Project: "p", Src: 41, At: 7,
		Salt: streams.NewSalt(), Body: []byte(`{}`)}
	m := e.Message()
	stamp := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	got, err := streams.ParseEntry(m.Subject, m.Header, m.Body, 42, stamp)
	if err != nil {
		t.Fatal(err)
	}
	e.Seq, e.Time = 42, stamp
	if !reflect.DeepEqual(got, e) {
		t.Errorf("got %+v, want %+v", got, e)
	}
	for _, h := range []string{streams.HeaderType, streams.HeaderSrc, streams.HeaderSalt} {
		broken := e.Message()
		delete(broken.Header, h)
		if _, err := streams.ParseEntry(broken.Subject, broken.Header, nil, 1, stamp); err == nil {
			t.Errorf("an entry without %s was accepted", h)
		}
	}
}

func TestVerdictsOnlyTighten(t *testing.T) {
	all := []streams.Verdict{streams.Allow, streams.Hold, streams.Deny}
	for _, a := range all {
		if a.Join(a) != a {
			t.Errorf("%s joined with itself is %s", a, a.Join(a))
		}
		for _, b := range all {
			if a.Join(b) != b.Join(a) {
				t.Errorf("%s and %s join to different verdicts by order", a, b)
			}
			if j := a.Join(b); j < a || j < b {
				t.Errorf("%s joined with %s is %s", a, b, j)
			}
			for _, c := range all {
				if a.Join(b).Join(c) != a.Join(b.Join(c)) {
					t.Errorf("join of %s, %s, %s depends on grouping", a, b, c)
				}
			}
		}
		if v, err := streams.ParseVerdict(a.String()); err != nil || v != a {
			t.Errorf("%s reads back as %s, %v", a, v, err)
		}
	}
}

func TestCommandsVerifyOnlyAsTheyWereSigned(t *testing.T) {
	skey, vkey, err := note.GenerateKey(nil, "ops")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	ver, err := note.NewVerifier(vkey)
	if err != nil {
		t.Fatal(err)
	}
	c := streams.Command{Do: streams.DoActivatePolicy, Digest: streams.Digest([]byte("x")), Engine: 1, ID: "c1",
		Issued: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	msg, err := c.Sign(signer)
	if err != nil {
		t.Fatal(err)
	}
	got, name, err := streams.OpenCommand(msg, note.VerifierList(ver))
	if err != nil || got != c || name != "ops" {
		t.Fatalf("got %+v by %q, %v", got, name, err)
	}
	for i := range msg {
		bad := append([]byte(nil), msg...)
		bad[i] ^= 1
		if got, _, err := streams.OpenCommand(bad, note.VerifierList(ver)); err == nil && got != c {
			t.Fatalf("with byte %d changed the command reads %+v", i, got)
		}
	}
	if _, _, err := streams.OpenCommand(msg, note.VerifierList()); err == nil {
		t.Fatal("a command by an unpinned key was accepted")
	}
	future := c
	future.Engine = streams.EngineVersion + 1
	if msg, err = future.Sign(signer); err != nil {
		t.Fatal(err)
	}
	if _, _, err := streams.OpenCommand(msg, note.VerifierList(ver)); err == nil {
		t.Fatal("a command for a later engine was accepted")
	}
}

func TestBundlesTravelInChunks(t *testing.T) {
	bundle := []byte(strings.Repeat("rule", streams.ChunkSize/2))
	cs, err := streams.Controls(bundle, []byte("note"))
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	for i, c := range cs[:len(cs)-1] {
		if c.Index != i || c.Count != len(cs)-1 || c.Digest != streams.Digest(bundle) {
			t.Errorf("chunk %d is %d of %d", i, c.Index, c.Count)
		}
		got = append(got, c.Chunk...)
	}
	if string(got) != string(bundle) || cs[len(cs)-1].Note != "note" {
		t.Error("the chunks do not make the bundle")
	}
	if _, err := streams.Controls(make([]byte, streams.ChunkSize*streams.MaxChunks+1), nil); err == nil {
		t.Error("a bundle with too many chunks was accepted")
	}
}

func TestPeekReadsTheEventsOwnIDAndSession(t *testing.T) {
	for body, want := range map[string][2]string{
		`{"id":"i","session":"s","content":"never read`:            {"i", "s"},
		`{"args":{"id":"x","session":"y"},"session":"s","id":"i"}`: {"i", "s"},
		`{"content":"\"session\":\"y\"","blocks":["id"],"id":"i"}`: {"i", ""},
		`{"id":7,"session":"not a name","content":"x"}`:            {"", ""},
		`{"id":"i","content":"cut`:                                 {"i", ""},
		`["id","i"]`:                                               {"", ""},
		``:                                                         {"", ""},
		`{`:                                                        {"", ""},
	} {
		if id, session := streams.Peek([]byte(body)); id != want[0] || session != want[1] {
			t.Errorf("%s: %q, %q, want %q", body, id, session, want)
		}
	}
}
