package backup

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"lazaret/pkg/files"
)

// A backup in one file is a tar archive of the backup's folder.

// PackFolder packs a folder into a new archive file, and removes the folder. The file is created
// atomically.
func PackFolder(dir, file string) error {
	if _, err := os.Lstat(file); err == nil {
		return fmt.Errorf("%s: %w", file, fs.ErrExist)
	}
	part := file + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	w := tar.NewWriter(f)
	err = errors.Join(w.AddFS(os.DirFS(dir)), w.Close(), f.Sync(), f.Close())
	if err == nil {
		err = files.Rename(part, file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return os.RemoveAll(dir)
}

// unpack extracts an archive into a folder.
func unpack(file, dir string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := checkEnd(f); err != nil {
		return fmt.Errorf("%s is not a backup, or it is damaged: %w", file, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir) // prevents archive entries from writing outside of dir
	if err != nil {
		return err
	}
	defer root.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = unpackOne(root, h, r)
		}
		if err != nil {
			return fmt.Errorf("%s is not a backup, or it is damaged: %w", file, err)
		}
	}
}

// checkEnd returns an error for an archive without the two empty blocks at its end. tar.Reader does not
// detect an archive that was cut between two files.
func checkEnd(f *os.File) error {
	const end = 1024
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	b := make([]byte, end)
	if _, err := f.ReadAt(b, max(0, fi.Size()-end)); err != nil || !bytes.Equal(b, make([]byte, end)) {
		return errors.New("its end is missing")
	}
	return nil
}

func unpackOne(root *os.Root, h *tar.Header, r io.Reader) error {
	switch h.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(h.Name, 0o700)
	case tar.TypeReg:
	default:
		return fmt.Errorf("%s is neither a file nor a folder", h.Name)
	}
	if err := root.MkdirAll(filepath.Dir(h.Name), 0o700); err != nil {
		return err
	}
	out, err := root.OpenFile(h.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, r)
	return errors.Join(err, out.Close())
}
