package part

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/datafolder"
	"lazaret/internal/natsfiles"
	"lazaret/internal/natsserver"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
)

var trustFile, auditorKey = datafolder.TrustFile, datafolder.AuditorKey

// parted makes a data folder with keys and credentials, and a part for the auditor.
func parted(t *testing.T) (data, dir string) {
	t.Helper()
	dir = t.TempDir()
	data, dir = filepath.Join(dir, "data"), filepath.Join(dir, "part")
	if err := natsserver.WriteConfig(new(bytes.Buffer), data, natsserver.ServerConfig{Name: "n1", Listen: "127.0.0.1:4222",
		Store: "/nats"}); err != nil {
		t.Fatal(err)
	}
	m, err := natsserver.OpenMinter(data)
	if err != nil {
		t.Fatal(err)
	}
	_, err1 := datafolder.Trust(data)
	_, err2 := datafolder.MasterKey(data)
	if err := errors.Join(err1, err2, datafolder.MakeStateKey(data), installCredentials(m)); err != nil {
		t.Fatal(err)
	}
	if kept := again(t, data, dir); len(kept) > 0 {
		t.Fatalf("Make of a new part reports %q", kept)
	}
	return data, dir
}

// installCredentials creates the credentials of the auditor's part and of the part for trimming.
func installCredentials(m *natsserver.Minter) error {
	var errs []error
	for _, r := range []natsserver.Role{natsserver.RoleAuditor, natsserver.RoleService, natsserver.RoleRetention,
		natsserver.RoleOperator} {
		errs = append(errs, m.Install(natsserver.Grant{Name: string(r), Role: r, Lasts: time.Hour}, "nats://n1", true))
	}
	return errors.Join(errs...)
}

