// Package crashfs is a file system in memory for tests of crashes. It can make a copy of itself that has only the data
// that would be left after a crash of the machine.
//
// It imports no package of Lazaret. Start reading at [Mem].
package crashfs
