package natsserver

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/nats-io/nats-server/v2/server"

	"lazaret/internal/wire"
	"lazaret/streams"
)

// nats-server disables JetStream for good when a write of it meets a full disk, and
// Pebble ends the process. So the streams are sized to the free space when they are made,
// and the server refuses messages while less than a reserve is free. The stages then
// wait; they and publishers go on when there is space.

// Free returns the free space and the size of a folder's file system, in bytes.
func Free(dir string) (free, all int64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("asking how much room %s has: %w", dir, err)
	}
	return int64(st.Bavail) * st.Bsize, int64(st.Blocks) * st.Bsize, nil
}

// Reserve is how many bytes must stay free on a disk of a size, for the state of the
// stages, the log and pending writes.
func Reserve(all int64) int64 { return max(min(512<<20, all/8), 32<<20) }

// leastRoom is what the streams need at least, in bytes.
const leastRoom = 64 << 20

// Size sizes streams to what is free, or to most, if that is less and not 0. Sizes that
// the caller has set stay. The log takes about as much as the ledger, so that each may
// have three eighths.
func Size(s wire.Storage, dir string, most int64) (wire.Storage, error) {
	free, all, err := Free(dir)
	if err != nil {
		return s, err
	}
	if most > 0 && most < leastRoom {
		return s, fmt.Errorf("the streams and the log may take %d MiB, and the streams need %d MiB: allow more (--max-disk)",
			most>>20, leastRoom>>20)
	}
	room := free - Reserve(all)
	if most > 0 {
		room = min(room, most)
	}
	if room < leastRoom {
		return s, fmt.Errorf("%s has room for %d MiB, and a reserve of %d MiB has to stay free: the streams need %d MiB",
			dir, free>>20, Reserve(all)>>20, leastRoom>>20)
	}
	if s.LedgerBytes == 0 {
		s.LedgerBytes = room / 8 * 3
	}
	if s.IntakeBytes == 0 {
		s.IntakeBytes = min(room/8, streams.IntakeBytes)
	}
	if s.LiveBytes == 0 {
		s.LiveBytes = min(room/16, streams.LiveBytes)
	}
	return s, nil
}

// ErrNoRoom says that the server takes nothing because the disk is nearly full.
var ErrNoRoom = errors.New("the disk is nearly full")

// Admit lets the streams take messages, or none.
func (s *Server) Admit(on bool) error {
	ns := s.current()
	if ns == nil {
		return ErrStopped
	}
	acc, err := ns.LookupAccount(s.minter.account)
	if err != nil {
		return err
	}
	l := server.JetStreamAccountLimits{MaxMemory: -1, MaxStore: -1, MaxStreams: -1, MaxConsumers: -1, MaxAckPending: -1}
	if !on {
		l.MaxStore = 0
	}
	return acc.UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": l})
}

// Restart stops the server and starts it again, at the same address. Connections in the
// process and clients reconnect. A stream whose write met a full disk takes nothing before
// that. After an error the server does not run, and Restart may be tried again.
func (s *Server) Restart() error {
	s.life.Lock()
	defer s.life.Unlock()
	select {
	case <-s.ended:
		return ErrStopped
	default:
	}
	s.stop()
	return s.run()
}
