package policy

import (
	"maps"
	"path"
	"slices"
	"strings"

	"lazaret/pkg/intent"
	"lazaret/pkg/shell"
	"lazaret/pkg/text"
)

// Relate compares a call with the words of its session's user. It adds to the relation of pkg/intent what a command
// line or an editing tool writes, because the name of a tool that runs command lines does not say that the call changes
// something. It marks a command line that writes a file as strange if the user's words have nothing to do with it. It
// marks a write to a file of an agent's memory as strange unless the user asked for a change of this file by its name.
// The same request is necessary so that an edit of a file that programs load by themselves counts as asked for. loads
// are those of the written files that agents or programs load by themselves according to the host, see
// streams.Action.Loads.
func Relate(said *intent.Said, tool string, args map[string]any, carriers []text.Carrier,
	loads ...string) *intent.Relation {
	w := writesOf(tool, args)
	files, memory := w.written(loads)
	named := files
	if w.unknown || !w.only {
		named = nil
	}
	r := said.Relate(tool, args, carriers, named...)
	memory = memory && (r == nil || !r.Files)
	strange := w.own && said.Unrelated(r) || memory
	loaded := slices.ContainsFunc(files, func(file intent.File) bool { return file.Loaded })
	ordinary := w.only && said.Wants() && !loaded
	runs, asked, all := asksForLine(said, tool, args)
	if slices.ContainsFunc(carriers, func(x text.Carrier) bool { return x.Kind == text.Secret }) {
		asked, all = false, false // "open a pull request" does not ask for a key in its text
	}
	if r == nil && (strange || ordinary || asked) {
		r = new(intent.Relation)
	}
	if r != nil && runs {
		r.Asked = asked // a user who names the tool, such as bash, does not ask for a certain line
	} else if r != nil && loaded && !r.Files {
		r.Asked = false // "write a test" names the tool Write, but no file that agents or programs load
	}
	if asked {
		r.Strange, r.Other, strange = "", "", memory
		if all {
			r.Values = []string{"command"} // the other arguments do not change what the line does
			for _, x := range carriers {
				if v := string(x.Kind) + ":" + x.Value; x.Kind == text.Command && !slices.Contains(r.Carriers, v) {
					r.Carriers = append(r.Carriers, v)
				}
			}
		}
	}
	if strange {
		r.Strange = w.argument
	}
	if ordinary {
		r.Ordinary = true
	}
	return r
}

// lineTools are the words besides those of shells in the names of tools that run command lines. lineArguments are
// command, the argument with the line, and the arguments that do not change what the line does.
var (
	lineTools     = text.Set("execute run local tool line in")
	lineArguments = text.Set("command description timeout timeoutms runinbackground")
)

// asksForLine returns three values. runs says whether a call runs a command line: the last word of the tool's name says
// so, or an argument is one. asked says whether the user asked for this line, which must start only one program, in a
// tool whose name says nothing else. all says whether the user named everything in the line.
func asksForLine(said *intent.Said, tool string, args map[string]any) (runs, asked, all bool) {
	name := intent.SplitName(tool)
	if len(name) == 0 || !shells[name[len(name)-1]] && !lineNamed(name) && !bringsLine(args, 0) {
		return false, false, false
	}
	line, ok := args["command"].(string)
	if !ok || !lineNamed(name) {
		return true, false, false
	}
	for name := range args {
		if !lineArguments[plainArgument(name)] {
			return true, false, false
		}
	}
	if words, ok := shell.Program(line); ok {
		asked, all = said.AsksForCommand(line, words)
	}
	return true, asked, all
}

// shells are words that, at the end of a tool's name, say that the tool runs command lines.
var shells = text.Set("bash shell sh zsh terminal console command commands cmd exec")

// lineNamed reports whether all words of a tool's name say that it runs command lines.
func lineNamed(name []string) bool {
	return !slices.ContainsFunc(name, func(w string) bool { return !shells[w] && !lineTools[w] })
}

