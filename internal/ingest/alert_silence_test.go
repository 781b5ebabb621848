package ingest

import (
	"strings"
	"testing"
	"time"

	"lazaret/streams"
)

func TestASilenceIsRecordedAndChangesNoState(t *testing.T) {
	h := newHouse(t, offline(t))
	put := func(project string, s *streams.Silence) any {
		return h.control(&streams.Control{ID: "silence1", Project: project, Silence: s})
	}
	before, err := h.f.clock(h.st, streams.SystemProject)
	if err != nil {
		t.Fatal(err)
	}
	h.now = h.now.Add(time.Hour)
	good := streams.Silence{Rule: "r1", Owner: "olga", Reason: "known", Expires: h.now.Add(time.Hour).UTC(), By: "sam"}
	e, ok := put("demo", &good).(*streams.SilenceEntry)
	if !ok || e.Silence != good || e.ID != "silence1" {
		t.Fatalf("the silence is recorded as %+v", e)
	}
	if e, ok := put("demo", &streams.Silence{By: "sam", Ends: "silence1"}).(*streams.SilenceEntry); !ok {
		t.Errorf("its end: %+v", e)
	}
	if after, err := h.f.clock(h.st, streams.SystemProject); err != nil || !after.Equal(before) {
		t.Errorf("the clock moved from %v to %v: %v", before, after, err)
	}
	for name, change := range map[string]func(s *streams.Silence){
		"without an owner":  func(s *streams.Silence) { s.Owner = "" },
		"without a reason":  func(s *streams.Silence) { s.Reason = "" },
		"without a person":  func(s *streams.Silence) { s.By = "" },
		"without a rule":    func(s *streams.Silence) { s.Rule = "" },
		"that is over":      func(s *streams.Silence) { s.Expires = h.now.Add(-time.Minute) },
		"without an expiry": func(s *streams.Silence) { s.Expires = time.Time{} },
		"for a year":        func(s *streams.Silence) { s.Expires = h.now.AddDate(1, 0, 0) },
		"of a forged line":  func(s *streams.Silence) { s.Reason = "a\nb" },
		"too long":          func(s *streams.Silence) { s.Owner = strings.Repeat("s", 300) },
		"that ends another": func(s *streams.Silence) { s.Ends = "silence1" },
	} {
		s := good
		change(&s)
		if e, ok := put("demo", &s).(*streams.RejectedEntry); !ok {
			t.Errorf("a silence %s: %+v", name, e)
		}
	}
	if e, ok := put("another", &good).(*streams.RejectedEntry); !ok {
		t.Errorf("in another partition: %+v", e)
	}
}
