// Package randomrules generates random conditions and entries for the tests of the rule engine.
// Both use the same few words, so that conditions are often true.
//
// It may import pkg/beliefs, pkg/text and streams. Only tests import it. Begin reading with
// randomrules.go, its only file.
package randomrules
