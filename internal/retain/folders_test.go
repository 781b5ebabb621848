package retain

import (
	"os"
	"path/filepath"
	"testing"
)

// The files of the memory tool and of hooks go with their project or person, and no others.
func TestTheFilesOfTheGatewayAndOfHooksGoWithTheirSubject(t *testing.T) {
	files := []string{ // by what removes them
		"memories/demo/agent/users/p-17/notes.md", "memories/demo/agent/users/!ann/notes.md",
		"memories/demo/agent/shared/notes.md", "memories/other/agent/users/p-17/notes.md",
		"hooks/demo/agent/s1/spool-1", "hooks/demo/agent/s2/spool-1", "hooks/other/agent/s1/spool-1",
	}
	for _, c := range []struct {
		s    Subject
		gone []int
	}{{Subject{Project: "demo", Person: "p-17"}, []int{0, 4}}, {Subject{Project: "demo", Person: "Ann"}, []int{1}},
		{Subject{Project: "demo"}, []int{0, 1, 2, 4, 5}}, {Subject{Project: "none"}, nil}} {
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
		for _, p := range places {
			if p.Left != "" {
				t.Errorf("%v: %+v", c.s, p)
			}
		}
		want := make(map[int]bool)
		for _, i := range c.gone {
			want[i] = true
		}
		for i, f := range files {
			if _, err := os.Stat(filepath.Join(data, f)); (err != nil) != want[i] {
				t.Errorf("%v: %s: %v", c.s, f, err)
			}
		}
	}
}
