package inquiry

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// TestNothingAboveTheCeilingIsExported exports a log that contains a secret in each format and under
// each ceiling. Entries above the ceiling have no body, and the tree can still be computed.
func TestNothingAboveTheCeilingIsExported(t *testing.T) {
	const secret, private, open = "the vault code of the north door is blue heron seven", "my salary is ninety thousand a year", "tea without sugar is what I like best"
	w := newWriter(t)
	w.observation("o1", beliefs.OriginUser, "she says that "+secret, beliefs.Supported) // before the mark
	for id, m := range map[string]struct {
		as   beliefs.Sensitivity
		says string
	}{"m1": {beliefs.Secret, secret}, "m2": {beliefs.Confidential, private}, "m3": {beliefs.Public, open}} {
		ref := streams.BeliefRef{ID: "b" + id, Found: true, Kind: beliefs.MemoryClaim, Sensitivity: m.as}
		seq := w.add(streams.StageIngest, streams.TypeMemory, 0, &streams.MemoryEntry{EntryHead: w.head(id),
			Origin: beliefs.OriginUser, Content: m.says, Belief: ref})
		w.add(streams.SentinelStage("core"), streams.TypeAssessment, seq, &streams.AssessmentEntry{Group: "core",
			Alerts: []streams.Alert{{Message: "it says " + m.says}}})
		w.add(streams.StageArbiter, streams.TypeVerdict, seq, &streams.VerdictEntry{Proposal: seq, ID: id, Summary: m.says,
			Belief: &ref})
	}
	w.add(streams.StageIngest, streams.TypeAction, 0, &streams.ActionEntry{EntryHead: w.head("a1"),
		Action: beliefs.Action{Tool: "send_email"}, Args: []byte(`{"body":"` + secret + `"}`)})
	l := w.open(false)
	for ceiling, want := range map[beliefs.Sensitivity]struct {
		secret, private, open bool
		redacted              int
	}{beliefs.Public: {redacted: 8}, beliefs.Internal: {open: true, redacted: 8}, beliefs.Confidential: {private: true,
		open: true, redacted: 5}, beliefs.Secret: {true, true, true, 0}} {
		for _, format := range []string{"jsonl", "csv"} {
			r, err := l.Ceiling(context.Background(), ceiling)
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			out, err := NewWriter(format, &b)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Range(context.Background(), 0, l.Size(), nil, func(e *Entry) error {
				r.Redact(e)
				return out.Write(e)
			}); err != nil {
				t.Fatal(err)
			}
			if err := out.Flush(); err != nil {
				t.Fatal(err)
			}
			has := func(s string) bool { return strings.Contains(b.String(), s) }
			if has(secret) != want.secret || has(private) != want.private || ceiling != beliefs.Public &&
				has(open) != want.open || ceiling != beliefs.Public && r.Redacted != want.redacted {
				t.Errorf("%s up to %s: the secret %t, the private %t, the open %t, %d redacted, want %+v", format, ceiling,
					has(secret), has(private), has(open), r.Redacted, want)
			}
			if format == "csv" {
				continue
			}
			x, err := ReadExport(&b)
			if err != nil {
				t.Fatal(err)
			}
			if root, err := x.Root(l.size); err != nil || root != l.root {
				t.Errorf("up to %s: of %d leaves the export's root is %s, the checkpoint's %s, %v", ceiling, l.size, root, l.root,
					err)
			}
		}
	}
}

func TestAnAlteredExportHasAnotherRoot(t *testing.T) {
	w := newWriter(t)
	w.observation("o1", beliefs.OriginWeb, "one", beliefs.Unverified)
	w.observation("o2", beliefs.OriginWeb, "two", beliefs.Unverified)
	l := w.open(false)
	var b bytes.Buffer
	out, _ := NewWriter("jsonl", &b)
	if err := l.Range(context.Background(), 0, l.Size(), nil, out.Write); err != nil {
		t.Fatal(err)
	}
	for what, alter := range map[string]func(string) string{
		"another project": func(s string) string { return strings.Replace(s, `"project":"p"`, `"project":"q"`, 1) },
		"another commitment": func(s string) string {
			i := strings.Index(s, `"commitment":"`) + 14
			return s[:i] + flip(s[i:i+1]) + s[i+1:]
		},
		"a line less":        func(s string) string { return s[:strings.Index(s, "\n")+1] },
		"the first left out": func(s string) string { return s[strings.Index(s, "\n")+1:] },
	} {
		x, err := ReadExport(strings.NewReader(alter(b.String())))
		if err != nil {
			continue
		}
		if root, err := x.Root(l.size); err == nil && root == l.root {
			t.Errorf("%s: it has the same root", what)
		}
	}
}

func flip(hex string) string {
	if hex == "0" {
		return "1"
	}
	return "0"
}
