// Package cli is what the commands share: lists as tables or JSON, filters,
// exit codes, and text from outside made safe to look at.
//
// It may import streams and pkg/text; the commands themselves are in the packages below it. Begin
// reading with list.go.
package cli
