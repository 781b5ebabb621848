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

// steers reports whether a program may change the folder of its shell, or where a later cd leads, in a way that this
// package does not follow.
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
		return !looks(wordsOf(words)) && !activates(words)
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

// breaks reports whether an error may end the row of a program before the program runs, as in echo $((1/0)) or, in zsh,
// echo none*. A shell that reads rows from a terminal then reads the next one, as does bash after an error of arithmetic.
func breaks(c simple) bool {
	if c.in != nil && !c.in.same {
		return false // the error ends the subshell
	}
	fails := func(t token) bool {
		return t.unknown || t.loose || strings.HasPrefix(t.text, "~") && !t.home ||
			slices.ContainsFunc(t.inner, func(s sub) bool {
				return len(s.commands) > 0 && len(s.commands[0].words) > 0 && expansion(s.commands[0].words[0].text)
			})
	}
	return len(c.words) > 0 && (expansion(c.words[0].text) || assigns(c.words[0].text) || setting[c.words[0].text]) ||
		slices.ContainsFunc(c.words, fails) ||
		slices.ContainsFunc(c.redirects, func(r redirect) bool { return fails(r.to) })
}

// expansion reports whether the first word of a program is that of an expression that a shell evaluates itself.
func expansion(name string) bool { return name == evaluating || name == ":" }
