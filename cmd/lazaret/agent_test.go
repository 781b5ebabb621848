package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"lazaret/internal/cli"
	"lazaret/internal/natsfiles"
	"lazaret/internal/natsserver"
)

// lazaret runs a command and returns its output and exit code.
func lazaret(t *testing.T, args ...string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&out)
	err := root.ExecuteContext(t.Context())
	var x *cli.Exit
	if errors.As(err, &x) {
		return out.String() + x.Text, x.Code
	}
	if err != nil {
		return out.String() + err.Error(), cli.ExitFailed
	}
	return out.String(), cli.ExitOK
}

func TestPromiseA12CredentialsOfAgentsAreListedRotatedAndRevoked(t *testing.T) {
	data := t.TempDir()
	s, err := natsserver.Start(natsserver.Config{Data: data, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	op := natsserver.Grant{Name: "operator", Role: natsserver.RoleOperator, Lasts: time.Hour}
	if err := s.Minter().Install(op, s.URL(), true); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
		not  string
	}{
		{[]string{"agent", "add", "acme", "bot", "--origins", "tool,web"}, cli.ExitOK, "expires      20", ""},
		{[]string{"agent", "add", "acme", "bot"}, cli.ExitFailed, "lazaret agent rotate acme.bot", ""},
		{[]string{"agent", "add", "acme", "eternal", "--expires", "0"}, cli.ExitOK, "expires      never", ""},
		{[]string{"agent", "ls"}, cli.ExitOK, "acme.bot", "operator"},
		{[]string{"agent", "ls", "--all", "--where", `role == "operator"`}, cli.ExitOK, "operator", "acme.bot"},
		{[]string{"agent", "rotate", "acme", "bot", "--keep-old"}, cli.ExitOK, "lazaret agent revoke acme bot --old", ""},
		{[]string{"agent", "ls", "--json", "--where", `name == "acme.bot" && state == "valid"`}, cli.ExitOK, `"acme.bot"`,
			"eternal"},
		{[]string{"agent", "revoke", "acme", "bot", "--old"}, cli.ExitOK, "revoked 1", ""},
		{[]string{"agent", "rotate", "acme", "bot", "--expires", "240h"}, cli.ExitOK, "expires", "the old one is valid"},
		{[]string{"agent", "token", "new", "acme", "bot", "--expires", "24h"}, cli.ExitOK, "lzt_", ""},
		{[]string{"agent", "token", "new", "operator", "--expires", "0"}, cli.ExitOK, "expires with its credential", ""},
		{[]string{"agent", "token", "new", "acme", "nobody"}, cli.ExitFailed, "lazaret agent add", "lzt_"},
		{[]string{"agent", "token", "new", "../keys/operator"}, cli.ExitFailed, "is not the name of a credential", "lzt_"},
		{[]string{"agent", "token", "ls"}, cli.ExitOK, "acme.bot", "lzt_"},
		{[]string{"agent", "token", "revoke", "operator"}, cli.ExitOK, "revoked 1", ""},
		{[]string{"agent", "token", "revoke", "operator"}, cli.ExitFailed, "lazaret agent token ls", ""},
		{[]string{"agent", "revoke", "acme", "bot"}, cli.ExitOK, "refuses it", ""},
		{[]string{"agent", "token", "ls"}, cli.ExitOK, "", "acme.bot"}, // gone with the credential
		{[]string{"agent", "token", "ls", "--all"}, cli.ExitOK, "revoked", "valid"},
		{[]string{"agent", "ls"}, cli.ExitOK, "acme.eternal", "acme.bot"},
		{[]string{"agent", "ls", "--all"}, cli.ExitOK, "revoked", ""},
		{[]string{"agent", "revoke", "acme", "nobody"}, cli.ExitFailed, "lazaret agent ls --all", ""},
		{[]string{"agent", "rotate", "operator"}, cli.ExitOK, "operator.creds", ""},
	} {
		out, code := lazaret(t, append(c.args, "--data", data)...)
		if code != c.code || !strings.Contains(out, c.want) || c.not != "" && strings.Contains(out, c.not) {
			t.Errorf("%v: exit %d, want %d and %q, not %q:\n%s", c.args, code, c.code, c.want, c.not, out)
		}
	}
}

// `agent revoke` takes a public key in place of a name. The test rotates a credential that has two HTTP tokens, and
// keeps the old key. Revoking the old key must not end the tokens, because they now belong to the new key. Revoking the
// new key must end both. No token can be made for a revoked or expired credential, because the server would refuse it.
func TestARevocationByKeyEndsTheTokensOfTheCredential(t *testing.T) {
	data := t.TempDir()
	s, err := natsserver.Start(natsserver.Config{Data: data, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	op := natsserver.Grant{Name: "operator", Role: natsserver.RoleOperator, Lasts: time.Hour}
	if err := s.Minter().Install(op, s.URL(), true); err != nil {
		t.Fatal(err)
	}
	run := func(code int, want string, args ...string) string {
		t.Helper()
		out, got := lazaret(t, append(args, "--data", data)...)
		if got != code || !strings.Contains(out, want) {
			t.Errorf("%v: exit %d, want %d and %q:\n%s", args, got, code, want, out)
		}
		return out
	}
	key := func() string {
		t.Helper()
		user, _, err := natsfiles.User(natsfiles.Creds(data, "acme.bot"))
		if err != nil {
			t.Fatal(err)
		}
		return user
	}
	run(cli.ExitOK, "", "agent", "add", "acme", "bot")
	run(cli.ExitOK, "lzt_", "agent", "token", "new", "acme", "bot")
	run(cli.ExitOK, "lzt_", "agent", "token", "new", "acme", "bot")
	old := key()
	run(cli.ExitOK, "", "agent", "rotate", "acme", "bot", "--keep-old")
	if out := run(cli.ExitOK, "revoked 1", "agent", "revoke", old); strings.Contains(out, "tokens") {
		t.Errorf("the revocation of the old one ends tokens of the new one:\n%s", out)
	}
	run(cli.ExitOK, "valid", "agent", "token", "ls")

	out := run(cli.ExitOK, "revoked its HTTP tokens: 2", "agent", "revoke", key())
	if !strings.Contains(out, "refuses it") {
		t.Errorf("the output does not say that the server refuses the credential:\n%s", out)
	}
	if out := run(cli.ExitOK, "revoked", "agent", "token", "ls", "--all"); strings.Contains(out, "valid") {
		t.Errorf("a token is valid:\n%s", out)
	}
	if out := run(cli.ExitFailed, "acme.bot is revoked", "agent", "token", "new", "acme", "bot"); strings.Contains(out,
		"lzt_") || !strings.Contains(out, "lazaret agent rotate acme.bot") {
		t.Errorf("a token for a revoked credential:\n%s", out)
	}
	run(cli.ExitOK, "", "agent", "rotate", "acme", "bot", "--expires", "1s")
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if all, _ := lazaret(t, "agent", "ls", "--all", "--where", `state == "expired"`, "--data", data); strings.Contains(all,
			"acme.bot") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the credential does not expire")
		}
	}
	run(cli.ExitFailed, "acme.bot is expired", "agent", "token", "new", "acme", "bot")
}
