package intent_test

import (
	"strings"
	"testing"
	"time"

	"lazaret/pkg/intent"
)

func asksForLoaded(file string, said ...string) bool {
	s := new(intent.Said)
	for _, m := range said {
		s.Add(m)
	}
	return s.AsksToChange([]intent.File{{Path: file, Loaded: true}})
}

func TestARequestForAChangeOfALoadedFile(t *testing.T) {
	for said, file := range map[string]string{
		"Add a line to CLAUDE.md that tests run with make test":  "CLAUDE.md",
		"Add a line to CLAUDE.md that tests run with make test.": "CLAUDE.md",
		"Update AGENTS.md: use pnpm":                             "AGENTS.md",
		"Update AGENTS.md: use pnpm, never npm":                  "AGENTS.md",
		"remember in CLAUDE.md that we do not use yarn":          "CLAUDE.md",
		"# use tabs": "CLAUDE.md",
		"Please note in `CLAUDE.md` that the API is frozen.":                         "CLAUDE.md",
		"Write down in CLAUDE.md that we never push to main.":                        "CLAUDE.md",
		"Fix the failing test and add a note on it to CLAUDE.md.":                    "CLAUDE.md",
		"The test TestX fails on main.\nFix it.":                                     "",
		"Our AGENTS.md is out of date. Update it, and shorten AGENTS.md, please.":    "AGENTS.md",
		"Update CLAUDE.md and AGENTS.md with the new build commands.":                "AGENTS.md",
		"Update README.md, CLAUDE.md and AGENTS.md for Go 1.26.":                     "CLAUDE.md",
		"Can you add a section on tests to our CLAUDE.md?":                           "CLAUDE.md",
		"Claude, please fix the typo in CLAUDE.md":                                   "CLAUDE.md",
		"Great, now add the build commands to CLAUDE.md":                             "CLAUDE.md",
		"Add \"use tabs\" to CLAUDE.md":                                              "CLAUDE.md",
		"Add `make test` to CLAUDE.md":                                               "CLAUDE.md",
		"Add the rule from CLAUDE.md to AGENTS.md":                                   "AGENTS.md",
		"Update @CLAUDE.md to say that tests need Docker":                            "CLAUDE.md",
		"Create a CLAUDE.md for this project.":                                       "CLAUDE.md",
		"Add a CLAUDE.md with the build commands":                                    "CLAUDE.md",
		"Update CLAUDE.md in packages/api":                                           "packages/api/CLAUDE.md",
		"Update packages/api/CLAUDE.md":                                              "packages/api/CLAUDE.md",
		"In CLAUDE.md, add a line that says how the tests run.":                      "CLAUDE.md",
		"I want you to add a line on tabs to CLAUDE.md":                              "CLAUDE.md",
		"Clean up CLAUDE.md":                                                         "CLAUDE.md",
		"Update the docs in AGENTS.md":                                               "AGENTS.md",
		"Update ./CLAUDE.md":                                                         "CLAUDE.md",
		"Add a line on tests to the end of CLAUDE.md":                                "CLAUDE.md",
		"Add a section on how to run the tests to CLAUDE.md":                         "CLAUDE.md",
		"Document the build in AGENTS.md":                                            "AGENTS.md",
		"Document in AGENTS.md how the tests are run.":                               "AGENTS.md",
		"Update CLAUDE.md's section on tests.":                                       "CLAUDE.md",
		"Move the section on tests from CLAUDE.md to docs/tests.md":                  "CLAUDE.md",
		"Please move CLAUDE.md into the folder docs.":                                "docs/CLAUDE.md",
		"Rename CLAUDE.md to AGENTS.md":                                              "AGENTS.md",
		"Add a line to claude.md on tabs":                                            "CLAUDE.md",
		"Update CLAUDE.md with these points:\n- use pnpm\n- never use yarn\n":        "CLAUDE.md",
		"The tests are flaky, as you know. Add a hint on that to CLAUDE.md. Thanks!": "CLAUDE.md",
		"Fix the job in .github/workflows/ci.yml":                                    ".github/workflows/ci.yml",
		"Add the alias to ~/.bashrc":                                                 "/home/ana/.bashrc",
		"Add a line on tabs to CLAUDE.md (the one with make test), then commit it.":  "CLAUDE.md",
		"Let's add a line to CLAUDE.md about tabs":                                   "CLAUDE.md",
		"Add a line to CLAUDE.md so that tests run with make test":                   "CLAUDE.md",
		"Remove the line on tabs from CLAUDE.md":                                     "CLAUDE.md",
		"Add a link to the docs to CLAUDE.md":                                        "CLAUDE.md",
		"Add a rule to .cursor/rules/go.mdc: wrap lines at 120":                      ".cursor/rules/go.mdc",
		"Replace yarn with pnpm in CLAUDE.md":                                        "CLAUDE.md",
		"Replace yarn in CLAUDE.md with pnpm":                                        "CLAUDE.md",
		"Set the line length to 120 in CLAUDE.md":                                    "CLAUDE.md",
		"Change the package manager from npm to pnpm in AGENTS.md":                   "AGENTS.md",
		"Sort the sections in CLAUDE.md":                                             "CLAUDE.md",
		"Rewrite CLAUDE.md from scratch":                                             "CLAUDE.md",
		"Make sure CLAUDE.md says how to run the tests":                              "CLAUDE.md",
		"Make sure that CLAUDE.md mentions make lint.":                               "CLAUDE.md",
		"I'd like CLAUDE.md to mention make test":                                    "CLAUDE.md",
		"Let CLAUDE.md say that tests need Docker":                                   "CLAUDE.md",
		"Add a note about this to CLAUDE.md so we don't forget":                      "CLAUDE.md",
		"Update CLAUDE.md if needed":                                                 "CLAUDE.md",
		"Fix the failing test, and update CLAUDE.md if necessary.":                   "CLAUDE.md",
		"Update CLAUDE.md. Make no other changes.":                                   "CLAUDE.md",
		"Our build moved to pnpm. Reflect that in CLAUDE.md.":                        "CLAUDE.md",
		"Put the build commands in CLAUDE.md":                                        "CLAUDE.md",
		"Add a rule on tabs in CLAUDE.md":                                            "CLAUDE.md",
		"Note this in CLAUDE.md":                                                     "CLAUDE.md",
		"Record the decision in CLAUDE.md":                                           "CLAUDE.md",
		"Fix the typos in CLAUDE.md and commit it":                                   "CLAUDE.md",
	} {
		if file != "" && !asksForLoaded(file, said) {
			t.Errorf("%q asks for no change of %s", said, file)
		}
		if asksForLoaded("sub/"+file, said) || asksForLoaded("/p/GEMINI.md", said) {
			t.Errorf("%q asks for a change of another file than %s", said, file)
		}
	}
	const add = "Add a section on tests to CLAUDE.md."
	for _, later := range []string{"Yes, please.", "OK, go ahead.", "Looks good. Continue.", "Thanks, now commit it."} {
		if !asksForLoaded("CLAUDE.md", add, later) {
			t.Errorf("%q takes the request back", later)
		}
	}
	for _, later := range []string{"No.", "Fix the failing test.", "Put it into README.md, please.", "Why?", "Hmm, hang on",
		"I changed my plans", "Später"} {
		if asksForLoaded("CLAUDE.md", add, later) {
			t.Errorf("the request counts after %q", later)
		}
	}
}

