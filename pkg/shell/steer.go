package shell

import (
	"regexp"
	"slices"
	"strings"
)

var (
	// steering are words of shells that run other text, set options, or change the folder in another way than cd.
	steering = set(`eval source . trap shopt setopt unsetopt emulate exec coproc dirs chdir noglob nocorrect - repeat print
		zmodload autoload sched vared integer float private strftime command`)
	// setting are words of shells that set the variables in their arguments, or unset them.
	setting = set("export declare typeset local readonly read mapfile readarray getopts let unset for")
	// folderVariables are variables by which shells find folders, or which have text that shells run.
	folderVariables = set(`HOME PWD OLDPWD CDPATH cdpath IFS DIRSTACK dirstack chpwd_functions precmd_functions
		PROMPT_COMMAND POSIXLY_CORRECT`)
	// harmlessSet matches an argument of set that sets no option by which shells change folders.
	harmlessSet = regexp.MustCompile(`^([-+][euvx]*o?|pipefail)$`)
)

// steers reports whether a program may change the folder of its shell, or where a later cd leads, in a way that is not
// read here.
func steers(c simple) bool {
	for _, t := range c.words {
		name, _, _ := strings.Cut(t.text, "=")
		if !assigns(t.text) {
			break
		}
		if folderVariables[name] {
			return true
		}
	}
	words := unwrapped(c.words)
	if len(words) == 0 {
		return false
	}
	name, args := words[0].text, words[1:]
	switch {
	case name == evaluating: // it may set variables
		return slices.ContainsFunc(args, func(t token) bool { return !literal(t) })
	case steering[name]:
		return !looks(wordsOf(words))
	case name == "set":
		return slices.ContainsFunc(args, func(t token) bool { return !literal(t) || !harmlessSet.MatchString(t.text) })
	case name == "for":
		return len(args) == 0 || folderVariables[args[0].text]
	case setting[name] || name == "printf" && hasPrefix(args, "-v"):
		return slices.ContainsFunc(args, func(t token) bool {
			name, _, _ := strings.Cut(t.text, "=")
			option := strings.HasPrefix(name, "-") && !strings.Contains(name, "n") // declare -n makes another name
			return folderVariables[name] || name == "" || !option && strings.Trim(name, nameLetters) != ""
		})
	}
	return len(args) == 0 && (strings.Trim(name, "./~") == "" || strings.HasSuffix(name, "/")) // zsh with AUTO_CD
}
