package audit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/embedded"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
)

// rotatable makes a data folder with a log, and returns the signer of its checkpoints.
func rotatable(t *testing.T) (data string, signer note.Signer, master []byte) {
	t.Helper()
	data = t.TempDir()
	if err := os.MkdirAll(filepath.Dir(embedded.AuditorKey(data)), 0o700); err != nil {
		t.Fatal(err)
	}
	private, public, err := keys.Generate("log")
	if err != nil {
		t.Fatal(err)
	}
	if err := keys.WritePrivate(embedded.AuditorKey(data), private); err != nil {
		t.Fatal(err)
	}
	trust := new(keys.Trust)
	if err := trust.Add(keys.Pin{Key: public, Roles: []keys.Role{keys.RoleAuditor}}); err != nil {
		t.Fatal(err)
	}
	if err := trust.Write(embedded.TrustFile(data)); err != nil {
		t.Fatal(err)
	}
	if master, err = embedded.MasterKey(data); err != nil {
		t.Fatal(err)
	}
	if signer, err = note.NewSigner(private); err != nil {
		t.Fatal(err)
	}
	return data, signer, master
}

// proofAfter appends an entry to the data folder's log, signs its head and returns a proof of the entry.
func proofAfter(t *testing.T, data string, signer note.Signer, master []byte, seq uint64) []byte {
	t.Helper()
	l, err := chain.Open(embedded.AuditDir(data), chain.Options{Signer: signer, Origin: "log", MasterKey: master})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Append([]chain.Entry{{Seq: seq, Time: time.Unix(int64(seq), 0), Type: "observation", Project: "acme",
		Payload: []byte("x")}}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	p, err := l.Prove(l.Head().Size - 1)
	if err != nil {
		t.Fatal(err)
	}
	text, err := p.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestAKeyThatWasRotatedOutSignsNoLaterProof(t *testing.T) {
	data, old, master := rotatable(t)
	before := proofAfter(t, data, old, master, 1)
	public, err := rotate(data)
	if err != nil {
		t.Fatal(err)
	}
	stolen := proofAfter(t, data, old, master, 2)
	next, err := keys.LoadSigner(embedded.AuditorKey(data))
	if err != nil {
		t.Fatal(err)
	}
	after := proofAfter(t, data, next, master, 3)

	trust, err := keys.LoadTrust(embedded.TrustFile(data))
	if err != nil {
		t.Fatal(err)
	}
	vs := trust.Verifiers(keys.RoleAuditor)
	for name, text := range map[string][]byte{"before": before, "after": after} {
		if _, err := chain.CheckProof(text, vs, nil); err != nil {
			t.Errorf("the proof of %s the rotation to %s: %v", name, public, err)
		}
	}
	id := chain.KeyID(old.Name(), old.KeyHash())
	_, err = chain.CheckProof(stolen, vs, nil)
	want := "its key " + id + " was replaced at size 1: it signs trees of at most 1 leaves, and this one has 2"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a proof that the replaced key signed later: %v, want %q", err, want)
	}
}

// An interrupted rotation, or one by an earlier version, left the period of the key out of the trust file.
func TestARepeatedRotationRecordsThePeriodsOfAllReplacedKeys(t *testing.T) {
	data, old, master := rotatable(t)
	proofAfter(t, data, old, master, 1)
	if _, err := rotate(data); err != nil {
		t.Fatal(err)
	}
	trust, err := keys.LoadTrust(embedded.TrustFile(data))
	if err != nil {
		t.Fatal(err)
	}
	without := new(keys.Trust)
	for _, p := range trust.Pins() {
		p.ReplacedAt = nil
		if err := without.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := without.Write(embedded.TrustFile(data)); err != nil {
		t.Fatal(err)
	}
	if _, err := rotate(data); err != nil {
		t.Fatal(err)
	}
	if trust, err = keys.LoadTrust(embedded.TrustFile(data)); err != nil {
		t.Fatal(err)
	}
	var replaced []bool
	for _, p := range trust.Pins() {
		replaced = append(replaced, p.ReplacedAt != nil && *p.ReplacedAt == 1)
	}
	if len(replaced) != 3 || !replaced[0] || !replaced[1] || replaced[2] {
		t.Errorf("keys that are recorded as replaced: %v", replaced)
	}
}
