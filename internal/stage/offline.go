package stage

import (
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Offline is fold state in memory, for folds that are run without a server:
// what-if questions and tests.
type Offline struct{ s *store }

// OpenOffline returns empty state.
func OpenOffline() (*Offline, error) {
	s, err := openStore("offline", vfs.NewMem(), nil)
	if err != nil {
		return nil, err
	}
	return &Offline{s}, nil
}

// State is the state of one partition.
func (o *Offline) State(partition int) *State { return &State{s: o.s, partition: partition} }

// Work is what was asked of the state so far.
func (o *Offline) Work() Work { return o.s.work }

// Commit makes what was set so far durable, as a stage does between batches.
func (o *Offline) Commit() error { return o.s.commit() }

// Close throws the state away.
func (o *Offline) Close() error { return o.s.close() }
