package hook

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/shell"
	"lazaret/pkg/text"
)

// libraries are folders in the home and of the machine in which the tools of languages store libraries and their own
// sources. Their files count as documents of the project (see the method document), because the project runs this code
// anyway.
var libraries = strings.Fields(`~/go/pkg/mod ~/sdk/go* ~/.cargo/registry ~/.cargo/git/checkouts ~/.rustup/toolchains
	~/.m2 ~/.gradle/caches ~/.local/lib/python*/site-packages /usr/local/go /usr/lib/go /usr/lib/go-* /usr/share/go-*
	/opt/homebrew/opt/go /opt/homebrew/Cellar/go /usr/lib/python3* /usr/local/lib/python3*`)

// library reports whether a place is in one of libraries, or in the packages of a virtual environment of Python in the
// home.
func (h *handler) library(place string) bool {
	for _, pattern := range libraries {
		pattern = h.path(pattern)
		folders, _ := filepath.Glob(pattern)
		if h.cfg.Read == nil && !strings.Contains(pattern, "*") {
			folders = []string{pattern}
		}
		if slices.ContainsFunc(folders, func(dir string) bool {
			dir = h.real(dir)
			return dir != "" && below(place, dir)
		}) {
			return true
		}
	}
	root, _, ok := strings.Cut(place, "/lib/python")
	home := h.real(h.path("~/"))
	if !ok || home == "" || !below(place, home) || !strings.Contains(place, "/site-packages/") {
		return false
	}
	_, err := os.Stat(filepath.Join(root, "pyvenv.cfg"))
	return err == nil && h.cfg.Read != nil
}

// listing are programs that print names of files, and numbers, but no text of files.
var listing = text.Set("ls find which stat test [ du df basename dirname realpath wc pwd true tree type command")

// documentOr returns the origin of what a tool that reads files returned: document if all of it is from documents of
// the project, and tool otherwise. A page that was downloaded into /tmp is no such document.
func (h *handler) documentOr() beliefs.Origin {
	own := true
	switch in := h.input(); h.e.tool() {
	case "Read", "NotebookRead":
		if own = h.document(cmp.Or(in.File, in.Notebook)); len(in.Files) > 0 {
			own = !slices.ContainsFunc(in.Files, func(pattern string) bool { return !h.documents(pattern) })
		}
	case "Grep":
		own = (in.File == "" || h.document(in.File)) && !h.foundOutside([]string{cmp.Or(in.File, ".")}, true)
	case "Edit", "MultiEdit", "NotebookEdit": // the result has lines around the change
		own = !slices.ContainsFunc(h.edited(), func(file string) bool {
			return slices.ContainsFunc(h.places(file), h.brought)
		})
	case "Bash":
		own = h.prints(in.Command)
	}
	if own {
		return beliefs.OriginDocument
	}
	return beliefs.OriginTool
}

// document reports whether a file counts as a document of the project: a regular file or a folder in the project's
// folder that got no text from outside by a command of the session, see noteBrought. Libraries and the agent's own
// notes count too, and so do files outside of the folder that the user named or that a command of the session wrote,
// see noteWritten.
func (h *handler) document(file string) bool {
	if cmp.Or(h.cfg.Folder, h.e.CWD) == "" {
		return true // it is not known which folder is the project's
	}
	for _, place := range h.places(file) {
		if h.cfg.Read != nil {
			if info, err := os.Stat(place); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
				return false
			}
		}
		if h.brought(place) {
			return false
		}
		if !h.inProject(file, place) && !h.agentsOwn(place) && !h.library(place) && !h.wrote(place) &&
			!h.userNamed(place) {
			return false
		}
	}
	return true
}

// upward finds a part of a pattern, such as "..", with which the pattern may name files outside of the folder that
// stands before its first wildcard.
var upward = regexp.MustCompile(`\.\.|\{[^}]*/`)

// documents reports whether all files that a pattern of a host names count as documents.
func (h *handler) documents(pattern string) bool {
	folder := pattern
	if i := strings.IndexAny(pattern, "*?[{"); i >= 0 {
		folder = pattern[:i+1]
		folder = folder[:strings.LastIndexByte(folder, '/')+1] + "."
	}
	files, ok := h.matched(pattern)
	return ok && len(files) <= maxMatched && !h.deep(pattern) && h.document(folder) &&
		!upward.MatchString(pattern[len(folder)-1:]) &&
		!slices.ContainsFunc(files, func(file string) bool { return !h.document(file) })
}

// deep reports whether a pattern may name files with text from outside in folders of any depth. zsh and hosts expand
// **/ to any depth, and Go's Glob does not.
func (h *handler) deep(pattern string) bool {
	folder, _, ok := strings.Cut(pattern, "**")
	return ok && slices.ContainsFunc(h.places(folder[:strings.LastIndexByte(folder, '/')+1]+"."), h.holds)
}

