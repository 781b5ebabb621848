// Package schema generates the JSON Schemas of rule files and their tests, for editors.
//
// It derives them from the Go types that the files are decoded to: from the yaml, doc and is tags
// in pkg/rules and pkg/rules/ruletest, which it may import.
package schema
