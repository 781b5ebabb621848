package chain_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/cockroachdb/pebble/v2/vfs"

	"lazaret/pkg/chain"
)

var update = flag.Bool("update", false, "write golden files anew")

// The vectors' key is no secret.
const vectorKey = "PRIVATE+KEY+lazaret.example/log+1412f529+AQABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"

// TestTheFormatIsTheOneOfTheVectors compares leaves, tree and checkpoints with the byte sequences in FORMAT.md. They
// must be equal.
func TestTheFormatIsTheOneOfTheVectors(t *testing.T) {
	s, err := note.NewSigner(vectorKey)
	if err != nil {
		t.Fatal(err)
	}
	l, err := chain.Open("log", chain.Options{FS: vfs.NewMem(), Signer: s, MasterKey: master})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at := time.Unix(1_700_000_000, 123456789)
	if _, err := l.NewEpoch(at); err != nil {
		t.Fatal(err)
	}
	if err := l.Append([]chain.Entry{{Seq: 3, Time: at, Type: "action", Project: "acme", Salt: [16]byte{1, 2, 3},
		Payload: []byte("hello world")}}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.NewEpoch(at.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	fmt.Fprintf(&got, "# The private key is for these vectors only.\nkey %s\n", vectorKey)
	fmt.Fprintf(&got, "salt 01020300000000000000000000000000\npayload %q\n", "hello world")
	if err := l.Range(0, 3, func(i int64, leaf chain.Leaf) error {
		raw, err := chain.AppendLeaf(nil, &leaf)
		if err != nil {
			return err
		}
		root, err := l.Root(i + 1)
		fmt.Fprintf(&got, "leaf %d %s %x\nhash %d %s\nroot of %d %s\n", i, leaf.Kind, raw, i, tlog.RecordHash(raw), i+1, root)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	cp, err := l.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&got, "checkpoint\n%s", cp)
	const file = "testdata/vectors.txt"
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the vectors are\n%s\nwant\n%s", got.Bytes(), want)
	}
}
