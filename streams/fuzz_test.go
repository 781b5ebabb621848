package streams_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/fuzztest"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

func FuzzParseLedger(f *testing.F) {
	for _, s := range []string{"lz.ledger.3.ingest", "lz.ledger.15.sentinel-core", "lz.ledger.16.x", "lz.ledger.03.x",
		"lz.ledger.1.a.b", "lz.ledger..", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, stage, err := streams.ParseLedger(s)
		if err == nil && streams.LedgerSubject(p, stage) != s {
			t.Fatalf("%q parses to %d and %q, which is another subject", s, p, stage)
		}
	})
}

func FuzzParseResolve(f *testing.F) {
	for _, s := range []string{"lz.svc.resolve.p.h1", "lz.svc.resolve.p", "lz.svc.resolve._.h", "lz.svc.resolve.p.h.x",
		"lz.svc.decide.p.a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		project, hold, err := streams.ParseResolve(s)
		if err != nil {
			return
		}
		if back, err := streams.ResolveSubject(project, hold); err != nil || back != s {
			t.Fatalf("%q parses to %q and %q, which is %q (%v)", s, project, hold, back, err)
		}
	})
}

// FuzzParseEntry parses any message. If the message is a valid entry, encoding the entry must give the same bytes.
func FuzzParseEntry(f *testing.F) {
	salt := strings.Repeat("0a", streams.SaltSize)
	f.Add("lz.ledger.3.ingest", "observation", "demo", "41", "7", salt, []byte(`{"id":"a"}`))
	f.Add("lz.ledger.3.sentinel-judge", "assessment", "", "18446744073709551615", "", salt, []byte(nil))
	f.Add("lz.ledger.3.x", "a b", "p.q", "-1", "+1", strings.ToUpper(salt), []byte("\xff"))
	f.Add("lz.ledger.3.x", "verdict", "p", "041", "0", salt+"0a", []byte("{}"))
	f.Fuzz(func(t *testing.T, subject, typ, project, src, at, salt string, body []byte) {
		h := nats.Header{}
		for k, v := range map[string]string{streams.HeaderType: typ, streams.HeaderProject: project, streams.HeaderSrc: src,
			streams.HeaderAt: at, streams.HeaderSalt: salt} {
			if v != "" {
				h[k] = []string{v}
			}
		}
		var e streams.Entry
		var err error
		fuzztest.Bounded(t, len(subject)+len(typ)+len(project)+len(body), func() {
			e, err = streams.ParseEntry(subject, h, body, 5, time.Unix(1, 0))
		})
		if err != nil {
			return
		}
		m := e.Message()
		if m.Subject != subject || nats.Header(m.Header).Get(streams.HeaderType) != typ ||
			nats.Header(m.Header).Get(streams.HeaderProject) != project {
			t.Fatalf("%+v is written as %q %v", e, m.Subject, m.Header)
		}
		if n, err := strconv.ParseUint(src, 10, 64); err != nil || n != e.Src {
			t.Fatalf("src %q became %d (%v)", src, e.Src, err)
		}
		if got := nats.Header(m.Header).Get(streams.HeaderSalt); got != strings.ToLower(salt) {
			t.Fatalf("salt %q became %q", salt, got)
		}
	})
}

// FuzzParseEventHeader parses events with an id in the CloudEvents header and one in the body. If the two ids differ,
// the event must be refused.
func FuzzParseEventHeader(f *testing.F) {
	f.Add("obs", "web", "ce-1", []byte(`{"content":"x"}`))
	f.Add("obs", "web", "ce-1", []byte(`{"id":"ce-1","content":"x"}`))
	f.Add("mem", "agent", "a\x00", []byte(`{"id":"b","content":"x","key":"k"}`))
	f.Add("out", "", "", []byte(`{"id":"b","action":"a","status":"ok"}`))
	f.Add("session", "", "s", []byte(`{"session":"s","phase":"start","prompt":{"id":"p","version":"1"}}`))
	f.Add("dec", "", "d", []byte(`{"cites":["b1"],"choice":"x"}`))
	f.Fuzz(func(t *testing.T, kind, origin, ceID string, body []byte) {
		var e streams.Event
		var err error
		fuzztest.Bounded(t, len(ceID)+len(body), func() {
			e, err = streams.ParseEvent(streams.Address{Kind: streams.Kind(kind), Origin: beliefs.Origin(origin)}, ceID, body, 0)
		})
		var r *streams.RejectError
		switch {
		case errors.As(err, &r):
			if _, ok := r.Code.Doc(); !ok || r.Session != "" && !streams.ValidID(r.Session) {
				t.Fatalf("the rejection has an unknown code or an invalid session: %+v", r)
			}
		case err != nil:
			t.Fatalf("error %v has no code", err)
		case !streams.ValidID(streams.HeadOf(e).ID) || ceID != "" && streams.HeadOf(e).ID != ceID:
			t.Fatalf("header %q and body %q make an event of id %q", ceID, body, streams.HeadOf(e).ID)
		}
	})
}

