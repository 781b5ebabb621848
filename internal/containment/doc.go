// Package containment measures whether a memory keeps statements of its user, texts of agents and
// external texts apart. It plays recorded material through a real pipeline, writes it to memory in
// every possible way, and recalls it in a new session.
//
// It may import client, internal/detection and internal/replay. Begin reading with case.go and
// run.go.
package containment
