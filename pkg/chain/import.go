package chain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sort"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/mod/sumdb/note"

	"lazaret/pkg/position"
)

// ErrNotEmpty reports that a folder already has a log.
var ErrNotEmpty = errors.New("the log is not empty")

// Import creates a log in dir from the leaves of another one, up to that log's last checkpoint. A key of vs must have
// signed the checkpoint, and if quorum is set, witnesses must have cosigned it. Import checks each leaf, its link to
// the leaf before, its ledger sequence, and the root. Only then does it create dir. It does not import payloads. Method
// Fill adds the payloads of entries that the ledger still has.
//
// dir must be absent or empty. progress may be nil.
func Import(ctx context.Context, dir string, o Options, src Source, vs note.Verifiers, quorum Quorum,
	progress func(done, total int64)) error {
	fs := o.FS
	if fs == nil {
		fs = vfs.Default
	}
	if _, err := fs.Stat(fs.PathJoin(dir, "store")); err == nil {
		return fmt.Errorf("importing into %s: %w", dir, ErrNotEmpty)
	}
	if names, err := fs.List(dir); err == nil && len(names) > 0 {
		return fmt.Errorf("importing into %s: the folder has %d files and no log, such as %q: name a new or empty one", dir,
			len(names), names[0])
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("importing into %s: %w", dir, err)
	}
	view, err := NewView(ctx, src, vs)
	if err != nil {
		return err
	}
	if quorum != nil && !quorum.Satisfied(view.Note) {
		return errors.New("the checkpoint lacks the cosignatures that the witness policy asks for")
	}
	tmp := dir + ".import"
	if err := fs.RemoveAll(tmp); err != nil {
		return err
	}
	l, err := Open(tmp, o)
	if err != nil {
		return err
	}
	err = l.importLeaves(view, progress)
	if err = errors.Join(err, l.Close()); err != nil {
		return errors.Join(err, fs.RemoveAll(tmp))
	}
	if err := fs.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) { // it may exist and be empty
		return err
	}
	if err := fs.Rename(tmp, dir); err != nil {
		return err
	}
	return syncDir(fs, fs.PathDir(dir))
}

func (l *Log) importLeaves(view *View, progress func(done, total int64)) error {
	l.appending.Lock()
	defer l.appending.Unlock()
	a := l.begin(1 << 20)
	defer func() { a.close() }()
	next := uint64(1)
	for a.edge.size < view.Size {
		if err := view.ctx.Err(); err != nil {
			return err
		}
		at := a.edge.size
		b, err := view.src.ReadEntryBundle(view.ctx, at>>TileHeight, int(min(view.Size-at, TileWidth)))
		if err != nil {
			return fmt.Errorf("reading leaves from %d: %w", at, err)
		}
		leaves, err := SplitBundle(b)
		if err != nil {
			return fmt.Errorf("leaves from %d: %w", at, err)
		}
		if int64(len(leaves)) != min(view.Size-at, TileWidth) {
			return fmt.Errorf("the bundle of leaves from %d has %d leaves, want %d", at, len(leaves),
				min(view.Size-at, TileWidth))
		}
		for _, raw := range leaves {
			leaf, err := DecodeLeaf(raw)
			if err != nil {
				return fmt.Errorf("leaf %d: %w", a.edge.size, err)
			}
			if leaf.Index != a.edge.size || leaf.Prev != a.prev {
				return fmt.Errorf("leaf %d does not follow the leaf before it", a.edge.size)
			}
			after, ok := leaf.follows(next)
			if !ok {
				return fmt.Errorf("leaf %d is a %s of ledger entry %s, want sequence %d", leaf.Index, leaf.Kind,
					position.Text(leaf.Seq), position.Sequence(next))
			}
			next = after
			a.head.LastSeq, a.head.LastTime = position.Sequence(after)-1, leaf.Time
			switch leaf.Kind {
			case KindEntry:
				a.head.Entries++
			case KindGap:
				a.head.Gaps++
			case KindReset:
				a.head.Resets++
				a.head.Epoch = leaf.Time
			}
			from := len(a.bundle)
			a.bundle = append(append(a.bundle, 0, 0), raw...)
			if err := a.added(from); err != nil {
				return err
			}
		}
		a.head.Imported = a.edge.size
		if progress != nil {
			progress(a.edge.size, view.Size)
		}
		// The root can only be compared at the end. Until then, the folder has a temporary name, so that nobody opens
		// it as a log.
		if a.edge.size%(64*TileWidth) == 0 || a.edge.size == view.Size {
			if err := a.commit(); err != nil {
				return err
			}
			a = l.begin(1 << 20)
		}
	}
	if h := l.Head(); h.Root != view.Root || h.Size != view.Size {
		return fmt.Errorf("the leaves give the root %s, but the checkpoint of size %d has %s", h.Root, view.Size, view.Root)
	}
	return nil
}

