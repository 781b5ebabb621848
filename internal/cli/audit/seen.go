package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/cli/verb"
	"lazaret/pkg/chain"
	"lazaret/pkg/files"
)

// maxSeen is the maximum number of stored checkpoints that are read.
const maxSeen = 10_000

// seen has the checkpoints that earlier verifications on this machine stored, for a verification of the log in one
// folder.
type seen struct {
	state string // folder of all records of this machine
	dir   string // folder of the log, absolute and without symbolic links

	// notes are stored checkpoints of any log. The verification determines which ones belong to this
	// log by the keys that signed it.
	notes [][]byte
	files []string // of notes
	// here is the checkpoint of the last verification of the folder, if a trusted key signed it. The log
	// must extend it even if another key signs the log now. Otherwise the log could be replaced by another
	// log with a pinned key.
	here *chain.Checkpoint
	file string // file in which here is stored
}

// inFolder is the stored record about a log folder.
type inFolder struct {
	Folder     string `json:"folder"`
	Checkpoint string `json:"checkpoint"`
	// Handovers are the notes in which a key of the log hands it over to the next key, up to the key that signed the
	// checkpoint.
	Handovers []string `json:"handovers,omitempty"`
}

// loadSeen reads the stored checkpoints for the log in dir.
func loadSeen(dir string, vs note.Verifiers) (*seen, error) {
	state, err := verb.StateDir()
	if err != nil {
		return nil, err
	}
	s := &seen{state: state, dir: dir}
	if abs, err := filepath.Abs(dir); err == nil {
		s.dir = abs
	}
	if real, err := filepath.EvalSymlinks(s.dir); err == nil {
		s.dir = real
	}
	sum := sha256.Sum256([]byte(s.dir))
	s.file = filepath.Join(state, "folders", hex.EncodeToString(sum[:16]))
	folder := filepath.Join(state, "checkpoints")
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if len(entries) > maxSeen {
		return nil, fmt.Errorf("%s has more than %d files: remove those of logs that no longer exist", folder, maxSeen)
	}
	for _, f := range entries {
		file := filepath.Join(folder, f.Name())
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		s.notes, s.files = append(s.notes, b), append(s.files, file)
	}
	b, err := os.ReadFile(s.file)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	var in inFolder
	if err := json.Unmarshal(b, &in); err != nil {
		return nil, fmt.Errorf("%s: %w: restore this file, or remove it if you trust the log in %s as it is", s.file,
			err, s.dir)
	}
	var handovers [][]byte
	for _, h := range in.Handovers {
		handovers = append(handovers, []byte(h))
	}
	// If the signing key is not trusted, the data folder was recreated with new keys, and the
	// checkpoint does not apply.
	if cp, err := chain.OpenSigned([]byte(in.Checkpoint), vs, handovers); err == nil {
		s.here = &cp
	}
	return s, nil
}

// addTo makes a verification compare the log with the stored checkpoints.
func (s *seen) addTo(v *chain.VerifyOptions) {
	v.Seen = s.notes
	if s.here != nil {
		v.Against = append(v.Against, s.here.Note)
	}
}

// save stores the log's last checkpoint, which was just verified, with the handovers up to its key.
func (s *seen) save(last []byte, handovers [][]byte) error {
	cp, err := chain.ParseCheckpoint(last)
	if err != nil {
		return err
	}
	sig, err := firstSignature(last)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s+%08x\n", cp.Origin, sig.Name, sig.Hash))
	path := filepath.Join(s.state, "checkpoints", hex.EncodeToString(sum[:16]))
	if old, err := os.ReadFile(path); err == nil {
		// Do not replace a larger stored checkpoint. If this log made it, the log was just verified against it.
		if have, err := chain.ParseCheckpoint(old); err == nil && have.Size > cp.Size {
			path = ""
		}
	}
	if path != "" {
		if err := keepFile(path, last); err != nil {
			return err
		}
	}
	in := inFolder{Folder: s.dir, Checkpoint: string(last)}
	for _, h := range handovers {
		in.Handovers = append(in.Handovers, string(h))
	}
	b, err := json.MarshalIndent(in, "", "\t")
	if err != nil {
		return err
	}
	return keepFile(s.file, append(b, '\n'))
}

// firstSignature returns a checkpoint's first signature, which the log's key made. It does not verify the
// signature.
func firstSignature(b []byte) (sig note.Signature, err error) {
	var unverified *note.UnverifiedNoteError
	if _, err := note.Open(b, note.VerifierList()); !errors.As(err, &unverified) ||
		len(unverified.Note.UnverifiedSigs) == 0 {
		return sig, fmt.Errorf("the checkpoint's signature cannot be read: %w", err)
	}
	return unverified.Note.UnverifiedSigs[0], nil
}

// keepFile writes a file, and creates its folder if necessary.
func keepFile(path string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return files.Write(path, b, 0o600)
}
