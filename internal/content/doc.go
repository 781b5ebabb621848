// Package content converts JSON values that a host is about to show to an agent into blocks of
// observations that the intake accepts.
//
// It may import streams. Begin reading with content.go, its only file.
package content
