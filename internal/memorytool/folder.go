package memorytool

import (
	"path"
	"strings"
	"unicode"
)

// Users and Subjects are the names of the folders that contain the users' and the data subjects' folders. Held is the
// name of a folder with the same subfolders, for the ids of held changes.
const (
	Users    = "users"
	Subjects = "subjects"
	Held     = "held"
)

// Folder returns the path of the folder for files. It is the folder of the data subject if one is given and is not the
// user, otherwise the user's folder. Without a user, it is the folder that all users share.
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

// UserFolder returns the name of a user's folder. No other user's folder has this name, also on file systems that
// ignore case.
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
