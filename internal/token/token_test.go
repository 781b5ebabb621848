package token

import (
	"os"
	"strings"
	"testing"
)

// A token is listed by its hash only, so one that is listed and not in its file is lost.
func TestATokenIsListedOnlyOnceItIsInItsFile(t *testing.T) {
	data := t.TempDir()
	file := File(data, "agent")
	if err := os.MkdirAll(file+"/x", 0o700); err != nil { // the file cannot be written
		t.Fatal(err)
	}
	if err := Ensure(data, "agent"); err == nil {
		t.Fatal("a folder was replaced")
	}
	if err := os.RemoveAll(file); err != nil {
		t.Fatal(err)
	}
	if err := Ensure(data, "agent"); err != nil {
		t.Fatal(err)
	}
	secret, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(data).Find(strings.TrimSpace(string(secret))); err != nil {
		t.Error(err)
	}
}
