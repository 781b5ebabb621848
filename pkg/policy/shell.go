package policy

import "lazaret/pkg/shell"

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
	v, ok := m["command"]
	if !ok {
		return shellNone
	}
	line, ok := v.(string)
	if !ok {
		return shellOther
	}
	return shell.Kind(line)
}
