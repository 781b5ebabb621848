package stage

import (
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Offline is the state of a fold that is held in memory. It is for folds that run without a server: what-if queries and
// tests.
type Offline struct{ s *store }

// OpenOffline returns an Offline with empty state.
func OpenOffline() (*Offline, error) {
	s, err := openStore("offline", vfs.NewMem(), nil)
	if err != nil {
		return nil, err
	}
	return &Offline{s}, nil
}

// State returns the state of one partition.
func (o *Offline) State(partition int) *State { return &State{s: o.s, partition: partition} }

// Work returns the number of operations on the state since it was opened.
func (o *Offline) Work() Work { return o.s.work }

// Commit commits all changes, as a stage does between batches.
func (o *Offline) Commit() error { return o.s.commit() }

// Close discards the state.
func (o *Offline) Close() error { return o.s.close() }