// prints reports whether a command line prints only text of the project's documents and of its programs.
func (h *handler) prints(command string) bool {
	words, all := h.paths(command)
	files, unknown := h.foreign(words, false)
	return all && !unknown && len(files) == 0 && !shell.Others(command, h.remotes()) &&
		!h.searchesOutside(command, words, true)
}

// searchesOutside reports whether a command line searches a folder in which files have text from outside, and may print
// this text. It is false if shown is set and the result of the call shows that the text is from other files.
func (h *handler) searchesOutside(command string, words []shell.Path, shown bool) bool {
	var folders []string
	exec := func(name string) bool { return strings.Contains(name, "-exec") }
	runs := slices.ContainsFunc(words, func(w shell.Path) bool {
		return w.Program == "find" && slices.ContainsFunc(w.Names, exec)
	})
	for _, w := range words {
		if w.Write && !w.Source && !runs && (shown || !carrying[w.Program] || placed[w.Program]) || w.Folder ||
			listing[w.Program] && !runs || passing[w.Program] {
			continue
		}
		folders = append(folders, w.Names...)
	}
	if shell.Searches(command) {
		folders = append(folders, ".")
	}
	return h.foundOutside(folders, shown)
}

// passing are programs that read no files of a folder in their arguments, or whose copies of folders are followed.
var passing = text.Set("cd pushd popd cp mv git mkdir rm rmdir touch chmod")

// foundOutside reports whether a search in some folders may have found text from outside. If shown is set, it has found
// none if each line of the call's result begins with the name of a document.
func (h *handler) foundOutside(folders []string, shown bool) bool {
	folders = slices.DeleteFunc(folders, func(name string) bool {
		return !slices.ContainsFunc(h.places(name), func(place string) bool { return place != "" && h.holds(place) })
	})
	if len(folders) == 0 || !shown {
		return len(folders) > 0
	}
	own := func(name string) bool {
		for _, folder := range append(folders, ".") {
			if file := filepath.Join(folder, name); name != "" && h.cfg.Read != nil {
				if info, err := os.Stat(h.path(file)); err == nil && info.Mode().IsRegular() && h.document(file) {
					return true
				}
			}
		}
		return false
	}
	known := map[string]bool{}
	for _, words := range h.words() {
		for line := range strings.Lines(words) {
			line = strings.TrimSpace(line)
			name, _, _ := strings.Cut(line, ":")
			if m := contextLine.FindStringSubmatch(line); m != nil {
				name = m[1]
			}
			if _, ok := known[name]; !ok {
				if len(known) > maxFound {
					return true
				}
				known[name] = own(name)
			}
			if !known[name] && !plainLine.MatchString(line) {
				return true
			}
		}
	}
	return false
}

// maxFound is the maximum number of files in the result of a search that are looked up.
const maxFound = 2048

var (
	// contextLine matches a line that grep prints with the options -n and -C.
	contextLine = regexp.MustCompile(`^([^:]*?)-\d+-`)
	// plainLine matches a line of the result of a search that has no text of files.
	plainLine = regexp.MustCompile(`^([\w-]*|Found \d+ \w+|No \w+ found)$`)
)

// foreign returns the files that the programs of a command line read or copy and that do not count as documents.
// unknown is set if it is not known which files these programs read. Of the files that programs may write as well as
// read, it returns only those to which a command brought text from outside, unless all is set.
func (h *handler) foreign(words []shell.Path, all bool) (files []string, unknown bool) {
	matched, anew := 0, map[string]bool{}
	removes := slices.ContainsFunc(words, func(w shell.Path) bool { return removing[w.Program] })
	for _, w := range words {
		if w.Anew {
			for _, name := range w.Names {
				anew[h.real(h.path(name))] = true
			}
		}
		both := w.Write && !w.Source && w.Program != "" && (!placed[w.Program] || w.Shown)
		if w.Write && !w.Source && !both || w.Folder || listing[w.Program] {
			continue
		}
		unknown = unknown || w.Lost
		for _, name := range w.Names {
			named := []string{name}
			if w.Pattern {
				all, ok := h.matched(name)
				if !ok || h.deep(name) || matched+len(all) > maxMatched {
					unknown = true
					continue
				}
				matched += len(all)
				if len(all) > 0 || !w.Source { // mv leaves no file that matches
					named = all
				}
			}
			for _, file := range named {
				// cat /tmp/a; rm /tmp/a and mv /tmp/a b leave no file in the folder of temporary files
				gone := w.Source || removes && (h.temporary(h.path(file)) || h.inOther(file))
				if !gone && !h.exists(file) || both && !all && !w.Shown &&
					!slices.ContainsFunc(h.places(file), h.brought) {
					continue
				}
				if !h.document(file) && !h.madeAnew(file, anew) {
					files = append(files, file)
				}
			}
		}
	}
	return files, unknown
}

