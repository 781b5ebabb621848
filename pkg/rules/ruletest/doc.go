// Package ruletest runs the tests that stand beside rules, and measures which parts
// of the rules they cover.
//
// A test plays test events, written in YAML, to the rules of one sentinel group and
// compares the alerts and verdicts with those that it names. [Events] reads such
// events for other programs.
//
// The package may import pkg/rules and what that imports. Begin reading with
// event.go for the events and run.go for the tests.
package ruletest
