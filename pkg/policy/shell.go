package policy

import (
	"maps"
	"slices"

	"lazaret/pkg/shell"
)

// The kinds of command lines, as in the variable shell of conditions.
const (
	shellNone  = "" // no argument named command
	shellLook  = shell.Look
	shellBuild = shell.Build
	shellOther = shell.Other
)

// shellKind returns the kind of the command line in a call's arguments.
func shellKind(args any) string {
	m, _ := args.(map[string]any)
	if _, ok := m["command"]; !ok {
		return shellNone
	}
	line, ok := shell.Line(m, "command")
	if !ok {
		return shellOther
	}
	return shell.Kind(line)
}

// pathArguments are the names of arguments that name files of an editing tool, in lower case and without underscores.
var pathArguments = []string{"filepath", "notebookpath", "absolutepath", "relativepath", "newpath", "targetfile",
	"file", "filename", "path", "paths", "source", "destination", "target", "dest", "uri"}

// settingsNamed reports whether the arguments of a call name a file that programs run, or read as settings, although
// no command names it (see [shell.Started]). A patch of Codex in an argument names the files that it changes.
func settingsNamed(args any) bool {
	m, _ := args.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(m)) {
		for _, s := range texts(m[name]) {
			if slices.Contains(pathArguments, plainArgument(name)) && shell.Started(s) ||
				slices.ContainsFunc(shell.Patched(s), shell.Started) {
				return true
			}
		}
	}
	return false
}

// texts returns a string, or the strings of a list.
func texts(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var all []string
		for _, x := range v {
			if s, ok := x.(string); ok {
				all = append(all, s)
			}
		}
		return all
	}
	return nil
}
