package hook

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lazaret/internal/content"
	"lazaret/pkg/shell"
	"lazaret/streams"
)

// memoryWrite is a write of a call to a memory file.
type memoryWrite struct {
	file  string
	files []string // all memory files that the call writes, if it is a command line
	text  string   // the new text, or the command line that writes it
	// read is set if the text was read from files.
	read bool
	// unknown is set if the call writes text that neither the call nor a readable file contains.
	unknown bool
}

// memory returns the memory write that a call makes, or nil.
func (h *handler) memory(w memoryWrite) *streams.Memory {
	if w.file == "" {
		return nil
	}
	return &streams.Memory{Head: h.head(""), Key: h.fileKey(w.file), Content: cmp.Or(w.text, "(emptied)"),
		Category: "instructions", Source: "tool:" + h.e.Tool}
}

// memoryWritten returns the write of a call to a memory file. If the call writes to no memory file, file
// is empty.
func (h *handler) memoryWritten() memoryWrite {
	in := h.input()
	var w memoryWrite
	switch h.e.tool() {
	case "Write", "Edit", "MultiEdit", "NotebookEdit":
		w.file = cmp.Or(in.File, in.Notebook)
		parts := []string{in.Content, in.New, in.Source}
		for _, e := range in.Edits {
			parts = append(parts, e.New)
		}
		w.text = strings.Join(nonEmpty(parts), "\n")
	case "Bash":
		return h.memoryByCommand(in.Command)
	case "apply_patch": // Codex
		w.text = strings.Join(content.Strings(h.e.Input), "\n")
		for _, f := range shell.Patched(w.text) {
			if w.file = h.memoryFile(f); w.file != "" {
				return w
			}
		}
	case "Memory": // Gemini CLI adds a fact to its memory file
		return memoryWrite{file: "GEMINI.md", text: in.Fact}
	case "Read", "Grep", "Glob", "LS", "NotebookRead":
	default: // an editing tool whose name is not known here
		if h.e.native != "" && !h.e.mcp {
			w.file, w.text = in.File, strings.Join(content.Strings(h.e.Input), "\n")
		}
	}
	w.file = h.memoryFile(w.file)
	return w
}

// maxCopied is the maximum number of files that the hook reads because a command line copies them into memory files. A
// command that copies more files is held: reading them could take longer than the host waits for the hook, and the host
// would then let the command pass.
const maxCopied = 32

// memoryByCommand returns the write of a command line to a memory file. If the command copies files into the memory
// file, the write has the text of these files. It has the command line itself if that contains the text, or if a file
// cannot be read. A command that only names a memory file gives no write.
func (h *handler) memoryByCommand(command string) (w memoryWrite) {
	var texts []string
	size, reads, line := 0, 0, false
	sinks := shell.Sinks(command, shell.Files{Memory: func(file string) bool { return h.memoryFile(file) != "" },
		Folder: h.folder, Below: h.below})
	for _, s := range sinks {
		to := h.memoryFile(s.To)
		if w.file = cmp.Or(w.file, to); !slices.Contains(w.files, to) {
			w.files = append(w.files, to)
		}
		w.unknown, line = w.unknown || !s.Known, line || s.Line
		for _, from := range s.From {
			if reads++; reads > maxCopied || size > most {
				w.unknown = true
				break
			}
			var b []byte
			err := fs.ErrNotExist
			if h.cfg.Read != nil {
				b, err = h.cfg.Read(h.path(from))
			}
			if size += len(b); err != nil || size > most {
				w.unknown = true
				continue
			}
			w.read = true
			texts = append(texts, strings.ToValidUTF8(string(b), "\uFFFD"))
		}
	}
	if line || w.unknown {
		texts = append([]string{command}, texts...)
	}
	w.text = strings.Join(texts, "\n")
	return w
}

// folder reports whether a path is that of a folder.
func (h *handler) folder(file string) bool {
	i, err := os.Stat(h.path(file))
	return err == nil && h.cfg.Read != nil && i.IsDir()
}

// maxBelow is the maximum number of files and folders that below visits.
const maxBelow = 10_000

