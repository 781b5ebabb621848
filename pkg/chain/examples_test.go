package chain_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/pkg/chain"
)

// demo makes a log with an entry for each text. It returns the log, its folder, the verifier of the key that signs its
// checkpoints, and its options.
func demo(texts ...string) (l *chain.Log, dir string, vs note.Verifiers, opts chain.Options) {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	dir, err := os.MkdirTemp("", "chain")
	must(err)
	private, public, err := note.GenerateKey(nil, "example.org/log")
	must(err)
	signer, err := note.NewSigner(private)
	must(err)
	v, err := note.NewVerifier(public)
	must(err)
	opts = chain.Options{Signer: signer, MasterKey: make([]byte, 32)}
	l, err = chain.Open(filepath.Join(dir, "log"), opts)
	must(err)
	for i, text := range texts {
		// A real writer makes a random salt for each entry.
		must(l.Append([]chain.Entry{{Seq: uint64(i) + 1, Time: time.Unix(int64(i), 0), Type: "note", Project: "demo",
			Salt: [16]byte{byte(i)}, Payload: []byte(text)}}))
	}
	_, err = l.Checkpoint()
	must(err)
	return l, dir, note.VerifierList(v), opts
}

// Someone with the log's key rewrites the log. A reader who has an earlier checkpoint detects the change.
func ExampleLog_Verify_convicts() {
	l, dir, vs, opts := demo("the order was refused", "the order was sent")
	defer os.RemoveAll(dir)
	kept := l.Head().Checkpoint
	l.Close()

	forged, err := chain.Open(filepath.Join(dir, "forged"), opts)
	if err != nil {
		panic(err)
	}
	defer forged.Close()
	if err := forged.Append([]chain.Entry{{Seq: 1, Type: "note", Project: "demo",
		Payload: []byte("the order was approved")}}); err != nil {
		panic(err)
	}
	if _, err := forged.Checkpoint(); err != nil {
		panic(err)
	}
	ctx := context.Background()
	alone, err := forged.Verify(ctx, chain.VerifyOptions{Verifiers: vs})
	if err != nil {
		panic(err)
	}
	held, err := forged.Verify(ctx, chain.VerifyOptions{Verifiers: vs, Against: [][]byte{kept}})
	if err != nil {
		panic(err)
	}
	fmt.Println("by itself:", alone.Status)
	fmt.Println("against the checkpoint that was kept:", held.Status)
	// Output:
	// by itself: verified
	// against the checkpoint that was kept: failed
}

// A proof shows to a reader who has only the public key that one entry is in the log.
func ExampleCheckProof() {
	l, dir, vs, _ := demo("first", "second", "third")
	defer os.RemoveAll(dir)
	defer l.Close()
	view, err := chain.NewView(context.Background(), l.Source(), vs)
	if err != nil {
		panic(err)
	}
	p, err := view.Prove(1)
	if err != nil {
		panic(err)
	}
	if p.Salt, p.Payload, err = l.Salted(1); err != nil {
		panic(err)
	}
	text, err := p.MarshalText()
	if err != nil {
		panic(err)
	}

	shown, err := chain.CheckProof(text, vs, nil)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s of ledger entry %d: %s\n", shown.Leaf.Type, shown.Leaf.Seq, shown.Payload)
	// Output: note of ledger entry 2: second
}

// Destroying a data subject's key forgets the subject's payloads. Every proof stays valid.
func ExampleLog_DestroyKeys() {
	l, dir, vs, _ := demo("a secret")
	defer os.RemoveAll(dir)
	defer l.Close()
	if _, err := l.DestroyKeys("demo"); err != nil {
		panic(err)
	}
	_, err := l.Payload(0)
	fmt.Println("forgotten:", errors.Is(err, chain.ErrForgotten))
	rep, err := l.Verify(context.Background(), chain.VerifyOptions{Verifiers: vs})
	if err != nil {
		panic(err)
	}
	fmt.Println(rep.Status, rep.Forgotten)
	// Output:
	// forgotten: true
	// verified 1
}

// This example serves a log in the layout of C2SP tlog-tiles, and makes another log from the served data.
func ExampleImport() {
	l, dir, vs, opts := demo("first", "second")
	defer os.RemoveAll(dir)
	defer l.Close()
	web := httptest.NewServer(chain.NewHandler(l.Source()))
	defer web.Close()

	src, err := chain.NewClient(web.URL, nil)
	if err != nil {
		panic(err)
	}
	copied := filepath.Join(dir, "copy")
	if err := chain.Import(context.Background(), copied, opts, src, vs, nil, nil); err != nil {
		panic(err)
	}
	c, err := chain.Open(copied, opts)
	if err != nil {
		panic(err)
	}
	defer c.Close()
	fmt.Println(c.Head().Size, c.Head().Root == l.Head().Root)
	// Output: 2 true
}
