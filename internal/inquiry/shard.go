package inquiry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"lazaret/pkg/chain"
	"lazaret/pkg/files"
)

// Period is the length of the time range of a shard. A shard is a bundle that Seal writes.
type Period string

// The periods, in UTC.
const (
	ByDay   Period = "day"
	ByMonth Period = "month"
)

// layout returns the time layout of a shard's name.
func (p Period) layout() (string, error) {
	switch p {
	case ByDay:
		return time.DateOnly, nil
	case ByMonth:
		return "2006-01", nil
	}
	return "", fmt.Errorf("unknown period %q: use %s or %s", p, ByDay, ByMonth)
}

func (p Period) next(t time.Time) time.Time {
	t = t.UTC()
	if p == ByDay {
		return time.Date(t.Year(), t.Month(), t.Day()+1, 0, 0, 0, 0, time.UTC)
	}
	return time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, time.UTC)
}

// Sealed describes a written shard.
type Sealed struct {
	File string `json:"file"`
	BundleInfo
}

// Seal writes a bundle for every period of the log that ended before the given time and was not sealed into
// the folder yet. A shard ends at the last checkpoint before the end of its period, and the next one
// begins there, so that there are no gaps. The names of shards prove nothing. The folder keeps the end of the last
// shard in a file, so shards may be moved away.
func (l *Log) Seal(ctx context.Context, dir string, p Period, before time.Time, o BundleOptions) ([]Sealed, error) {
	layout, err := p.layout()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	from, err := sealedUpTo(dir)
	if err != nil {
		return nil, err
	}
	if from > l.Size() {
		return nil, fmt.Errorf("the shards in %s end at leaf %d, and the log has %d leaves: they are of another log, or "+
			"this one was restored and still lacks entries; name another folder, or wait", dir, from, l.Size())
	}
	var out []Sealed
	for from < l.Size() {
		leaf, err := l.chain.Leaf(from)
		if err != nil {
			return out, err
		}
		// A period without a checkpoint is joined with the next one.
		var cp chain.Checkpoint
		for end := p.next(leaf.Time); cp.Size <= from; end = p.next(end) {
			if end.After(before) {
				return out, nil
			}
			to, err := l.firstFrom(from, end)
			if err != nil {
				return out, err
			}
			if cp, err = l.chain.CheckpointAt(to); err != nil && !errors.Is(err, chain.ErrRange) {
				return out, err
			}
		}
		o.From, o.To = from, cp.Size
		s := Sealed{File: filepath.Join(dir, fmt.Sprintf("%s.%d-%d.zip", leaf.Time.UTC().Format(layout), o.From, o.To))}
		if s.BundleInfo, err = l.writeBundle(ctx, s.File, o); err != nil {
			return out, err
		}
		out = append(out, s)
		from = o.To
		if err := markSealed(dir, from); err != nil {
			return out, err
		}
	}
	return out, nil
}

// AtCheckpoints extends a range so that each end is the size of a tree that a checkpoint signs, as a bundle needs. To 0
// means the last checkpoint.
func (l *Log) AtCheckpoints(from, to int64) (int64, int64, error) {
	if from > 0 {
		cp, err := l.chain.CheckpointAt(from)
		if err != nil && !errors.Is(err, chain.ErrRange) {
			return 0, 0, err
		}
		from = cp.Size
	}
	if to == 0 {
		to = l.Size()
	}
	last, err := l.chain.CheckpointAt(l.Size())
	if err != nil {
		return 0, 0, err
	}
	// Checkpoints are at most a second apart, so the search is short.
	for n := to; n < last.Size; n++ {
		if cp, err := l.chain.CheckpointAt(n); err == nil && cp.Size >= to {
			return from, cp.Size, nil
		}
	}
	return from, last.Size, nil
}

// WriteBundle is Bundle to a new file, which is written atomically.
func (l *Log) WriteBundle(ctx context.Context, file string, o BundleOptions) (BundleInfo, error) {
	if _, err := os.Stat(file); err == nil {
		return BundleInfo{}, fmt.Errorf("%s exists: name a new file", file)
	}
	return l.writeBundle(ctx, file, o)
}

func (l *Log) writeBundle(ctx context.Context, file string, o BundleOptions) (info BundleInfo, err error) {
	f, err := os.OpenFile(file+".tmp", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return info, err
	}
	info, err = l.Bundle(ctx, f, o)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return info, errors.Join(err, os.Remove(file+".tmp"))
	}
	return info, files.Rename(file+".tmp", file)
}

// sealedFile has the leaf index at which the last shard of a folder ends.
const sealedFile = "sealed"

func markSealed(dir string, end int64) error {
	return files.Write(filepath.Join(dir, sealedFile), fmt.Appendf(nil, "%d\n", end), 0o600)
}

// sealedUpTo returns the leaf index at which the shards in a folder end, and stores it in the folder.
func sealedUpTo(dir string) (int64, error) {
	marked := int64(0)
	b, err := os.ReadFile(filepath.Join(dir, sealedFile))
	known := err == nil
	if known {
		marked, err = strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("reading where the last shard of %s ends: %w: write into that file the last number in the "+
			"last shard's file name", dir, err)
	}
	names, err := files.Glob(dir, "*.zip")
	if err != nil {
		return 0, err
	}
	type part struct{ from, to int64 }
	var parts []part
	for _, n := range names {
		name := strings.TrimSuffix(filepath.Base(n), ".zip")
		var x part
		if _, err := fmt.Sscanf(name[strings.LastIndexByte(name, '.')+1:], "%d-%d", &x.from, &x.to); err == nil {
			parts = append(parts, x)
		}
	}
	sort.Slice(parts, func(i, j int) bool { return parts[i].from < parts[j].from })
	end := int64(0)
	for _, x := range parts {
		if moved := known && x.from <= marked && x.from > end; x.from != end && !moved {
			return 0, fmt.Errorf("the shards in %s have a gap or overlap: one begins at leaf %d, the previous one ends at "+
				"%d. If shards were moved away, write the last number in the last one's file name into the file %s there", dir,
				x.from, end, sealedFile)
		}
		end = x.to
	}
	if end = max(end, marked); end == marked {
		return end, nil
	}
	return end, markSealed(dir, end)
}

// firstFrom returns the first leaf at or after an index that is not older than t.
func (l *Log) firstFrom(from int64, t time.Time) (int64, error) {
	var failed error
	n := sort.Search(int(l.Size()-from), func(i int) bool {
		leaf, err := l.chain.Leaf(from + int64(i))
		if err != nil {
			failed = err
			return true
		}
		return !leaf.Time.Before(t)
	})
	return from + int64(n), failed
}
