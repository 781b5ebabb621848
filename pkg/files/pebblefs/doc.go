// Package pebblefs restricts the files of a Pebble database to their owner: folders have mode 0700, files 0600,
// independent of the umask of the process.
//
// It imports no package of Lazaret. Begin reading with pebblefs.go, its only file.
package pebblefs
