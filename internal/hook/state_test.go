package hook

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestRecordsOfAFolderWithBracketsAreSent(t *testing.T) {
	st, err := openState(filepath.Join(t.TempDir(), "[acme]"), "s1")
	if err != nil {
		t.Fatal(err)
	}
	if err := st.spool(time.Now(), []spooled{{"a", json.RawMessage("1")}}); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("no connection")
	h := &handler{st: st, send: func(context.Context, string, []byte) error { return refused }}
	if err := h.flush(t.Context()); !errors.Is(err, refused) {
		t.Errorf("a record that is not sent: %v", err)
	}
}

func TestOldSessionsAreKeptWhileSomethingStopsThem(t *testing.T) {
	for name, kept := range map[string]bool{"spool-1": true, fileEntry + "1": true, summaryEntry + "1": true,
		"call-1": false} {
		root := filepath.Join(t.TempDir(), "[acme]")
		old := &state{filepath.Join(root, "old")}
		if err := old.write(name, "x"); err != nil {
			t.Fatal(err)
		}
		then := time.Now().Add(-8 * 24 * time.Hour)
		if err := os.Chtimes(old.dir, then, then); err != nil {
			t.Fatal(err)
		}
		if err := (&state{filepath.Join(root, "new")}).write("call-2", "x"); err != nil {
			t.Fatal(err)
		}
		_, err := os.Stat(filepath.Join(old.dir, name))
		if (err == nil) != kept {
			t.Errorf("%s: kept is %v: %v", name, err == nil, err)
		}
	}
}
