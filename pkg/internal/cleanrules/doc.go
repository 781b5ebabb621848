// Package cleanrules is a rule set without lint findings, for tests that change it.
//
// It imports nothing. Only tests import it. Begin reading with cleanrules.go, its only file.
package cleanrules
