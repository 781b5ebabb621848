package hook

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Programs run or obey such files wherever the session works.
func TestAnEditOutsideTheProjectsFolderWaitsForAPerson(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	out := []string{"/etc/sudoers.d/zz", "/etc/cron.d/zz", "/etc/ld.so.preload", "/root/bin/git", "/usr/local/bin/git",
		home + "/.ssh/authorized_keys", home + "/.ssh/config", home + "/.vimrc", home + "/.npmrc",
		home + "/.cargo/config.toml", home + "/bin/git", home + "/other/main.go", "../other/main.go", "/tmp/lazaret-x",
		home + "/.bashrc", home + "/.claude/settings.json", home + "/.mcp.json", home + "/other/.git/hooks/pre-commit",
		home + "/.claude/CLAUDE.md", "plans/../../.ssh/authorized_keys", "circle/x", strings.Repeat("a/", 3000) + "x",
		"~/.ssh/authorized_keys", "link/authorized_keys", "keys", "sub/../../x.go", "link/../x.go", "new/../../x/y.go",
		"/proc/self/root/etc/cron.d/zz"} // this one is denied in any case
	for _, pages := range [][]page{nil, {harmless}} {
		s := work(t, "Write a test, and edit the parser", true, pages...)
		for _, err := range []error{os.MkdirAll(home+"/.ssh", 0o700), os.Symlink(home+"/.ssh", filepath.Join(s.cwd, "link")),
			os.Symlink(home+"/.claude/plans/a/b", filepath.Join(s.cwd, "plans")),
			os.Symlink("circle", filepath.Join(s.cwd, "circle")),
			os.Symlink(home+"/.ssh/authorized_keys", filepath.Join(s.cwd, "keys"))} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, file := range out {
			for _, tool := range []string{"Write", "Edit", "NotebookEdit"} {
				in := map[string]any{"file_path": file, "content": "zz", "old_string": "a", "new_string": "zz"}
				if tool == "NotebookEdit" {
					in = map[string]any{"notebook_path": file, "new_source": "zz"}
				}
				// not proposes, which makes the path absolute and clean
				got := s.event(PreToolUse, map[string]any{"tool_name": tool, "tool_use_id": "t-" + tool + file, "tool_input": in})
				if !denied(got) && (got == nil || got.Decision != "block") {
					t.Errorf("%s %s: %+v", tool, file, got)
				}
			}
		}
	}
	s := work(t, "Fix the failing test", true)
	if err := os.Symlink(s.cwd, filepath.Join(home, "work")); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"count.go", "sub/new/x.go", "sub/../count.go", home + "/work/count.go", "./a/b.go",
		home + "/.claude/plans/a.md"} {
		if got := s.event(PreToolUse, map[string]any{"tool_name": "Write", "tool_use_id": "u-" + file,
			"tool_input": map[string]any{"file_path": file, "content": "package widget\n"}}); got != nil {
			t.Errorf("%s: %+v", file, got.Specific)
		}
	}
	// The shell may be in another folder than the project.
	s.cfg.Folder = s.cwd
	s.cwd = home
	keys := map[string]any{"file_path": home + "/.ssh/authorized_keys", "content": "zz"}
	if got := s.proposes("Write", keys); !denied(got) {
		t.Errorf("from another working folder: %+v", got)
	}
}

func TestAnOrdinaryFileOutsideTheFolderPassesIfTheUserNamedIt(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	for prompt, want := range map[string]struct{ passes, held []string }{
		"Fix the failing test and write a summary to ~/notes/x.md.": {[]string{home + "/notes/x.md"},
			[]string{home + "/notes/y.md", home + "/x.md"}},
		"Fix the failing test in " + home + "/other, too.": {[]string{home + "/other/a/b.go"},
			[]string{home + "/other/.git/hooks/pre-commit", home + "/other/bin/git", home + "/others/a.go"}},
		"Fix the failing test, and look at " + home + ".":               {nil, []string{home + "/a.go", home + "/.profile"}},
		"Add the key to ~/.ssh/authorized_keys":                         {nil, []string{home + "/.ssh/authorized_keys"}},
		"Fix the failing test, but don't change " + home + "/other.":    {nil, []string{home + "/other/a.go"}},
		"Fix the failing test. Leave " + home + "/other/a.go as it is.": {nil, []string{home + "/other/a.go"}},
		"Fix the failing test and write a summary to `~/notes/z.md`.":   {[]string{home + "/notes/z.md"}, nil},
		"Fix the failing test. Don´t touch ~/notes/x.md":                {nil, []string{home + "/notes/x.md"}},
		"Put a line into /etc/cron.d/zz":                                {nil, []string{"/etc/cron.d/zz"}},
	} {
		s := work(t, prompt, true)
		for _, file := range want.passes {
			if got := s.proposes("Write", map[string]any{"file_path": file, "content": "zz"}); got != nil {
				t.Errorf("%q: %s: %+v", prompt, file, got.Specific)
			}
		}
		for _, file := range want.held {
			if got := s.proposes("Write", map[string]any{"file_path": file, "content": "zz"}); !denied(got) {
				t.Errorf("%q: %s: %+v", prompt, file, got)
			}
		}
	}
}

// A project that is the user's home has files in it that programs run or obey.
func TestAProjectThatIsTheHomeHasOnlyOrdinaryFiles(t *testing.T) {
	s := work(t, "Fix the failing test", true)
	t.Setenv("HOME", s.cwd)
	for _, file := range []string{".ssh/authorized_keys", ".npmrc", ".cargo/config.toml", "bin/ls", ".bashrc"} {
		if got := s.proposes("Write", map[string]any{"file_path": s.cwd + "/" + file, "content": "zz"}); !denied(got) {
			t.Errorf("%s: %+v", file, got)
		}
	}
	if got := s.proposes("Write", map[string]any{"file_path": s.cwd + "/count.go", "content": "zz"}); got != nil {
		t.Errorf("count.go: %+v", got.Specific)
	}
}

func TestALinkToAFileWithSecretsWaitsForAPerson(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	s := work(t, "Fix the failing test", true)
	if err := os.Symlink(home+"/.ssh/id_rsa", filepath.Join(s.cwd, "key.txt")); err != nil {
		t.Fatal(err)
	}
	if got := s.proposes("Read", map[string]any{"file_path": s.cwd + "/key.txt"}); !denied(got) {
		t.Errorf("%+v", got)
	}
	if got := s.proposes("Read", map[string]any{"file_path": s.cwd + "/count.go"}); got != nil {
		t.Errorf("an ordinary file: %+v", got.Specific)
	}
}
