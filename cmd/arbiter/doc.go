// Command arbiter decides on proposals: actions, memory writes and recalls.
//
// It calls internal/daemon, which has its flags, and imports nothing else. Begin reading in
// internal/daemon/arbiter.go.
package main
