package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

const others fs.FileMode = 0o077

// RestrictAll removes the access rights of others from paths and everything below them. It does not
// follow symbolic links. It ignores paths that do not exist.
func RestrictAll(paths ...string) error {
	var errs []error
	for _, p := range paths {
		errs = append(errs, filepath.WalkDir(p, func(path string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil // removed in the meantime
			case err != nil:
				return err
			case !d.IsDir() && !d.Type().IsRegular():
				return nil
			}
			return Restrict(path)
		}))
	}
	return errors.Join(errs...)
}

// Restrict removes the access rights of others from one file or folder, if it exists. It ignores symbolic links.
func Restrict(path string) error {
	fi, err := os.Lstat(path)
	if err == nil && fi.Mode().Type()&fs.ModeSymlink == 0 && fi.Mode().Perm()&others != 0 {
		err = os.Chmod(path, fi.Mode().Perm()&^others)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
