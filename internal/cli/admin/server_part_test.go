package admin

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lazaret/internal/cli/verb"
	"lazaret/internal/datafolder"
	"lazaret/internal/natstest"
	"lazaret/internal/part"
	"lazaret/pkg/keys"
)

func TestServerPartMakesTheOtherPartsAfterAnError(t *testing.T) {
	data, to := t.TempDir(), t.TempDir()
	for _, name := range []string{"auditor", "trim"} {
		files, err := part.Files(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			f = filepath.Join(data, f)
			text := `{"creds": "a.creds"}` // a context; for the other files, any text
			if err := errors.Join(os.MkdirAll(filepath.Dir(f), 0o700), os.WriteFile(f, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	private, public, err := keys.Generate("log")
	trust := new(keys.Trust)
	if err := errors.Join(err, os.WriteFile(datafolder.AuditorKey(data), []byte(private), 0o600),
		trust.Add(keys.Pin{Key: public, Roles: []keys.Role{keys.RoleAuditor}}),
		trust.Write(datafolder.TrustFile(data))); err != nil {
		t.Fatal(err)
	}
	run := func(ctx context.Context, more ...string) (stderr string, err error) {
		a := &verb.App{}
		a.Conn.Data = data
		c := serverPartCommand(a)
		var out bytes.Buffer
		c.SetOut(new(bytes.Buffer))
		c.SetErr(&out)
		c.SetArgs(append([]string{"auditor", "trim", "--to", to}, more...))
		err = c.ExecuteContext(ctx)
		return out.String(), err
	}
	if _, err := run(t.Context()); err != nil {
		t.Fatal(err)
	}
	bad := datafolder.TrustFile(filepath.Join(to, "auditor"))
	if err := os.WriteFile(bad, []byte("not: [closed"), 0o600); err != nil {
		t.Fatal(err)
	}
	last := datafolder.TrustFile(filepath.Join(to, "trim")) // the file that is made last
	again := func() bool {
		_, err := os.Stat(last)
		return err == nil
	}
	if err := os.Remove(last); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t.Context()); err == nil || !strings.Contains(err.Error(), "part auditor: "+bad) || !again() {
		t.Errorf("the part after the failed one is made: %t, %v", again(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan string, 1)
	go func() {
		said, err := run(ctx, "--every", "10ms")
		if err != nil && !strings.Contains(err.Error(), bad) {
			said = err.Error()
		}
		ended <- said
	}()
	for range 3 {
		if err := os.Remove(last); err != nil {
			t.Fatal(err)
		}
		natstest.Eventually(t, time.Minute, "the part is made again", again)
	}
	cancel()
	if said := <-ended; !strings.Contains(said, "part auditor: "+bad) {
		t.Errorf("the command does not report the failed part: %s", said)
	}
}
