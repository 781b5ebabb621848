package natsserver

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/nats-io/nats-server/v2/server"

	"lazaret/internal/wire"
	"lazaret/streams"
)

// When a write meets a full disk, nats-server disables JetStream until a restart, and Pebble ends the
// process. The streams are therefore sized to the free space when they are created, and the server
// refuses messages while less than a reserve is free. Stages and publishers then wait, and continue
// when there is space.

// Free returns the free space and the size of a folder's file system, in bytes.
func Free(dir string) (free, all int64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("reading the free space of %s: %w", dir, err)
	}
	return int64(st.Bavail) * st.Bsize, int64(st.Blocks) * st.Bsize, nil
}

// Reserve returns the number of bytes that must stay free on a disk of size all. It covers the state of
// the stages, the log and pending writes.
func Reserve(all int64) int64 { return max(min(512<<20, all/8), 32<<20) }

// leastRoom is the minimum space for the streams, in bytes.
const leastRoom = 64 << 20

// Size sets the maximum sizes of the streams that are 0 in s. It divides the free space of dir's file system minus the
// reserve. If most is not 0, it divides at most that many bytes. The ledger gets three eighths, and three eighths are
// left for the log, which takes about as much space as the ledger.
func Size(s wire.Storage, dir string, most int64) (wire.Storage, error) {
	free, all, err := Free(dir)
	if err != nil {
		return s, err
	}
	if most > 0 && most < leastRoom {
		return s, fmt.Errorf("streams and log are limited to %d MiB, but the streams need %d MiB: set a "+
			"higher --max-disk", most>>20, leastRoom>>20)
	}
	room := free - Reserve(all)
	if most > 0 {
		room = min(room, most)
	}
	if room < leastRoom {
		return s, fmt.Errorf("%s has %d MiB of free space, of which a reserve of %d MiB must stay free: the "+
			"streams need %d MiB",
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

// ErrNoRoom means that the server refuses messages because the disk is nearly full.
var ErrNoRoom = errors.New("the disk is nearly full")

// Admit allows the streams to take messages, or forbids it until Admit or Restart allows it.
func (s *Server) Admit(on bool) error {
	s.life.Lock()
	defer s.life.Unlock()
	if err := s.admit(on); err != nil {
		return err
	}
	s.refuses = !on
	return nil
}

// admit sets the account's limits. They are reset when the server starts and when the account's claims
// change.
func (s *Server) admit(on bool) error {
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

// Restart stops the server and restarts it at the same address. The streams take messages again. Connections
// in the process and clients reconnect. A stream whose write met a full disk takes no messages before a
// restart. After an error the server does not run, and Restart can be called again.
func (s *Server) Restart() error {
	s.life.Lock()
	defer s.life.Unlock()
	select {
	case <-s.ended:
		return ErrStopped
	default:
	}
	s.stop()
	s.refuses = false
	return s.run()
}