// FindSeq returns the index of the leaf at a position of the current ledger. The leaf may be a gap that covers the
// position. If no leaf has the position, FindSeq returns ErrRange.
func (l *Log) FindSeq(at uint64) (int64, error) {
	first, err := l.findMessage(position.Sequence(at))
	i := int64(position.Index(at))
	if err != nil || i == 0 {
		return first, err
	}
	if first+i >= l.Head().Size {
		return 0, fmt.Errorf("ledger entry %s: %w", position.Text(at), ErrRange)
	}
	leaf, err := l.Leaf(first + i)
	if err == nil && leaf.Seq != at {
		err = fmt.Errorf("ledger entry %s: %w", position.Text(at), ErrRange)
	}
	return first + i, err
}

// findMessage returns the index of the first leaf of the ledger message with sequence seq in the current ledger.
func (l *Log) findMessage(seq uint64) (int64, error) {
	h := l.Head()
	if seq == 0 || seq > h.LastSeq {
		return 0, fmt.Errorf("ledger sequence %d of %d: %w", seq, h.LastSeq, ErrRange)
	}
	first, err := l.Present(h.Size) // sequences ascend after the last reset
	if err != nil {
		return 0, err
	}
	n := sort.Search(int(h.Size-first), func(i int) bool {
		leaf, e := l.Leaf(first + int64(i))
		err = errors.Join(err, e)
		after, _ := leaf.follows(leaf.Seq)
		return position.Sequence(after) > seq
	})
	if err != nil {
		return 0, err
	}
	if first+int64(n) >= h.Size {
		return 0, fmt.Errorf("ledger sequence %d: %w", seq, ErrRange)
	}
	return first + int64(n), nil
}

// ErrDiffers reports that an entry of the ledger differs from the imported leaf of the same sequence.
var ErrDiffers = errors.New("the ledger's entry differs from the imported log's")

// Fill compares entries of the ledger with imported leaves, and stores the payloads of these entries. If an entry
// differs from its leaf, Fill returns ErrDiffers and stores nothing. It ignores entries that the log does not have yet.
func (l *Log) Fill(entries []Entry) (err error) {
	l.appending.Lock()
	defer l.appending.Unlock()
	defer func() {
		if err != nil {
			clear(l.vault.keys) // the cached keys may include one that was made here, and it was not written
		}
	}()
	l.vault.limit()
	h := l.Head()
	b := l.db.NewBatch()
	defer b.Close()
	for i := range entries {
		e := &entries[i]
		if position.Sequence(e.Seq) > h.LastSeq {
			break
		}
		at, err := l.FindSeq(e.Seq)
		if err != nil {
			return err
		}
		if at >= h.Imported {
			break
		}
		leaf, err := l.Leaf(at)
		if err != nil {
			return err
		}
		if leaf.Kind != KindEntry || leaf.Seq != e.Seq || leaf.Type != e.Type || leaf.Project != e.Project ||
			!leaf.Time.Equal(e.Time) ||
			leaf.Length != uint64(len(e.Payload)) || leaf.Commitment != Commit(e.Salt, e.Payload) {
			return fmt.Errorf("ledger entry %s, leaf %d: %w", position.Text(e.Seq), at, ErrDiffers)
		}
		k := indexKey(spacePayload, at)
		if _, c, err := l.db.Get(k[:]); err == nil {
			if err := c.Close(); err != nil {
				return err
			}
			continue
		} else if !errors.Is(err, pebble.ErrNotFound) {
			return err
		}
		key, err := l.vault.key(b, l.db, subjectOf(e))
		if err != nil {
			return err
		}
		_, d := l.vault.draft(nil, key, subjectOf(e), at, e.Salt, e.Payload)
		if err := b.Set(k[:], d.seal(key), nil); err != nil {
			return err
		}
	}
	if err := b.Commit(pebble.Sync); err != nil {
		return fmt.Errorf("filling in payloads: %w", err)
	}
	return nil
}
