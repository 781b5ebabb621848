// Package query lets operators query the state of a daemon. A request is sent to
// lz.svc.query.<what>.<partition>, so that it reaches a process of the partition. The stage answers it
// from its state, between two batches.
//
// It may import streams. Begin reading with query.go, its only file.
package query
