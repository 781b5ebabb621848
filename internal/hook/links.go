package hook

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"lazaret/pkg/shell"
)

// Limits on what linked looks up: the names in a command line, the files that its patterns name, and the folders with
// patterns in the path of one word.
const (
	maxLinked  = 2048
	maxMatched = 4096
	maxStars   = 4
)

// linked reports why a person has to look at a command line: a word of it leads to another file than its name says,
// through a symbolic link. The policy sees the names alone. Files of the folder of temporary files may be written.
func (h *handler) linked(command string) (why string) {
	if h.cfg.Read == nil || h.e.CWD == "" {
		return "" // links are not known
	}
	words, all := shell.Paths(command, maxLinked)
	if !all {
		return "it names more files than are looked up"
	}
	matched := 0
	for _, w := range words {
		if why = h.linkedWord(w, &matched); why != "" {
			return why
		}
	}
	return ""
}

// linkedWord is like linked, for one word of a line. It adds to matched how many files patterns name.
func (h *handler) linkedWord(w shell.Path, matched *int) string {
	exists := false
	for _, name := range w.Names {
		files := []string{name}
		if w.Pattern {
			var ok bool
			if files, ok = h.matched(name); !ok || *matched+len(files) > maxMatched {
				return "it names more files than are looked up"
			}
			*matched += len(files)
		}
		for _, file := range files {
			if why := h.linkedFile(file, w.Write); why != "" {
				return why
			}
			if w.Lost && !exists {
				_, err := os.Lstat(h.path(file))
				exists = err == nil || filepath.IsAbs(file) || strings.HasPrefix(file, "~/")
			}
		}
	}
	if w.Lost && w.Write && !exists && !strings.HasPrefix(w.Names[0], "-") {
		return "the folder is not known in which it writes " + w.Names[0]
	}
	return ""
}

// simpleSet finds a set of letters that shells and Go read in the same way.
var simpleSet = regexp.MustCompile(`\[\w[\w.-]*\]`)

// matched returns the files that a pattern names, and others if Go does not read the pattern as shells do. ok is false
// if it has patterns in too many folders.
func (h *handler) matched(pattern string) (files []string, ok bool) {
	stars := 0
	parts := strings.Split(pattern, "/")
	for i, part := range parts {
		if strings.ContainsAny(part, "*?[") {
			stars++
		}
		if strings.ContainsAny(simpleSet.ReplaceAllString(part, ""), `[]()\`) {
			parts[i] = "*"
		}
	}
	if stars > maxStars {
		return nil, false
	}
	files, err := filepath.Glob(h.path(strings.Join(parts, "/")))
	if err != nil || len(files) == 0 {
		files = []string{pattern}
	}
	return files, true
}

// linkedFile is like linked, for one path.
func (h *handler) linkedFile(file string, write bool) string {
	if rest, ok := strings.CutPrefix(file, "~+/"); ok {
		file = rest // the working folder
	}
	named := h.cleaned(file)
	if len(file) > maxPath {
		return unresolved
	}
	if named == "" || named == "/dev" || strings.HasPrefix(named, "/dev/") || strings.HasPrefix(named, "/proc/") {
		return ""
	}
	if strings.HasPrefix(file, "~") && !strings.HasPrefix(file, "~/") && strings.Contains(file, "/") {
		return "it names a file in a folder that is not known" // ~-/x, ~ana/x
	}
	for _, place := range h.places(file) {
		switch {
		case place == named:
		case place == "":
			return unresolved
		case shell.SecretFile(place) && !shell.SecretFile(named):
			return readsSecret
		case !write:
		case !h.agentsOwn(place) && !h.inProject(file, place) && !h.temporary(place) && !h.namedOutside(file):
			return "it may write outside the project's folder through a link"
		case h.settingsLinked(named, place):
			return editsSettings
		}
	}
	return ""
}

const editsSettings = "it edits a file of settings through a link"

// settingsLinked reports whether programs run or read the file at a place of the project as settings, and its name does
// not say so. A memory file may be a link to another memory file.
func (h *handler) settingsLinked(named, place string) bool {
	rel, name := h.relative(place), h.relative(named)
	return place != "" && !filepath.IsAbs(rel) && shell.Started(rel) && !shell.Started(name) &&
		!(shell.IsMemoryFile(rel) && shell.IsMemoryFile(name))
}

// cleaned returns the absolute path that a name means if no part of it below the working folder is a link.
func (h *handler) cleaned(file string) string {
	if filepath.IsAbs(file) || strings.HasPrefix(file, "~/") {
		return filepath.Clean(h.path(file))
	}
	return filepath.Join(h.real(h.e.CWD), file)
}

// temporary reports whether a place is in a folder of temporary files, and not in a home that is in such a folder.
func (h *handler) temporary(place string) bool {
	if home := h.real(h.path("~/")); home != "" && below(place, home) {
		return false
	}
	return slices.ContainsFunc([]string{"/tmp", os.TempDir()}, func(dir string) bool {
		return dir != "" && below(place, h.real(dir)) && place != ""
	})
}
