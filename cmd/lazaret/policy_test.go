package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lazaret/internal/cli"
)

// policyCmd runs lazaret policy and returns its output and exit code.
func policyCmd(t *testing.T, args ...string) (string, int) {
	t.Helper()
	return lazaret(t, append([]string{"policy"}, args...)...)
}

func TestPolicyCommandsSayWhatThePolicyMakesOfACall(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(file, []byte("version: 1\nname: x\nmode: learn\ngroups: []\ntools: [{name: a, verbs: [get], "+
		"when: 'args.n > 1', level: L1}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("version: 1\nname: x\ngroups: []\negress: {allow: [10.0.0.1/8]}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"check"}, cli.ExitOK, "the policy is good"},
		{[]string{"check", file}, cli.ExitOK, "learn mode"},
		{[]string{"check", bad}, cli.ExitNegative, "write 10.0.0.0/8"},
		{[]string{"explain", "get_user"}, cli.ExitOK, "+ read (L1, allow)"},
		{[]string{"explain", "fetch_page", "--args", `{"url":"http://2130706433/"}`}, cli.ExitDeny,
			"destination 127.0.0.1: it is this machine"},
		{[]string{"explain", "send_email"}, cli.ExitHold, "waits for sentinel group core for 5s; if the group is " +
			"silent: hold"},
		{[]string{"explain", "get_user", "--annotations", `{"destructiveHint":true}`}, cli.ExitHold, "destructiveHint"},
		{[]string{"explain", "get_x", file, "--args", `{"n":1}`}, cli.ExitDeny, "- a (L1, allow)"},
		{[]string{"explain", "get_x", file, "--args", `{}`}, cli.ExitHold, "counts as met"},
		{[]string{"ls", "--where", `name == "visit"`}, cli.ExitOK, "read,egress"},
	} {
		if out, code := policyCmd(t, c.args...); code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%v: exit %d, want %d and %q:\n%s", c.args, code, c.code, c.want, out)
		}
	}
	out, _ := policyCmd(t, "explain", "send_email", "--json")
	var x struct {
		Verdict string           `json:"verdict"`
		Groups  []map[string]any `json:"groups"`
	}
	if err := json.Unmarshal([]byte(out), &x); err != nil || x.Verdict != "hold" || len(x.Groups) != 1 {
		t.Errorf("%v: %s", err, out)
	}
}
