package natsconn_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"lazaret/internal/natsconn"
	"lazaret/internal/natsserver"
)

func parse(t *testing.T, args ...string) *natsconn.Flags {
	t.Helper()
	f := new(natsconn.Flags)
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	f.Bind(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestTheFirstThatIsGivenWins(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	data := t.TempDir()
	s, err := natsserver.Start(natsserver.Config{Data: data, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	op := natsserver.RoleOperator
	if err := s.Minter().Install(natsserver.Grant{Name: "operator", Role: op, Description: "people"}, s.URL(),
		false); err != nil {
		t.Fatal(err)
	}
	creds := natsserver.CredsFile(data, "operator")
	for _, c := range []struct {
		name string
		env  map[string]string
		args []string
		role string
		ok   bool
	}{
		{name: "data folder", args: []string{"--data", data}, role: "operator", ok: true},
		{name: "data folder from the environment", env: map[string]string{"LAZARET_DATA": data}, role: "operator", ok: true},
		{name: "data folder of a flag beats the environment", env: map[string]string{"NATS_URL": "nats://127.0.0.1:1"},
			args: []string{"--data", data}, role: "operator", ok: true},
		{name: "environment beats its data folder", env: map[string]string{"NATS_URL": "nats://127.0.0.1:1",
			"LAZARET_DATA": data},
			role: "operator"},
		{name: "data folder without that role", args: []string{"--data", data}, role: "nobody"},
		{name: "server and creds", args: []string{"-s", s.URL(), "--creds", creds}, role: "operator", ok: true},
		{name: "server and creds from the environment", env: map[string]string{"NATS_URL": s.URL(), "NATS_CREDS": creds},
			role: "operator", ok: true},
		{name: "server flag beats the environment", env: map[string]string{"NATS_URL": "nats://127.0.0.1:1",
			"NATS_CREDS": creds}, args: []string{"-s", s.URL()}, role: "operator", ok: true},
		{name: "server beats the data folder", args: []string{"--data", data, "-s", "nats://127.0.0.1:1", "--creds", creds},
			role: "operator"},
		{name: "context file", args: []string{"--context", natsserver.ContextFile(data, "operator")}, role: "operator",
			ok: true},
		{name: "context file by a relative path",
			args: []string{"--context", relative(t, natsserver.ContextFile(data, "operator"))}, role: "operator", ok: true},
		{name: "context of the data folder by its name", args: []string{"--data", data, "--context", "operator"},
			role: "operator", ok: true},
		{name: "context that the data folder does not have", args: []string{"--data", data, "--context", "nobody"},
			role: "operator"},
		{name: "server without credential", args: []string{"-s", s.URL()}, role: "operator"},
		{name: "nothing", args: []string{"--data", t.TempDir()}, role: "operator"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			nc, err := parse(t, c.args...).Connect(c.role)
			if !c.ok {
				if err == nil {
					nc.Close()
					t.Fatal("it connected")
				}
				t.Log(err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			// The request succeeds only with the right inbox prefix.
			if _, err := nc.Request("$JS.API.INFO", nil, 2*time.Second); err != nil {
				t.Errorf("asking for an answer: %v", err)
			}
		})
	}
	_, err = parse(t, "--data", t.TempDir()).Connect("operator")
	if !errors.Is(err, natsconn.ErrNoServer) {
		t.Errorf("without anything the error is %v", err)
	}
}

func relative(t *testing.T, path string) string {
	t.Helper()
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if path, err = filepath.Rel(wd, path); err != nil {
		t.Fatal(err)
	}
	return path
}
