package chain

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// The store gets a record that no log has. Verification must find the record under any key, even if its key is a prefix
// of a valid key.
func TestARecordThatNoLogHasIsFound(t *testing.T) {
	l, err := Open("log", Options{FS: vfs.NewMem(), MasterKey: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Append([]Entry{{Seq: 1, Time: time.Unix(0, 1), Type: "observation", Project: "p",
		Payload: []byte("x")}}); err != nil {
		t.Fatal(err)
	}
	status := func() Status {
		t.Helper()
		rep, err := l.Verify(t.Context(), VerifyOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return rep.Status
	}
	if s := status(); s == Failed {
		t.Fatalf("the log itself is %s", s)
	}
	for first := range 256 {
		for _, rest := range [][]byte{nil, {0}, make([]byte, 7), make([]byte, 9), {0xff}} {
			k := append([]byte{byte(first)}, rest...)
			if _, c, err := l.db.Get(k); err == nil {
				c.Close()
				continue
			}
			if err := l.db.Set(k, []byte("stray"), pebble.Sync); err != nil {
				t.Fatal(err)
			}
			if s := status(); s != Failed {
				t.Errorf("with a record under %x the log is %s", k, s)
			}
			if err := l.db.Delete(k, pebble.Sync); err != nil {
				t.Fatal(err)
			}
		}
	}
	if s := status(); s == Failed {
		t.Errorf("without them it is %s", s)
	}
}
