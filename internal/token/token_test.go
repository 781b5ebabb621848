package token

import (
	"os"
	"strings"
	"testing"
)

// The list has only the hash of a token. A token that is in the list but not in its file would be lost. So if the file
// cannot be written, Ensure must not list the token.
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
