// Package crashfs is a file system in memory for tests of crashes: a copy of it has only what a crash of the machine
// leaves.
//
// It imports no package of Lazaret. Start reading at [Mem].
package crashfs
