package main

import (
	"path/filepath"
	"testing"

	"lazaret/internal/chaos"
)

func TestEachMutationFindsItsPlace(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	files, err := mutated(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 9 { // six changed files, and one more in each of three packages
		t.Errorf("%d files are changed", len(files))
	}
	for _, m := range mutants {
		if m.test == "" && (m.found == nil || m.found(&chaos.Report{}) != 0) {
			t.Errorf("mutant %s: found is nil, or counts a problem in an empty report", m.name)
		}
	}
}