func again(t *testing.T, data, dir string) []string {
	t.Helper()
	kept, err := auditorPart(data, dir).Make()
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

func auditorPart(data, dir string) Part {
	return Part{Data: data, Name: "auditor", Dir: dir, At: dir}
}

func content(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// newKey replaces the auditor's key of a folder by a new one, and returns its public key. The old one is set aside,
// and the new one has its name, as by a rotation.
func newKey(t *testing.T, folder string) string {
	t.Helper()
	name, _, _ := strings.Cut(publicKey(auditorKey(folder)), "+")
	private, public, err := keys.Generate(name)
	if err != nil {
		t.Fatal(err)
	}
	_, err = keys.SetAside(auditorKey(folder))
	if err = errors.Join(err, os.Remove(auditorKey(folder)), keys.WritePrivate(auditorKey(folder), private)); err != nil {
		t.Fatal(err)
	}
	return public
}

// pins replaces the auditors' pins of a folder's trust file.
func pins(t *testing.T, folder string, auditors ...keys.Pin) {
	t.Helper()
	had, err := keys.LoadTrust(trustFile(folder))
	if err != nil {
		t.Fatal(err)
	}
	trust := new(keys.Trust)
	for _, p := range append(slices.DeleteFunc(had.Pins(), func(p keys.Pin) bool { return p.Has(keys.RoleAuditor) }),
		auditors...) {
		if err := trust.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := trust.Write(trustFile(folder)); err != nil {
		t.Fatal(err)
	}
}

func auditorPin(key string) keys.Pin { return keys.Pin{Key: key, Roles: []keys.Role{keys.RoleAuditor}} }

func replacedPin(key string, at int64) keys.Pin {
	p := auditorPin(key)
	p.ReplacedAt = &at
	return p
}

// pinned returns the keys of a folder's trust file. A replaced key is followed by @ and the number of leaves at which
// it was replaced.
func pinned(t *testing.T, folder string) (out []string) {
	t.Helper()
	trust, err := keys.LoadTrust(trustFile(folder))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range trust.Pins() {
		if k := p.Key; p.ReplacedAt != nil {
			out = append(out, fmt.Sprintf("%s@%d", k, *p.ReplacedAt))
		} else {
			out = append(out, k)
		}
	}
	return out
}

func TestPromiseAKeyThatWasRotatedInAPartOutlivesARepetitionOfServerPart(t *testing.T) {
	data, dir := parted(t)
	old := publicKey(auditorKey(dir))
	operator := pinned(t, data)[0]
	first, second := newKey(t, dir), newKey(t, dir)
	pins(t, dir, replacedPin(old, 3), replacedPin(first, 7), auditorPin(second))
	key, trust := content(t, auditorKey(dir)), pinned(t, dir)
	if kept := again(t, data, dir); len(kept) != 4 || !strings.Contains(kept[0], "replaced_at: 3 of "+old) {
		t.Errorf("Make reports %q", kept)
	}
	if content(t, auditorKey(dir)) != key {
		t.Error("the only copy of the new key is lost")
	}
	if got := pinned(t, dir); !slices.Equal(got, trust) {
		t.Errorf("pinned are %q, want %q", got, trust)
	}

	// The operator copies the part's trust file to the data folder first, and the part's key after that.
	if err := os.WriteFile(trustFile(data), []byte(content(t, trustFile(dir))), 0o600); err != nil {
		t.Fatal(err)
	}
	if kept := again(t, data, dir); len(kept) != 1 || !strings.Contains(kept[0], "the key in "+auditorKey(data)+
		" was replaced") {
		t.Errorf("with the key missing, Make reports %q", kept)
	}
	if err := os.WriteFile(auditorKey(data), []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	if kept := again(t, data, dir); len(kept) > 0 {
		t.Errorf("with nothing missing, Make reports %q", kept)
	}
	if content(t, auditorKey(dir)) != key || !slices.Equal(pinned(t, dir), trust) || trust[0] != operator {
		t.Error("the key or the pins have changed")
	}
}

func TestAKeyThatTheOperatorRotatedReachesThePartAndTheOldOneIsKept(t *testing.T) {
	data, dir := parted(t)
	old, private := publicKey(auditorKey(dir)), content(t, auditorKey(dir))
	fresh := newKey(t, data)
	pins(t, data, replacedPin(old, 3), auditorPin(fresh))
	kept := again(t, data, dir)
	if publicKey(auditorKey(dir)) != fresh || len(kept) != 1 {
		t.Errorf("the part has the key %s, want %s: %q", publicKey(auditorKey(dir)), fresh, kept)
	}
	aside, err := filepath.Glob(auditorKey(dir) + ".*")
	if err != nil || len(aside) != 1 || content(t, aside[0]) != private {
		t.Errorf("the old key is in %q: %v", aside, err)
	}
	if kept := again(t, data, dir); len(kept) > 0 {
		t.Errorf("the repeated Make reports %q", kept)
	}
}

func TestServerPartOverwritesNoOtherKeyOfAPart(t *testing.T) {
	data, dir := parted(t)
	own := newKey(t, dir) // of a second auditor
	pins(t, data, auditorPin(publicKey(auditorKey(data))), auditorPin(own))
	master := datafolder.MasterKeyFile(dir)
	if err := os.WriteFile(master, []byte("another\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	kept := again(t, data, dir)
	if publicKey(auditorKey(dir)) != own || content(t, master) != "another\n" {
		t.Error("a key was overwritten")
	}
	if len(kept) != 2 || !strings.Contains(kept[0], master+" stays as it is") || !strings.Contains(kept[1],
		auditorKey(dir)+" stays as it is") {
		t.Errorf("Make reports %q", kept)
	}
}

func TestAPinThatTheOperatorRemovedDoesNotStayInAPart(t *testing.T) {
	data, dir := parted(t)
	key := publicKey(auditorKey(dir))
	_, stolen, err1 := keys.Generate("log")
	_, approver, err2 := keys.Generate("alice")
	trust, err3 := keys.LoadTrust(trustFile(dir))
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	want := pinned(t, data)
	if err := errors.Join(trust.Add(auditorPin(stolen)), trust.Add(keys.Pin{Key: approver, Roles: []keys.Role{
		keys.RoleApprover}}), trust.Write(trustFile(dir))); err != nil {
		t.Fatal(err)
	}
	if kept := again(t, data, dir); len(kept) != 1 || !strings.Contains(kept[0], "no longer pins "+stolen) {
		t.Errorf("Make reports %q", kept)
	}
	if got := pinned(t, dir); !slices.Equal(got, want) || !slices.Contains(got, key) {
		t.Errorf("pinned are %q, want %q", got, want)
	}
	// A pin that the part keeps must not bring back another role of its key that the data folder has removed.
	pins(t, dir, replacedPin(key, 3), keys.Pin{Key: approver, Roles: []keys.Role{keys.RoleApprover, keys.RoleAuditor}})
	again(t, data, dir)
	if trust, err3 = keys.LoadTrust(trustFile(dir)); err3 != nil {
		t.Fatal(err3)
	}
	for _, p := range trust.Pins() {
		if p.Has(keys.RoleApprover) {
			t.Errorf("%s is an approver's key again", p.Key)
		}
	}
}

// Each case changes a data folder and a part that agree on the pins. want has the auditors' pins of the part after that.
func TestAPartKeepsOnlyThePinsOfItsOwnHandovers(t *testing.T) {
	_, leaked, err := keys.Generate("log")
	if err != nil {
		t.Fatal(err)
	}
	at := func(key string, size int) string { return fmt.Sprintf("%s@%d", key, size) }
	for name, c := range map[string]func(t *testing.T, data, dir, first string) (want []string){
		"a leaked key is removed after a rotation in the part": func(t *testing.T, _, dir, first string) []string {
			next := newKey(t, dir)
			pins(t, dir, replacedPin(first, 3), auditorPin(next), auditorPin(leaked))
			return []string{at(first, 3), next}
		},
		"a leaked key that was replaced is removed": func(t *testing.T, _, dir, first string) []string {
			pins(t, dir, auditorPin(first), replacedPin(leaked, 5))
			return []string{first}
		},
		"a mistaken replaced_at of another key is corrected": func(t *testing.T, data, dir, first string) []string {
			pins(t, data, auditorPin(first), auditorPin(leaked))
			pins(t, dir, auditorPin(first), replacedPin(leaked, 5))
			return []string{first, leaked}
		},
		"the private key that was replaced is destroyed": func(t *testing.T, _, dir, first string) []string {
			next := newKey(t, dir)
			aside, err := filepath.Glob(auditorKey(dir) + ".*")
			if err != nil || len(aside) != 1 || os.Remove(aside[0]) != nil {
				t.Fatalf("the old key is in %q, %v", aside, err)
			}
			pins(t, dir, replacedPin(first, 3), auditorPin(next))
			return []string{at(first, 3), next}
		},
		"the keys that replaced the part's are elsewhere": func(t *testing.T, _, dir, first string) []string {
			log, _, _ := strings.Cut(first, "+")
			_, second, err1 := keys.Generate(log)
			_, third, err2 := keys.Generate(log)
			_, other, err3 := keys.Generate("other")
			if err := errors.Join(err1, err2, err3); err != nil {
				t.Fatal(err)
			}
			pins(t, dir, replacedPin(first, 3), replacedPin(second, 7), auditorPin(third), auditorPin(other))
			return []string{at(first, 3), at(second, 7), third}
		},
		"a rotation was interrupted": func(t *testing.T, _, dir, first string) []string {
			private, next, err := keys.Generate("log")
			if err := errors.Join(err, keys.WritePrivate(auditorKey(dir)+".next", private)); err != nil {
				t.Fatal(err)
			}
			pins(t, dir, replacedPin(first, 3), auditorPin(next))
			return []string{at(first, 3), next}
		},
	} {
		t.Run(name, func(t *testing.T) {
			data, dir := parted(t)
			want := c(t, data, dir, publicKey(auditorKey(dir)))
			kept := again(t, data, dir)
			if got := pinned(t, dir)[1:]; !slices.Equal(got, want) {
				t.Errorf("pinned are %q, want %q: %q", got, want, kept)
			}
			o := auditorPart(data, dir)
			o.TrustOfData = true
			if _, err := o.Make(); err != nil {
				t.Fatal(err)
			}
			if got, want := content(t, trustFile(dir)), content(t, trustFile(data)); got != want {
				t.Errorf("with the data folder's pins:\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestAPartWithoutTheAuditorsKeyHasThePinsOfTheDataFolder(t *testing.T) {
	data, dir := parted(t)
	_, old, err := keys.Generate("log")
	if err != nil {
		t.Fatal(err)
	}
	o := auditorPart(data, dir)
	o.Name = "trim"
	if _, err := o.Make(); err != nil {
		t.Fatal(err)
	}
	pins(t, dir, replacedPin(publicKey(auditorKey(data)), 3), replacedPin(old, 5))
	if kept, err := o.Make(); err != nil || len(kept) > 0 || content(t, trustFile(dir)) != content(t, trustFile(data)) {
		t.Errorf("the pins are %q: %q, %v", pinned(t, dir), kept, err)
	}
}

func TestAnEmptyKeyOfAPartIsReplacedAndADamagedOneIsAnError(t *testing.T) {
	data, dir := parted(t)
	master := datafolder.MasterKeyFile(dir)
	if err := errors.Join(os.WriteFile(auditorKey(dir), nil, 0o600), os.WriteFile(master, []byte("\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if kept := again(t, data, dir); len(kept) != 2 || !strings.Contains(kept[1], auditorKey(dir)+" was empty") {
		t.Errorf("with empty keys, Make reports %q", kept)
	}
	for _, file := range []string{auditorKey(""), datafolder.MasterKeyFile("")} {
		if content(t, filepath.Join(dir, file)) != content(t, filepath.Join(data, file)) {
			t.Errorf("%s is not the data folder's", file)
		}
	}
	damaged := content(t, auditorKey(dir))[:20]
	if err := os.WriteFile(auditorKey(dir), []byte(damaged), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := auditorPart(data, dir).Make(); err == nil || !strings.Contains(err.Error(), auditorKey(dir)) {
		t.Errorf("a damaged key: %v", err)
	}
	if content(t, auditorKey(dir)) != damaged {
		t.Error("the damaged key was overwritten")
	}
}

func TestAKeyWithTheRoleAuditorInThePartOnlyIsAnError(t *testing.T) {
	data, dir := parted(t)
	trust, err := keys.LoadTrust(trustFile(dir))
	if err != nil {
		t.Fatal(err)
	}
	next, other := newKey(t, dir), trust.Pins()[0].Key
	for name, key := range map[string]string{"operator": other, "own": next} {
		if name == "own" {
			trust, err := keys.LoadTrust(trustFile(data))
			if err = errors.Join(err, trust.Add(keys.Pin{Key: key, Roles: []keys.Role{keys.RoleOperator}}),
				trust.Write(trustFile(data))); err != nil {
				t.Fatal(err)
			}
		}
		part := new(keys.Trust)
		if err := errors.Join(part.Add(replacedPin(key, 3)), part.Write(trustFile(dir))); err != nil {
			t.Fatal(err)
		}
		had := content(t, trustFile(dir))
		if _, err := auditorPart(data, dir).Make(); err == nil || !strings.Contains(err.Error(), trustFile(dir)+" pins "+key) ||
			!strings.Contains(err.Error(), trustFile(data)) {
			t.Errorf("%s: %v", name, err)
		}
		if content(t, trustFile(dir)) != had {
			t.Errorf("%s: the part's trust file was overwritten", name)
		}
		o := auditorPart(data, dir)
		o.TrustOfData = true
		if _, err := o.Make(); err != nil || content(t, trustFile(dir)) != content(t, trustFile(data)) {
			t.Errorf("%s, with --trust-of-data: %v", name, err)
		}
	}
}

func TestAHandoverThatIsMadeDuringServerPartIsNotLost(t *testing.T) {
	data, dir := parted(t)
	first := publicKey(auditorKey(dir))
	next := newKey(t, dir)
	pipe := auditorKey(dir) + ".pipe"
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	made := make(chan error, 1)
	go func() {
		_, err := auditorPart(data, dir).Make()
		made <- err
	}()
	// Make reads the pins of the part, and then its keys. It waits there, before it writes the pins, until the pipe has
	// been opened and closed.
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := os.Open(dir) // as datafolder.WithTrustFile
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Errorf("a handover can be made between reading and writing the pins: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	handed := make(chan error, 1)
	go func() {
		handed <- datafolder.WithTrustFile(trustFile(dir), func() error {
			trust, err := keys.LoadTrust(trustFile(dir))
			if err != nil {
				return err
			}
			v, err := note.NewVerifier(first)
			if err != nil {
				return err
			}
			trust.Replaced(chain.KeyID(v.Name(), v.KeyHash()), 7)
			return errors.Join(trust.Add(auditorPin(next)), trust.Write(trustFile(dir)))
		})
	}()
	if err := errors.Join(w.Close(), <-made, <-handed); err != nil {
		t.Fatal(err)
	}
	if got, want := pinned(t, dir)[1:], []string{first + "@7", next}; !slices.Equal(got, want) {
		t.Errorf("pinned are %q, want %q", got, want)
	}
}

func TestATrustFileThatCannotBeReadIsNotOverwritten(t *testing.T) {
	data, dir := parted(t)
	creds := natsfiles.Creds(dir, string(natsserver.RoleAuditor))
	if err := errors.Join(os.WriteFile(trustFile(dir), []byte("not: [closed"), 0o600), os.Remove(creds),
		os.Remove(auditorKey(dir))); err != nil {
		t.Fatal(err)
	}
	if _, err := auditorPart(data, dir).Make(); err == nil || !strings.Contains(err.Error(), trustFile(dir)) {
		t.Errorf("a trust file with an error: %v", err)
	}
	if content(t, trustFile(dir)) != "not: [closed" {
		t.Error("the damaged trust file was overwritten")
	}
	if content(t, creds) == "" || publicKey(auditorKey(dir)) != publicKey(auditorKey(data)) {
		t.Error("the credential or the key is not written")
	}
}
