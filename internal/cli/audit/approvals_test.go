package audit

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

// pinning returns a trust file that pins a key as an approver's.
func pinning(t *testing.T, key string) []byte {
	t.Helper()
	trust := new(keys.Trust)
	if err := trust.Add(keys.Pin{Key: key, Roles: []keys.Role{keys.RoleApprover}}); err != nil {
		t.Fatal(err)
	}
	b, err := trust.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// approvalOfH1 returns a signed approval of hold h1, and the public key that signed it.
func approvalOfH1(t *testing.T) (signed []byte, public string) {
	t.Helper()
	private, public, err := keys.Generate("alice")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	s := approval.Statement{Version: approval.Version, Project: "acme", Hold: "h1", Revision: "r1",
		Action: "sha256:" + strings.Repeat("ab", 32), Decision: approval.Approve,
		Expires: time.Now().UTC().Truncate(time.Second), Nonce: approval.NewNonce()}
	signed, err = s.Sign(signer)
	if err != nil {
		t.Fatal(err)
	}
	return signed, public
}

// The arbiter's approvals in a log are checked against the signed statements.
func TestVerificationFindsADecisionThatNobodySigned(t *testing.T) {
	signed, public := approvalOfH1(t)
	file := pinning(t, public)
	for name, c := range map[string]struct {
		note string
		said streams.Resolved
		want [3]int // verified, not shown, wrong
	}{
		"as it was signed": {string(signed), streams.Resolved{Hold: "h1", Revision: "r1", State: streams.HoldApproved,
			Key: public, Entry: 7}, [3]int{1, 0, 0}},
		"another hold": {string(signed), streams.Resolved{Hold: "h2", Revision: "r1", State: streams.HoldApproved,
			Key: public, Entry: 7}, [3]int{0, 0, 1}},
		"another decision": {string(signed), streams.Resolved{Hold: "h1", Revision: "r1", State: streams.HoldRejected,
			Key: public, Entry: 7}, [3]int{0, 0, 1}},
		"a forged note": {strings.Replace(string(signed), "h1", "h2", 1), streams.Resolved{Hold: "h2", Revision: "r1",
			State: streams.HoldApproved, Key: public, Entry: 7}, [3]int{0, 0, 1}},
		"no note": {string(signed), streams.Resolved{Hold: "h1", Revision: "r1", State: streams.HoldApproved,
			Key: public, Entry: 8}, [3]int{0, 1, 0}},
	} {
		x := newApprovals()
		see := func(index int64, seq uint64, typ streams.Type, body any) {
			b, err := streams.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			x.see(&chain.Leaf{Index: index, Seq: seq, Type: string(typ), Project: "acme"}, append([]byte("ingest 0 0\n"), b...))
		}
		// Payloads may come in any order.
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

// A key that is not in the active trust file is not accepted, even if an earlier file pinned it.
func TestVerificationFindsADecisionByAKeyThatWasUnpinned(t *testing.T) {
	signed, public := approvalOfH1(t)
	_, other, err := keys.Generate("bob")
	if err != nil {
		t.Fatal(err)
	}
	before, after := pinning(t, public), pinning(t, other)
	for recorded, want := range map[int][3]int{
		0:                      {1, 0, 0},
		1:                      {1, 0, 0}, // the decision's partition may not have activated it yet
		streams.Partitions - 1: {1, 0, 0},
		streams.Partitions:     {0, 0, 1},
	} {
		x, index := newApprovals(), int64(0)
		see := func(typ streams.Type, body any) {
			b, err := streams.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			index++
			x.see(&chain.Leaf{Index: index, Seq: uint64(index), Type: string(typ), Project: "acme"},
				append([]byte("ingest 0 0\n"), b...))
		}
		see(streams.TypeChunk, &streams.ChunkEntry{Digest: streams.Digest(before), Count: 1, Chunk: before})
		see(streams.TypeChunk, &streams.ChunkEntry{Digest: streams.Digest(after), Count: 1, Chunk: after})
		for range streams.Partitions {
			see(streams.TypeActivation, &streams.ActivationEntry{Do: streams.DoActivateTrust, Digest: streams.Digest(before)})
		}
		for range recorded {
			see(streams.TypeActivation, &streams.ActivationEntry{Do: streams.DoActivateTrust, Digest: streams.Digest(after)})
		}
		see(streams.TypeResolution, &streams.ResolutionEntry{Hold: "h1", Note: string(signed)})
		see(streams.TypeVerdict, &streams.VerdictEntry{Resolved: &streams.Resolved{Hold: "h1", Revision: "r1",
			State: streams.HoldApproved, Key: public, Entry: uint64(index)}})
		checked, open, bad := x.check()
		if got := [3]int{checked, open, len(bad)}; got != want {
			t.Errorf("%d partitions recorded the later file: %v, want %v: %v", recorded, got, want, bad)
		}
	}
}
