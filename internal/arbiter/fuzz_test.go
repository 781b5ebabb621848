package arbiter

import (
	"testing"
	"time"

	"lazaret/internal/fuzztest"
	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// FuzzForeign: no bytes from a sentinel group of a third party stop the arbiter or make its verdict milder.
// One group clears, and another group sends the bytes. The arbiter allows only if the second group
// also clears.
func FuzzForeign(f *testing.F) {
	like, pol := newArbiter(f), testPolicy(f)
	f.Add("assessment", uint64(1), []byte(`{"group":"b","verdict":"allow","digest":"sha256:rules","alerts":[]}`))
	f.Add("assessment", uint64(1),
		[]byte(`{"verdict":"deny","digest":"x","alerts":[{"id":"i","rule":"r","effect":"hold","mode":"enforce","message":"m","path":["a"],"detail":{"a":[1]}}],"rests":[{"observation":"o"}]}`))
	f.Add("assessment", uint64(1<<63), []byte(`{"verdict":"maybe"}`))
	f.Add("alerts", uint64(0), []byte(`{"alerts":[{"subject":{"kind":"belief","id":"b"},"effect":"quarantine"}]}`))
	f.Add("verdict", uint64(1), []byte(`{"verdict":"allow"}`))
	f.Fuzz(func(t *testing.T, typ string, src uint64, body []byte) {
		e := &streams.Entry{Stage: streams.SentinelStage("b"), Type: streams.Type(typ), Project: "demo", Src: src, Body: body}
		if _, err := streams.ParseEntry(streams.LedgerSubject(0, e.Stage), e.Message().Header, body, 10, epoch); err != nil {
			return // such an entry is never read
		}
		d := newDesk(t, like, pol)
		fuzztest.Bounded(t, len(body), func() {
			p := d.add(streams.StageIngest, streams.TypeAction, 1, action("a1", "read_file", beliefs.L1))
			d.assess("a", p, &streams.AssessmentEntry{Verdict: streams.Allow})
			for range 2 {
				e.Seq, e.Time = d.tail()+1, d.now
				own := *e
				d.ledger = append(d.ledger, &own)
				d.step(&own)
			}
			var cleared streams.AssessmentEntry
			allowed := typ == string(streams.TypeAssessment) && src == p && streams.Unmarshal(body, &cleared) == nil &&
				cleared.Verdict == streams.Allow && cleared.Digest == rulesDigest
			d.wait(time.Hour)
			if v := d.last(p); v.Verdict == streams.Allow && !allowed {
				t.Fatalf("allowed after %s %q", typ, body)
			}
		})
	})
}

// FuzzQuestions: operators ask in JSON. An invalid question gives an error.
func FuzzQuestions(f *testing.F) {
	for _, s := range []string{`{"project":"demo","state":"open"}`, `{"id":"h","project":"demo"}`, `{"project":1}`,
		`{"agent":"a","project":"demo"}`, `null`} {
		f.Add([]byte(s))
	}
	d := newDesk(f, newArbiter(f), testPolicy(f))
	d.add(streams.StageIngest, streams.TypeAction, 1, action("a1", "send_email", beliefs.L4))
	d.wait(time.Hour)
	f.Fuzz(func(t *testing.T, req []byte) {
		fuzztest.Bounded(t, len(req), func() {
			for _, ask := range []func(*stage.State, []byte) (any, error){d.f.listHolds, listCalibration} {
				_, _ = ask(d.st, req)
			}
		})
	})
}
