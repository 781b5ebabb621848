package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/sumdb/note"

	"lazaret/pkg/chain"
)

// seenDir is where the checkpoints are kept that this machine saw, one file
// for a log's origin and signing key.
func seenDir() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if state == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "lazaret", "checkpoints"), nil
}

// maxSeen bounds how many files are looked at.
const maxSeen = 10_000

// loadSeen reads the checkpoints that this machine saw of logs whose keys are
// among vs. Installations have keys of their own, so these are checkpoints of
// this one's log, before and after changes of its key.
func loadSeen(vs note.Verifiers) ([]chain.Checkpoint, error) {
	dir, err := seenDir()
	if err != nil {
		return nil, err
	}
	files, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(files) > maxSeen {
		return nil, fmt.Errorf("%s holds more than %d files: remove those of logs that are gone", dir, maxSeen)
	}
	var out []chain.Checkpoint
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, err
		}
		// What does not open is of another log.
		if cp, err := chain.OpenCheckpoint(b, vs); err == nil {
			out = append(out, cp)
		}
	}
	return out, nil
}

// saveSeen remembers a checkpoint, unless a larger one of the same key is
// remembered.
func saveSeen(b []byte, vs note.Verifiers) error {
	cp, err := chain.OpenCheckpoint(b, vs)
	if err != nil {
		return nil //nolint:nilerr // by a key that was handed over to: the trust file does not name it
	}
	n, err := note.Open(b, vs)
	if err != nil {
		return err
	}
	dir, err := seenDir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s+%08x\n", cp.Origin, n.Sigs[0].Name, n.Sigs[0].Hash))
	path := filepath.Join(dir, hex.EncodeToString(sum[:16]))
	if old, err := os.ReadFile(path); err == nil {
		if have, err := chain.OpenCheckpoint(old, vs); err == nil && have.Size >= cp.Size {
			return nil
		}
	}
	f, err := os.CreateTemp(dir, "tmp-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
