// Package cli has what all commands share: output of lists as tables or JSON, filters, exit codes, and
// escaping of untrusted text.
//
// It may import streams and pkg/text; the commands themselves are in the packages below it. Begin
// reading with list.go.
package cli
