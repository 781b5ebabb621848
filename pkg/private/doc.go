// Package private restricts files and folders to their owner: folders have mode 0700, files 0600,
// whatever the umask of the process. It imports no package of Lazaret.
//
// Begin reading with private.go, its only file.
package private
