package memorytool

import (
	"path"
	"strings"
	"unicode"
)

// Users is the parent of the users' folders, Subjects that of the data subjects' folders. Held has folders of the same
// names for the ids of held changes.
const (
	Users    = "users"
	Subjects = "subjects"
	Held     = "held"
)

// Folder returns the folder of the files about a data subject, or else of a user's files, or else of those that
// all users share. A data subject that is the user has the user's folder.
func Folder(dataSubject, user string) string {
	name := "shared"
	if user != "" {
		name = path.Join(Users, UserFolder(user))
	}
	if dataSubject != "" && dataSubject != user {
		name = path.Join(Subjects, UserFolder(dataSubject), name)
	}
	return name
}

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
