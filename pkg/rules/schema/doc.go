// Package schema writes the JSON Schemas of rule files, tests included, for editors.
//
// It reads them off the Go types that the files are decoded into: the yaml, doc and
// is tags of pkg/rules and pkg/rules/ruletest, which it may import.
package schema
