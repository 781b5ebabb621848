package chain_test

import (
	"context"
	"fmt"
	"iter"
	"os"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/pkg/chain"
)

// This example proves to a reader who has the log's public key that a leaf is in the log. The proof is without the
// leaf's payload.
func ExampleLog_Prove() {
	l, dir, vs, _ := demo("first", "second", "third")
	defer os.RemoveAll(dir)
	defer l.Close()
	p, err := l.Prove(1)
	if err != nil {
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
	fmt.Printf("leaf %d, %s of %s, %d bytes, payload shown: %v\n", shown.Leaf.Index, shown.Leaf.Type, shown.Leaf.Project,
		shown.Leaf.Length, shown.Payload != nil)
	// Output: leaf 1, note of demo, 6 bytes, payload shown: false
}

// A destroyed key counts as a lawful erasure only if an entry of the log orders the erasure.
func ExampleLawful() {
	l, dir, vs, _ := demo("a secret")
	defer os.RemoveAll(dir)
	defer l.Close()
	if _, err := l.DestroyKeys("demo"); err != nil {
		panic(err)
	}
	lawful := &chain.Lawful{Statements: []string{"forget"}, Judge: func(all iter.Seq[*chain.Statement]) chain.Ruling {
		last := make(map[string]int64) // statement of a project
		for s := range all {
			last[s.Project] = s.Index
		}
		return chain.Ruling{May: func(subject string, erased bool, leaf *chain.Leaf) bool {
			return subject == leaf.Project && leaf.Index < last[leaf.Project]
		}}
	}}
	verify := func() {
		if _, err := l.Checkpoint(); err != nil {
			panic(err)
		}
		rep, err := l.Verify(context.Background(), chain.VerifyOptions{Verifiers: vs, Lawful: lawful})
		if err != nil {
			panic(err)
		}
		fmt.Println(rep.Status, rep.Forgotten)
	}
	verify()
	if err := l.Append([]chain.Entry{{Seq: 2, Time: time.Unix(2, 0), Type: "forget", Project: "demo",
		Subject: "statements", Payload: []byte("request 17")}}); err != nil {
		panic(err)
	}
	verify()
	// Output:
	// failed 0
	// verified 1
}

// This example changes the signing key. A reader who trusts only the old key then accepts the new key's signatures too.
func ExampleLog_Handover() {
	l, dir, vs, _ := demo("first")
	defer os.RemoveAll(dir)
	defer l.Close()
	private, public, err := note.GenerateKey(nil, "example.org/log")
	if err != nil {
		panic(err)
	}
	next, err := note.NewSigner(private)
	if err != nil {
		panic(err)
	}
	if _, err := l.Handover(next, public); err != nil {
		panic(err)
	}
	if err := l.Append([]chain.Entry{{Seq: 2, Time: time.Unix(2, 0), Type: "note", Project: "demo",
		Payload: []byte("second")}}); err != nil {
		panic(err)
	}
	cp, err := l.Checkpoint()
	if err != nil {
		panic(err)
	}
	if _, err = chain.OpenCheckpoint(cp, vs); err != nil {
		fmt.Println("the old key alone does not open it")
	}
	handovers, err := l.Handovers()
	if err != nil {
		panic(err)
	}
	c, err := chain.OpenSigned(cp, vs, handovers)
	fmt.Println(c.Size, err)
	// Output:
	// the old key alone does not open it
	// 2 <nil>
}

// This example exports a range of leaves. A reader checks the leaves with only the log's public key.
func ExampleSpan() {
	l, dir, vs, _ := demo("first", "second")
	defer os.RemoveAll(dir)
	defer l.Close()
	s, err := l.Span(0, 2)
	if err != nil {
		panic(err)
	}
	r, err := s.Read(vs)
	if err != nil {
		panic(err)
	}
	err = l.Range(s.From, s.To, func(_ int64, leaf chain.Leaf) error { return r.Add(leaf) })
	if err != nil {
		panic(err)
	}
	fmt.Println(r.Size(), r.Done())
	// Output: 2 <nil>
}

// Two logs of the same entries have the same tree, whatever their keys. If their entries differ, FirstDifference finds
// the first leaf in which they do.
func ExampleFirstDifference() {
	ctx := context.Background()
	a, dirA, vsA, _ := demo("first", "second", "third")
	defer os.RemoveAll(dirA)
	defer a.Close()
	b, dirB, vsB, _ := demo("first", "second, altered", "third")
	defer os.RemoveAll(dirB)
	defer b.Close()
	viewA, err := chain.NewView(ctx, a.Source(), vsA)
	if err != nil {
		panic(err)
	}
	viewB, err := chain.NewView(ctx, b.Source(), vsB)
	if err != nil {
		panic(err)
	}
	i, rooted, err := chain.FirstDifference(ctx, [2]chain.Source{a.Source(), b.Source()},
		[2]chain.Checkpoint{viewA.Checkpoint, viewB.Checkpoint})
	fmt.Println(i, rooted, err)
	// Output: 1 [true true] <nil>
}
