package backup_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"lazaret/internal/backup"
	"lazaret/internal/embedded"
	"lazaret/internal/natsserver"
	"lazaret/internal/retain"
	"lazaret/pkg/beliefs"
)

// A credential is revoked, and another one is made. The backup is from before this and the keys from after it, or the
// other way round, or both are from after it. The restored pipeline must refuse the revoked credential and accept the
// new one.
func TestARestoredBackupRefusesRevokedCredentials(t *testing.T) {
	data := t.TempDir()
	cfg := embedded.Config{Data: data, Listen: "127.0.0.1:0", NoSync: true, ServerOnly: true}
	p, err := embedded.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	add := func(name string) []byte {
		t.Helper()
		g := natsserver.Grant{Name: "acme." + name, Agent: &natsserver.Agent{Project: "acme", Name: name,
			Origins: []beliefs.Origin{beliefs.OriginTool}}}
		if err := p.Server.Minter().Install(g, "", false); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(natsserver.CredsFile(data, g.Name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	stolen := add("stolen")
	aside := filepath.Join(t.TempDir(), "aside")
	if err := os.CopyFS(aside, os.DirFS(natsserver.KeysDir(data))); err != nil {
		t.Fatal(err)
	}
	copies := func(keys bool) string {
		t.Helper()
		nc, err := p.Server.Connect(natsserver.RoleRetention)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		dir, _, err := (&retain.Config{Conn: nc}).Copy(t.Context(), keys)
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	before := copies(true)
	if r, err := p.Server.Minter().Revoke("acme.stolen", false); err != nil || r.Credentials != 1 {
		t.Fatal(r, err)
	}
	later := add("later")
	for _, c := range []struct {
		name, backup, keys string
	}{
		{"keys put aside before the revocation", copies(false), aside},
		{"a backup from before it, and later keys", before, natsserver.KeysDir(data)},
		{"a backup after it, with its keys", copies(true), ""},
	} {
		restored := filepath.Join(t.TempDir(), "restored")
		m, err := backup.Restore(t.Context(), c.backup, c.keys, restored)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if m.Count != 1 || m.Made.IsZero() || m.Revoked.IsZero() || m.Issued.IsZero() {
			t.Errorf("%s: %+v, want one revoked credential", c.name, m)
		}
		if _, err := os.Stat(filepath.Join(restored, "credentials.json")); !os.IsNotExist(err) {
			t.Errorf("%s: the copy of the list stays: %v", c.name, err)
		}
		q, err := natsserver.Start(natsserver.Config{Data: restored, Listen: "127.0.0.1:0", NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		connects := func(creds []byte) error {
			nc, err := nats.Connect(q.URL(), nats.UserCredentialBytes(creds))
			if err == nil {
				nc.Close()
			}
			return err
		}
		if err := connects(stolen); !errors.Is(err, nats.ErrAuthorization) && !errors.Is(err, nats.ErrAuthRevoked) {
			t.Errorf("%s: the server answers the revoked credential with %v", c.name, err)
		}
		if err := connects(later); err != nil {
			t.Errorf("%s: the server refuses the later credential: %v", c.name, err)
		}
		q.Shutdown()
		all, err := natsserver.Credentials(restored)
		if err != nil || !slices.ContainsFunc(all, func(i *natsserver.Issued) bool { return i.Name == "acme.later" }) {
			t.Errorf("%s: %d credentials are listed, %v", c.name, len(all), err)
		}
	}
	without := copies(false)
	// If the given folder is not a folder of keys, Restore fails. It must not restore without the revocations in the
	// right folder.
	for name, keys := range map[string]string{"that does not exist": aside + "x", "that is empty": t.TempDir(),
		"that is the data folder": data} {
		for what, dir := range map[string]string{"keys": before, "no keys": without} {
			restored := filepath.Join(t.TempDir(), "r")
			if _, err := backup.Restore(t.Context(), dir, keys, restored); err == nil ||
				!strings.Contains(err.Error(), "is not a folder of keys") {
				t.Errorf("a backup with %s, a folder of keys %s: %v", what, name, err)
			}
			if _, err := os.Stat(restored); !os.IsNotExist(err) {
				t.Errorf("a backup with %s, a folder of keys %s: something was restored: %v", what, name, err)
			}
		}
	}
	other := t.TempDir()
	s, err := natsserver.Start(natsserver.Config{Data: other, Listen: "127.0.0.1:0", NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Minter().Install(natsserver.Grant{Name: "acme.other", Agent: &natsserver.Agent{Project: "acme", Name: "other",
		Origins: []beliefs.Origin{beliefs.OriginTool}}}, "", false)
	s.Shutdown()
	if err != nil {
		t.Fatal(err)
	}
	restored := filepath.Join(t.TempDir(), "r")
	if _, err := backup.Restore(t.Context(), without, natsserver.KeysDir(other), restored); err == nil ||
		!strings.Contains(err.Error(), "not those of the backup") {
		t.Errorf("the keys of another data folder: %v", err)
	}
}
