package retain

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// An erasure of a project or of a person must remove its files of the memory tool and of hooks, and no other files.
func TestTheFilesOfTheGatewayAndOfHooksGoWithTheirSubject(t *testing.T) {
	files := []string{ // by what removes them
		"memories/demo/agent/users/p-17/notes.md", "memories/demo/agent/users/!ann/notes.md",
		"memories/demo/agent/shared/notes.md", "memories/other/agent/users/p-17/notes.md",
		"hooks/demo/agent/s1/held-1", "hooks/demo/agent/s2/held-1", "hooks/other/agent/s1/held-1",
		"memories/demo/agent2/users/p-17/notes.md", "hooks/demo/agent/s1/spool-1", "memories/demo/file",
		"memories/demo/agent/subjects/p-17/shared/notes.md", "memories/demo/agent/subjects/p-17/users/!ann/notes.md",
		"memories/demo/agent/subjects/p-18/users/!ann/notes.md", "memories/demo/agent/subjects/p-18/users/bob/notes.md",
		"memories/demo/agent/held/subjects/p-17/shared/0a", "memories/demo/agent/held/subjects/p-18/users/!ann/0b",
		"memories/demo/agent/held/shared/0c",
	}
	for _, c := range []struct {
		s    Subject
		gone []int
	}{{Subject{Project: "demo", Person: "p-17"}, []int{0, 4, 7, 10, 11, 14}},
		{Subject{Project: "demo", Person: "Ann"}, []int{1, 11, 12, 15}},
		{Subject{Project: "demo"}, []int{0, 1, 2, 4, 5, 7, 9, 10, 11, 12, 13, 14, 15, 16}}, {Subject{Project: "none"}, nil}} {
		data := t.TempDir()
		for _, f := range files {
			f = filepath.Join(data, f)
			user := "p-18"
			if filepath.Base(filepath.Dir(f)) == "s1" {
				user = "p-17"
			}
			if err := os.MkdirAll(filepath.Dir(f), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(f, []byte(`{"user":"`+user+`"}`), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cfg := &Config{Data: data}
		before, err := cfg.folders(c.s, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if _, err := os.Stat(filepath.Join(data, f)); err != nil {
				t.Errorf("%v: the survey removed %s", c.s, f)
			}
		}
		places, err := cfg.folders(c.s, true)
		if err != nil || len(places) != len(before) || (len(places) == 0) != (len(c.gone) == 0) {
			t.Errorf("%v: places %v, before %v, %v", c.s, places, before, err)
		}
		want := make(map[int]bool)
		for _, i := range c.gone {
			want[i] = true
			if !slices.ContainsFunc(places, func(p Place) bool {
				return strings.HasPrefix(filepath.Join(data, files[i]), p.Where+string(filepath.Separator))
			}) {
				t.Errorf("%v: no place names %s: %+v", c.s, files[i], places)
			}
		}
		for i, f := range files { // a place that is listed for a person must not contain files of others
			if c.s.Person != "" && strings.HasPrefix(f, "memories") && !want[i] &&
				slices.ContainsFunc(places, func(p Place) bool {
					return strings.HasPrefix(filepath.Join(data, f), p.Where+string(filepath.Separator))
				}) {
				t.Errorf("%v: a place names %s, which stays: %+v", c.s, f, places)
			}
		}
		for _, p := range places {
			if p.Left != "" {
				t.Errorf("%v: %+v", c.s, p)
			}
		}
		for i, f := range files {
			if _, err := os.Stat(filepath.Join(data, f)); (err != nil) != want[i] {
				t.Errorf("%v: %s: %v", c.s, f, err)
			}
		}
		b, err := os.ReadFile(filepath.Join(data, files[8])) // the spool stops a session, so it is only emptied
		if err != nil || (len(b) == 0) != want[4] {
			t.Errorf("%v: the spool has %s, %v", c.s, b, err)
		}
	}
}

// anyCase is a file system that ignores the case of names.
type anyCase struct{ fstest.MapFS }

func (f anyCase) Open(name string) (fs.File, error) {
	for x := range f.MapFS {
		for ; x != "."; x = path.Dir(x) {
			if strings.EqualFold(x, name) {
				return f.MapFS.Open(x)
			}
		}
	}
	return f.MapFS.Open(name)
}

func (f anyCase) Lstat(name string) (fs.FileInfo, error) { return fs.Stat(struct{ fs.FS }{f}, name) }

func (f anyCase) ReadDir(name string) ([]fs.DirEntry, error) {
	return fs.ReadDir(struct{ fs.FS }{f}, name)
}

// On a file system that ignores letter case, the erasure of Bob must not remove the folder of bob.
func TestAFolderOfAnotherUserStaysWhereTheCaseOfNamesIsIgnored(t *testing.T) {
	users := "memories/demo/agent/users/"
	for _, c := range []struct{ have, person, want string }{{"bob", "Bob", ""}, {"bob", "bob", "bob"},
		{"Bob", "bob", "bob"}, {"Bob", "Bob", "Bob"}, {"!bob", "Bob", "!bob"}} {
		data := anyCase{fstest.MapFS{users + c.have + "/notes.md": &fstest.MapFile{}}}
		got, err := memoryFolders(data, Subject{Project: "demo", Person: c.person})
		var want []string
		if c.want != "" {
			want = []string{users + c.want}
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s with the folder %s: %q, %v", c.person, c.have, got, err)
		}
	}
}
