package gateway

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

//go:generate go test -run TestTheReferencesOfTheClientsAreCurrent -update .

var update = flag.Bool("update", false, "write the references of the clients anew")

func TestTheReferencesOfTheClientsAreCurrent(t *testing.T) {
	for dir, command := range map[string][]string{
		"../../clients/python":     {"python3", "-B", "reference.py"},
		"../../clients/typescript": {"node", "reference.mjs"},
	} {
		if _, err := exec.LookPath(command[0]); err != nil {
			t.Skipf("SKIPPED: %s is not installed, so a reference was not compared", command[0])
		}
		c := exec.Command(command[0], command[1:]...)
		c.Dir = dir
		want, err := c.Output()
		if err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		file := filepath.Join(dir, "REFERENCE.md")
		if *update {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not current (%v): go generate ./internal/gateway", file, err)
		}
	}
}
