// Package cleanrules has a rule set without lint findings. Tests change a copy of it and check the findings that
// result.
//
// It imports no other package. Only tests import it. Begin reading with cleanrules.go, its only file.
package cleanrules
