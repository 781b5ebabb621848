package chain

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func TestATableThatIsCutWhileItIsReadIsAnErrorAndNotTheEndOfTheProcess(t *testing.T) {
	name := filepath.Join(t.TempDir(), "000001.sst")
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := mapped(vfs.Default).Open(name, vfs.SequentialReadsOption)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, ok := f.(*mappedFile); !ok {
		t.Fatalf("a table is a %T", f)
	}
	got := make([]byte, 1000)
	at := int64(len(content) - len(got))
	if n, err := f.ReadAt(got, at); n != len(got) || err != nil || !bytes.Equal(got, content[at:]) {
		t.Errorf("read %d bytes, %v", n, err)
	}
	if n, err := f.ReadAt(got, at+1); n != len(got)-1 || err != io.EOF {
		t.Errorf("beyond the end %d bytes are read, %v", n, err)
	}
	if n, err := f.ReadAt(got, int64(len(content))+1); n != 0 || err != io.EOF {
		t.Errorf("behind the end %d bytes are read, %v", n, err)
	}
	if err := os.Truncate(name, 0); err != nil {
		t.Fatal(err)
	}
	if n, err := f.ReadAt(got, at); n != 0 || err == nil {
		t.Errorf("of a file that was cut %d bytes are read, %v", n, err)
	}
}
