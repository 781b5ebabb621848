package shell

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// argumentLists are the names of arguments with the words after a program's name. The name may have another word before
// it, as in commandArgs and command_args.
var argumentLists = regexp.MustCompile(`(?i)(^|[a-z_-])(args|argv|arguments?|parameters|params|options|flags|words|` +
	`tokens)_*$`)

// Line returns the command line that the argument key of a call names. If the value is the name of a program, and
// another argument has a list of words, these words belong to the line: {"command": "find", "args": ["/", "-delete"]}.
// ok is false if the value is not a string, or if the words cannot be read.
func Line(args map[string]any, key string) (line string, ok bool) {
	line, ok = args[key].(string)
	if !ok || line == "" {
		return line, ok
	}
	known := Known(strings.TrimSpace(line)) || strings.ContainsAny(line, "/ ")
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if !argumentLists.MatchString(name) || !known || name == key {
			continue
		}
		switch list := args[name].(type) {
		case string:
			line += " " + list
		case []any:
			for _, v := range list {
				switch v := v.(type) {
				case string:
					line += " '" + strings.ReplaceAll(v, "'", `'\''`) + "'"
				case float64:
					line += " " + strconv.FormatFloat(v, 'f', -1, 64)
				default:
					return line, false
				}
			}
		case map[string]any:
			if len(list) > 0 {
				return line, false // the order of the words is not known
			}
		}
	}
	return line, true
}

// Known reports whether a word is the name of a program that this package knows. Other words may be names of
// functions.
func Known(word string) bool {
	name := base(word)
	return lookers[name] != nil || builders[name] != nil || moreBuilders[name] != nil || buildersBy[name] != nil ||
		subLookers[name] != nil || subBuilders[name] != nil || interpreters[name] != "" || versioned[name] ||
		connecting[name] || delivering[name] || environments[name] != "" || system[name]
}

// system are programs that change files, or run others.
var system = set(`sh dash zsh fish ksh env sudo su xargs rm rmdir ln dd chmod chown install tar unzip kill pkill nohup
	setsid timeout eval exec systemctl crontab at perl php awk gawk sed tee truncate shred`)
