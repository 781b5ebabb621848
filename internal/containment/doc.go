// Package containment measures whether a memory keeps apart what its user said,
// what agents wrote and what came from outside: recorded material is played
// through a real pipeline and written to memory in every way that it may get
// there, and a new session asks for it back.
//
// It may import client, internal/detection and internal/replay. Begin reading with case.go and
// run.go.
package containment
