// Package status lets operators query the progress of every process of every stage over NATS, without
// Prometheus. `lazaret top` and `lazaret doctor` use it.
//
// A process answers over its stage's own connection. Its credential may only answer operators'
// requests. Status affects no decision, and its clock is used for nothing else.
//
// It may import internal/stage and streams. Begin reading with status.go, which answers for a
// process; snapshot.go gathers a whole pipeline.
package status
