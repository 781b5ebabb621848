package witness

import (
	"bytes"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"lazaret/internal/fuzztest"
)

// FuzzCosignature parses arbitrary answers of a witness. A cosignature that is accepted must verify with the witness's
// key over the checkpoint that was sent.
func FuzzCosignature(f *testing.F) {
	signer, key := fuzztest.Signer(f, "witness")
	cp, err := note.Sign(&note.Note{Text: "log\n5\n" + tlog.Hash{}.String() + "\n"})
	if err != nil {
		f.Fatal(err)
	}
	signed, err := note.Sign(&note.Note{Text: "log\n5\n" + tlog.Hash{}.String() + "\n"}, signer)
	if err != nil {
		f.Fatal(err)
	}
	line := bytes.TrimPrefix(signed, cp)
	f.Add(line)
	f.Add(append([]byte("— other AAAA\n\n\n"), line...))
	f.Add(line[:len(line)-5])
	f.Fuzz(func(t *testing.T, answer []byte) {
		fuzztest.Bounded(t, len(answer), func() {
			got, err := cosignature(cp, answer, key)
			if err != nil {
				return
			}
			if n, err := note.Open(append(bytes.Clone(cp), got...), note.VerifierList(key)); err != nil || len(n.Sigs) != 1 {
				t.Fatalf("the line %q was accepted from the answer %q, but is not a valid cosignature: %v",
					got, answer, err)
			}
		})
	})
}
