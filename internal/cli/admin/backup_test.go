package admin

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lazaret/internal/cli/verb"
	"lazaret/internal/natsserver"
)

func TestARestoreSaysWhatBecameOfTheTokens(t *testing.T) {
	for tokens, want := range map[bool]string{true: "tokens that were revoked after the backup, 2026-11-01T00:00:00Z, have " +
		"access again", false: "no token is accepted anymore"} {
		var out bytes.Buffer
		sayRevoked(&out, &natsserver.Merged{Made: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)}, tokens)
		if !strings.Contains(out.String(), want) {
			t.Errorf("tokens %t:\n%s", tokens, out.String())
		}
	}
}

func TestABackupIsNotMadeInTheDataFolder(t *testing.T) {
	data := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(data, link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		data: true, data + "/old": true, data + "/backups/a/b.tar": true, link + "/b.tar": true, data + "-old": false,
		filepath.Dir(data) + "/b.tar": false,
	} {
		if got := inside(data, path); got != want {
			t.Errorf("%s is inside: %t", path, got)
		}
	}
	root := verb.Root(Verbs)
	root.SetArgs([]string{"backup", link + "/old", "--without-keys", "--data", data})
	if err := root.Execute(); err == nil || !strings.Contains(err.Error(), "is in the data folder") {
		t.Error(err)
	}
}