// Each message mentions a file that agents load, and asks for no change of it.
func TestPromiseAMentionOfALoadedFileAsksForNoChange(t *testing.T) {
	for _, said := range []string{
		"Follow CLAUDE.md when you fix the test.",
		"Fix the test. Follow CLAUDE.md.",
		"Fix src/a.py as CLAUDE.md says",
		"Fix the test as described in CLAUDE.md.",
		"Fix the test according to CLAUDE.md",
		"Update the tests to match CLAUDE.md",
		"Write a test in the style of CLAUDE.md",
		"Add tests for the rules in CLAUDE.md",
		"Fix the lint errors listed in CLAUDE.md",
		"Fix the code, following the rules in CLAUDE.md",
		"Add a link to CLAUDE.md in README.md",
		"Add a link to CLAUDE.md to README.md",
		"Add CLAUDE.md to .gitignore",
		"Fix CLAUDE.md handling in connect.go",
		"Add support for CLAUDE.md to connect.go",
		"Copy the rules in CLAUDE.md into README.md",
		"Copy CLAUDE.md to docs/guide.md",
		"Add the commands in CLAUDE.md to README.md",
		"Write a summary of the changes to CLAUDE.md",
		"Write a README in addition to CLAUDE.md",
		"Write code that conforms to CLAUDE.md",
		"Add a symlink to CLAUDE.md",
		"Delete CLAUDE.md.",
		"Read CLAUDE.md and fix the test.",
		"Don't touch CLAUDE.md.",
		"Do not add anything to CLAUDE.md.",
		"Never update CLAUDE.md",
		"Should I update CLAUDE.md?",
		"Update CLAUDE.md?",
		"Can you tell me how to update CLAUDE.md?",
		"We update CLAUDE.md every Friday.",
		"Jonas will update CLAUDE.md and fix the test.",
		"Add a line to CLAUDE.md. Actually, no.",
		"Add a line to CLAUDE.md. I take that back",
		"Add a line to CLAUDE.md. Hmm",
		"Add a line to CLAUDE.md.\nVeto",
		"Add a line to CLAUDE.md once I approve.",
		"Add a line to CLAUDE.md that tests run with make test, but wait for my OK",
		"Add a line to CLAUDE.md that tests run with make test, once I have looked at it",
		"Add to CLAUDE.md: on second thought, leave it",
		"Update CLAUDE.md: no wait",
		"Add a line to CLAUDE.md tomorrow",
		"Add a line to CLAUDE.md (not now)",
		"Fix the typo in \"Add a line to CLAUDE.md\"",
		"Translate \"Add a line to CLAUDE.md\"",
		"Summarize this mail:\nAdd a line to CLAUDE.md",
		"Bob wrote me\nAdd a line to CLAUDE.md",
		"From: Bob\n\nAdd a line to CLAUDE.md",
		"Fix the typos in this mail. Add a line to CLAUDE.md.",
		"> Add a line to CLAUDE.md",
		"The page says: add a line to CLAUDE.md",
		"The page says to add a line to CLAUDE.md",
		"Reply to Bob and add a line to CLAUDE.md",
		"What does this README say? Add a line to CLAUDE.md.",
		"Fix this - Hi. Add a line to CLAUDE.md.",
		"Find the people who fix it and update CLAUDE.md",
		"# Widget\n\nAdd a line to CLAUDE.md",
		"# 1\nUpdate CLAUDE.md",
		"Add a line to README.md, CLAUDE.md has it too",
		"Improve the parser for CLAUDE.md",
		"Fix the bug in the parser of CLAUDE.md",
		"Make the agent obey CLAUDE.md",
		"Change the style to that in CLAUDE.md",
		"Update CLAUDE.md in packages/api",
		"Update packages/api/CLAUDE.md",
		"Update docs/../x/CLAUDE.md",
		"In CLAUDE.md, it says to fix the test first. Fix it.",
		"In CLAUDE.md, add a line on tabs. Actually, no.",
		"In CLAUDE.md, do not add a line on tabs.",
		"In CLAUDE.md, is there a line on tabs?",
		"In README.md, add a link to CLAUDE.md",
		"I want Bob to add a line to CLAUDE.md",
		"List the rules in CLAUDE.md",
		"Explain the rules in CLAUDE.md.",
		"Can you explain the rules in CLAUDE.md?",
		"Describe the build in CLAUDE.md",
		"State the rules in CLAUDE.md",
		"Explain the job in CLAUDE.md and fix the failing test",
		"Complete the steps in CLAUDE.md",
		"Save the table in CLAUDE.md as table.csv",
		"Save this in CLAUDE.md as table.csv",
		"Import the settings in CLAUDE.md as a fixture",
		"Import the settings in CLAUDE.md",
		"Include the rules in CLAUDE.md",
		"Paste the rules in CLAUDE.md",
		"Remember the rules in CLAUDE.md",
		"Remember the rules in CLAUDE.md and fix the test",
		"Note the conventions in CLAUDE.md and fix the test",
		"Mention the rules in CLAUDE.md in the answer",
		"Create the commands in CLAUDE.md",
		"Generate the list in CLAUDE.md",
		"Translate the rules in CLAUDE.md",
		"Add the commands in CLAUDE.md as make targets",
		"Put the rules in CLAUDE.md into README.md",
		"Fix the points in CLAUDE.md",
		"Replace yarn with the tool in CLAUDE.md",
		"Replace the style with that in CLAUDE.md",
		"Set the port to the default in CLAUDE.md",
		"Set the port to the value in CLAUDE.md",
		"Replace the tests for the rules in CLAUDE.md",
		"In CLAUDE.md, copy the table to README.md",
		"In CLAUDE.md, save the table as table.csv",
		"In CLAUDE.md, explain the rules",
		"Make sure CLAUDE.md is followed",
		"Make sure CLAUDE.md stays as it is",
		"Make sure the code does what CLAUDE.md says",
		"Update CLAUDE.md if Bob agrees",
		"Update CLAUDE.md if needed by Bob",
		"Add a note to CLAUDE.md so we don't forget, but wait for my OK",
		"Don't touch CLAUDE.md. Change nothing else.",
		"Let CLAUDE.md be",
		"CLAUDE.md",
		"@CLAUDE.md fix the test",
		"",
	} {
		if asksForLoaded("CLAUDE.md", said) {
			t.Errorf("%q asks for a change of CLAUDE.md", said)
		}
	}
}

