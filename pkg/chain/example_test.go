package chain_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/pkg/chain"
)

func Example() {
	dir, err := os.MkdirTemp("", "chain")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	private, public, err := note.GenerateKey(nil, "example.org/log")
	if err != nil {
		panic(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		panic(err)
	}
	opts := chain.Options{Signer: signer, MasterKey: make([]byte, 32)}

	l, err := chain.Open(dir, opts)
	if err != nil {
		panic(err)
	}
	err = l.Append([]chain.Entry{
		{Seq: 1, Time: time.Unix(1, 0), Type: "note", Project: "demo", Salt: [16]byte{1}, Payload: []byte("first")},
		{Seq: 2, Time: time.Unix(2, 0), Type: "note", Project: "demo", Salt: [16]byte{2}, Payload: []byte("second")},
	})
	if err != nil {
		panic(err)
	}
	if _, err := l.Checkpoint(); err != nil {
		panic(err)
	}
	if err := l.Close(); err != nil {
		panic(err)
	}

	v, err := note.NewVerifier(public)
	if err != nil {
		panic(err)
	}
	rep, err := chain.VerifyDir(context.Background(), dir, opts, chain.VerifyOptions{Verifiers: note.VerifierList(v)})
	if err != nil {
		panic(err)
	}
	fmt.Println(rep.Status, rep.Size, rep.FirstBad)
	// Output: verified 2 -1
}
