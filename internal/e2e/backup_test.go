package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lazaret/client"
	"lazaret/internal/datafolder"
	"lazaret/internal/embedded"
	"lazaret/internal/natstest"
	"lazaret/pkg/chain"
	"lazaret/streams"
)

// Backups are made while events come in, one to a folder and one to a file. A pipeline that is restored from a backup
// must have the same root of the log and the earlier verdicts. Its log must verify, and it must accept new events.
func TestABackupTakenUnderLoadIsRestoredAndGoesOn(t *testing.T) {
	long(t)
	t.Parallel()
	data, addr := filepath.Join(t.TempDir(), "data"), freePort(t)
	up := start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", addr)
	of := func(data string) *client.Client {
		t.Helper()
		c, err := client.New(connect(t, data, embedded.DefaultAgent), embedded.DefaultProject, embedded.DefaultAgent)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	propose := func(ctx context.Context, c *client.Client, i int) (uint64, error) {
		rep, err := c.Decide(ctx, &streams.Action{Head: streams.Head{ID: fmt.Sprintf("d%d", i), Session: "s"},
			Tool: "read_file"})
		if err != nil {
			return 0, err
		}
		return rep.Entry.Proposal, nil
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	proposals := make(map[int]uint64) // answered proposals
	answered := func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		return len(proposals)
	}
	c := of(data)
	var load sync.WaitGroup
	load.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			seq, err := propose(ctx, c, i)
			if err != nil {
				continue // the server is stopped for some time
			}
			mu.Lock()
			proposals[i] = seq
			mu.Unlock()
		}
	})
	natstest.Eventually(t, time.Minute, "proposals are answered", func() bool { return answered() > 20 })
	mu.Lock()
	before := make(map[int]uint64)
	for i, seq := range proposals {
		before[i] = seq
	}
	mu.Unlock()

	backup, archive := filepath.Join(filepath.Dir(data), "backup"), filepath.Join(filepath.Dir(data), "backup.tar")
	size, root := backUp(t, data, backup)
	packedSize, packedRoot := backUp(t, data, archive)
	n := answered()
	natstest.Eventually(t, time.Minute, "the pipeline goes on after the backup", func() bool { return answered() > n+5 })
	stop()
	load.Wait()
	for _, secret := range []string{"keys", "creds", "state"} {
		if es, err := os.ReadDir(filepath.Join(backup, secret)); err == nil && len(es) > 0 {
			t.Errorf("%s is in the backup", secret)
		}
	}
	for _, there := range []string{backup, archive} {
		if out, code := command(t, data, "backup", there, "--with-keys"); code == 0 ||
			!strings.Contains(out, "exists already") {
			t.Errorf("over another backup: exit %d: %s", code, out)
		}
	}
	if es, err := os.ReadDir(filepath.Join(data, "backups")); err != nil || len(es) > 0 {
		t.Errorf("the data folder keeps %v of the backups, %v", es, err)
	}

	keys := filepath.Join(data, "keys")
	restored := filepath.Join(filepath.Dir(data), "restored")
	if out, code := command(t, restored, "restore", backup); code == 0 || !strings.Contains(out, "--keys") {
		t.Errorf("without keys: exit %d: %s", code, out)
	}
	must(t, restored, "restore", backup, "--keys", keys)
	up.kill()
	if out, code := command(t, restored, "restore", backup, "--keys", keys); code == 0 ||
		!strings.Contains(out, "is not empty") {
		t.Errorf("over a data folder: exit %d: %s", code, out)
	}
	unpacked := filepath.Join(filepath.Dir(data), "unpacked")
	must(t, unpacked, "restore", archive, "--keys", keys)
	sameRoot(t, restored, size, root)
	sameRoot(t, unpacked, packedSize, packedRoot)
	for _, data := range []string{restored, unpacked} {
		up := start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", freePort(t))
		again := of(data)
		for i, seq := range before {
			if got, err := propose(t.Context(), again, i); err != nil || got != seq {
				t.Errorf("proposal %d is entry %d, %v, was %d", i, got, err, seq)
			}
		}
		if _, err := propose(t.Context(), again, 1_000_000); err != nil {
			t.Error(err)
		}
		must(t, data, "audit", "verify", "--ledger")
		up.kill()
	}
	whole, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(archive, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(filepath.Dir(data), "half")
	if out, code := command(t, half, "restore", archive, "--keys", keys); code == 0 ||
		!strings.Contains(out, "is damaged") {
		t.Errorf("half an archive: exit %d: %s", code, out)
	}
	if _, err := os.Stat(half); err == nil {
		t.Error("half an archive makes a data folder")
	}
}

// backUp makes a backup, and returns the size and the root of the log in it.
func backUp(t *testing.T, data, to string) (size int64, root string) {
	t.Helper()
	out := must(t, data, "backup", to, "--without-keys")
	_, told, _ := strings.Cut(out, to+" has ") // progress messages come before
	if _, err := fmt.Sscanf(told, "the log up to leaf %d, root %s", &size, &root); err != nil || size == 0 {
		t.Fatalf("%v: %s", err, out)
	}
	return size, root
}

// sameRoot checks that the log of a restored data folder has the given size and root.
func sameRoot(t *testing.T, data string, size int64, root string) {
	t.Helper()
	master, err := datafolder.ReadMasterKey(data)
	if err != nil {
		t.Fatal(err)
	}
	l, err := chain.Open(datafolder.AuditDir(data), chain.Options{MasterKey: master, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if h := l.Head(); h.Size < size {
		t.Errorf("%d leaves, the backup has %d", h.Size, size)
	}
	if got, err := l.Root(size); err != nil || got.String() != root {
		t.Errorf("root %s, %v, want %s", got, err, root)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
