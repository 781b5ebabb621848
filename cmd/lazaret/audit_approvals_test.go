package main

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/pkg/approval"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

// The arbiter's approvals in a log are checked against the signed statements.
func TestVerificationFindsADecisionThatNobodySigned(t *testing.T) {
	private, public, err := keys.Generate("alice")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	trust := new(keys.Trust)
	if err := trust.Add(keys.Pin{Key: public, Roles: []keys.Role{keys.RoleApprover}}); err != nil {
		t.Fatal(err)
	}
	file, err := trust.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	s := approval.Statement{Version: approval.Version, Project: "acme", Hold: "h1", Revision: "r1", Action: "sha256:" + strings.Repeat("ab", 32), Decision: approval.Approve,
		Expires: time.Now().UTC().Truncate(time.Second), Nonce: approval.NewNonce()}
	signed, err := s.Sign(signer)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		note string
		said streams.Resolved
		want [3]int // verified, not shown, wrong
	}{
		"as it was signed": {string(signed), streams.Resolved{Hold: "h1", Revision: "r1", State: streams.HoldApproved, Key: public, Entry: 7}, [3]int{1, 0, 0}},
		"another hold":     {string(signed), streams.Resolved{Hold: "h2", Revision: "r1", State: streams.HoldApproved, Key: public, Entry: 7}, [3]int{0, 0, 1}},
		"another decision": {string(signed), streams.Resolved{Hold: "h1", Revision: "r1", State: streams.HoldRejected, Key: public, Entry: 7}, [3]int{0, 0, 1}},
		"a forged note":    {strings.Replace(string(signed), "h1", "h2", 1), streams.Resolved{Hold: "h2", Revision: "r1", State: streams.HoldApproved, Key: public, Entry: 7}, [3]int{0, 0, 1}},
		"no note":          {string(signed), streams.Resolved{Hold: "h1", Revision: "r1", State: streams.HoldApproved, Key: public, Entry: 8}, [3]int{0, 1, 0}},
	} {
		x := newApprovals()
		see := func(index int64, seq uint64, typ streams.Type, body any) {
			b, err := streams.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			x.see(&chain.Leaf{Index: index, Seq: seq, Type: string(typ), Project: "acme"}, append([]byte("ingest 0 0\n"), b...))
		}
		// Payloads come in any order.
		see(9, 9, streams.TypeVerdict, &streams.VerdictEntry{Resolved: &c.said})
		see(7, 7, streams.TypeResolution, &streams.ResolutionEntry{Hold: "h1", Note: c.note})
		see(2, 2, streams.TypeActivation, &streams.ActivationEntry{Do: streams.DoActivateTrust, Digest: streams.Digest(file)})
		see(1, 1, streams.TypeChunk, &streams.ChunkEntry{Digest: streams.Digest(file), Count: 1, Chunk: file})
		checked, open, bad := x.check()
		if got := [3]int{checked, open, len(bad)}; got != c.want {
			t.Errorf("%s: %v, want %v: %v", name, got, c.want, bad)
		}
	}
}
