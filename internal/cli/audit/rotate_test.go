package audit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/datafolder"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
)

// rotatable makes a data folder with a log, and returns the signer of its checkpoints.
func rotatable(t *testing.T) (data string, signer note.Signer, master []byte) {
	t.Helper()
	data = t.TempDir()
	if err := os.MkdirAll(filepath.Dir(datafolder.AuditorKey(data)), 0o700); err != nil {
		t.Fatal(err)
	}
	private, public, err := keys.Generate("log")
	if err != nil {
		t.Fatal(err)
	}
	if err := keys.WritePrivate(datafolder.AuditorKey(data), private); err != nil {
		t.Fatal(err)
	}
	trust := new(keys.Trust)
	if err := trust.Add(keys.Pin{Key: public, Roles: []keys.Role{keys.RoleAuditor}}); err != nil {
		t.Fatal(err)
	}
	if err := trust.Write(datafolder.TrustFile(data)); err != nil {
		t.Fatal(err)
	}
	if master, err = datafolder.MasterKey(data); err != nil {
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
	l, err := chain.Open(datafolder.AuditDir(data), chain.Options{Signer: signer, Origin: "log", MasterKey: master})
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
	public, err := rotate(data, "", "", datafolder.TrustFile(data))
	if err != nil {
		t.Fatal(err)
	}
	stolen := proofAfter(t, data, old, master, 2)
	next, err := keys.LoadSigner(datafolder.AuditorKey(data))
	if err != nil {
		t.Fatal(err)
	}
	after := proofAfter(t, data, next, master, 3)

	trust, err := keys.LoadTrust(datafolder.TrustFile(data))
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
	want := "its key " + id + " was replaced at size 1: it signs trees of at most 1 leaves, and this tree has 2"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a proof that the replaced key signed later: %v, want %q", err, want)
	}
}

// The trust file lacks the size at which a key was replaced, because the rotation was interrupted or was done by an
// earlier version. The next rotation must record the sizes for all replaced keys.
func TestARepeatedRotationRecordsThePeriodsOfAllReplacedKeys(t *testing.T) {
	data, old, master := rotatable(t)
	proofAfter(t, data, old, master, 1)
	if _, err := rotate(data, "", "", datafolder.TrustFile(data)); err != nil {
		t.Fatal(err)
	}
	trust, err := keys.LoadTrust(datafolder.TrustFile(data))
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
	if err := without.Write(datafolder.TrustFile(data)); err != nil {
		t.Fatal(err)
	}
	if _, err := rotate(data, "", "", datafolder.TrustFile(data)); err != nil {
		t.Fatal(err)
	}
	if trust, err = keys.LoadTrust(datafolder.TrustFile(data)); err != nil {
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

// A pod that hands the log over before its auditor starts gets the files of the old and of the next key again at each
// start. The log must be handed over only at the first start.
func TestAKeyThatWasMadeBeforeIsHandedOverOnce(t *testing.T) {
	data, old, master := rotatable(t)
	proofAfter(t, data, old, master, 1)
	private, public, err := keys.Generate(old.Name())
	if err != nil {
		t.Fatal(err)
	}
	file, own := datafolder.AuditorKey(data), t.TempDir()
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		key := filepath.Join(own, "signing.key")
		if err := errors.Join(os.RemoveAll(own), os.Mkdir(own, 0o700), os.WriteFile(key, before, 0o600),
			keys.WritePrivate(key+".next", private)); err != nil {
			t.Fatal(err)
		}
		if got, err := rotate(data, "", key, datafolder.TrustFile(data)); err != nil || got != public {
			t.Fatalf("it was handed over to %s, not to %s: %v", got, public, err)
		}
		if now, err := keys.LoadPrivate(key); err != nil || now != private {
			t.Errorf("the key is another one: %v", err)
		}
	}
	next, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	proofAfter(t, data, next, master, 2)
	l, err := chain.Open(datafolder.AuditDir(data), chain.Options{ReadOnly: true, MasterKey: master})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if hs, err := l.Handovers(); err != nil || len(hs) != 1 {
		t.Errorf("%d handovers, %v", len(hs), err)
	}
}
