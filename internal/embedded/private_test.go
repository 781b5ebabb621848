package embedded_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"lazaret/internal/embedded"
	"lazaret/streams"
)

// Only the owner may have access to the data folder and its content, whatever the umask is. If an older version created
// the folder with other permissions, a start must correct them.
func TestPromiseA12TheDataFolderIsItsOwnersAlone(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	data := filepath.Join(t.TempDir(), "data")
	for round := range 2 {
		p, err := embedded.Start(t.Context(), embedded.Config{Data: data, Listen: "127.0.0.1:0", NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		c := agent(t, p, data, "acme")
		o := &streams.Observation{Head: streams.Head{ID: "o1", Session: "s"}, Tool: "web.fetch", Content: "a secret"}
		if _, err := c.Observe(t.Context(), "web", o); err != nil {
			t.Fatal(err)
		}
		if err := act(t.Context(), c, 0, round, 0); err != nil {
			t.Fatal(err)
		}
		check := func(when string) {
			t.Helper()
			err := filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
				if os.IsNotExist(err) {
					return nil // compacted meanwhile
				}
				if err != nil {
					return err
				}
				if fi, err := d.Info(); err == nil && fi.Mode().Perm()&0o077 != 0 {
					t.Errorf("%s: %s has mode %v", when, path, fi.Mode())
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		check("while it runs")
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		check("after its end")
		// As older versions left it.
		err = filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			mode := fs.FileMode(0o644)
			if d.IsDir() {
				mode = 0o755
			}
			return os.Chmod(path, mode)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
