// Package query lets operators ask a daemon about its state. A question goes
// to lz.svc.query.<what>.<partition>, so that it reaches a process that works
// on the partition, and is answered from the stage's own fold between two
// batches.
//
// It may import streams. Begin reading with query.go, its only file.
package query
