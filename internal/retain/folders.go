package retain

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"lazaret/internal/hook"
	"lazaret/internal/memorytool"
	"lazaret/pkg/files"
)

// folders returns the places of a subject's data in the folders of the gateway and of hooks, and erases
// them if remove is set. It cannot reach the folders of other machines.
func (c *Config) folders(s Subject, remove bool) (out []Place, err error) {
	if c.Data == "" {
		return nil, nil
	}
	add := func(folder, what string, paths []string, erase func(string) error) {
		for _, path := range paths {
			where := filepath.Join(c.Data, folder, s.Project)
			if s.Person != "" && folder == "hooks" {
				where = filepath.Dir(path) // of a session
			} else if s.Person != "" {
				where = path
			}
			if len(out) == 0 || out[len(out)-1].Where != where {
				out = append(out, Place{Where: where, What: what})
			}
			p := &out[len(out)-1]
			p.Count++
			if !remove {
				continue
			}
			if err := erase(path); err != nil {
				p.Left = fmt.Sprintf("it was not erased, or its erasure may not survive a crash: %v", err)
			}
		}
	}
	memory, err := memoryFolders(os.DirFS(c.Data), s)
	if err != nil {
		return nil, err
	}
	for i, name := range memory {
		memory[i] = filepath.Join(c.Data, filepath.FromSlash(name))
	}
	add("memories", "files of the memory tool", memory, func(path string) error {
		return errors.Join(os.RemoveAll(path), files.SyncDir(filepath.Dir(path)))
	})
	hooks, err := c.hookFiles(s)
	if err != nil {
		return nil, err
	}
	add("hooks", "state of hooks, with events that were not sent; files that stop a session are emptied and still stop it",
		hooks, hook.Erase)
	return out, nil
}

// memoryFolders returns the folders of the memory tool for a project, or for one person in it.
func memoryFolders(data fs.FS, s Subject) (out []string, err error) {
	root := path.Join("memories", s.Project)
	add := func(name string) error {
		_, err := fs.Lstat(data, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		out = append(out, name)
		return err
	}
	if s.Person == "" {
		return out, add(root)
	}
	agents, err := readDir(data, root)
	for _, a := range agents {
		if a.Type().IsRegular() {
			continue
		}
		agent, name := path.Join(root, a.Name()), memorytool.UserFolder(s.Person)
		users := path.Join(agent, memorytool.Users)
		for _, top := range []string{agent, path.Join(agent, memorytool.Held)} {
			subjects := path.Join(top, memorytool.Subjects)
			err := errors.Join(add(path.Join(top, memorytool.Users, name)), add(path.Join(subjects, name)))
			others, serr := readDir(data, subjects)
			if err = errors.Join(err, serr); err != nil {
				return nil, err
			}
			for _, o := range others {
				if o.Name() == name || !o.IsDir() {
					continue
				}
				if err := add(path.Join(subjects, o.Name(), memorytool.Users, name)); err != nil {
					return nil, err
				}
			}
		}
		if memorytool.UserFolder(s.Person) == s.Person {
			continue
		}
		// An earlier version used the user's name as the folder's name. Compare it with the listed names,
		// because a look-up on a file system that ignores letter case would find another user's folder.
		names, err := readDir(data, users)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(names, func(d fs.DirEntry) bool { return d.Name() == s.Person }) {
			out = append(out, path.Join(users, s.Person))
		}
	}
	return out, err
}

func readDir(data fs.FS, name string) ([]fs.DirEntry, error) {
	names, err := fs.ReadDir(data, name)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return names, err
}

// hookFiles returns the files in the state of a project's hooks. For one person, it returns only the files that contain
// the person's pseudonym.
func (c *Config) hookFiles(s Subject) (out []string, err error) {
	paths, err := hook.Erasable(filepath.Join(c.Data, "hooks", s.Project))
	for _, file := range paths {
		if s.Person != "" {
			b, err := os.ReadFile(file)
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // a hook may have removed the file
				return nil, err
			}
			if !bytes.Contains(b, []byte(`"`+s.Person+`"`)) {
				continue
			}
		}
		out = append(out, file)
	}
	return out, err
}
