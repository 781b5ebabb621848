// Package randomrules generates random conditions and entries for the tests of the rule engine. Conditions and entries
// use the same few words, so that a condition is often true for an entry.
//
// It may import pkg/beliefs, pkg/text and streams. Only tests import it. Begin reading with randomrules.go, its only
// file.
package randomrules
