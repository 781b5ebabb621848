package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/natsserver"
	"lazaret/internal/stage"
	"lazaret/pkg/files"
	"lazaret/streams"
)

// A backup is a data folder without the parts that can be rebuilt. The auditor's log is copied before the
// streams: an auditor accepts a ledger that is ahead of its log, and refuses a ledger that is behind. The
// streams are copied while the server is stopped, so that they are consistent. Of the stages' state, the
// backup contains only the snapshots from trimming; the stages compute the rest from the ledger.

// backupsDir returns the folder in which copies are made before they are moved.
func backupsDir(data string) string { return filepath.Join(data, "backups") }

const snapshotSuffix = ".snapshot"

// copy copies the data folder, without the auditor's log, while the server is stopped.
func (p *Pipeline) copy(run string, keys bool) streams.EraseReply {
	out := streams.EraseReply{Run: run, Done: true, Dir: filepath.Join(backupsDir(p.cfg.Data), run)}
	trimmed, err := p.trimmed()
	if err == nil {
		var down error
		err, down = p.Server.WhileStopped(func() (err error) {
			out.NotCopied, err = copyData(p.cfg.Data, out.Dir, keys)
			return err
		})
		if down != nil {
			p.fail("nats-server", down)
		}
		err = errors.Join(err, down)
	}
	if err == nil {
		err = p.checkSnapshots(out.Dir, trimmed)
	}
	if err != nil {
		out.Error = errors.Join(err, os.RemoveAll(out.Dir)).Error()
	}
	return out
}

// trimmed returns the ledger sequence up to which entries were removed, or 0.
func (p *Pipeline) trimmed() (uint64, error) {
	nc, err := p.Server.Connect(natsserver.RoleRetention)
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), eraseTimeout)
	defer cancel()
	return stage.Hole(ctx, js, 1)
}

// checkSnapshots returns an error if the ledger was trimmed and a copy lacks the state of a stage of this process: the
// stage could not start with the copy. It opens the copied snapshots, because a stage may have replaced its snapshot
// while it was copied.
func (p *Pipeline) checkSnapshots(dir string, trimmed uint64) error {
	if trimmed == 0 || p.cfg.ServerOnly {
		return nil
	}
	stages := []string{streams.StageIngest, streams.StageArbiter}
	for _, g := range p.groups() {
		stages = append(stages, streams.SentinelStage(g))
	}
	for _, name := range stages {
		key, err := StateKey(StateKeyFile(p.cfg.Data), name)
		if err != nil {
			return err
		}
		snapshot := stage.SnapshotDir(StateDir(dir, name))
		folded := uint64(0)
		if _, err = os.Stat(snapshot); err == nil {
			folded, err = stage.Snapshotted(snapshot, key)
		}
		if err == nil && folded < trimmed {
			err = fmt.Errorf("its snapshot has the state up to ledger entry %d", folded)
		}
		if err != nil {
			return fmt.Errorf("the ledger was trimmed up to %d, and the copy lacks the state of stage %s, which could not "+
				"start without it: back up again; if that fails too, start lazaret up again, which makes the snapshot %s, "+
				"and then back up: %w", trimmed, name, stage.SnapshotDir(StateDir(p.cfg.Data, name)), err)
		}
	}
	return nil
}

// secure removes group and other permissions from all files in a folder, and syncs them.
func secure(dir string) error {
	if err := files.RestrictAll(dir); err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

// MoveFolder moves a folder to a new path, which may be on another disk. If a copy to another disk is interrupted, the
// incomplete copy has the suffix .part, and the next call removes it.
func MoveFolder(from, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("%s: %w", to, fs.ErrExist)
	}
	err := files.Rename(from, to)
	if _, ok := errors.AsType[*os.LinkError](err); ok {
		return moveByCopy(from, to)
	}
	return err
}

func moveByCopy(from, to string) error {
	part := to + ".part"
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	if err := errors.Join(copyTree(from, part), secure(part)); err != nil {
		return errors.Join(err, os.RemoveAll(part))
	}
	if err := files.Rename(part, to); err != nil {
		return err
	}
	return os.RemoveAll(from)
}

// copyBackup copies a backup, which is a folder or an archive, to a new folder.
func copyBackup(backup, to string) error {
	fi, err := os.Stat(backup)
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		if err := unpack(backup, to); err != nil {
			return err
		}
		backup = to
	}
	if _, err := os.Stat(filepath.Join(backup, "jetstream")); err != nil {
		return fmt.Errorf("%s is not a backup: %w", backup, err)
	}
	if backup == to {
		return nil
	}
	return copyTree(backup, to)
}

// copyTree copies a folder to a new one with private permissions. os.CopyFS would make files that
// others can read.
func copyTree(from, to string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	return os.CopyFS(to, os.DirFS(from))
}

// Restore creates a data folder from a backup, which is a folder or an archive. keys is the folder of
// the keys, if the backup contains none. Credentials that are revoked in the backup or in keys stay revoked. The
// contexts name no server until the first start. The data folder is created atomically.
func Restore(ctx context.Context, backup, keys, data string) (m *natsserver.Merged, err error) {
	if es, err := os.ReadDir(data); err == nil && len(es) > 0 {
		return nil, fmt.Errorf("%s is not empty: restore into a new folder", data)
	}
	// An interrupted restore leaves this folder, with keys, so it is removed. Its name is hidden, so that it is hardly the
	// name of another folder.
	fresh := filepath.Join(filepath.Dir(filepath.Clean(data)), "."+filepath.Base(data)+".restored")
	if err := os.RemoveAll(fresh); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(fresh))
		}
	}()
	if keys != "" {
		if err := natsserver.CheckKeys(keys); err != nil {
			return nil, err
		}
	}
	if err := copyBackup(backup, fresh); err != nil {
		return nil, err
	}
	if _, err := os.Stat(natsserver.KeysDir(fresh)); err != nil {
		if keys == "" {
			return nil, errors.New("the backup contains no keys, so it cannot be read: name the folder of the keys with --keys")
		}
		if err := os.CopyFS(natsserver.KeysDir(fresh), os.DirFS(keys)); err != nil {
			return nil, fmt.Errorf("copying the keys: %w", err)
		}
	}
	if err := natsserver.CheckStreams(fresh); err != nil {
		return nil, fmt.Errorf("the keys are not those of the backup: %w", err)
	}
	if m, err = natsserver.MergeRegister(fresh, keys); err != nil {
		return nil, err
	}
	if err := natsserver.DetachContexts(fresh, data); err != nil {
		return nil, fmt.Errorf("removing the old server's address from the contexts: %w", err)
	}
	dirs, err := files.Glob(StateDir(fresh, ""), "*"+snapshotSuffix)
	if err != nil {
		return nil, err
	}
	for _, snapshot := range dirs {
		name := strings.TrimSuffix(filepath.Base(snapshot), snapshotSuffix)
		key, err := StateKey(StateKeyFile(fresh), name)
		if err != nil {
			return nil, err
		}
		if _, err := stage.Restore(ctx, nil, key, snapshot, StateDir(fresh, name)); err != nil {
			return nil, fmt.Errorf("restoring the state of %s: %w", name, err)
		}
	}
	if err := secure(fresh); err != nil {
		return nil, err
	}
	if err := os.Remove(data); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return m, files.Rename(fresh, data)
}
