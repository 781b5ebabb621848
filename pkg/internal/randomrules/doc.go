// Package randomrules makes random conditions and entries for the tests of the
// rule engine. The two meet often, because both are made of few words.
//
// It may import pkg/beliefs, pkg/text and streams. Only tests import it. Begin reading with
// randomrules.go, its only file.
package randomrules
