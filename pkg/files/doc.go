// Package files writes files so that they survive a crash, and restricts them to their owner. Write, Create, Replace
// and Rename are atomic and synced: after a crash a file has either the old or the new content. Restrict and
// RestrictAll remove the access rights of others. Locked and LockedFolder take a lock, so that other processes wait.
// Glob lists files.
//
// It imports no package of Lazaret. Begin reading with files.go; restrict.go removes access rights, lock.go locks.
// Package pebblefs below it restricts the files that Pebble creates. It is separate, so that programs without a
// database do not link Pebble.
package files
