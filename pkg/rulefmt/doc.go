// Package rulefmt formats rule, pack, groups and test files in a canonical form, as gofmt does for
// Go: two spaces per level, lists indented below their key, keys of a rule in a fixed order, CEL
// expressions laid out by their syntax. Comments stay with the items that they describe. Formatting
// never changes the meaning of a file.
//
// It may import pkg/internal/strictyaml. Begin reading with rulefmt.go; cel.go lays out
// expressions, tree.go the documents.
package rulefmt