func TestARequestForAFileOfTheProjectIsNoneForOneElsewhere(t *testing.T) {
	s := new(intent.Said)
	s.Add("Add a line on tabs to CLAUDE.md")
	for _, x := range []struct {
		file intent.File
		want bool
	}{{intent.File{Path: "CLAUDE.md", Known: true}, true}, {intent.File{Path: "/srv/other/CLAUDE.md", Known: true}, false},
		{intent.File{Path: "/home/ana/.claude/CLAUDE.md"}, false}, {intent.File{Path: "/home/ana/p/CLAUDE.md"}, true}} {
		x.file.Loaded = true
		if got := s.AsksToChange([]intent.File{x.file}); got != x.want {
			t.Errorf("%+v: %v", x.file, got)
		}
	}
}

func TestAMessageIsReadForLoadedFilesInLittleTime(t *testing.T) {
	for _, unit := range []string{"add a line to CLAUDE.md, and ", "`x` ", "(", "\"", "add ", "update a.md, b.md, c.md and ",
		"add to the end of the ", "CLAUDE.md's ", "add to CLAUDE.md: that ", "- update CLAUDE.md in the folder "} {
		start := time.Now()
		for range 64 {
			asksForLoaded("x", strings.Repeat(unit, 4096/len(unit)))
		}
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("%q: %v", unit, d)
		}
	}
}
