package hook

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lazaret/pkg/shell"
	"lazaret/pkg/text"
)

// carrying are programs that write text which they, or another program of the command line, have read. Redirections
// count too: in shell.Path, their program is "".
var carrying = text.Set(`tee cp mv install ln dd sponge curl wget http https xh httpie aria2c axel scp sftp rsync tar
	bsdtar unzip 7z 7za unar aws gsutil rclone docker podman kubectl gh patch split pandoc git`)

// fetches are the programs of carrying that download, and may do so into the folder in which they run.
var fetches = text.Set("curl wget http https xh httpie aria2c axel scp rsync aws gsutil rclone")

// placed are programs that do not read the files that they write, make or remove, or that write only what the project's
// programs print.
var placed = text.Set("tee cp mv mkdir touch rm rmdir chmod chown truncate go gofmt make")

// maxSources is the maximum number of files that are stored one by one if a command copies them into a folder. If it
// copies more, the folder is stored.
const maxSources = 256

// noteBrought stores which files and folders of the project a command line may have written with text from outside the
// project: a program of the line brings text from another machine, or reads a file that does not count as a document of
// the project (see the method document).
func (h *handler) noteBrought(command string) error {
	words, _ := h.paths(command)
	if len(words) > 0 && !slices.ContainsFunc(words, func(w shell.Path) bool { return w.Write }) {
		return nil
	}
	brings := shell.Brings(command, h.remotes())
	sources, unknown := h.foreign(words, true)
	patches := shell.Patches(command)
	brings = brings || len(sources) > 0 || unknown && h.cfg.Read != nil || h.searchesOutside(command, words, false) ||
		slices.ContainsFunc(patches, func(file string) bool { return !h.document(file) })
	outside := h.moved(words)
	var stays []string
	if brings {
		named := h.named(words, command, append(sources, downloads(words)...))
		changed, known := h.changed()
		if h.goesOn(command) {
			stays = named
		} else {
			if known {
				named = slices.DeleteFunc(named, func(place string) bool { return !h.fresh(place) })
			}
			outside = append(outside, named...)
		}
		outside = append(outside, changed...)
	}
	project := h.real(cmp.Or(h.cfg.Folder, h.e.CWD))
	inside := func(places []string) []string {
		return slices.DeleteFunc(places, func(place string) bool {
			return place == project || !h.inProject(place, place)
		})
	}
	return errors.Join(h.store(markOutside, inside(outside)), h.store(markStays, inside(stays)))
}

// maxTargets is the maximum number of files that named returns for the files that a line may write into folders. For
// further ones, it returns the folders.
const maxTargets = 2048

// named returns the places (absolute paths without symbolic links) to which a command line may write, as far as its
// words name them.
func (h *handler) named(words []shell.Path, command string, sources []string) (places []string) {
	names := map[string]bool{}
	add := func(all []string) {
		for _, name := range all {
			names[name] = true
		}
	}
	add(shell.Mentioned(command))
	clones, read := shell.Cloned(command), map[string]bool{}
	for _, w := range words {
		if fetches[w.Program] && len(w.Names) > 0 && len(w.Names[0]) > 2 && w.Names[0][:2] == "-o" { // curl -oa.md
			w.Names = []string{w.Names[0][2:]}
		}
		for _, name := range w.Names {
			if clone := "clones in " + name; w.Folder && w.Program != "" && !read[clone] {
				read[clone] = true
				for _, clone := range clones {
					add([]string{path.Join(name, clone)})
				}
			}
			if carries := w.Program == "" || carrying[w.Program]; read[name] || !w.Write || w.Source || !carries ||
				w.Folder && !fetches[w.Program] {
				continue
			}
			read[name] = true
			if len(names) > maxTargets {
				add([]string{name})
			} else {
				add(h.targets(name, sources))
			}
		}
	}
	for name := range names {
		places = append(places, h.places(name)...)
	}
	slices.Sort(places)
	return slices.Compact(places)
}

// goesOn reports whether a program of the line may still run when the call has returned.
func (h *handler) goesOn(command string) bool {
	var in struct {
		Background bool `json:"run_in_background"`
	}
	var out struct {
		Task string `json:"backgroundTaskId"`
	}
	// Inputs and responses of other shapes do not have the fields.
	_ = json.Unmarshal(h.e.Input, &in)
	_ = json.Unmarshal(h.e.Response, &out)
	return shell.Lasts(command) || in.Background || out.Task != ""
}

// Limits on the search for files that a call has changed.
const (
	maxWalked   = 20_000
	maxWalkTime = 300 * time.Millisecond
	maxChanged  = 2048 // further files are not stored one by one, but the folders of the project in which they are
	clockStep   = 20 * time.Millisecond
)

// since reports whether a file, or its name, has changed since the call was permitted.
func (h *handler) since(info fs.FileInfo) bool {
	at, ok := changeTime(info)
	return ok && !at.Before(h.began.Add(-clockStep)) // the clock of a file system has steps
}

// changedAt returns when a file, or its name, was last changed, and false if that is not known.
func changedAt(file string) (time.Time, bool) {
	info, err := os.Lstat(file)
	if err != nil {
		return time.Time{}, false
	}
	return changeTime(info)
}

// fresh reports whether the place is that of a file that has changed since the call was permitted.
func (h *handler) fresh(place string) bool {
	info, err := os.Lstat(place)
	return err == nil && info.Mode().IsRegular() && h.since(info)
}

