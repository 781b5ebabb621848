// Package proptest runs the properties of the core on as many cases everywhere.
//
// It imports nothing of ours. Only tests import it. Begin reading with proptest.go, its only file.
package proptest
