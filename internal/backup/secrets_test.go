package backup_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lazaret/internal/backup"
	"lazaret/internal/datafolder"
	"lazaret/internal/embedded"
	"lazaret/internal/natsconn"
	"lazaret/internal/natsfiles"
	"lazaret/internal/natsserver"
	"lazaret/internal/retain"
	"lazaret/internal/token"
)

// put writes a file of a data folder.
func put(t *testing.T, data, name string, b []byte) {
	t.Helper()
	path := filepath.Join(data, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, b, 0o600)); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// serve starts the server of a data folder.
func serve(t *testing.T, data string) *embedded.Pipeline {
	t.Helper()
	p, err := embedded.Start(t.Context(), embedded.Config{Data: data, Listen: "127.0.0.1:0", NoSync: true,
		ServerOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func copyOf(t *testing.T, p *embedded.Pipeline, keys bool) (dir string, left []string) {
	t.Helper()
	nc, err := p.Server.Connect(natsserver.RoleRetention)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if dir, left, err = (&retain.Config{Conn: nc}).Copy(t.Context(), keys); err != nil {
		t.Fatal(err)
	}
	return dir, left
}

// Keys, credentials and tokens are everywhere in the data folder, and a backup without keys has none of them.
func TestABackupWithoutKeysHasNoSecret(t *testing.T) {
	data := t.TempDir()
	p := serve(t, data)
	if _, _, err := token.New(data, natsfiles.DefaultContext, 0); err != nil {
		t.Fatal(err)
	}
	webhook, own := []byte("whsec_5f1d8a7c0b"), []byte("PRIVATE+KEY+alice+0a1b2c3d+AXfR0kQ1tHq1lq2fY8uJ3n5E")
	lazaretToken := []byte("lzt_0123456789abcdefghijABCDEFGHIJ")
	secrets := [][]byte{webhook, own, lazaretToken}
	for _, pattern := range []string{"keys/*.key", "keys/*.nk", "creds/*.creds"} {
		files, err := filepath.Glob(filepath.Join(data, pattern))
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, f := range files {
			secrets = append(secrets, bytes.TrimSpace(get(t, f)))
		}
	}
	operator := get(t, datafolder.OperatorKey(data))
	for _, old := range []string{"old", "jetstream/old"} {
		for _, folder := range []string{"keys", "creds"} {
			if err := os.CopyFS(filepath.Join(data, filepath.FromSlash(old), folder),
				os.DirFS(filepath.Join(data, folder))); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, b := range map[string][]byte{
		"notify.yaml": webhook, "notify/notify.yaml": webhook, "shards/oncall.yaml": webhook, "forgotten/oncall": webhook,
		"nats/context/mine.json": []byte(`{"url":"nats://x","token":"` + string(webhook) + `"}`), "old.tar": operator,
		"alice.key": own, "alice.key.old": own, "mykeys/bob.key": own, "console/alice": own, "notes.txt": own,
		"jetstream/alice": own, "jetstream/jetstream/alice": own, "state/old/alice": own, "state/ingest.snapshot/alice": own,
		"witnesses.policy": append(bytes.Repeat([]byte("long "), 1<<18), own...), "witnesses.policy.bak": own,
		"shards/2026.txt": own, "forgotten/alice.json": own, "notify/alice.key.json": own,
	} {
		put(t, data, name, b)
	}
	kept := []string{"memories/demo/agent/notes.md", "hooks/demo/agent/s1", "forgotten/r.note", "shards/2026-11.0-9.zip",
		"shards/sealed", "notify/dead.jsonl"}
	for _, name := range kept {
		put(t, data, name, []byte("harmless"))
	}
	if err := os.Symlink(datafolder.OperatorKey(data), filepath.Join(data, "memories", "link")); err != nil {
		t.Fatal(err)
	}

	dir, left := copyOf(t, p, false)
	for _, name := range append(kept, "trust.yaml", "jetstream/jetstream") {
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			t.Errorf("the backup lacks %v", err)
		}
	}
	for _, name := range []string{"old/", "jetstream/old/", "old.tar", "notify.yaml", "alice.key", "mykeys/",
		"witnesses.policy", "forgotten/alice.json", "notify/alice.key.json", "memories/link", "notes.txt"} {
		if !slices.Contains(left, name) {
			t.Errorf("%s is lost silently: %q", name, left)
		}
	}
	for _, name := range left {
		for _, nats := range []string{"meta.", ".blk", "index.db", "/msgs/", "/obs/"} {
			if strings.HasPrefix(name, "jetstream/jetstream/") && strings.Contains(name, nats) {
				t.Errorf("the backup lacks a file of the streams: %s", name)
			}
		}
	}
	archive := filepath.Join(t.TempDir(), "b.tar")
	if err := backup.PackFolder(dir, archive); err != nil {
		t.Fatal(err)
	}
	text := get(t, archive)
	for _, s := range secrets {
		if bytes.Contains(text, s) {
			t.Errorf("the backup has the secret %.12s…", s)
		}
	}
	aside := natsserver.KeysDir(data)
	restored := filepath.Join(t.TempDir(), "restored")
	if _, err := backup.Restore(t.Context(), archive, aside, restored); err != nil {
		t.Fatal(err)
	}
	serve(t, restored)

	with, left := copyOf(t, p, true)
	for _, name := range []string{"notify.yaml", "mykeys/bob.key", "keys/operator.key", "nats/context/mine.json"} {
		if _, err := os.Stat(filepath.Join(with, filepath.FromSlash(name))); err != nil {
			t.Errorf("a backup with keys lacks %v", err)
		}
	}
	if !slices.Equal(left, []string{"memories/link"}) {
		t.Errorf("a backup with keys left %q out", left)
	}
}

// Agents choose the names and contents of memories, and projects and persons have names that look like tokens. A backup
// without keys has all of this.
func TestABackupWithoutKeysHasAllMemories(t *testing.T) {
	data := t.TempDir()
	p := serve(t, data)
	text := []byte("lzt_0123456789abcdefghijABCDEFGHIJ " + string(get(t, filepath.Join(data, "keys", "signing.nk"))))
	names := []string{"memories/demo/agent/project.key.md", "memories/demo/agent/design.token-usage.md",
		"memories/demo/agent/.env", "memories/demo/agent/notify.yaml", "memories/demo/agent/two\nlines",
		"hooks/demo/agent/spool-1.token", "hooks/demo/agent/entry-1", "forgotten/20261121T112159Z-NEdcmmGc.note",
		"notify/acks.json", "notify/dead.jsonl", "notify/dead.1.jsonl", "notify/reminders-oncall.json",
		"notify/reminders-ops.token.json"}
	for _, name := range names {
		put(t, data, name, text)
	}
	dir, left := copyOf(t, p, false)
	if len(left) > 0 {
		t.Errorf("left out: %q", left)
	}
	restored := filepath.Join(t.TempDir(), "restored")
	if _, err := backup.Restore(t.Context(), dir, natsserver.KeysDir(data), restored); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if b, err := os.ReadFile(filepath.Join(restored, filepath.FromSlash(name))); err != nil || !bytes.Equal(b, text) {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

// If a backup lacks many of the user's own files and a file that Lazaret made, the first file in its list of missing
// files must be the one that Lazaret made.
func TestABackupNamesFirstTheFilesThatLazaretMade(t *testing.T) {
	data := t.TempDir()
	p := serve(t, data)
	for i := range 200 {
		put(t, data, fmt.Sprintf("a%d", i), []byte("mine"))
	}
	put(t, data, "witnesses.policy", []byte("PRIVATE+KEY+alice"))
	if _, left := copyOf(t, p, false); len(left) != 101 || left[0] != "witnesses.policy" || left[100] != "and 101 more" {
		t.Errorf("left out: %q", left)
	}
}

// The folders and files of a pipeline may be links, for example to another disk. A backup must have what the links point to.
func TestABackupCopiesWhatALinkInTheDataFolderPointsTo(t *testing.T) {
	data, disk := t.TempDir(), t.TempDir()
	if err := serve(t, data).Close(); err != nil {
		t.Fatal(err)
	}
	put(t, data, "memories/demo/agent/notes.md", []byte("remember"))
	put(t, disk, "mine", []byte("mine"))
	for _, name := range []string{"jetstream", "memories", "keys", "trust.yaml"} {
		move(t, filepath.Join(data, name), filepath.Join(disk, name))
	}
	if err := os.Symlink(filepath.Join(disk, "mine"), filepath.Join(data, "mine")); err != nil {
		t.Fatal(err)
	}
	p := serve(t, data)
	for _, keys := range []bool{true, false} {
		dir, left := copyOf(t, p, keys)
		if !slices.Equal(left, []string{"mine"}) {
			t.Errorf("with keys %t, left out: %q", keys, left)
		}
		aside := ""
		if !keys {
			aside = natsserver.KeysDir(data)
		}
		restored := filepath.Join(t.TempDir(), "restored")
		if _, err := backup.Restore(t.Context(), dir, aside, restored); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"jetstream/jetstream", "trust.yaml", "memories/demo/agent/notes.md"} {
			if _, err := os.Stat(filepath.Join(restored, filepath.FromSlash(name))); err != nil {
				t.Errorf("with keys %t: %v", keys, err)
			}
		}
		serve(t, restored)
	}
}

// move moves a file or folder and leaves a link.
func move(t *testing.T, from, to string) {
	t.Helper()
	if err := errors.Join(os.Rename(from, to), os.Symlink(to, from)); err != nil {
		t.Fatal(err)
	}
}

// If the copy lacks a file without which no pipeline can start, the backup must fail.
func TestABackupFailsIfItLacksANeededFile(t *testing.T) {
	data, disk := t.TempDir(), t.TempDir()
	p := serve(t, data)
	nc, err := p.Server.Connect(natsserver.RoleRetention)
	if err != nil {
		t.Fatal(err)
	}
	c := &retain.Config{Conn: nc}
	trust := get(t, datafolder.TrustFile(data))
	put(t, data, "trust.yaml", append([]byte("# PRIVATE+KEY+alice\n"), trust...))
	if _, _, err := c.Copy(t.Context(), false); err == nil || !strings.Contains(err.Error(), "trust.yaml was not copied") {
		t.Errorf("without the trust file: %v", err)
	}
	put(t, data, "trust.yaml", trust)
	nc.Close()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	move(t, filepath.Join(data, "jetstream", "jetstream"), filepath.Join(disk, "jetstream"))
	p = serve(t, data)
	if nc, err = p.Server.Connect(natsserver.RoleRetention); err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for _, keys := range []bool{true, false} {
		_, _, err := (&retain.Config{Conn: nc}).Copy(t.Context(), keys)
		if err == nil || !strings.Contains(err.Error(), "would lack streams") {
			t.Errorf("with keys %t, without the streams: %v", keys, err)
		}
	}
}

// A command for a restored data folder must never reach the pipeline from which the backup was made. The auditor of the
// restored folder must ask none of the witnesses of the original log.
func TestARestoredFolderReachesNoOtherPipeline(t *testing.T) {
	data := t.TempDir()
	p := serve(t, data)
	if err := os.WriteFile(datafolder.WitnessPolicy(data), []byte("quorum none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, keys := range []bool{true, false} {
		dir, _ := copyOf(t, p, keys)
		aside := ""
		if !keys {
			aside = natsserver.KeysDir(data)
		}
		restored := filepath.Join(t.TempDir(), "restored")
		if _, err := backup.Restore(t.Context(), dir, aside, restored); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(datafolder.WitnessPolicy(restored)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("with keys %t, the restored log has witnesses: %v", keys, err)
		}
		if list := string(get(t, backup.RestoredWitnesses(restored))); list != "quorum none\n" {
			t.Errorf("with keys %t, the list of witnesses is %q", keys, list)
		}
		t.Setenv("NATS_URL", p.Server.URL())
		t.Setenv("NATS_CREDS", natsserver.CredsFile(data, "operator"))
		for _, role := range []string{"operator", "agent"} {
			nc, err := (&natsconn.Flags{Data: restored}).Connect(role)
			if err == nil {
				nc.Close()
				t.Errorf("with keys %t, %s reaches %s", keys, role, nc.ConnectedUrl())
			} else if !errors.Is(err, natsconn.ErrNoServer) || !strings.Contains(err.Error(), "lazaret up --data "+restored) {
				t.Errorf("with keys %t, %s: %v", keys, role, err)
			}
		}
		err := filepath.WalkDir(filepath.Join(restored, "nats"), func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() && bytes.Contains(get(t, path), []byte(data+"/")) {
				t.Errorf("%s names the folder of the other pipeline", path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		again := serve(t, restored)
		for _, role := range []string{"operator", "agent"} {
			nc, err := (&natsconn.Flags{Data: restored}).Connect(role)
			if err != nil {
				t.Fatalf("with keys %t, %s after the start: %v", keys, role, err)
			}
			if nc.ConnectedUrl() != again.Server.URL() {
				t.Errorf("with keys %t, %s reaches %s", keys, role, nc.ConnectedUrl())
			}
			nc.Close()
		}
	}
}
