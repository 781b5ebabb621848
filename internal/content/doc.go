// Package content turns what a host is about to show an agent into blocks of
// observations: the words of a JSON value, in events that the intake admits.
//
// It may import streams. Begin reading with content.go, its only file.
package content