// FuzzOpenCommand opens each generated text with and without a signature. A signed command that opens must be in
// canonical form. A command without a signature must not open.
func FuzzOpenCommand(f *testing.F) {
	signer, v := fuzztest.Signer(f, "op")
	pinned := note.VerifierList(v)
	c := streams.Command{Do: streams.DoActivateRules, Digest: streams.Digest([]byte("x")), Engine: 1, ID: "c1",
		Issued: time.Unix(1_790_000_000, 0)}
	f.Add(c.Text())
	f.Add(strings.Replace(c.Text(), "engine: 1", "engine: 01", 1))
	f.Add(strings.Replace(c.Text(), "engine: 1", "engine: 1 x", 1))
	f.Add(streams.CommandHeader + "\n")
	f.Add("\n")
	f.Fuzz(func(t *testing.T, text string) {
		fuzztest.Bounded(t, len(text), func() {
			if got, _, err := streams.OpenCommand([]byte(text), pinned); err == nil {
				t.Fatalf("without a signature, the note opens as %+v", got)
			}
			msg, err := note.Sign(&note.Note{Text: text}, signer)
			if err != nil {
				return
			}
			got, by, err := streams.OpenCommand(msg, pinned)
			var r *streams.RejectError
			if err != nil && !errors.As(err, &r) {
				t.Fatalf("%v is no *RejectError", err)
			}
			if err == nil && (got.Text() != text || by != "op") {
				t.Fatalf("%q opens as %+v of %s", text, got, by)
			}
		})
	})
}

// FuzzOpenCustody opens statements about a project's data. A signed statement that opens must be in canonical form. A
// statement without a signature must not open.
func FuzzOpenCustody(f *testing.F) {
	signer, v := fuzztest.Signer(f, "op")
	pinned := note.VerifierList(v)
	c := streams.Custody{Do: streams.DoForget, Project: "acme", ID: "c1", Issued: time.Unix(1_790_000_000, 0),
		Reason: "request 17"}
	f.Add(c.Text())
	whole := c
	whole.UpTo, whole.Ranges = 4711, []streams.SeqRange{{From: 12, To: 15}, {From: 19, To: 19}}
	f.Add(whole.Text())
	p := c
	p.DataSubject, p.Others, p.Entries = "p-17", []string{"p-18", "p-19"}, []uint64{12, 13, 14, 15, 19}
	f.Add(p.Text())
	f.Add(strings.Replace(p.Text(), "12-15", "12-4000000000", 1))
	p.Do, p.Others, p.Entries = streams.DoHold, nil, nil
	f.Add(p.Text())
	f.Add(strings.Replace(c.Text(), "acme", "_", 1))
	f.Add(strings.Replace(c.Text(), "request", "a\nrequest", 1))
	f.Add(streams.CustodyHeader + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		fuzztest.Bounded(t, len(text), func() {
			if got, _, err := streams.OpenCustody([]byte(text), pinned); err == nil {
				t.Fatalf("without a signature, the note opens as %+v", got)
			}
			msg, err := note.Sign(&note.Note{Text: text}, signer)
			if err != nil {
				return
			}
			got, by, err := streams.OpenCustody(msg, pinned)
			var r *streams.RejectError
			if err != nil && !errors.As(err, &r) {
				t.Fatalf("%v is no *RejectError", err)
			}
			if err == nil && (got.Text() != text || by != "op") {
				t.Fatalf("%q opens as %+v of %s", text, got, by)
			}
		})
	})
}