// madeAnew reports whether a file is a temporary file whose whole text the line itself has replaced (anew has these
// files). Such a file has only text that the line's programs printed: go test > /tmp/x; tail /tmp/x.
func (h *handler) madeAnew(file string, anew map[string]bool) bool {
	place := h.real(h.path(file))
	return anew[place] && h.temporary(place) && h.cfg.Read != nil && !h.began.IsZero() && h.fresh(place)
}

// removing are programs that remove files.
var removing = text.Set("rm unlink shred trash")

// inOther reports whether a path is that of a file in a folder outside of the project's folder.
func (h *handler) inOther(file string) bool {
	at := h.path(file)
	dir := filepath.Dir(at)
	return dir != "/" && !h.inProject(file, h.real(at)) && h.cfg.Read != nil && !noFolder(dir)
}

// remoteName finds the name of a remote in the settings of a repository of git.
var remoteName = regexp.MustCompile(`(?m)^\s*\[remote "([^"]+)"\]`)

// remotes returns the names of the remotes of the repository in which the working folder is, and the usual ones.
func (h *handler) remotes() []string {
	names, top := []string{"origin", "upstream"}, h.top()
	if h.cfg.Read == nil || top == "" {
		return names
	}
	dir := filepath.Join(top, ".git")
	if b, err := h.cfg.Read(dir); err == nil { // a worktree names its folder in the repository
		dir, _, _ = strings.Cut(strings.TrimSpace(strings.TrimPrefix(string(b), "gitdir:")), "/worktrees/")
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(top, dir)
		}
	}
	b, _ := h.cfg.Read(filepath.Join(dir, "config"))
	for _, m := range remoteName.FindAllStringSubmatch(string(b), -1) {
		names = append(names, m[1])
	}
	return names
}

// exists reports whether a word names a file. If this process cannot look up files, exists is true for a path that
// leads out of the working folder, and for a file to which a command brought text from outside.
func (h *handler) exists(file string) bool {
	if h.cfg.Read == nil {
		return filepath.IsAbs(file) || strings.HasPrefix(file, "~/") || strings.Contains(file, "../") ||
			slices.ContainsFunc(h.places(file), h.brought)
	}
	_, err := os.Stat(h.path(file))
	return err == nil
}

// Prefixes of the names of files that store paths outside the project's folder: those that commands of the session
// wrote with text of the project, and those of the home that the user named.
const (
	writtenPrefix = "written-"
	readPrefix    = "read-"
)

func (h *handler) noted(prefix, place string) bool {
	_, err := os.Stat(filepath.Join(h.st.dir, prefix+placeHash(place)))
	return err == nil
}

// stillWrites is stored for a file to which a program that a tool call started may still write when the call has
// returned.
const stillWrites = "still writes"

// wrote reports whether a command of the session wrote text to a file, all of it from the project's own files and
// programs, and the file has not changed since.
func (h *handler) wrote(place string) bool {
	mark, err := os.Stat(filepath.Join(h.st.dir, writtenPrefix+placeHash(place)))
	if err != nil {
		return false
	}
	at, known := changedAt(place)
	return h.cfg.Read == nil || !known || mark.Size() > int64(len(stillWrites)) ||
		!at.After(mark.ModTime().Add(clockStep))
}

// userNamed reports whether the user named a file of the home, or a folder above it.
func (h *handler) userNamed(place string) bool {
	for at := place; h.plain(at); at = filepath.Dir(at) {
		if h.noted(readPrefix, at) {
			return true
		}
	}
	return false
}

// noteWritten stores the files of the folder of temporary files to which a command line redirected the output of its
// programs: go test ./... > /tmp/out.txt. own is set if this output is only text of the project; otherwise no file is
// stored. It forgets files that another line may have written.
func (h *handler) noteWritten(command string, own bool) error {
	words, _ := h.paths(command)
	for _, w := range words {
		if !w.Write || w.Folder {
			continue
		}
		for _, name := range w.Names {
			if !filepath.IsAbs(name) {
				continue
			}
			place := h.real(name)
			if !own || w.Program != "" && w.Program != "tee" { // cp may copy a text of others
				if err := h.st.drop(writtenPrefix + placeHash(place)); err != nil {
					return err
				}
			} else if h.temporary(place) {
				mark := any(true)
				if h.goesOn(command) {
					mark = stillWrites
				}
				if err := h.st.write(writtenPrefix+placeHash(place), mark); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// noteRead stores the files and folders of the home that a prompt of the user names: they count as documents.
func (h *handler) noteRead(prompt string) error {
	n := 0
	for _, w := range strings.Fields(prompt) {
		w = strings.TrimRight(strings.TrimLeft(w, quotes+"@"), quotes+".")
		if !strings.HasPrefix(w, "/") && !strings.HasPrefix(w, "~/") && !strings.HasPrefix(w, "../") || n == maxNamed {
			continue
		}
		n++
		for _, place := range h.places(w) {
			if h.plain(place) && !h.temporary(place) {
				if err := h.st.write(readPrefix+placeHash(place), true); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
