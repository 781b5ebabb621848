package intent_test

import (
	"testing"

	"lazaret/pkg/intent"
)

func TestARequestForAChangeNamesTheFile(t *testing.T) {
	for said, want := range map[string]bool{
		"Add a section on tests to CLAUDE.md, and commit it": true,
		"Please shorten `CLAUDE.md`.":                        true,
		"Put the hours into docs/CLAUDE.md":                  false,
		"Could you remove the line on tabs from CLAUDE.md?":  true,
		"Copy README.md to CLAUDE.md":                        true,
		"Write down in CLAUDE.md that we do not use yarn.":   true,
		"Update the notes.":                                  false,
		"Read CLAUDE.md.":                                    false,
		"What does CLAUDE.md say about adding tests?":        false,
		"Do not touch CLAUDE.md.":                            false,
		"Don't add anything to CLAUDE.md.":                   false,
		"Add a section to README.md. Look at CLAUDE.md too.": false,
		"Delete CLAUDE.md.":                                  false,
		"Claude, add a section on tests to the guide.":       false,
		"": false,
	} {
		s := new(intent.Said)
		s.Add(said)
		if got := s.AsksToChange([]intent.File{{Path: "/home/ana/p/CLAUDE.md", Loaded: true}}); got != want {
			t.Errorf("%q: %v", said, got)
		}
		if s.AsksToChange([]intent.File{{Path: "/p/CLAUDE.md", Loaded: true}, {Path: "/p/main.go"}}) || s.AsksToChange(nil) {
			t.Errorf("%q asks for a change of other files", said)
		}
	}
}
