// Package status lets operators ask over NATS how far every process of every
// stage has come, without Prometheus: what `lazaret top` and `lazaret doctor`
// show.
//
// A process answers over its stage's own connection, whose credential may answer
// an operator's question and nothing else. Nothing here decides anything, and
// the clock that it reads goes nowhere else.
//
// It may import internal/stage and streams. Begin reading with status.go, which answers for a
// process; snapshot.go gathers a whole pipeline.
package status
