package e2e

import (
	"bufio"
	"cmp"
	"io"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/cli/verb"
	"lazaret/internal/embedded"
	"lazaret/internal/natsconn"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// TestTheRefusalOfAnothersCommandIsNotThatOfAnActivation checks that an activation succeeds even if ingest refuses a
// command with another key at the same time. Half of the partitions refuse the other command. The other half starts
// only after that.
func TestTheRefusalOfAnothersCommandIsNotThatOfAnActivation(t *testing.T) {
	long(t)
	t.Parallel()
	data, state := t.TempDir(), t.TempDir()
	start(t, "lazaret is up", "lazaret", "up", "--server-only", "--data", data, "--listen", "127.0.0.1:0", "--no-sync")
	half := func(partitions string) {
		start(t, "ready", "ingest", "--data", data, "--partitions", partitions, "--state", filepath.Join(state, partitions))
	}
	half("0-7")
	a := &verb.App{Conn: natsconn.Flags{Data: data, Timeout: 10 * time.Second}}
	o, err := a.OpenOperator("", false)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Nc.Close()
	rejections, err := o.Nc.SubscribeSync("lz.live." + streams.SystemProject + ".rejected")
	if err != nil {
		t.Fatal(err)
	}
	ours := []byte("# ours\n" + string(policy.Default))
	if err := o.Publish(t.Context(), streams.DoActivatePolicy, ours); err != nil {
		t.Fatal(err)
	}
	sk, _, err := note.GenerateKey(nil, "mallory")
	if err != nil {
		t.Fatal(err)
	}
	mallory, err := note.NewSigner(sk)
	if err != nil {
		t.Fatal(err)
	}
	if err := embedded.Activate(t.Context(), o.Nc, mallory, streams.DoActivateRules, []byte("rules")); err != nil {
		t.Fatal(err)
	}
	for range streams.Partitions / 2 {
		if _, err := rejections.NextMsg(time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(cmp.Or(o.Await(t.Context(), streams.DoActivatePolicy, ours, w), io.EOF)) }()
	progress := bufio.NewReader(r)
	if said, err := progress.ReadString('\n'); err != nil {
		t.Fatalf("while half of the partitions have not decided: %s%v", said, err)
	}
	half("8-15")
	if _, err := io.ReadAll(progress); err != nil {
		t.Errorf("when all partitions have decided: %v", err)
	}
}
