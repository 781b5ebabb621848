// Package private keeps files and folders for their owner: folders have mode 0700,
// files 0600, whatever the umask of the process. It imports nothing of ours.
//
// Begin reading with private.go, its only file.
package private
