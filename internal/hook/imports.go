package hook

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"lazaret/pkg/intent"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// Limits on the files that are read for the imports of memory files.
const (
	maxHops     = 5 // as in Claude Code
	maxImported = 200
	maxImport   = 1 << 20 // bytes of all files
	maxParents  = 12      // folders above a file in which memory files are looked for
	maxPaths    = 300     // imports of a text
	maxLength   = 512     // bytes of the path of an import
)

// imported is an import of a memory file: @path.
type imported struct {
	path string
	code bool // it is in a code span or block, where hosts import nothing
}

// fence finds the beginning of a line that begins or ends a block of code.
var fence = regexp.MustCompile("^ {0,3}(```+)[ \t]*([^`\n]*)\\r?\n?$")

// imports returns the imports in a text, at most about maxPaths. Each path is returned as it stands, and without the
// punctuation after it.
func imports(s string) (all []imported) {
	fenced := ""
	for line := range strings.Lines(s) {
		switch m := fence.FindStringSubmatch(line); {
		case m == nil:
		case fenced == "":
			fenced = m[1]
		case len(m[1]) >= len(fenced) && strings.TrimSpace(m[2]) == "":
			fenced = ""
		}
		prev, ticks := ' ', 0
		for i, r := range line {
			if r == '`' {
				ticks++
			}
			if r == '@' && !unicode.IsLetter(prev) && !unicode.IsDigit(prev) && prev != '_' && prev != '@' {
				if len(all) >= maxPaths {
					return all
				}
				code := fenced != "" || ticks%2 == 1 && strings.Count(line[i:], "`")%2 == 1
				for _, p := range importPaths(line[i+1:]) {
					all = append(all, imported{p, code})
				}
			}
			prev = r
		}
	}
	return all
}

// importPaths returns the paths with which a text may begin, up to white space that is not escaped.
func importPaths(s string) []string {
	var b strings.Builder
	for i := 0; i < len(s) && b.Len() < maxLength; i++ {
		if s[i] == '\\' && i+1 < len(s) && s[i+1] == ' ' {
			b.WriteByte(' ')
			i++
			continue
		}
		if strings.IndexByte(" \t\r\n", s[i]) >= 0 {
			break
		}
		b.WriteByte(s[i])
	}
	whole := b.String()
	short, _, _ := strings.Cut(whole, "#")
	end := strings.IndexAny(short, "\"'`<>|,;()[]{}*")
	if end >= 0 {
		short = short[:end]
	}
	short = strings.TrimRight(short, ".:!?_")
	out := slices.Compact([]string{whole, short})
	return slices.DeleteFunc(out, func(p string) bool { return p == "" })
}

// importEndings are endings of files that people import. Other words with a dot after an @ are mostly code.
var importEndings = text.Set(`.md .mdc .mdx .markdown .txt .rst .adoc .json .yaml .yml .toml .html .xml .csv .go .py .js
	.ts .sh .rs .java`)

// inFolder finds a plain path with a folder.
var inFolder = regexp.MustCompile(`^[\w.~/-]*/[\w./-]*\w$`)

// counts reports whether an import may take effect: its file exists, or the path is written like that of a file.
func (i imported) counts(place string) bool {
	if info, err := os.Stat(place); err == nil {
		return info.Mode().IsRegular()
	}
	end := strings.ToLower(filepath.Ext(i.path))
	if place == "" {
		return true
	}
	if i.code {
		return end == ".md" || end == ".mdc" || end == ".txt"
	}
	if dir, err := os.Stat(filepath.Dir(place)); err == nil && dir.IsDir() && inFolder.MatchString(i.path) {
		return true
	}
	return importEndings[end] || strings.HasPrefix(i.path, "~/") || strings.HasPrefix(i.path, "/") ||
		strings.HasPrefix(i.path, "./") || strings.HasPrefix(i.path, "../")
}

// importPlace returns the place of an imported file. A relative path is one from the folder of the importing file.
func (h *handler) importPlace(from, path string) string {
	if !filepath.IsAbs(path) && !strings.HasPrefix(path, "~/") {
		path = filepath.Join(filepath.Dir(from), path)
	}
	return h.real(h.path(path))
}

// read returns the text of a file, or "" if it cannot be read or is larger than most.
func (h *handler) read(file string) string {
	if h.cfg.Read == nil {
		return ""
	}
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || info.Size() > most {
		return ""
	}
	b, err := h.cfg.Read(file)
	if err != nil {
		return ""
	}
	return string(b)
}

// isImported reports whether a memory file imports a file, itself or by files that it imports.
func (h *handler) isImported(file string) bool {
	if h.importedBy == nil {
		h.importedBy = h.allImported()
	}
	return slices.ContainsFunc(h.places(file), func(place string) bool { return place != "" && h.importedBy[place] })
}

// allImported returns the places of the files that memory files import. The memory files are those in the project's
// folder, in the folders in it and above it, and in the user's home.
func (h *handler) allImported() map[string]bool {
	found := make(map[string]bool)
	if h.cfg.Read == nil || h.e.CWD == "" {
		return found
	}
	type hop struct {
		file  string
		depth int
	}
	var queue []hop
	queued := make(map[string]bool)
	add := func(file string, depth int) {
		if len(queued) < maxImported && !queued[file] && file != "" {
			queued[file] = true
			queue = append(queue, hop{file, depth})
		}
	}
	for _, file := range h.memoryFiles() {
		add(h.real(file), 0)
	}
	looked := 0
	for size := 0; len(queue) > 0 && size < maxImport; queue = queue[1:] {
		from := queue[0]
		s := h.read(from.file)
		size += len(s)
		if from.depth == maxHops || !strings.Contains(s, "@") {
			continue
		}
		for _, i := range imports(s) {
			if i.code || len(i.path) >= maxLength || looked >= 2*maxPaths {
				continue
			}
			looked++
			place := h.importPlace(from.file, i.path)
			if place == "" {
				continue
			}
			found[place] = true
			add(place, from.depth+1)
		}
	}
	return found
}

