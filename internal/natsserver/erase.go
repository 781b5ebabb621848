package natsserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/pkg/files"
	"lazaret/streams"
)

// nats-server 2.15.2 does not overwrite a deleted message of an encrypted stream (filestore.removeMsg: "If in encrypted
// mode negate secure rewrite here"). The message stays in its block until the server compacts the block. The server
// compacts a block when more than half of it is deleted. It never compacts the last block (docs/decisions/0030).

// ErrStopped means that the server was stopped for good. ErrNotErased means that nothing was erased and that the server
// still runs.
var (
	ErrStopped   = errors.New("the server was shut down")
	ErrNotErased = errors.New("nothing was erased")
)

// EraseDeleted removes deleted messages from the files of the streams. If no message of any stream was ever deleted, it
// does nothing. Otherwise it stops the server, replaces the blocks that contain deleted messages, and restarts the
// server at the same address. Connections in the process and clients reconnect. After an error other than ErrNotErased
// the server does not run.
//
// Each block is replaced atomically by one of the same length with the same remaining messages, so that the server
// recovers the streams after a kill at any time.
func (s *Server) EraseDeleted(ctx context.Context) ([]streams.Erased, error) {
	s.life.Lock()
	defer s.life.Unlock()
	if s.current() == nil {
		return nil, ErrStopped
	}
	states, err := s.states(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotErased, err)
	}
	var out []streams.Erased
	if !slices.ContainsFunc(states, streamState.anyDeleted) {
		for _, st := range states {
			out = append(out, streams.Erased{Stream: st.stream})
		}
		return out, nil
	}
	s.stop()
	for _, st := range states {
		out = append(out, eraseDeleted(s.cfg.store(), s.keys.storage, st.stream, st.deleted))
	}
	return out, s.run()
}

// WhileStopped stops the server, calls fn and starts the server again at the same address. err is an error of the stop
// or of fn. down is an error of the start. If down is not nil, the server does not run.
func (s *Server) WhileStopped(fn func() error) (err, down error) {
	s.life.Lock()
	defer s.life.Unlock()
	if s.current() == nil {
		return ErrStopped, nil
	}
	s.stop()
	err = fn()
	return err, s.run()
}

// EraseStore removes deleted messages from the files of a separately run nats-server that has a configuration of
// WriteConfig. The server must not be running. EraseStore refuses the store of a clustered server, because the streams
// of such a server can only be recovered together with the other servers.
func EraseStore(ctx context.Context, data, store string) ([]streams.Erased, error) {
	if _, err := os.Stat(filepath.Join(store, server.JetStreamStoreDir)); err != nil {
		return nil, fmt.Errorf("%s is not the store_dir of a nats-server: %w", store, err)
	}
	if raft, err := files.Glob(store, server.JetStreamStoreDir+"/*/"+raftDir); err != nil ||
		len(raft) > 0 {
		return nil, errors.Join(err,
			fmt.Errorf("%s is the store of a clustered server, which can only be recovered together with the "+
				"other servers", store))
	}
	s, err := Start(Config{Data: data, Store: store})
	if err != nil {
		return nil, err
	}
	defer s.Shutdown()
	return s.EraseDeleted(ctx)
}

// streamState has the state of a stream with its deleted messages.
type streamState struct {
	stream string
	state  jetstream.StreamState
}

// deleted reports whether a message was deleted when the state was read. A message that was deleted after that counts
// as present. A deleted message never comes back.
func (s *streamState) deleted(seq uint64) bool {
	_, found := slices.BinarySearch(s.state.Deleted, seq)
	return found || seq < s.state.FirstSeq
}

// anyDeleted reports whether a message of the stream was ever deleted. For a stream that never had a message,
// nats-server 2.15.2 lists sequence 0 as deleted. That does not count.
func (s streamState) anyDeleted() bool {
	n := len(s.state.Deleted)
	return s.state.FirstSeq > 1 || n > 0 && s.state.Deleted[n-1] > 0
}

// states returns the state of every stream, including its deleted messages.
func (s *Server) states(ctx context.Context) ([]streamState, error) {
	nc, err := s.Connect(RoleRetention)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	var out []streamState
	for _, name := range []string{streams.IntakeStream, streams.LedgerStream, streams.LiveStream} {
		st, err := js.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("listing the deleted messages of %s: %w", name, err)
		}
		info, err := st.Info(ctx, jetstream.WithDeletedDetails(true))
		if err != nil {
			return nil, fmt.Errorf("listing the deleted messages of %s: %w", name, err)
		}
		slices.Sort(info.State.Deleted)
		out = append(out, streamState{name, info.State})
	}
	return out, nil
}

// eraseDeleted removes deleted messages from the blocks of a stream. The server must not be running.
func eraseDeleted(store, key, stream string, deleted func(seq uint64) bool) streams.Erased {
	e := streams.Erased{Stream: stream}
	blocks, err := blockFiles(store, stream)
	var errs []error
	errs = append(errs, err)
	for _, f := range blocks {
		n, err := eraseBlock(store, f, key, deleted)
		errs = append(errs, err)
		if e.Messages += n; n > 0 && err == nil {
			e.Files++
		}
	}
	if err := errors.Join(errs...); err != nil {
		e.Left = err.Error()
	}
	return e
}

// eraseBlock replaces a block file by one that does not have the deleted messages. It returns the number of messages
// that it removed.
func eraseBlock(store, file, key string, deleted func(seq uint64) bool) (n int, err error) {
	b, err := openBlock(file, key)
	if err != nil {
		return 0, err
	}
	buf, err := b.read()
	if err != nil {
		return 0, err
	}
	err = b.each(buf, func(seq uint64, rec []byte) error {
		if seq&(isErased|isTombstone) != 0 || !deleted(seq) {
			return nil
		}
		n++
		return b.erase(seq, rec)
	})
	if err != nil || n == 0 {
		return 0, err
	}
	// Check the whole new block before it is written, so that a damaged block is never written.
	if err := b.each(buf, func(uint64, []byte) error { return nil }); err != nil {
		return 0, fmt.Errorf("the block would be damaged, so it was not changed: %w", err)
	}
	if err := b.stamp.xor(buf); err != nil {
		return 0, err
	}
	// The server reads every file in the stream's folder, so the temporary file is outside of it.
	tmp := filepath.Join(store, "erasing")
	defer os.Remove(tmp)
	if err := writeSynced(tmp, buf); err != nil {
		return 0, err
	}
	if err := files.Rename(tmp, file); err != nil {
		return 0, err
	}
	return n, nil
}

func writeSynced(file string, content []byte) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(content); err != nil {
		return errors.Join(err, f.Close())
	}
	return errors.Join(f.Sync(), f.Close())
}

// current returns the running server, or nil.
func (s *Server) current() *server.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ns
}

func (s *Server) set(ns *server.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ns = ns
}
