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

	"lazaret/pkg/durable"
	"lazaret/streams"
)

// nats-server 2.15.2 does not overwrite a deleted message of an encrypted stream
// (filestore.removeMsg: "If in encrypted mode negate secure rewrite here"). The message
// stays in its block until the server compacts that, which it does once more than half of
// it is deleted, and never with the last block (docs/decisions/0030).

// ErrStopped says that the server was shut down. ErrNotErased says that nothing was
// erased and the server runs.
var (
	ErrStopped   = errors.New("the server was shut down")
	ErrNotErased = errors.New("nothing was erased")
)

// EraseDeleted removes deleted messages from the files of the streams. It stops the
// server, replaces the blocks that hold any, and starts the server again, at the same
// address. Connections in the process and clients reconnect. After an error other than
// ErrNotErased the server does not run.
//
// Each block is replaced whole or not at all, by one of the same length and with the same
// messages, so that a kill at any time leaves streams that the server recovers.
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
	s.stop()
	var out []streams.Erased
	for _, st := range states {
		out = append(out, eraseDeleted(s.cfg.store(), s.keys.storage, st.stream, st.deleted))
	}
	return out, s.run()
}

// WhileStopped stops the server, calls fn and starts the server again, at the same address.
// down is why the server does not run afterwards, or nil.
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

// EraseStore removes deleted messages from the files of a nats-server that somebody runs alone with a
// configuration of WriteConfig. That server must not be running. The store of a clustered server is refused:
// its streams are recovered with the other servers only.
func EraseStore(ctx context.Context, data, store string) ([]streams.Erased, error) {
	if _, err := os.Stat(filepath.Join(store, server.JetStreamStoreDir)); err != nil {
		return nil, fmt.Errorf("the store of a nats-server: %w", err)
	}
	if raft, err := filepath.Glob(filepath.Join(store, server.JetStreamStoreDir, "*", raftDir)); err != nil ||
		len(raft) > 0 {
		return nil, errors.Join(err,
			fmt.Errorf("%s is the store of a server of a cluster: its streams are recovered with the other servers only", store))
	}
	s, err := Start(Config{Data: data, Store: store})
	if err != nil {
		return nil, err
	}
	defer s.Shutdown()
	return s.EraseDeleted(ctx)
}

// streamState knows which messages of a stream are deleted.
type streamState struct {
	stream string
	state  jetstream.StreamState
}

// deleted reports whether a message was deleted when the state was read. Later deletions
// are not seen; a deleted message never comes back.
func (s *streamState) deleted(seq uint64) bool {
	_, found := slices.BinarySearch(s.state.Deleted, seq)
	return found || seq < s.state.FirstSeq
}

// states asks the server what is deleted.
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
			return nil, fmt.Errorf("asking what is deleted of %s: %w", name, err)
		}
		info, err := st.Info(ctx, jetstream.WithDeletedDetails(true))
		if err != nil {
			return nil, fmt.Errorf("asking what is deleted of %s: %w", name, err)
		}
		slices.Sort(info.State.Deleted)
		out = append(out, streamState{name, info.State})
	}
	return out, nil
}

// eraseDeleted removes deleted messages from the blocks of a stream. The server must not
// be running.
func eraseDeleted(store, key, stream string, deleted func(seq uint64) bool) streams.Erased {
	e := streams.Erased{Stream: stream}
	files, err := blockFiles(store, stream)
	var errs []error
	errs = append(errs, err)
	for _, f := range files {
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

// eraseBlock replaces a block file by one without the messages that are deleted, and
// says how many it had.
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
	// A damaged block is never written.
	if err := b.each(buf, func(uint64, []byte) error { return nil }); err != nil {
		return 0, fmt.Errorf("the block would be damaged, and is left as it was: %w", err)
	}
	if err := b.stamp.xor(buf); err != nil {
		return 0, err
	}
	// The server reads every name in the stream's folder.
	tmp := filepath.Join(store, "erasing")
	defer os.Remove(tmp)
	if err := writeSynced(tmp, buf); err != nil {
		return 0, err
	}
	if err := os.Rename(tmp, file); err != nil {
		return 0, err
	}
	return n, durable.SyncDir(filepath.Dir(file))
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

// current is the server that runs, nil if none does.
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
