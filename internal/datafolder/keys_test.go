package datafolder_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"lazaret/internal/datafolder"
	"lazaret/pkg/keys"
)

func TestPromiseB17EveryLogHasAnOriginOfItsOwn(t *testing.T) {
	seen := make(map[string]bool)
	for range 3 {
		data := t.TempDir()
		if _, err := datafolder.Trust(data); err != nil {
			t.Fatal(err)
		}
		s, err := keys.LoadSigner(datafolder.AuditorKey(data))
		if err != nil {
			t.Fatal(err)
		}
		if seen[s.Name()] {
			t.Errorf("two logs are called %s", s.Name())
		}
		seen[s.Name()] = true
		// A second call must keep the log's name.
		if _, err := datafolder.Trust(data); err != nil {
			t.Fatal(err)
		}
		if again, err := keys.LoadSigner(datafolder.AuditorKey(data)); err != nil || again.Name() != s.Name() {
			t.Errorf("%s became %v, %v", s.Name(), again, err)
		}
	}
}

func TestFirstStartsAtTheSameTimePinTheSameKeys(t *testing.T) {
	for round := range 20 {
		data := t.TempDir()
		var made [8]*keys.Trust
		var errs [8]error
		var done sync.WaitGroup
		begin := make(chan struct{})
		for i := range made {
			done.Go(func() {
				<-begin
				made[i], errs[i] = datafolder.Trust(data)
			})
		}
		close(begin)
		done.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatalf("in round %d: %v", round, err)
		}
		file, err := keys.LoadTrust(datafolder.TrustFile(data))
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, p := range file.Pins() {
			want = append(want, p.Key)
		}
		for _, trust := range made {
			for i, p := range trust.Pins() {
				if p.Key != want[i] {
					t.Fatalf("in round %d, %s is pinned, and the file has %s", round, p.Key, want[i])
				}
			}
		}
		for _, file := range []string{datafolder.OperatorKey(data), datafolder.AuditorKey(data)} {
			private, err := keys.LoadPrivate(file)
			if err != nil {
				t.Fatal(err)
			}
			if key, err := keys.Public(private); err != nil || !slices.Contains(want, key) {
				t.Fatalf("in round %d, %s has the key %s, %v, and pinned are %q", round, file, key, err, want)
			}
		}
	}
}
