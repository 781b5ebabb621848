// Package examples holds recorded sessions for the demo and the tour.
//
// It imports no other package of Lazaret. The sessions are files of JSON lines, which internal/replay reads.
package examples
