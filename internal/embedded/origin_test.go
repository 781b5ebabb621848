package embedded

import (
	"testing"

	"lazaret/pkg/keys"
)

func TestPromiseB17EveryLogHasAnOriginOfItsOwn(t *testing.T) {
	seen := make(map[string]bool)
	for range 3 {
		data := t.TempDir()
		if _, err := Trust(data); err != nil {
			t.Fatal(err)
		}
		s, err := keys.LoadSigner(AuditorKey(data))
		if err != nil {
			t.Fatal(err)
		}
		if seen[s.Name()] {
			t.Errorf("two logs are called %s", s.Name())
		}
		seen[s.Name()] = true
		// It does not change.
		if _, err := Trust(data); err != nil {
			t.Fatal(err)
		}
		if again, err := keys.LoadSigner(AuditorKey(data)); err != nil || again.Name() != s.Name() {
			t.Errorf("%s became %v, %v", s.Name(), again, err)
		}
	}
}