// memoryFiles returns paths that memory files of hosts may have.
func (h *handler) memoryFiles() (files []string) {
	names := []string{"CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md", "AGENTS.md", "GEMINI.md"}
	seen := make(map[string]bool)
	for _, dir := range nonEmpty([]string{h.e.CWD, h.cfg.Folder}) {
		for range maxParents {
			if seen[dir] {
				break
			}
			seen[dir] = true
			for _, name := range names {
				files = append(files, filepath.Join(dir, name))
			}
			dir = filepath.Dir(dir)
		}
	}
	for _, dir := range nonEmpty([]string{h.cfg.Folder, h.e.CWD}) {
		for _, pattern := range []string{"*/CLAUDE.md", "*/AGENTS.md", "*/GEMINI.md", ".claude/rules/*.md",
			".cursor/rules/*.md*"} {
			more, _ := filepath.Glob(filepath.Join(dir, pattern))
			files = append(files, more...)
		}
	}
	for _, name := range []string{".claude/CLAUDE.md", ".gemini/GEMINI.md", ".codex/AGENTS.md"} {
		files = append(files, h.path("~/"+name))
	}
	return files
}

// rewriting are programs that can compose an import from text that a file already has, or from parts of the line.
var rewriting = text.Set("sed printf awk perl tr")

// addsImport reports why a person has to look at a write to a memory file: its new text imports a file that the memory
// file did not import before, and that the user did not name when asking for the change. Nobody has judged the text of
// this file. An import of another memory file of the project is no such reason.
func (h *handler) addsImport(w memoryWrite) string {
	composed := h.e.tool() == "Bash" && composes(w.text)
	written := imports(w.text)
	for _, name := range nonEmpty(append(slices.Clip(w.files), w.file)) {
		file := h.real(h.path(name))
		before := h.read(file)
		had := make(map[string]bool)
		for _, i := range imports(before) {
			had[h.importPlace(file, i.path)] = had[h.importPlace(file, i.path)] || !i.code
		}
		all := slices.Clip(written)
		if h.e.tool() != "Bash" {
			all = append(all, imports(h.result(before))...)
		} else {
			if at := strings.LastIndexByte(before, '\n') + 1; composed || strings.Contains(before[at:], "@") {
				return "it writes a text to the agent's memory that it composes from parts"
			}
			all = append(imports(unquote.Replace(w.text)), all...)
		}
		if len(all) >= maxPaths {
			return "it makes the agent's memory import more files than are looked up"
		}
		for _, i := range all {
			place := h.importPlace(file, i.path)
			if had[place] || h.importAsked(place) || h.loaded(place) {
				continue
			}
			rewrites := h.e.tool() == "Bash" && slices.ContainsFunc(strings.FieldsFunc(w.text, intent.NotWord),
				func(w string) bool { return rewriting[w] })
			if rewrites || len(i.path) >= maxLength || i.counts(place) {
				return "it makes the agent's memory import " + streams.Clip(i.path, 200)
			}
		}
	}
	return ""
}

// unquote removes the quotes of a command line. lone finds an @ that the line may join with a path. escaped finds an
// escape such as \x, for which the programs in escapes write a character.
var (
	unquote = strings.NewReplacer("\\\n", "", `"`, "", `'`, "", `\`, "")
	lone    = regexp.MustCompile("(^|\\s)@(\\s|[{$`]|$)")
	escaped = regexp.MustCompile(`\\[xodcuU0-9]`)
	escapes = text.Set("echo printf sed awk perl tr")
)

// composes reports whether a command line may write an import of which it has only parts.
func composes(line string) bool {
	return lone.MatchString(unquote.Replace(line)) || escaped.MatchString(line) && (strings.Contains(line, "$'") ||
		slices.ContainsFunc(strings.FieldsFunc(line, intent.NotWord), func(w string) bool { return escapes[w] }))
}

// loaded reports whether a place is that of a memory file that hosts load by themselves.
func (h *handler) loaded(place string) bool {
	return place != "" && slices.ContainsFunc(h.memoryFiles(), func(file string) bool {
		rel := h.relative(file)
		return !filepath.IsAbs(rel) && !strings.HasPrefix(rel, "node_modules/") && !strings.HasPrefix(rel, "vendor/") &&
			h.real(file) == place
	})
}

// result returns the text of a file after the call of an editing tool that replaces parts of it.
func (h *handler) result(before string) string {
	in := h.input()
	after := before
	for _, e := range append([]replacement{{in.Old, in.New}}, in.Edits...) {
		if e.Old != "" {
			after = strings.ReplaceAll(after, e.Old, e.New)
		}
	}
	return after
}

// importPrefix begins the names of files that store which imports the user named.
const importPrefix = "import-"

// noteImports stores the files that a prompt of the user names in a request for a change of a memory file.
func (h *handler) noteImports(w intent.Wishes) error {
	if !w.Inert {
		if err := h.st.drop(importPrefix); err != nil {
			return err
		}
	}
	for _, file := range w.With[:min(len(w.With), maxNamed)] {
		for _, place := range nonEmpty(h.places(file)) {
			if err := h.st.write(importPrefix+placeHash(place), true); err != nil {
				return err
			}
		}
	}
	return nil
}

// importAsked reports whether the user named a file in the request for the change of a memory file.
func (h *handler) importAsked(place string) bool {
	names, err := h.st.names(importPrefix + placeHash(place))
	return err == nil && len(names) > 0
}
