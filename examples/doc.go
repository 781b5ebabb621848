// Package examples holds recorded sessions for the demo and the tour.
//
// It imports nothing of ours. The sessions are files of JSON lines, which internal/replay reads.
package examples
