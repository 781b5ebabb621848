package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"lazaret/internal/datafolder"
	"lazaret/internal/natsserver"
	"lazaret/internal/stage"
	"lazaret/pkg/files"
)

// Restore creates a data folder from a backup, which is a folder or an archive. keys is the folder of
// the keys, if the backup contains none. Credentials that are revoked in the backup or in keys stay revoked. The
// contexts name no server until the first start, and the auditor asks no witness until a person renames
// RestoredWitnesses. The data folder is created atomically.
func Restore(ctx context.Context, backup, keys, data string) (m *natsserver.Merged, err error) {
	if es, err := os.ReadDir(data); err == nil && len(es) > 0 {
		return nil, fmt.Errorf("%s is not empty: restore into a new folder", data)
	}
	// Remove the folder that an interrupted restore left, because it has keys in it. No person is likely to have a
	// folder of this name, because the name begins with a dot.
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
	dirs, err := files.Glob(datafolder.StateDir(fresh, ""), "*"+snapshotSuffix)
	if err != nil {
		return nil, err
	}
	for _, snapshot := range dirs {
		name := strings.TrimSuffix(filepath.Base(snapshot), snapshotSuffix)
		key, err := datafolder.StateKey(datafolder.StateKeyFile(fresh), name)
		if err != nil {
			return nil, err
		}
		if _, err := stage.Restore(ctx, nil, key, snapshot, datafolder.StateDir(fresh, name)); err != nil {
			return nil, fmt.Errorf("restoring the state of %s: %w", name, err)
		}
	}
	// Rename the list of witnesses, so that the restored log is not cosigned. A witness that cosigned the restored log
	// would refuse the original log from then on.
	err = os.Rename(datafolder.WitnessPolicy(fresh), RestoredWitnesses(fresh))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := secure(fresh); err != nil {
		return nil, err
	}
	if err := os.Remove(data); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return m, files.Rename(fresh, data)
}

// RestoredWitnesses returns the path of the list of witnesses in a restored data folder.
func RestoredWitnesses(data string) string { return datafolder.WitnessPolicy(data) + ".restored" }

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
