package natsserver

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/nats-io/nats-server/v2/server"

	"lazaret/internal/wire"
	"lazaret/streams"
)

// When a write meets a full disk, nats-server disables JetStream until a restart, and Pebble ends the process. Two
// things prevent that. When the streams are created, their sizes are chosen so that they fit into the free space. And
// the server refuses messages as long as less than a reserve is free. Stages and publishers then wait, and continue
// when there is space.

// Free returns the free space and the size of a folder's file system, in bytes.
func Free(dir string) (free, all int64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("reading the free space of %s: %w", dir, err)
	}
	return int64(st.Bavail) * st.Bsize, int64(st.Blocks) * st.Bsize, nil
}

// Reserve returns the number of bytes that must stay free on a disk of the size all. This space is for the state of the
// stages, the log and pending writes.
func Reserve(all int64) int64 { return max(min(512<<20, all/8), 32<<20) }

// leastRoom is the minimum space for all streams together, in bytes.
const leastRoom = 64 << 20

// Size sets those maximum sizes of the streams that are 0 in s. It divides the free space of dir's file system, without
// the reserve. If most is not 0, it divides at most that many bytes. The ledger gets three eighths. Three eighths stay
// free for the log, which takes about as much space as the ledger. The intake gets an eighth, but at most
// streams.IntakeBytes. The live stream gets a sixteenth, but at most streams.LiveBytes.
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
			"streams need %d MiB", dir, free>>20, Reserve(all)>>20, leastRoom>>20)
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

// ErrNoRoom means that the server refuses messages because almost no space is left on the disk.
var ErrNoRoom = errors.New("the disk is nearly full")

// Admit makes the streams accept messages, or refuse them if on is false. A restart makes them accept messages, too.
func (s *Server) Admit(on bool) error {
	s.life.Lock()
	defer s.life.Unlock()
	if err := s.admit(on); err != nil {
		return err
	}
	s.refuses = !on
	return nil
}

// admit sets the account's limits, so that the streams accept or refuse messages. The server resets the limits when it
// starts and when the claims of the account change, so admit must then be called again.
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

// Restart stops the server and starts it again at the same address. Connections in the process and clients reconnect.
// Restart is needed after a write has met a full disk: the stream of this write accepts no messages before. If Restart
// returns an error, the server does not run, and Restart can be called again.
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
