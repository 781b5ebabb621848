// Package cleanrules is a rule set without lint findings, for tests that change it.
//
// It imports no other package. Only tests import it. Begin reading with cleanrules.go, its only file.
package cleanrules
