// Package ruletest runs the tests in a rule set, and measures which parts of the rules they cover.
//
// A test evaluates the rules of one sentinel group on test events, which are written in YAML, and
// compares the alerts and verdicts with the expected ones. [Events] reads such events for other
// programs.
//
// The package may import pkg/rules and its dependencies. Start reading with event.go for the events
// and run.go for the tests.
package ruletest
