package crashfs_test

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"lazaret/pkg/files/crashfs"
)

// With vfs.MemFS alone, this test hangs.
func TestACrashDoesNotWaitForAReusedFile(t *testing.T) {
	fs := crashfs.New()
	f, err := fs.Create("a", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	done, stop := make(chan error, 1), make(chan struct{})
	go func() {
		for from, to := "a", "b"; ; from, to = to, from {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			f, err := fs.ReuseForWrite(from, to, vfs.WriteCategoryUnspecified)
			if err != nil {
				done <- err
				return
			}
			f.Close()
		}
	}()
	crashed := make(chan struct{})
	go func() {
		for range 50_000 {
			fs.Crash(vfs.CrashCloneCfg{})
		}
		close(crashed)
	}()
	select {
	case <-crashed:
	case <-time.After(30 * time.Second):
		t.Fatal("a crash waits for a file that is opened")
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
