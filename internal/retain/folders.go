package retain

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"lazaret/internal/memorytool"
	"lazaret/pkg/durable"
)

// folders returns the places of a subject's data in the folders of the gateway and of hooks, and removes them
// if remove is set. Those of other machines are not reached.
func (c *Config) folders(s Subject, remove bool) (out []Place, err error) {
	if c.Data == "" {
		return nil, nil
	}
	add := func(what string, paths []string) {
		if len(paths) == 0 {
			return
		}
		p := Place{Where: filepath.Dir(paths[0]), What: what, Count: len(paths)}
		if s.Person == "" {
			p.Where = paths[0]
		}
		for _, path := range paths {
			if remove {
				if e := os.RemoveAll(path); e != nil {
					p.Left = fmt.Sprintf("it was not removed: %v", e)
				} else if e := durable.SyncDir(filepath.Dir(path)); e != nil {
					p.Left = fmt.Sprintf("its removal may not survive a crash: %v", e)
				}
			}
		}
		out = append(out, p)
	}
	memory, err := c.memoryFolders(s)
	if err != nil {
		return nil, err
	}
	add("files of the memory tool", memory)
	hooks, err := c.hookFiles(s)
	if err != nil {
		return nil, err
	}
	add("state of hooks, with events that were not sent", hooks)
	return out, nil
}

// memoryFolders returns the folders of the memory tool for a project or for one user of it.
func (c *Config) memoryFolders(s Subject) ([]string, error) {
	root := filepath.Join(c.Data, "memories", s.Project)
	if s.Person == "" {
		return existing(root)
	}
	var out []string
	agents, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, a := range agents {
		// An earlier version named the folder as the user.
		for _, name := range []string{memorytool.UserFolder(s.Person), s.Person} {
			found, err := existing(filepath.Join(root, a.Name(), "users", name))
			if err != nil {
				return nil, err
			}
			if len(out) == 0 || len(found) == 0 || out[len(out)-1] != found[0] {
				out = append(out, found...)
			}
		}
	}
	return out, nil
}

// hookFiles returns the state of hooks of a project, or the files in it that contain one person's pseudonym.
func (c *Config) hookFiles(s Subject) (out []string, err error) {
	root := filepath.Join(c.Data, "hooks", s.Project)
	if s.Person == "" {
		return existing(root)
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(`"`+s.Person+`"`)) {
			out = append(out, path)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) { // no hooks, or a hook took one of its files meanwhile
		err = nil
	}
	return out, err
}

func existing(path string) ([]string, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return []string{path}, err
}
