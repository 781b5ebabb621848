package hook

import (
	"cmp"
	"os"
	"path"
	"path/filepath"
	"strings"

	"lazaret/pkg/shell"
	"lazaret/pkg/text"
)

// broughtPrefix begins the names of files that store which files and folders of the project got text from outside the
// project by a command of the session. The text of such a file is no document of the project.
const broughtPrefix = "brought-"

// carrying are programs that write text that they or another program of the line read. A redirection has the name "".
var carrying = text.Set("tee cp mv install ln dd curl wget http https xh httpie aria2c axel")

// fetches are the programs of carrying that download, and may do so into the folder in which they run.
var fetches = text.Set("curl wget http https xh httpie aria2c axel")

// maxSources is the maximum number of files that are stored one by one if a command copies them into a folder. If it
// copies more, the folder is stored.
const maxSources = 256

// noteBrought stores which files and folders of the project a command line may have written with text from outside: a
// program of the line downloaded the text, or read it from a file that does not count as a document.
func (h *handler) noteBrought(command string) error {
	words, _ := h.paths(command)
	sources, _ := h.foreign(words)
	brings := len(sources) > 0
	if shell.Fetches(command) {
		brings, sources = true, append(sources, downloads(words)...)
	}
	var written []string
	for _, w := range words {
		switch {
		case w.Folder && w.Program == "git":
			for _, folder := range w.Names {
				for _, clone := range shell.Cloned(command) {
					written = append(written, path.Join(folder, clone))
				}
			}
		case brings && w.Write && !w.Source && (w.Program == "" || carrying[w.Program]) && (!w.Folder || fetches[w.Program]):
			for _, name := range w.Names {
				written = append(written, h.targets(name, sources)...)
			}
		}
	}
	for _, name := range written {
		for _, place := range h.places(name) {
			if at := cmp.Or(h.cfg.Folder, h.e.CWD); h.inProject(name, place) && place != h.real(at) {
				if err := h.st.write(broughtPrefix+placeHash(place), true); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// downloads returns the names that curl -O and wget give to the files that they download in a command line, and the
// names of the folders that wget -r makes.
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
			if isURL || file != "" && strings.Contains(strings.Trim(host, "."), ".") {
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
	if h.cfg.Read != nil && (err != nil || !info.IsDir()) || len(sources) > maxSources {
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

// brought reports whether a command of the session brought text from outside to a place, or to a folder above it.
func (h *handler) brought(place string) bool {
	for at := place; ; at = filepath.Dir(at) {
		if h.noted(broughtPrefix, at) {
			return true
		}
		if at == filepath.Dir(at) {
			return false
		}
	}
}

// noteReplaced forgets that a file got text from outside, after the agent has replaced its whole text.
func (h *handler) noteReplaced() error {
	if h.e.mcp || h.e.tool() != "Write" || h.e.Name != PostToolUse {
		return nil
	}
	for _, place := range h.places(h.input().File) {
		if err := h.st.drop(broughtPrefix + placeHash(place)); err != nil {
			return err
		}
	}
	return nil
}
