package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/streams"
)

// After the ledger is trimmed, a stage's state can no longer be folded from the ledger alone. So before entries are
// removed, every process of a stage syncs its state and makes a snapshot beside it. The snapshot and the rest of the
// ledger restore the state, on the same machine or another one.

// SnapshotDir returns the folder of the snapshot of the state in folder dir.
func SnapshotDir(dir string) string { return dir + ".snapshot" }

// snapshot makes a snapshot of the state, which replaces an earlier one. Tables are hard-linked, not copied.
func (s *store) snapshot() error {
	to := SnapshotDir(s.dir)
	fresh := to + newSuffix
	if err := s.fs.RemoveAll(fresh); err != nil {
		return err
	}
	if err := s.db.Checkpoint(fresh, pebble.WithFlushedWAL()); err != nil {
		return fmt.Errorf("making a snapshot of the state: %w", err)
	}
	if err := replaceFolder(s.fs, to); err != nil {
		return fmt.Errorf("making a snapshot of the state: %w", err)
	}
	return nil
}

// hasSnapshot reports whether the state has a snapshot.
func (s *store) hasSnapshot() bool {
	_, err := s.fs.Stat(SnapshotDir(s.dir))
	return err == nil
}

// dropSnapshot removes the snapshot of the state, and the folders of an interrupted one.
func (s *store) dropSnapshot() error {
	to := SnapshotDir(s.dir)
	return errors.Join(s.fs.RemoveAll(to), s.fs.RemoveAll(to+newSuffix), s.fs.RemoveAll(to+oldSuffix))
}

// keepSnapshot makes a snapshot if the ledger was trimmed and there is no snapshot. A backup contains snapshots, not
// states. Without a snapshot, it could not restore this state from the trimmed ledger.
func (r *runtime) keepSnapshot() error {
	if r.marks.trimmed == 0 || r.store.hasSnapshot() {
		return nil
	}
	return errors.Join(r.store.sync(), r.store.snapshot())
}

// Snapshotted returns the ledger sequence up to which a snapshot has folded every partition. key is the stage's state
// key.
func Snapshotted(snapshot string, key []byte) (folded uint64, err error) {
	cs, err := foldedIn(snapshot, key)
	for _, c := range cs {
		if c.folded > 0 && (folded == 0 || c.folded < folded) {
			folded = c.folded
		}
	}
	return folded, err
}

// Restore creates a stage's state in folder dir from a snapshot. If dir exists, it must not contain a state that has
// folded entries. key is the stage's state key. Restore returns the ledger sequence up to which the snapshot has folded
// every partition.
//
// nc is a connection that may read the ledger. With it, Restore refuses a snapshot that is too old because the ledger
// was trimmed since. If nc is nil, the stage refuses such a snapshot when it starts.
func Restore(ctx context.Context, nc *nats.Conn, key []byte, snapshot, dir string) (folded uint64, err error) {
	if _, err := os.Stat(dir); err == nil {
		// A stage that failed to start may have created a state that has folded nothing. Remove that state.
		cs, err := foldedIn(dir, key)
		if err != nil {
			return 0, err
		}
		if cs != ([streams.Partitions]cursor{}) {
			return 0, fmt.Errorf("%s contains a stage's state: move that folder away first", dir)
		}
		if err := os.RemoveAll(dir); err != nil {
			return 0, err
		}
	}
	fresh := dir + ".restored"
	if err := os.RemoveAll(fresh); err != nil {
		return 0, err
	}
	if err := copyFolder(snapshot, fresh); err != nil {
		return 0, fmt.Errorf("copying snapshot %s: %w", snapshot, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(fresh))
		}
	}()
	if folded, err = Snapshotted(fresh, key); err != nil {
		return 0, err
	}
	if nc != nil {
		js, err := jetstream.New(nc)
		if err != nil {
			return 0, err
		}
		trimmed, err := Hole(ctx, js, folded+1)
		if err != nil {
			return 0, err
		}
		if trimmed > 0 {
			return 0, fmt.Errorf("the snapshot has the state up to ledger entry %d, but the ledger was trimmed up to %d: "+
				"a later snapshot is needed", folded, trimmed)
		}
	}
	if err := os.Rename(fresh, dir); err != nil {
		return 0, err
	}
	return folded, syncDir(vfs.Default, filepath.Dir(dir))
}

// foldedIn returns the cursors of the state in a folder, by partition.
func foldedIn(dir string, key []byte) (cs [streams.Partitions]cursor, err error) {
	s, err := openStore(dir, nil, key)
	if err != nil {
		return cs, err
	}
	cs, err = s.cursors()
	return cs, errors.Join(err, s.close())
}

// copyFolder copies the regular files of a folder, without subfolders.
func copyFolder(from, to string) error {
	es, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, e := range es {
		if !e.Type().IsRegular() {
			continue
		}
		if err := copyFile(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return syncDir(vfs.Default, to)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}
