package hook

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lazaret/internal/content"
	"lazaret/pkg/intent"
	"lazaret/pkg/shell"
	"lazaret/pkg/text"
)

// edited returns the files that a call of an editing tool of the host writes.
func (h *handler) edited() []string {
	if h.e.mcp {
		return nil
	}
	in := h.input()
	switch h.e.tool() {
	case "Write", "Edit", "MultiEdit", "NotebookEdit":
		return nonEmpty([]string{in.File, in.Notebook})
	case "apply_patch": // Codex
		return shell.Patched(strings.Join(content.Strings(h.e.Input), "\n"))
	}
	name := strings.ToLower(h.e.Tool)
	if h.e.native != "" && slices.ContainsFunc(editVerbs, func(v string) bool { return strings.Contains(name, v) }) {
		return nonEmpty([]string{in.File, in.Notebook})
	}
	return nil
}

// editVerbs are parts of the names of editing tools that are not known by their names.
var editVerbs = []string{"write", "edit", "replace", "create", "delete", "patch", "insert"}

// outside reports whether a call edits a file outside the project's folder, and why a person has to look at it. The
// policy knows neither the folder nor where links lead, so it cannot tell such a file from one of the project.
func (h *handler) outside() (why string) {
	for _, file := range h.edited() {
		if slices.ContainsFunc(h.places(file), func(place string) bool {
			return !h.agentsOwn(place) && !h.inProject(file, place)
		}) && !h.namedOutside(file) {
			return "it edits a file outside the project's folder"
		}
		if named := h.cleaned(file); slices.ContainsFunc(h.places(file), func(place string) bool {
			return place != named && h.settingsLinked(named, place)
		}) {
			return editsSettings
		}
	}
	if file := h.input().File; !h.e.mcp && h.e.tool() == "Read" {
		switch places := h.places(file); {
		case slices.Contains(places, ""):
			return unresolved
		case !shell.SecretFile(file) && slices.ContainsFunc(places, shell.SecretFile):
			return readsSecret
		}
	}
	if h.e.tool() == "Bash" && !h.e.mcp {
		return h.linked(h.input().Command)
	}
	return ""
}

const (
	readsSecret = "it reads a file with secrets through a link"
	unresolved  = "it names a path with too many links to follow"
)

// inProject reports whether a place of a file is in the project's folder. If this folder is the user's home or one
// above it, only ordinary files in it count. If the folder is not known, relative paths count.
func (h *handler) inProject(file, place string) bool {
	project := cmp.Or(h.cfg.Folder, h.e.CWD)
	if project == "" {
		return !filepath.IsAbs(file)
	}
	project = h.real(project)
	return below(place, project) && (!below(h.real(h.path("~/")), project) || h.plain(place))
}

// places returns the two places to which a path may lead, as paths without symbolic links: some programs remove ".."
// before they follow the links, others after.
func (h *handler) places(file string) []string {
	at := h.uncleaned(file)
	return []string{h.real(filepath.Clean(at)), h.real(at)}
}

// uncleaned is like path, but leaves ".." in the path.
func (h *handler) uncleaned(file string) string {
	folder := h.e.CWD
	if rest, ok := strings.CutPrefix(file, "~/"); ok {
		folder, file = h.path("~/"), rest
	} else if filepath.IsAbs(file) {
		return file
	}
	return folder + string(filepath.Separator) + file
}

// maxPath is the maximum length of a path that Linux opens, and maxLinks the maximum number of links that it follows.
const (
	maxPath  = 4096
	maxLinks = 40
)

// real returns a path without symbolic links, as far as it exists. It returns "" if there are too many links, as in a
// circle, and if the path is too long, also with the working folder before it. A hook that cannot read the host's files
// only cleans the path.
func (h *handler) real(path string) string {
	if len(path) > maxPath {
		return ""
	}
	if h.cfg.Read == nil {
		return filepath.Clean(path)
	}
	root := filepath.VolumeName(path) + string(filepath.Separator)
	at, links := root, 0
	rest := strings.Split(filepath.ToSlash(path[len(filepath.VolumeName(path)):]), "/")
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, part)
		to, err := os.Readlink(next)
		if err != nil {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return ""
		}
		if filepath.IsAbs(to) {
			at, to = filepath.VolumeName(to)+string(filepath.Separator), to[len(filepath.VolumeName(to)):]
		}
		rest = append(strings.Split(filepath.ToSlash(to), "/"), rest...)
	}
	return at
}

