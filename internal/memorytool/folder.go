package memorytool

import (
	"strings"
	"unicode"
)

// UserFolder returns the name of a user's folder. It differs from that of any other user also on file systems
// that ignore case.
func UserFolder(user string) string {
	var b strings.Builder
	for _, r := range user {
		if unicode.IsUpper(r) {
			b.WriteByte('!')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
