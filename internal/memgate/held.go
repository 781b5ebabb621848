package memgate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"lazaret/client"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Held is a folder with the ids of memory writes that were proposed but not made. As long as the hold of a write is
// open, the same write is the same proposal, also after a restart. An approval allows one write. After that, the same
// write is a new proposal.
type Held string

// heldFor is how long an id is stored. After this time, the arbiter has removed its verdict.
const heldFor = 31 * 24 * time.Hour

// Sweep removes ids that are older than the arbiter's verdicts on them, in this folder and those below it.
func (h Held) Sweep() error {
	err := filepath.WalkDir(string(h), func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if i, ierr := e.Info(); ierr == nil && time.Since(i.ModTime()) > heldFor {
			return os.Remove(file)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Text is a memory that is to be written, with the origin of its words.
type Text struct {
	Origin beliefs.Origin
	*streams.Memory
}

// Write asks whether the memories of one write may be written. It returns the replies up to the first one that does not
// allow its memory; the last reply decides. If all are allowed, their approvals are used up, and the caller must make
// the write. If the write certainly was not made, the caller must call undo, which gives the approvals back. parts
// identify the write in addition to the fields of its memories.
func (h Held) Write(ctx context.Context, j Judge, ms []Text, parts ...string) (replies []*client.Reply,
	undo func() error, err error) {
	var files []string
	asked := make(map[string]int) // file → index of its memory
	undo = func() (err error) {
		for n, file := range files {
			if !ended(replies[n]) {
				err = errors.Join(err, restore(file, ms[asked[file]].ID))
			}
		}
		return err
	}
	for i, m := range ms {
		file := filepath.Join(string(h), digest(append([]string{string(m.Origin), m.Session, m.User, m.Key, m.Content},
			parts...)))
		if _, ok := asked[file]; ok {
			continue
		}
		rep, err := h.ask(ctx, j, m, file)
		if err != nil {
			return nil, nil, err
		}
		if replies = append(replies, rep); rep.Verdict != streams.Allow {
			for n, file := range files {
				if ended(replies[n]) { // so that a repeated request is judged again
					_, _ = remove(file, ms[asked[file]].ID)
				}
			}
			return replies, nil, nil
		}
		asked[file], files = i, append(files, file)
	}
	for n, file := range files {
		for {
			mine, err := remove(file, ms[asked[file]].ID)
			if err != nil {
				return nil, nil, err
			}
			if mine {
				break
			}
			// A concurrent request has made the write with this approval.
			if replies[n], err = h.ask(ctx, j, ms[asked[file]], file); err != nil {
				return nil, nil, err
			}
			if replies[n].Verdict != streams.Allow {
				return replies[:n+1], nil, nil
			}
		}
	}
	return replies, undo, nil
}

// ask asks for a verdict on one memory. If the verdict is allow, is an open hold or is unknown, the file exists
// afterwards, so that a repeated request asks under the same id.
func (h Held) ask(ctx context.Context, j Judge, m Text, file string) (*client.Reply, error) {
	known, err := identify(file, m.Memory)
	if err != nil {
		return nil, err
	}
	rep, err := j.Remember(ctx, m.Origin, m.Memory)
	if known && err == nil && ended(rep) {
		if _, err := remove(file, m.ID); err != nil {
			return nil, err
		}
		return h.ask(ctx, j, m, file)
	}
	e := (*client.Error)(nil)
	if errors.As(err, &e) && !e.Temporary() && e.Code != streams.CodeCredential ||
		err == nil && rep.Verdict != streams.Allow && !client.Open(rep) {
		_, _ = remove(file, m.ID) // if this fails, a repeated request gets the same answer
	}
	return rep, err
}

// ended reports whether the stored verdict on an earlier request for the same write no longer counts. The write is
// then proposed again, under a new id. There are two such verdicts: a hold that expired or was withdrawn, and an allow
// that no person approved. After such an allow, the write is judged by the present rules and findings.
func ended(rep *client.Reply) bool {
	switch rep.Verdict {
	case streams.Allow:
		return rep.Entry == nil || rep.Entry.Resolved == nil
	case streams.Hold:
		return !client.Open(rep)
	}
	return false
}

// storing is held while a file is read and changed. So concurrent requests for the same write get the same id, and only
// one of them uses up its approval.
var storing sync.Mutex

// identify sets m.ID to the id in a file. If the file has none, identify stores a new id in it. known reports whether
// the file had an id.
func identify(file string, m *streams.Memory) (known bool, err error) {
	storing.Lock()
	defer storing.Unlock()
	if m.ID, err = stored(file); err != nil || streams.ValidID(m.ID) {
		return true, err
	}
	m.ID = client.NewID()
	err = os.MkdirAll(filepath.Dir(file), 0o700)
	if err == nil {
		err = os.WriteFile(file, []byte(m.ID), 0o600)
	}
	if err != nil {
		return false, fmt.Errorf("storing the id of a held write: %w", err)
	}
	return false, nil
}

// remove removes a file if it has this id, and reports whether it removed it.
func remove(file, id string) (bool, error) {
	storing.Lock()
	defer storing.Unlock()
	if now, err := stored(file); err != nil || now != id {
		return false, err
	}
	if err := os.Remove(file); err != nil {
		return false, fmt.Errorf("removing the id of a held write: %w", err)
	}
	return true, nil
}

// restore stores an id again, unless a later request for the same write has stored one.
func restore(file, id string) error {
	storing.Lock()
	defer storing.Unlock()
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		_, err = f.WriteString(id)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("storing the id of an approved write again: %w", err)
	}
	return nil
}

// stored returns the id in a file, or "" if there is none.
func stored(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the id of a held write: %w", err)
	}
	return string(b), nil
}

// digest derives a valid id from parts.
func digest(parts []string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