// below reports whether a clean path is that of a folder or of something in it.
func below(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && path != "" && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// agentsOwn reports whether a file is in a folder in which Claude Code stores plans, notes and its own working copies
// of projects. Notes that it loads are memory, which has its own checks.
func (h *handler) agentsOwn(place string) bool {
	home := h.real(h.path("~/"))
	return slices.ContainsFunc([]string{"plans", "projects", "worktrees"}, func(name string) bool {
		return below(place, filepath.Join(home, ".claude", name)) && home != ""
	})
}

// plain reports whether a path outside the project's folder is one of documents and sources: in the user's home or in
// the folder of temporary files, and neither hidden nor in a folder of programs.
func (h *handler) plain(place string) bool {
	for _, root := range []string{h.path("~/"), "/tmp", os.TempDir()} {
		root = h.real(root)
		if place == root {
			return false
		}
		if root == "" || root == string(filepath.Separator) || !below(place, root) {
			continue
		}
		rel, err := filepath.Rel(root, place)
		return err == nil && !slices.ContainsFunc(strings.Split(filepath.ToSlash(rel), "/"), func(part string) bool {
			return strings.HasPrefix(part, ".") || programFolders[strings.ToLower(part)]
		})
	}
	return false
}

var programFolders = text.Set("bin sbin autostart systemd launchagents launchdaemons site-packages node_modules")

// namedPrefix begins the names of files that store which paths outside the project's folder the user named.
const namedPrefix = "named-"

// maxNamed is the maximum number of paths of a prompt that are stored.
const maxNamed = 32

// noteNamed stores the paths in a prompt of the user that lead out of the project's folder to ordinary files, if the
// prompt asks to write there: "save it as /tmp/x.csv". It stores only hashes. A prompt with a negation, a deferral or a
// condition ends all permissions and gives none.
func (h *handler) noteNamed(prompt string) error {
	wishes := intent.ReadWishes(prompt)
	if err := errors.Join(h.noteImports(wishes), h.noteRead(prompt)); err != nil {
		return err
	}
	if intent.HoldsBack(prompt) {
		return h.st.drop(namedPrefix)
	}
	var paths []string
	for _, w := range wishes.Outputs {
		if strings.HasPrefix(w, "/") || strings.HasPrefix(w, "~/") || strings.HasPrefix(w, "../") {
			paths = append(paths, w)
		}
	}
	for _, w := range paths[:min(len(paths), maxNamed)] {
		for _, place := range h.places(w) {
			if !h.plain(place) {
				continue
			}
			if err := h.st.write(namedFile(place), true); err != nil {
				return err
			}
		}
	}
	return nil
}

// quotes are characters around a path in a prompt.
const quotes = "\"'`“”‘’()[]<>,;:!?"

func namedFile(place string) string { return namedPrefix + placeHash(place) }

func placeHash(place string) string {
	sum := sha256.Sum256([]byte(place))
	return hex.EncodeToString(sum[:16])
}

// namedOutside reports whether the user named a file outside the project's folder, or a folder above it, and the file
// is an ordinary one.
func (h *handler) namedOutside(file string) bool {
	names, err := h.st.names(namedPrefix)
	if err != nil || len(names) == 0 {
		return false
	}
	for i := range names {
		names[i] = filepath.Base(names[i])
	}
	return !slices.ContainsFunc(h.places(file), func(place string) bool {
		if !h.plain(place) {
			return true
		}
		for at := place; h.plain(at); at = filepath.Dir(at) {
			if slices.Contains(names, namedFile(at)) {
				return false
			}
		}
		return true
	})
}
