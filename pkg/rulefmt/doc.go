// Package rulefmt writes rule, pack, groups and test files in one form, as gofmt
// does for Go: two spaces for each level, lists under their key indented, keys
// of a rule in one order, CEL expressions laid out by their syntax. Comments stay
// with what they are about, and the meaning of a file stays what it was.
//
// It may import pkg/internal/strictyaml. Begin reading with rulefmt.go; cel.go lays out
// expressions, tree.go the documents.
package rulefmt
