package hook

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"lazaret/pkg/shell"
)

// Limits on what linked looks up: the names in a command line, the files that its patterns name, and the folders with
// patterns in the path of one word.
const (
	maxLinked  = 2048
	maxMatched = 4096
	maxStars   = 4
)

// linked reports why a person has to look at a command line, or "" if nobody has to. Either a word of it leads to
// another file than its name says, through a symbolic link, or the line writes in a folder outside of the project. The
// policy sees the names alone. Files of the folder of temporary files may be written.
func (h *handler) linked(command string) (why string) {
	if h.e.CWD == "" {
		return "" // it is not known where relative paths lead
	}
	words, all := h.paths(command)
	if !all {
		return "it names more files than are looked up"
	}
	matched, builds, brought := 0, shell.Kind(command) == shell.Build, false
	for _, w := range words {
		if brought && (w.Folder || w.Write && w.Program == "") {
			return "it writes after it has copied links that lead out of the project"
		}
		brought = brought || w.Source && slices.ContainsFunc(w.Names, h.bringsLinks)
		if builds && w.Tool != "" && !h.installed(w) {
			return "npx may download " + w.Tool + ", which is not installed in the project"
		}
		if w.Folder {
			// A line that is no build and stays in the working folder needs no check here: the policy gives it a level.
			if builds || w.Lost || !slices.Equal(w.Names, []string{"."}) {
				why = h.worksOutside(w)
			}
		} else if builds && w.Write && w.Program != "go" && slices.ContainsFunc(w.Names, h.strays) {
			why = "it writes a file outside of the project"
		} else if h.cfg.Read != nil { // otherwise links are not known
			why = h.linkedWord(w, &matched)
		}
		if why != "" {
			return why
		}
	}
	return ""
}

// paths returns the words of a command line that may be paths.
func (h *handler) paths(command string) (words []shell.Path, all bool) {
	around := shell.Around{Folder: func(dir string) bool {
		// Shells and the system remove ".." in different ways.
		return h.cfg.Read != nil && !slices.ContainsFunc([]string{h.path(dir + "/."), h.uncleaned(dir + "/.")}, noFolder)
	}}
	around.Free = func(dir string) bool {
		place := h.uncleaned(dir)
		_, err := os.Lstat(place)
		in, _ := os.Stat(filepath.Dir(place))
		return h.cfg.Read != nil && errors.Is(err, fs.ErrNotExist) && in != nil && in.IsDir() &&
			in.Mode().Perm()&0o300 == 0o300
	}
	first, _, _ := strings.Cut(os.Getenv("CDPATH"), ":")
	around.Search = h.cfg.Read != nil && first != "" && first != "."
	tops := map[string]string{}
	around.Top = func(dir string) (string, bool) {
		places := h.places(dir)
		if place := places[0]; place != "" && place == places[1] {
			if _, ok := tops[place]; !ok && len(tops) < maxTops {
				tops[place] = h.printedTop(place)
			}
			return tops[place], h.cfg.Read != nil
		}
		return "", false
	}
	return shell.Paths(command, maxLinked, around)
}

func noFolder(path string) bool {
	info, err := os.Stat(path)
	return err != nil || !info.IsDir()
}

// Limits on the calls of git for one line.
const (
	maxTops = 4
	maxWait = time.Second
)

// printedTop returns the path that git rev-parse --show-toplevel prints in a folder, or "" if it prints none. Git is
// asked, because it also prints none if the folder has another owner or a variable such as GIT_DIR is set. A hook that
// cannot read the host's files assumes that the project's folder is the one of the repository.
func (h *handler) printedTop(folder string) string {
	if project := h.real(cmp.Or(h.cfg.Folder, h.e.CWD)); h.cfg.Read == nil {
		if folder == project {
			return project
		}
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxWait)
	defer cancel()
	git := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel")
	git.Dir, git.WaitDelay = folder, maxWait
	out, err := git.Output()
	top := strings.TrimSuffix(string(out), "\n")
	if err != nil || !filepath.IsAbs(top) || strings.Contains(top, "\n") {
		return ""
	}
	return top
}

