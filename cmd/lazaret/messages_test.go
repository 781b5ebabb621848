package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lazaret/internal/cli"
	"lazaret/internal/natsfiles"
	"lazaret/internal/natsserver"
)

// The holder of a revoked credential learns that it was revoked and what to do. A second revocation
// reports that it changes nothing.
func TestPromiseA12ARevokedCredentialIsSaidToBeRevoked(t *testing.T) {
	data := t.TempDir()
	s, err := natsserver.Start(natsserver.Config{Data: data, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	if err := s.Minter().Install(natsserver.Grant{Name: "operator", Role: natsserver.RoleOperator, Lasts: time.Hour},
		s.URL(), true); err != nil {
		t.Fatal(err)
	}
	file := natsfiles.Creds(data, "acme.bot")
	observe := []string{"observe", "hello", "--project", "acme", "--agent", "bot", "--data", data}
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"agent", "add", "acme", "bot", "--data", data}, cli.ExitOK, nil},
		{[]string{"agent", "revoke", "acme", "bot", "--data", data}, cli.ExitOK, []string{"revoked 1", "refuses it"}},
		{[]string{"agent", "revoke", "acme", "bot", "--data", data}, cli.ExitOK, []string{"was revoked already, at 20",
			"refuses it"}},
		{[]string{"agent", "revoke", "acme", "bot", "--old", "--data", data}, cli.ExitOK,
			[]string{"nothing to revoke", "no earlier credential"}},
		{observe, cli.ExitFailed, []string{file, "was revoked at 20", "lazaret agent rotate"}},
		{[]string{"observe", "hello", "--server", s.URL(), "--creds", file, "--data", t.TempDir()}, cli.ExitFailed,
			[]string{file, "was revoked", "lazaret agent rotate"}},
		{[]string{"agent", "rotate", "acme.bot", "--data", data}, cli.ExitOK, nil},
	} {
		out, code := lazaret(t, c.args...)
		if code != c.code || strings.Contains(out, "revoked 0") {
			t.Errorf("%v: exit %d, want %d:\n%s", c.args, code, c.code, out)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%v does not say %q:\n%s", c.args, want, out)
			}
		}
	}
}

func TestAnUnknownCommandIsAnErrorThatSaysWhatThereIs(t *testing.T) {
	for args, want := range map[string]string{
		"audit nosuch":     "`lazaret audit --help`",
		"audit verfy":      "did you mean verify",
		"nosuch":           "unknown command",
		"agent token list": "did you mean ls",
		"rules tset":       "did you mean test",
	} {
		if out, code := lazaret(t, strings.Fields(args)...); code != cli.ExitFailed || !strings.Contains(out, want) {
			t.Errorf("lazaret %s ends with %d and does not say %q: %s", args, code, want, out)
		}
	}
}

func TestAMistakeOnTheCommandLineIsToldWithWhatIsMeant(t *testing.T) {
	other := filepath.Join(t.TempDir(), "groups.yaml")
	if err := os.WriteFile(other, []byte("groups:\n  core: [mine]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"decide", "x", "--agrs", "{}"}, "did you mean --args?"},
		{[]string{"decide", "x", "--nothing-like-it"}, "`lazaret decide --help` lists the flags"},
		{[]string{"rules", "explain", "--seq", "abc"}, `--seq: "abc" is not the position of a ledger entry`},
		{[]string{"top", "--interval", "5"}, `--interval is "5", want a duration such as 90s`},
		{[]string{"audit", "forget", "--subject", "p", "--reason", "r", "--wait", "0s"}, "--wait is 0s, want a duration"},
		{[]string{"audit", "forget", "--subject", "p", "--dry-run", "--wait", "-5s"}, "--wait is -5s, want a duration"},
		{[]string{"audit", "expire", "--wait", "0s"}, "--wait is 0s, want a duration"},
		{[]string{"audit", "trim", "--wait", "-1s"}, "--wait is -1s, want a duration"},
		{[]string{"decide"}, "it is called as: lazaret decide TOOL"},
		{[]string{"policy", "check", other}, "is not a policy: `lazaret policy show`"},
	} {
		if out, code := lazaret(t, c.args...); code == cli.ExitOK || !strings.Contains(out, c.want) {
			t.Errorf("lazaret %v ends with %d and does not say %q:\n%s", c.args, code, c.want, out)
		}
	}
	if out, code := lazaret(t, "--version"); code != cli.ExitOK || !strings.HasPrefix(out, "lazaret version ") {
		t.Errorf("--version: exit %d: %s", code, out)
	}
}

func TestRulesWithoutGroupsAreToldHowToNameThem(t *testing.T) {
	dir := t.TempDir()
	pack := filepath.Join(dir, "mine")
	if err := os.Mkdir(pack, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(pack, "pack.yaml"), []byte("version: 1\ndescription: Mine.\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"test", "check"} {
		out, code := lazaret(t, "rules", command, dir)
		if code == cli.ExitOK || !strings.Contains(out, "groups.yaml") ||
			!strings.Contains(out, "the file is missing: write it") || !strings.Contains(out, "extends: shipped") {
			t.Errorf("rules %s without groups.yaml ends with %d: %s", command, code, out)
		}
	}
}
