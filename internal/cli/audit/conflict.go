package audit

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/cli/verb"
	"lazaret/pkg/chain"
)

// conflict is a checkpoint of an earlier verification on this machine that the log does not extend.
type conflict struct {
	File   string    `json:"file"`
	Size   int64     `json:"size"`
	Root   string    `json:"root"` // base64
	Why    string    `json:"why"`
	Stored time.Time `json:"stored"`
	Folder string    `json:"folder,omitempty"` // of the log that was verified then, if it is known
}

// conflicts returns the stored checkpoints that the log in dir, whose verification failed, does not extend. last is
// its last checkpoint.
func (s *seen) conflicts(dir string, o chain.Options, vs note.Verifiers, last []byte) (out []conflict) {
	o.ReadOnly = true
	l, err := chain.Open(dir, o)
	if err != nil {
		return nil // the log's own fault is in the report
	}
	defer l.Close()
	handovers, err := l.Handovers()
	if err != nil {
		return nil
	}
	own := make(map[string]bool) // the keys of this log
	for _, b := range append(handovers, last) {
		own[signerOf(b)] = true
	}
	origin := ""
	if cp, err := chain.ParseCheckpoint(last); err == nil {
		origin = cp.Origin
	}
	add := func(file, folder string, cp chain.Checkpoint) {
		c := conflict{File: file, Size: cp.Size, Root: cp.Root.String(), Folder: folder}
		root, err := l.Root(cp.Size)
		switch {
		case cp.Origin != origin:
			c.Why = fmt.Sprintf("it is of log %q, but this log is %q", cp.Origin, origin)
		case cp.Size > l.Head().Size:
			c.Why = fmt.Sprintf("this log has only %d leaves", l.Head().Size)
		case err == nil && root != cp.Root:
			c.Why = "this log has other entries there"
		case s.here == nil || file != s.file || own[signerOf(cp.Note)]:
			return
		default:
			c.Why = "another key signed it"
		}
		if fi, err := os.Stat(file); err == nil {
			c.Stored = fi.ModTime().UTC().Truncate(time.Second)
		}
		out = append(out, c)
	}
	if s.here != nil {
		add(s.file, s.dir, *s.here)
	}
	for i, b := range s.notes {
		if cp, err := chain.OpenSigned(b, vs, handovers); err == nil && own[signerOf(b)] {
			add(s.files[i], s.folderOf(b), cp)
		}
	}
	return out
}

// signerOf returns the name and hash of the log's key, which made the first signature of a note.
func signerOf(b []byte) string {
	sig, err := firstSignature(b)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s+%08x", sig.Name, sig.Hash)
}

// folderOf returns the folder of the log whose verification stored a checkpoint, or "".
func (s *seen) folderOf(checkpoint []byte) string {
	files, err := os.ReadDir(filepath.Dir(s.file))
	if err != nil || len(files) > maxSeen {
		return ""
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(filepath.Dir(s.file), f.Name()))
		var in inFolder
		if err == nil && json.Unmarshal(b, &in) == nil && in.Checkpoint == string(checkpoint) {
			return in.Folder
		}
	}
	return ""
}

// printConflicts prints the stored checkpoints that a log does not extend, and what to do.
func printConflicts(w io.Writer, r *verifyReport) {
	if len(r.Conflicts) == 0 {
		return
	}
	fmt.Fprintf(w, "  this log: %d leaves, root %s\n", r.Size, r.Root)
	for _, c := range r.Conflicts {
		fmt.Fprintf(w, "  remembered here: %d leaves, root %s, stored %s in %s", c.Size, c.Root,
			c.Stored.Format(time.RFC3339), c.File)
		if c.Folder != "" {
			fmt.Fprintf(w, " by a verification of %s", verb.Quote(c.Folder, 300))
		}
		fmt.Fprintf(w, ": %s\n", c.Why)
	}
	fmt.Fprintln(w, "  Either this log was truncated or rewritten, or the remembered log is another copy, such as a "+
		"restored backup that was started in a drill. If you know that other copy, and want this log here on purpose, "+
		"move these files away:")
	for _, c := range r.Conflicts {
		fmt.Fprintln(w, "   ", c.File)
	}
	fmt.Fprintln(w, "  Then compare this log with a checkpoint that you kept elsewhere: lazaret audit verify "+
		"--against FILE")
}
