// Package proptest runs property tests with the same number of cases everywhere.
//
// It imports no other package of this module. Only tests import it. Begin reading with proptest.go, its
// only file.
package proptest
