package hook

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
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

// The content of a session's state is erased. A session that was stopped stays stopped.
func TestErasureOfItsStateLetsNoSessionGoOn(t *testing.T) {
	const text = `{"memory":{"content":"the parcel of p-17"}}`
	data := t.TempDir()
	root := filepath.Join(data, "hooks", "demo")
	for session, name := range map[string]string{"spooled": spoolPrefix + "1", "file": fileEntry + "1",
		"summary": summaryEntry + "1", "held": "held-1"} {
		if err := (&state{filepath.Join(root, "agent", session)}).write(name, json.RawMessage(text)); err != nil {
			t.Fatal(err)
		}
	}
	files, err := Erasable(root)
	if err != nil || len(files) != 4 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		if err := Erase(file); err != nil {
			t.Error(err)
		}
		if b, err := os.ReadFile(file); len(b) > 0 {
			t.Errorf("%s has %s, %v", file, b, err)
		}
		if err := Erase(file); err != nil {
			t.Errorf("again: %v", err)
		}
	}
	for session, asked := range map[string]func(*handler) error{
		"spooled": func(h *handler) error { return h.flush(t.Context()) },
		"file":    func(h *handler) error { _, err := h.unadmitted(t.Context()); return err },
		"summary": func(h *handler) error { _, err := h.unadmitted(t.Context()); return err },
	} {
		err := asked(&handler{st: &state{filepath.Join(root, "agent", session)}})
		if err == nil || !strings.Contains(err.Error(), "end the session and remove the file") {
			t.Errorf("the session %s goes on: %v", session, err)
		}
	}
	left, err := os.ReadDir(filepath.Join(root, "agent"))
	if err != nil || len(left) != 3 {
		t.Errorf("folders %v, %v", left, err)
	}
	if files, err := Erasable(root); err != nil || len(files) > 0 {
		t.Errorf("afterwards: %q, %v", files, err)
	}
	if files, err := Erasable(filepath.Join(data, "none")); err != nil || len(files) > 0 {
		t.Errorf("without hooks: %q, %v", files, err)
	}
}
