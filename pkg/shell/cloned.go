package shell

import (
	"path"
	"strings"
)

// cloning are programs that bring a folder with files. The value has the words after which the arguments name this
// folder.
var cloning = map[string]map[string]bool{"git": set("clone add"), "gh": set("clone"), "hg": set("clone"),
	"svn": set("checkout co export"), "npx": set("degit tiged giget"), "degit": set("degit"), "tiged": set("tiged")}

// Cloned returns the folders into which a command line clones repositories, relative to the folders in which the
// programs run.
func Cloned(line string) (folders []string) {
	commands, _, _ := lex(line)
	for _, c := range commands {
		words := wordsOf(unwrapped(c.words))
		if len(words) == 0 {
			continue
		}
		name := base(words[0].text)
		// Values of options, such as 1 in "--depth 1", are operands here, too. So each operand may be the folder.
		clones := cloning[name][name]
		for _, w := range words[1:] {
			switch {
			case cloning[name][w.text]:
				clones = true
			case clones && !strings.HasPrefix(w.text, "-"):
				folders = append(folders, w.text, strings.TrimSuffix(path.Base(w.text), ".git"))
			}
		}
	}
	return folders
}
