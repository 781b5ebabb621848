package approval

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/fuzztest"
	"lazaret/pkg/keys"
)

// FuzzStatements generates texts of notes, resolutions and attestations. A text without a signature must not open. A
// text with a signature of a pinned key may open only if it equals, byte for byte, the text that was signed.
func FuzzStatements(f *testing.F) {
	private, public := fuzztest.Key(f, "alice")
	signer, err := note.NewSigner(private)
	if err != nil {
		f.Fatal(err)
	}
	trust := new(keys.Trust)
	if err := trust.Add(keys.Pin{Key: public, Roles: []keys.Role{keys.RoleApprover}}); err != nil {
		f.Fatal(err)
	}
	s := statement()
	text, err := s.Text()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add(strings.Replace(string(text), "{", "{ ", 1))
	f.Add(strings.Replace(string(text), "}", `,"more":1}`, 1))
	w := BeliefStatement{Version: BeliefVersion, Project: "p", Belief: "b", Revision: strings.Repeat("0", 16),
		Decision: beliefDecisions[0], Nonce: strings.Repeat("0", 2*NonceSize), Expires: s.Expires}
	if text, err = w.Text(); err != nil {
		f.Logf("no seed of a word on a belief: %v", err)
	}
	f.Add(string(text))
	f.Add("{}\n")
	f.Fuzz(func(t *testing.T, text string) {
		fuzztest.Bounded(t, len(text), func() {
			if got, err := Open([]byte(text), trust); err == nil {
				t.Fatalf("unsigned, it opens as %+v", got)
			}
			if got, err := OpenBelief([]byte(text), trust); err == nil {
				t.Fatalf("unsigned, it opens as %+v", got)
			}
			msg, err := note.Sign(&note.Note{Text: text}, signer)
			if err != nil {
				return
			}
			var e *Error
			if got, err := Open(msg, trust); err == nil {
				if again, err := got.Text(); err != nil || again != text {
					t.Fatalf("%q opens as %+v", text, got)
				}
			} else if !errors.As(err, &e) {
				t.Fatalf("%v is no *Error", err)
			}
			if got, err := OpenBelief(msg, trust); err == nil {
				if again, err := got.Text(); err != nil || again != text {
					t.Fatalf("%q opens as %+v", text, got)
				}
			} else if !errors.As(err, &e) {
				t.Fatalf("%v is no *Error", err)
			}
		})
	})
}
