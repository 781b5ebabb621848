package cli_test

import (
	"strings"
	"testing"
	"time"

	"lazaret/internal/cli"
	"lazaret/streams"
)

func TestFiltersKnowTheFieldsByTheirJSONNames(t *testing.T) {
	a := streams.Alert{Rule: "canary", Severity: "high", Count: 3, Project: "acme",
		Subject: streams.AlertSubject{Kind: "belief", ID: "b1"}}
	for _, c := range []struct {
		where string
		ok    bool
	}{
		{``, true},
		{`severity == "high" && project == "acme"`, true},
		{`count > 3`, false},
		{`subject.kind in ["belief", "action"]`, true},
		{`observed_event_ids == [] || len(observed_event_ids) == 0`, true},
		{`rule startsWith "can"`, true},
	} {
		f, err := cli.NewFilter(c.where, a)
		if err != nil {
			t.Errorf("%s: %v", c.where, err)
			continue
		}
		if ok, err := f.Match(a); err != nil || ok != c.ok {
			t.Errorf("%s: %v, %v", c.where, ok, err)
		}
	}
	if _, err := cli.NewFilter(`severty == "high"`, a); err == nil || !strings.Contains(err.Error(), "the names are") ||
		!strings.Contains(err.Error(), "severity") {
		t.Errorf("an unknown name: %v", err)
	}
	for _, bad := range []string{`severty == "high"`, `count + 1`, `severity ==`} {
		if _, err := cli.NewFilter(bad, a); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
	v := streams.VerdictEntry{Verdict: streams.Hold, Time: time.Now()}
	f, err := cli.NewFilter(`verdict == "hold"`, v)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := f.Match(v); err != nil || !ok {
		t.Errorf("verdict == hold: %v, %v", ok, err)
	}
}

// JSON omits a belief's axes if all are zero. A filter must know the names of the axes all the same.
func TestFiltersKnowTheNamesOfZeroValues(t *testing.T) {
	b := streams.BeliefRef{ID: "b1"}
	for _, where := range []string{`axes.retrieval == "hidden"`, `axes.truth == "unverified" && axes.security == "clean"`} {
		f, err := cli.NewFilter(where, b)
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := f.Match(b); err != nil || !ok {
			t.Errorf("%s: %v, %v", where, ok, err)
		}
	}
}

func TestListsShowForeignTextInert(t *testing.T) {
	evil := "a\x1b[31mred\u202egnp.exe\u200b\nnext\tcell\u009b2J"
	for _, json := range []bool{false, true} {
		var b strings.Builder
		err := cli.Print(&b, cli.ListFlags{JSON: json}, []streams.Alert{{Message: evil}}, []string{"MESSAGE"},
			func(a streams.Alert) []string { return []string{a.Message} })
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range b.String() {
			if r != '\n' && (r < 0x20 || r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0x202e || r == 0x200b) {
				t.Errorf("json=%v prints %U: %q", json, r, b.String())
			}
		}
		if json {
			var back []streams.Alert
			if err := streams.Unmarshal([]byte(b.String()), &back); err != nil || back[0].Message != evil {
				t.Errorf("the JSON reads back as %+v, %v", back, err)
			}
		} else if n := strings.Count(b.String(), "\n"); n != 2 {
			t.Errorf("the table has %d lines, want 2: %q", n, b.String())
		}
	}
}
