package natsserver

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/nats-io/nats-server/v2/server"

	"lazaret/pkg/files"
)

// If nats-server 2.15.2 cannot recover a stream, it removes the stream's files (docs/decisions/0029). A start must
// never destroy a ledger. Therefore each file gets a second hard link before the start. The link is removed when the
// server has recovered its streams. Some kinds of damage are known. They are repaired before the start.

// storeDir returns the folder of the server's store in a data folder. keptDir returns the folder for the hard links,
// which must be on the same file system.
func storeDir(data string) string { return filepath.Join(data, "jetstream") }
func keptDir(store string) string { return filepath.Join(store, "kept") }

// kept is the set of hard links to the files of streams.
type kept struct {
	from, to string   // folders that contain the accounts' folders: from has the files, to has the hard links
	streams  []string // ACCOUNT/streams/NAME of streams with messages
	log      *slog.Logger
}

// noLinks are the errors that mean that a file cannot have a hard link: the file system has none, or none for this
// file.
var noLinks = []error{syscall.EPERM, syscall.ENOTSUP, syscall.ENOSYS, syscall.EXDEV, syscall.EMLINK}

// keep makes a hard link for each file of each stream. Before that, it restores files from the links that an
// interrupted start has left, and repairs known damage.
func keep(store string, sync bool, log *slog.Logger) (*kept, error) {
	// JetStreamStoreDir is the folder that nats-server creates in its store.
	k := &kept{from: filepath.Join(store, server.JetStreamStoreDir), to: keptDir(store), log: log}
	// If an earlier start ended before it called check, its links are still there.
	if err := k.putBack(); err != nil {
		return nil, err
	}
	if _, err := Mend(store, log); err != nil {
		return nil, err
	}
	dirs, err := files.Glob(store, streamDirs)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		rel, err := filepath.Rel(k.from, dir)
		if err != nil {
			return nil, err
		}
		holds, err := k.link(rel, sync)
		switch {
		case slices.ContainsFunc(noLinks, func(e error) bool { return errors.Is(err, e) }):
			// The links are needed only if the server cannot recover the stream, so start without them.
			log.Warn("the files of a stream cannot be hard-linked: if the server cannot recover the stream, "+
				"it is lost", "stream", filepath.Base(dir), "err", err)
		case err != nil:
			// The disk may be full. Then recovering a stream may fail too, so do not start without links.
			return nil, errors.Join(fmt.Errorf("nats-server is not started: the files of stream %s could not "+
				"be hard-linked, and the "+
				"stream would be lost if its recovery failed: %w", filepath.Base(dir), err), k.drop())
		case holds:
			k.streams = append(k.streams, rel)
		}
	}
	return k, nil
}

// link makes hard links for the files of a stream, including those of atomic batches that are not complete. It reports
// whether the stream has messages.
func (k *kept) link(stream string, sync bool) (holds bool, err error) {
	var dirs []string
	root := filepath.Join(k.from, stream)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(k.from, path)
		if err != nil {
			return err
		}
		to := filepath.Join(k.to, rel)
		if d.IsDir() {
			dirs = append(dirs, to)
			return os.MkdirAll(to, 0o700)
		}
		if filepath.Ext(path) == ".blk" && filepath.Dir(path) == filepath.Join(root, "msgs") {
			fi, err := d.Info()
			if err != nil {
				return err
			}
			holds = holds || fi.Size() > 0
		}
		return os.Link(path, to)
	})
	if err != nil || !sync {
		return holds, err
	}
	for _, d := range dirs {
		if err := files.SyncDir(d); err != nil {
			return false, err
		}
	}
	return holds, nil
}

// check returns an error if a stream that had messages is missing in the server after its start.
func (k *kept) check(ns *server.Server) error {
	var errs []error
	for _, s := range k.streams {
		name, account := filepath.Base(s), filepath.Dir(filepath.Dir(s))
		a, err := ns.JszAccount(&server.JSzOptions{Account: account, Streams: true})
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s has messages of stream %s in account %s, which the server "+
				"does not know (%w): was it "+
				"written with the keys of another data folder?", k.from, name, account, err))
		case !slices.ContainsFunc(a.Streams, func(d server.StreamDetail) bool { return d.Name == name }):
			errs = append(errs, fmt.Errorf("nats-server did not recover stream %s; see its warnings. Nothing "+
				"is lost: the unchanged "+
				"files are in %s. Copy them before you try anything", name, filepath.Join(k.from, s)))
		}
	}
	return errors.Join(errs...)
}

// putBack restores files that the server removed, from the hard links in the folder k.to. Then it removes the links.
// The server that removed the files must have ended.
func (k *kept) putBack() error {
	err := filepath.WalkDir(k.to, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(k.to, path)
		if err != nil {
			return err
		}
		first := filepath.Join(k.from, rel)
		if err := os.MkdirAll(filepath.Dir(first), 0o700); err != nil {
			return err
		}
		if err := os.Link(path, first); err == nil {
			k.log.Info("a file of a stream was restored", "file", first)
		} else if !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("restoring stream files that the server removed: %w", err)
	}
	return k.drop()
}

// drop removes the hard links in the folder k.to. If the server removes a file after that, the file is lost.
func (k *kept) drop() error {
	if err := os.RemoveAll(k.to); err != nil {
		return fmt.Errorf("removing hard links of stream files: %w", err)
	}
	return nil
}

// streamDirs is the pattern of the folders of all streams in a server's store.
const streamDirs = server.JetStreamStoreDir + "/*/streams/*"

// Mend removes the empty blocks without a key file from encrypted streams, and returns their paths. Such a block is
// left if the server is killed after it has created the block's file and before it has created the key file. At its
// next start, the server takes the block for an unencrypted one and cannot recover the stream. store is the server's
// store_dir. The server must not be running.
func Mend(store string, log *slog.Logger) (removed []string, err error) {
	blocks, err := files.Glob(store, streamDirs+"/msgs/*.blk")
	if err != nil {
		return nil, err
	}
	for _, b := range blocks {
		left, err := leftEmpty(b)
		if err == nil && left {
			log.Info("an empty block without a key, left by a kill, was removed", "block", b)
			removed, err = append(removed, b), os.Remove(b)
		}
		if err != nil {
			return removed, fmt.Errorf("removing empty files of streams (*.blk) that a killed server left: %w", err)
		}
	}
	return removed, nil
}

// leftEmpty reports whether a block of an encrypted stream is empty and has no key.
func leftEmpty(block string) (bool, error) {
	fi, err := os.Stat(block)
	if err != nil || fi.Size() > 0 {
		return false, err
	}
	encrypted, err := exists(filepath.Join(filepath.Dir(filepath.Dir(block)), server.JetStreamMetaFileKey))
	if err != nil || !encrypted {
		return false, err
	}
	key, err := exists(strings.TrimSuffix(block, ".blk") + ".key")
	return !key, err
}

func exists(file string) (bool, error) {
	_, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
