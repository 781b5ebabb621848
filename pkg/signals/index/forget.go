package index

import "bytes"

// KeyOf reports whether a key of a Store belongs to the signals of the given project.
func KeyOf(key []byte, project string) bool {
	switch {
	case len(key) == 0:
		return false
	case key[0] == 'm', key[0] == 'b':
		return string(key[1:]) == project
	case key[0] == 'l':
		rest, ok := bytes.CutPrefix(key[1:], []byte(project))
		return ok && len(rest) > 0 && rest[0] == 0
	case key[0] == 's' && len(key) > 3:
		rest, ok := bytes.CutPrefix(key[3:], []byte(project))
		return ok && len(rest) > 0 && rest[0] == 0
	}
	return false
}
