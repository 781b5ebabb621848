package shell

import (
	"path"
	"strings"
)

// Cloned returns the folders into which a command line clones repositories with git, relative to the folders in which
// git runs.
func Cloned(line string) (folders []string) {
	commands, _, _ := lex(line)
	for _, c := range commands {
		words := wordsOf(unwrapped(c.words))
		if len(words) == 0 || base(words[0].text) != "git" {
			continue
		}
		// Values of options, such as 1 in "--depth 1", are operands here, too. So each operand may be the folder.
		clones := false
		for _, w := range words[1:] {
			switch {
			case w.text == "clone":
				clones = true
			case clones && !strings.HasPrefix(w.text, "-"):
				folders = append(folders, w.text, strings.TrimSuffix(path.Base(w.text), ".git"))
			}
		}
	}
	return folders
}