// below returns all files below a folder, with paths relative to the folder. If it cannot list all of them, it returns
// none.
func (h *handler) below(folder string) (files []string) {
	if h.cfg.Read == nil {
		return nil
	}
	root, n := h.path(folder), 0
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if n++; err != nil {
			return err
		}
		if n > maxBelow {
			return errors.New("too many files")
		}
		if d.IsDir() {
			if d.Name() == ".git" || d.Name() == "node_modules" {
				return fs.SkipDir
			}
			return nil
		}
		if rel, err := filepath.Rel(root, file); err == nil {
			files = append(files, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		return nil
	}
	return files
}

// memoryFile returns the memory file that a path names, itself or by symbolic links, or "". A file that a memory file
// imports is one, too.
func (h *handler) memoryFile(file string) string {
	if file == "" || shell.IsMemoryFile(file) || h.cfg.Read == nil {
		if shell.IsMemoryFile(file) {
			return file
		}
		return ""
	}
	home, err := filepath.EvalSymlinks(h.e.CWD)
	if err != nil {
		home = h.e.CWD
	}
	at := h.path(file)
	for range maxLinks {
		if dir, err := filepath.EvalSymlinks(filepath.Dir(at)); err == nil {
			at = filepath.Join(dir, filepath.Base(at))
		}
		// Compare only the path below the agent's working folder. Otherwise a folder above it, with a name
		// like that of a memory folder, would make all of the agent's files memory.
		name := at
		if rel, err := filepath.Rel(home, at); err == nil && !strings.HasPrefix(rel, "..") {
			name = rel
		}
		if shell.IsMemoryFile(name) {
			return name
		}
		to, err := os.Readlink(at)
		if err != nil && h.isImported(at) {
			return name
		}
		if err != nil {
			return ""
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(at), to)
		}
		at = to
	}
	return ""
}

// fileKey returns the memory key of a file.
func (h *handler) fileKey(file string) string {
	return streams.FileKey + streams.Clip(h.relative(file), 900)
}

// relative returns the path of a file from the project's folder. A file outside of this folder keeps its absolute path.
func (h *handler) relative(file string) string {
	at, folder := h.path(file), cmp.Or(h.cfg.Folder, h.e.CWD)
	for _, x := range [][2]string{{at, folder}, {h.real(at), h.real(folder)}} {
		if rel, err := filepath.Rel(x[1], x[0]); err == nil && x[0] != "" && x[1] != "" && below(x[0], x[1]) {
			return filepath.ToSlash(rel)
		}
	}
	return filepath.ToSlash(at)
}

// loads returns the files that a call writes and that agents or programs load by themselves.
func (h *handler) loads(w memoryWrite) (out []string) {
	add := func(file string) {
		if file = h.relative(file); len(out) < streams.MaxLoads && len(file) <= streams.MaxLoaded &&
			!slices.Contains(out, file) {
			out = append(out, file)
		}
	}
	files := h.edited()
	name := strings.ToLower(h.e.Tool[strings.LastIndex(h.e.Tool, "__")+1:])
	if h.e.mcp && slices.ContainsFunc(editVerbs, func(v string) bool { return strings.Contains(name, v) }) {
		files = nonEmpty([]string{h.input().File})
	}
	for _, file := range files {
		if m := h.memoryFile(file); m != "" {
			add(m)
		} else if shell.Started(h.relative(file)) {
			add(file)
		}
	}
	for _, file := range nonEmpty(append(w.files, w.file)) {
		add(file)
	}
	return out
}

func nonEmpty(in []string) (out []string) {
	for _, s := range in {
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}

// input has the fields of tool inputs that name a source or destination.
type input struct {
	File, Notebook, URL, Query, Command, Content, Old, New, Source, Fact string

	Files []string // patterns of the files that a tool reads
	Edits []replacement
}

// replacement replaces a part of a file.
type replacement struct {
	Old string `json:"old_string"`
	New string `json:"new_string"`
}

func (h *handler) input() (in input) {
	// Tools have inputs of many shapes. A field of an unexpected type counts as missing.
	var raw map[string]json.RawMessage
	if json.Unmarshal(h.e.Input, &raw) != nil {
		return in
	}
	for _, f := range []struct {
		to    *string
		names []string
	}{
		{&in.File, []string{"file_path", "absolute_path", "target_file", "path", "dir_path"}}, {&in.Notebook, []string{"notebook_path"}},
		{&in.URL, []string{"url"}}, {&in.Query, []string{"query"}}, {&in.Command, []string{"command"}},
		{&in.Content, []string{"content", "contents"}}, {&in.New, []string{"new_string"}},
		{&in.Old, []string{"old_string"}},
		{&in.Source, []string{"new_source"}}, {&in.Fact, []string{"fact"}},
	} {
		for _, name := range f.names {
			if *f.to == "" {
				_ = json.Unmarshal(raw[name], f.to)
			}
		}
	}
	_ = json.Unmarshal(raw["edits"], &in.Edits)
	for _, name := range []string{"paths", "include"} {
		var files []string
		_ = json.Unmarshal(raw[name], &files)
		in.Files = append(in.Files, files...)
	}
	for _, name := range []string{"workdir", "cwd", "directory", "dir_path", "working_directory"} {
		// A host that knows the argument runs the command line in this folder. Another host ignores it.
		var dir string
		if json.Unmarshal(raw[name], &dir) == nil && dir != "" && dir != "." && dir != h.e.CWD && in.Command != "" {
			in.Command = "true || cd '" + strings.ReplaceAll(dir, "'", `'\''`) + "'\n" + in.Command
		}
	}
	return in
}