// changed returns the files of the project that have changed since the call was permitted, and the folders that were
// moved into it or that are new repositories. ok is false if they are not known.
func (h *handler) changed() (places []string, ok bool) {
	root := h.real(cmp.Or(h.cfg.Folder, h.e.CWD))
	if h.cfg.Read == nil || h.began.IsZero() || root == "" {
		return nil, false
	}
	if _, known := changedAt(root); !known {
		return nil, false
	}
	n, start := 0, time.Now()
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if n++; n > maxWalked || n%256 == 0 && time.Since(start) > maxWalkTime {
			return fs.SkipAll
		}
		if err != nil {
			return nil
		}
		name := d.Name()
		if d.IsDir() && name == "node_modules" || name == ".git" && filepath.Dir(file) == root {
			return fs.SkipDir
		}
		info, err := d.Info()
		switch {
		case err != nil || !h.since(info) || file == root:
		case name == ".git":
			places = append(places, filepath.Dir(file))
		case d.Type().IsRegular(), d.IsDir() && info.ModTime().Before(h.began.Add(-clockStep)): // it was moved
			places = append(places, file)
		}
		if d.IsDir() && name == ".git" {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil || n > maxWalked || time.Since(start) > maxWalkTime {
		return places, false
	}
	if len(places) > maxChanged {
		tops := map[string]bool{}
		for i, place := range places {
			rel, _ := filepath.Rel(root, place)
			top, _, _ := strings.Cut(rel, string(filepath.Separator))
			if places[i] = filepath.Join(root, top); tops[top] {
				places[i] = ""
			}
			tops[top] = true
		}
	}
	return places, true
}

// maxCopies is the maximum number of copies of folders in which files are looked up. Further copies count as from
// outside as a whole.
const maxCopies = 4

// moved is for a command line that copies or moves folders. It returns the new places of those files in the folders
// that have text from outside.
func (h *handler) moved(words []shell.Path) (places []string) {
	copies := 0
	for i, w := range words {
		if !w.Source {
			continue
		}
		for _, name := range w.Names {
			from := h.real(h.path(name))
			if from == "" || !h.holds(from) || h.brought(from) {
				continue
			}
			for _, target := range destination(words[i+1:], w.Program) {
				for _, at := range slices.Compact(h.places(target)) {
					copies++
					places = append(places, h.broughtIn(from, at, copies)...)
					places = append(places, h.broughtIn(from, filepath.Join(at, filepath.Base(from)), copies)...)
				}
			}
		}
	}
	return places
}

// destination returns the names of the first word to which the program copies its other arguments.
func destination(words []shell.Path, program string) []string {
	for _, w := range words {
		if w.Program == program && w.Write && !w.Source && !w.Folder {
			return w.Names
		}
	}
	return nil
}

// broughtIn returns the files with text from outside in the folder to, which is a copy of the folder from. If it cannot
// look them up, it returns the folder.
func (h *handler) broughtIn(from, to string, copies int) (places []string) {
	if h.cfg.Read == nil || copies > maxCopies {
		return []string{to}
	}
	if noFolder(to) {
		return nil
	}
	files := h.below(to)
	if files == nil {
		return []string{to}
	}
	for _, file := range files {
		if h.brought(filepath.Join(from, file)) {
			places = append(places, filepath.Join(to, file))
		}
	}
	return places
}

// downloads returns the names that programs give to the files that they download in a command line, and the names of
// the folders that wget -r makes.
func downloads(words []shell.Path) (names []string) {
	for _, w := range words {
		if !fetches[w.Program] || w.Folder {
			continue
		}
		for _, name := range w.Names {
			_, address, isURL := strings.Cut(name, "://")
			if !isURL {
				address = name
			}
			address, _, _ = strings.Cut(address, "?")
			host, file, _ := strings.Cut(address, "/")
			if isURL || strings.Contains(name, ":") || file != "" && strings.Contains(strings.Trim(host, "."), ".") {
				names = append(names, path.Base(address), host)
			}
		}
	}
	return names
}

// targets returns the files that a program may write if name is one of its arguments, or the folder in which it runs.
// If there is a folder of this name, they are the files in it that have the names of the sources, or that match them.
// Otherwise it is the file of this name.
func (h *handler) targets(name string, sources []string) []string {
	info, err := os.Stat(h.path(name))
	root := h.real(h.path(name)) == h.real(cmp.Or(h.cfg.Folder, h.e.CWD)) // the project's folder is never stored
	if h.cfg.Read != nil && (err != nil || !info.IsDir()) || len(sources) > maxSources && !root {
		return []string{name}
	}
	var files []string
	for _, source := range sources {
		in := path.Join(name, filepath.Base(source))
		if all, ok := h.matched(in); ok && len(all) > 0 {
			files = append(files, all...)
		} else {
			files = append(files, in)
		}
	}
	if h.cfg.Read == nil && path.Base(name) != "." {
		files = append(files, name) // it may be a file as well
	}
	return files
}

// noteReplaced stores that the agent has replaced the whole text of a file.
func (h *handler) noteReplaced() error {
	if h.e.mcp || h.e.tool() != "Write" || h.e.Name != PostToolUse {
		return nil
	}
	return h.store(markOwn, h.places(h.input().File))
}
