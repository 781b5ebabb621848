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

// maxSources is the maximum number of files that are stored one by one if a command copies them into a folder. If it
// copies more, the folder is stored.
const maxSources = 256

// noteBrought stores which files and folders of the project a command line may have written with text from outside: a
// program of the line downloaded the text, or read it from a file that does not count as a document.
func (h *handler) noteBrought(command string) error {
	words, _ := h.paths(command)
	fetches, sources := shell.Fetches(command), h.sources(words)
	var written []string
	for _, w := range words {
		switch {
		case w.Folder && w.Program == "git":
			for _, folder := range w.Names {
				for _, clone := range shell.Cloned(command) {
					written = append(written, path.Join(folder, clone))
				}
			}
		case (fetches || len(sources) > 0) && w.Write && !w.Source && !w.Folder && (w.Program == "" || carrying[w.Program]):
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

// sources returns the files that a command line reads or copies and that do not count as documents.
func (h *handler) sources(words []shell.Path) (files []string) {
	for _, w := range words {
		if w.Write && !w.Source || w.Folder || listing[w.Program] {
			continue
		}
		for _, name := range w.Names {
			named := []string{name}
			if matched, ok := h.matched(name); w.Pattern && ok && len(matched) > 0 && len(matched) <= maxMatched {
				named = matched
			}
			for _, file := range named {
				if (w.Source || h.exists(file)) && !h.document(file) { // mv leaves no source
					files = append(files, file)
				}
			}
		}
	}
	return files
}

// targets returns the files that a program may write if name is one of its arguments. If there is a folder of this
// name, they are the files in it that have the names of the sources. If name is a URL, it is the file to which curl -O
// and wget write the download. Otherwise it is the file of this name.
func (h *handler) targets(name string, sources []string) []string {
	if i := strings.Index(name, "://"); i > 0 {
		address, _, _ := strings.Cut(name[i+len("://"):], "?")
		return []string{name[:strings.LastIndexByte(name[:i], '/')+1] + path.Base(address)}
	}
	info, err := os.Stat(h.path(name))
	if h.cfg.Read != nil && (err != nil || !info.IsDir()) || len(sources) > maxSources {
		return []string{name}
	}
	var files []string
	for _, source := range sources {
		files = append(files, path.Join(name, filepath.Base(source)))
	}
	if h.cfg.Read == nil {
		files = append(files, name) // it may be a file as well
	}
	return files
}

// brought reports whether a command of the session brought text from outside to a place in the project's folder, or to
// a folder of the project above it.
func (h *handler) brought(place string) bool {
	project := h.real(cmp.Or(h.cfg.Folder, h.e.CWD))
	for at := place; at != project && below(at, project); at = filepath.Dir(at) {
		if h.noted(broughtPrefix, at) {
			return true
		}
	}
	return false
}

// noteReplaced forgets that a file got text from outside, after the agent has replaced its whole text.
func (h *handler) noteReplaced() error {
	if h.e.mcp || h.e.tool() != "Write" {
		return nil
	}
	for _, place := range h.places(h.input().File) {
		if err := h.st.drop(broughtPrefix + placeHash(place)); err != nil {
			return err
		}
	}
	return nil
}