// top returns the folder of the repository of git in which the working folder is, or "".
func (h *handler) top() string {
	at := h.real(h.e.CWD)
	if project := h.real(h.cfg.Folder); h.cfg.Read == nil && project != "" && below(at, project) {
		return project
	}
	for h.cfg.Read != nil && at != "" {
		if _, err := os.Stat(filepath.Join(at, ".git")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			break
		}
		at = filepath.Dir(at)
	}
	return ""
}

// installed reports whether npx finds its tool in all folders in which it may run, or in one above.
func (h *handler) installed(w shell.Path) bool {
	return h.cfg.Read != nil && !slices.ContainsFunc(w.Names, func(dir string) bool {
		for at := h.real(h.path(dir)); at != ""; at = filepath.Dir(at) {
			info, err := os.Stat(filepath.Join(at, "node_modules", ".bin", w.Tool))
			if err == nil && info.Mode().IsRegular() {
				return false
			}
			if at == filepath.Dir(at) {
				break
			}
		}
		return true
	})
}

// worksOutside reports why a person has to look at a program that may write in the folders of w.
func (h *handler) worksOutside(w shell.Path) string {
	if w.Lost {
		return "it writes in a folder that is not known"
	}
	for _, dir := range w.Names {
		if strings.HasPrefix(dir, "~") && !strings.HasPrefix(dir, "~/") {
			return "it writes in a folder that is not known" // ~ana, ~-
		}
		for _, place := range h.places(dir) {
			if place == "" || h.outsider(dir, place, filepath.Join(place, "x")) {
				return "it writes in a folder outside of the project"
			}
			if rel := h.relative(place); !filepath.IsAbs(rel) && shell.Started(rel) {
				return "it writes in a folder with settings of programs"
			}
		}
	}
	return ""
}

// outsider reports whether a person must look before a program of a line writes to the place of a name. in is the
// place, or a file in it: if the project's folder is the home, not all files in it count as inside.
func (h *handler) outsider(name, place, in string) bool {
	return !h.agentsOwn(place) && !h.inProject(name, in) && !h.temporary(place) && !h.namedOutside(name)
}

// strays reports whether a word of a build is the path of a file elsewhere, as in gofmt -w ~/other/a.go. The words of
// go may be names of tests, and it writes only where its options permit.
func (h *handler) strays(file string) bool {
	file, _, _ = strings.Cut(file, "::") // a test in the file
	if i := strings.IndexAny(file, "*?[{"); i >= 0 {
		file = file[:strings.LastIndexByte(file[:i], '/')+1] // the folder of a pattern
	}
	dir := filepath.Dir(file)
	return (filepath.IsAbs(file) || strings.HasPrefix(file, "~/") || strings.Contains(file, "..")) &&
		(h.exists(file) || dir != "/" && dir != "." && h.exists(dir+"/")) &&
		slices.ContainsFunc(h.places(file), func(place string) bool { return h.outsider(file, place, place) }) &&
		!strings.HasPrefix(file, "/dev/")
}

// bringsLinks reports whether a folder that a program copies or moves may have a link that leads out of the project.
func (h *handler) bringsLinks(folder string) bool {
	if i := strings.IndexAny(folder, "*?[{"); i >= 0 {
		folder = folder[:strings.LastIndexByte(folder[:i], '/')+1] + "."
	}
	at, n := h.path(folder), 0
	if h.cfg.Read == nil || noFolder(at) {
		return false
	}
	return nil != filepath.WalkDir(at+"/", func(file string, d fs.DirEntry, err error) error {
		if n++; err != nil || n > maxBelow || d.Type()&fs.ModeSymlink != 0 && h.outsider(file, h.real(file), h.real(file)) {
			return fs.ErrInvalid
		}
		return nil
	})
}

// linkedWord is like linked, for one word of a line. It adds to matched how many files patterns name.
func (h *handler) linkedWord(w shell.Path, matched *int) string {
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
		}
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
		case h.outsider(file, place, place):
			return "it may write outside the project's folder through a link"
		case h.settingsLinked(named, place):
			return editsSettings
		}
	}
	return ""
}

const editsSettings = "it edits a file of settings through a link"

// settingsLinked reports whether programs run the file at a place of the project, or read it as settings, and the name
// that the call uses does not show that. A memory file may be a link to another memory file.
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