// bringsLine reports whether an argument, at any depth, has a name that is usual for a command line, such as "cmd", and
// a value of several words. A value of one word may be the name of a function instead ({"command": "view"}).
func bringsLine(v any, depth int) bool {
	if depth > maxArgDepth {
		return true
	}
	switch v := v.(type) {
	case map[string]any:
		for key, x := range v {
			word, _ := x.(string)
			if x != nil && commandWords[lastWord(key)] && (word == "" || strings.ContainsFunc(word, func(r rune) bool {
				return intent.NotWord(r) && r != '_'
			})) || bringsLine(x, depth+1) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(x any) bool { return bringsLine(x, depth+1) })
	}
	return false
}

// writes describes what a call writes, if it writes files.
type writes struct {
	files   []string
	only    bool // apart from these files, the call at most builds or tests
	unknown bool // the call also writes text that is not in its arguments
	// own is set if a command line writes a text that the line itself contains to a file outside /tmp, or any text
	// to a file of an agent's memory.
	own bool
	// argument is the name of an argument that says what is written.
	argument string
}

// written returns the files that a call writes. memory is set if one of them is a file of an agent's memory. loads are
// the files that agents or programs load by themselves, as the host says. If loads is empty, the files' names decide
// which these are.
func (w *writes) written(loads []string) (files []intent.File, memory bool) {
	for _, file := range w.files {
		loaded := Loaded(file)
		if loaded && len(loads) > 0 {
			continue
		}
		files, memory = append(files, intent.File{Path: file, Loaded: loaded}), memory || shell.IsMemoryFile(file)
	}
	for _, file := range loads {
		files = append(files, intent.File{Path: file, Loaded: true, Known: true})
		memory = memory || !shell.Started(file) || shell.IsMemoryFile(file)
	}
	return files, memory
}

// Loaded reports whether agents or programs load a file by themselves.
func Loaded(file string) bool { return shell.IsMemoryFile(file) || shell.Started(file) }

// writesOf returns what a call of an editing tool, a patch or a command line writes.
func writesOf(tool string, args map[string]any) (w writes) {
	w.argument = "."
	if tool == "apply_patch" { // Codex
		for _, name := range slices.Sorted(maps.Keys(args)) {
			for _, s := range texts(args[name]) {
				w.files, w.argument = append(w.files, shell.Patched(s)...), name
			}
		}
		w.only = len(w.files) > 0
		return w
	}
	if line, ok := args["command"].(string); ok {
		w.argument = "command"
		if w.only = shell.Kind(line) == shellBuild; !w.only {
			return w
		}
		for _, s := range shell.Sinks(line, shell.Files{Memory: func(string) bool { return true },
			Folder: func(string) bool { return false }, Below: func(string) []string { return nil }}) {
			w.files, w.unknown = append(w.files, s.To), w.unknown || !s.Known
			w.own = w.own || s.Line && !strings.HasPrefix(path.Clean(s.To), "/tmp/") || shell.IsMemoryFile(s.To)
		}
		return w
	}
	acts := intent.ActsOf(tool, nil)
	if len(acts) == 0 || slices.ContainsFunc(acts, func(a string) bool { return !editing[a] }) ||
		slices.ContainsFunc(intent.SplitName(tool), func(s string) bool { return !editor[s] }) {
		return w
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if file, ok := args[name].(string); ok && slices.Contains(pathArguments, plainArgument(name)) {
			w.files, w.only, w.argument = append(w.files, file), true, name
		}
	}
	return w
}

// editing are the acts of tools that write files. editor are the words in the names of such tools.
var (
	editing = map[string]bool{"write": true, "update": true, "create": true}
	editor  = text.Set("write edit multi notebook replace create update append insert file text to in into str string")
)

// plainArgument returns the name of an argument in the form of pathArguments.
func plainArgument(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "") }

// ReadsMessages reports whether Relate compares a call with the user's messages, and not only with their words.
func ReadsMessages(tool string, args map[string]any, loads []string) bool {
	if _, ok := args["command"].(string); ok || len(loads) > 0 {
		return true
	}
	w := writesOf(tool, args)
	return slices.ContainsFunc(w.files, Loaded)
}
