package natsserver_test

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"lazaret/internal/natsserver"
)

// together calls f at the same time in n goroutines, with 0 to n-1, and returns their errors.
func together(n int, f func(i int) error) error {
	var ready, done sync.WaitGroup
	begin, errs := make(chan struct{}), make([]error, n)
	for i := range n {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-begin
			errs[i] = f(i)
		})
	}
	ready.Wait()
	close(begin)
	done.Wait()
	return errors.Join(errs...)
}

func TestASecretThatSeveralMakeAtOnceIsMadeOnce(t *testing.T) {
	data := t.TempDir()
	for round := range 20 {
		got := make([]string, 16)
		err := together(len(got), func(i int) (err error) {
			got[i], err = natsserver.Secret(data, fmt.Sprint("secret-", round))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range got {
			if s != got[0] {
				t.Fatalf("in round %d, one has %s and another one %s", round, got[0], s)
			}
		}
	}
}

func TestAnEmptyFileOfAKeyIsNoKey(t *testing.T) {
	data := t.TempDir()
	file := filepath.Join(natsserver.KeysDir(data), "jetstream.key")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte("\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := natsserver.Secret(data, "jetstream.key"); err == nil || !strings.Contains(err.Error(), file+" is empty") ||
		!strings.Contains(err.Error(), "try again") || !strings.Contains(err.Error(), "put the key back") {
		t.Errorf("an empty key: %v", err)
	}
}

func TestASymbolicLinkOfAKeyToNothingIsAnError(t *testing.T) {
	data := t.TempDir()
	file := filepath.Join(natsserver.KeysDir(data), "jetstream.key")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.Symlink("missing", file)); err != nil {
		t.Fatal(err)
	}
	if _, err := natsserver.Secret(data, "jetstream.key"); !errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "put the target back") {
		t.Errorf("a symbolic link to nothing: %v", err)
	}
}

func TestConfigurationsThatAreWrittenAtOnceHaveOneAuthority(t *testing.T) {
	const servers = 6
	data := t.TempDir()
	err := together(servers, func(i int) error {
		return natsserver.WriteConfig(new(bytes.Buffer), data, natsserver.ServerConfig{Name: fmt.Sprint("n", i),
			Listen: "127.0.0.1:4222", Store: "/nats", ClusterName: "c", Cluster: "0.0.0.0:6222",
			Routes: []string{"nats://n0:6222"}})
	})
	if err != nil {
		t.Fatal(err)
	}
	read := func(file string) *x509.Certificate {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(b)
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	authority := read(filepath.Join(natsserver.KeysDir(data), "cluster", "authority", "issuer.pem"))
	certs, err := filepath.Glob(filepath.Join(natsserver.ServerCertDir(data, "*"), "cert.pem"))
	if err != nil || len(certs) != servers {
		t.Fatalf("certificates %q, %v", certs, err)
	}
	for _, c := range certs {
		if err := read(c).CheckSignatureFrom(authority); err != nil {
			t.Errorf("%s is not signed by the authority: %v", c, err)
		}
	}
}

// The file that a server's configuration includes has the key of the streams, and may be its only copy. Writing the
// configuration again must not overwrite another key in the file.
func TestAConfigurationDoesNotOverwriteTheStreamsKey(t *testing.T) {
	data := t.TempDir()
	config := func() error {
		return natsserver.WriteConfig(new(bytes.Buffer), data, natsserver.ServerConfig{Name: "n1", Listen: "127.0.0.1:4222",
			Store: "/nats"})
	}
	if err := errors.Join(config(), config()); err != nil {
		t.Fatal(err)
	}
	file := natsserver.StorageKeyFile(data)
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(natsserver.KeysDir(data), "jetstream.key")
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if err := config(); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("jetstream.key is lost: %v", err)
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the key of the streams was overwritten: %v", err)
	}
}
