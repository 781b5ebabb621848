package policy

import (
	"strings"
	"testing"
	"time"
)

func TestStandingPermissionsAreNamedBoundedAndEnd(t *testing.T) {
	const head = "version: 1\nname: t\ngroups: []\n"
	const good = "standing:\n  - name: report\n    tools: [send_*]\n    projects: [acme]\n    until: " +
		"2026-12-31T00:00:00Z\n    owner: olga\n    reason: weekly\n"
	p, err := Compile("t", []byte(head+good))
	if err != nil {
		t.Fatal(err)
	}
	end := time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		tool, project string
		now           time.Time
		want          bool
	}{
		{"send_email", "acme", end.Add(-1), true},
		{"send_email", "acme", end, false},
		{"send_email", "other", end.Add(-1), false},
		{"pay", "acme", end.Add(-1), false},
		{"ѕend_email", "acme", end.Add(-1), false}, // a look-alike
	} {
		if got := p.Standing(c.tool, nil, c.project, "bot", c.now) != nil; got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
	for from, to := range map[string]string{
		"2026-12-31T00:00:00Z": "never", "[send_*]": `["*"]`, "olga": `""`, "name: report": "name: a b",
		"    tools: [send_*]\n":         "",
		"until: 2026-12-31T00:00:00Z\n": "level: L1\n",
	} {
		if _, err := Compile("t", []byte(head+strings.Replace(good, from, to, 1))); err == nil {
			t.Errorf("%q for %q is taken", to, from)
		}
	}
	for text, ok := range map[string]bool{"approval: {role: approver}\n": true,
		"approval: {role: approver:finance}\n": true, "approval: {role: operator}\n": false,
		"approval: {role: \"approver:\"}\n": false} {
		if _, err := Compile("t", []byte(head+text)); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}
