// Package lint finds faults in rule sets that compile, such as conditions that are never true,
// expired exceptions and rules without a test.
//
// [Run] returns findings, each with its file, line and column. [All] lists the lints. WriteFindings
// and ToSARIF format findings for people and for code hosts.
//
// The package may import pkg/rules, pkg/rules/compiled and pkg/rules/ruletest. Start reading with
// the table in lint.go.
package lint
