package shell

import "strings"

// patchMarks begin the lines of a patch of Codex that name a file.
var patchMarks = []string{"*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "}

// Patched returns the files that a patch of Codex writes or deletes. It returns none for a text in which no line
// begins with one of patchMarks.
func Patched(patch string) (files []string) {
	for line := range strings.Lines(patch) {
		for _, mark := range patchMarks {
			if file, ok := strings.CutPrefix(line, mark); ok {
				files = append(files, strings.TrimSpace(file))
			}
		}
	}
	return files
}
