package inquiry

import (
	"archive/zip"
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/pkg/chain"
	"lazaret/pkg/files"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// Covers returns the ledger sequence up to which a checkpoint covers the ledger. The checkpoint may be
// from this auditor or from another auditor of the same ledger. It must be signed by a trusted key, and
// its tree must be a prefix of this log's tree; otherwise Covers returns an error. It returns 0 if the
// checkpoint covers more leaves than this log has.
func (l *Log) Covers(cp []byte, vs note.Verifiers) (uint64, error) {
	c, err := chain.OpenCheckpoint(cp, vs)
	if err != nil {
		return 0, err
	}
	if c.Size > l.Size() {
		// The other log is ahead. Whether it extends this one can be checked only when this log is as
		// long.
		return 0, nil
	}
	if c.Size == 0 {
		return 0, nil
	}
	root, err := l.chain.Root(c.Size)
	if err != nil {
		return 0, err
	}
	if root != c.Root {
		return 0, fmt.Errorf("its tree of %d leaves differs from this log's: compare the two logs (lazaret audit "+
			"compare) before anything is removed", c.Size)
	}
	leaf, err := l.chain.Leaf(c.Size - 1)
	if err != nil {
		return 0, err
	}
	if leaf.Kind == chain.KindGap {
		return leaf.Seq + leaf.Length - 1, nil
	}
	return position.Sequence(leaf.Seq), nil
}

// keptType reports whether entries of this type stay when a project is erased.
func keptType(t string) bool {
	return streams.Type(t).Statement()
}

// Holding returns in n how many of a project's payloads the log can still read. If before is not 0, it
// counts only payloads of ledger sequences below before. held is the id of the statement that placed a
// legal hold on the project or on a data subject of it, or "".
func (l *Log) Holding(ctx context.Context, project string, before uint64) (n int, held string, err error) {
	holds := make(map[string]string) // by data subject; "" for the whole project
	err = l.Range(ctx, 0, l.Size(), func(e *Entry) bool { return e.Project == project }, func(e *Entry) error {
		if e.Project != project || e.Kind != "entry" {
			return nil
		}
		if streams.Type(e.Type) == streams.TypeLegalHold && e.Stage == streams.StageIngest && e.Body != nil {
			b := new(streams.CustodyEntry)
			if err := e.decode(b); err != nil {
				return err
			}
			delete(holds, b.DataSubject)
			if b.Do == streams.DoHold {
				holds[b.DataSubject] = b.ID
			}
		}
		if !keptType(e.Type) && !e.Forgotten && !e.NotHeld && (before == 0 || position.Sequence(e.Seq) < before) {
			n++
		}
		return nil
	})
	for _, id := range holds { // of several holds, the smallest id
		if held == "" || id < held {
			held = id
		}
	}
	return n, held, err
}

// HoldingListed returns in all how many payloads a project has at the listed ledger sequences, and in n
// how many of them the log can still read.
func (l *Log) HoldingListed(ctx context.Context, project string, listed map[uint64]bool) (all, n int, err error) {
	wanted := func(e *Entry) bool {
		return e.Project == project && listed[position.Sequence(e.Seq)] && !keptType(e.Type)
	}
	err = l.Range(ctx, 0, l.Size(), wanted, func(e *Entry) error {
		if e.Kind == chain.KindReset.String() {
			all, n = 0, 0 // the payloads so far belong to an earlier ledger
		}
		if wanted(e) && e.Kind == "entry" {
			all++
			if !e.Forgotten && !e.NotHeld {
				n++
			}
		}
		return nil
	})
	return all, n, err
}

// HeldFrom returns the id of the statement that placed a legal hold which prevents the erasure of a data
// subject, or "". The hold may be on the project, on the data subject, or on one of others: the other data
// subjects of the same entries.
func (l *Log) HeldFrom(ctx context.Context, project, subject string, others []string) (held string, err error) {
	holds := make(map[string]string) // by data subject; "" for the whole project
	err = l.Range(ctx, 0, l.Size(), func(e *Entry) bool {
		return e.Project == project && streams.Type(e.Type) == streams.TypeLegalHold
	}, func(e *Entry) error {
		if e.Project != project || streams.Type(e.Type) != streams.TypeLegalHold || e.Stage != streams.StageIngest ||
			e.Body == nil {
			return nil
		}
		b := new(streams.CustodyEntry)
		if err := e.decode(b); err != nil {
			return err
		}
		delete(holds, b.DataSubject)
		if b.Do == streams.DoHold {
			holds[b.DataSubject] = b.ID
		}
		return nil
	})
	all := slices.Equal(others, []string{streams.AllOthers})
	for who, id := range holds {
		if (who == "" || who == subject || all || slices.Contains(others, who)) && (held == "" || id < held) {
			held = id
		}
	}
	return held, err
}

// Gone returns the number of a project's erased payloads.
func (l *Log) Gone(ctx context.Context, project string) (n int, err error) {
	err = l.Range(ctx, 0, l.Size(), func(e *Entry) bool { return e.Project == project }, func(e *Entry) error {
		if e.Project == project && e.Forgotten {
			n++
		}
		return nil
	})
	return n, err
}

// ShardsOf returns the shards in a folder (bundles that Seal wrote) that contain payloads of a project.
func (l *Log) ShardsOf(ctx context.Context, dir, project string) ([]string, error) {
	return l.shardsOf(ctx, dir, func(x *bundleLine) bool { return x.Project == project })
}

// ShardsListed returns the shards in a folder (bundles that Seal wrote) that contain payloads of a project's listed
// entries.
func (l *Log) ShardsListed(ctx context.Context, dir, project string, listed map[uint64]bool) ([]string, error) {
	return l.shardsOf(ctx, dir, func(x *bundleLine) bool {
		return x.Project == project && listed[position.Sequence(x.Seq)]
	})
}

func (l *Log) shardsOf(ctx context.Context, dir string, of func(x *bundleLine) bool) ([]string, error) {
	shards, err := files.Glob(dir, "*.zip")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, f := range shards {
		holds, err := bundleHolds(ctx, f, of)
		if err != nil {
			return nil, fmt.Errorf("shard %s: %w", f, err)
		}
		if holds {
			out = append(out, f)
		}
	}
	return out, nil
}

func bundleHolds(ctx context.Context, file string, of func(x *bundleLine) bool) (holds bool, err error) {
	z, err := zip.OpenReader(file)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, z.Close()) }()
	f, err := z.Open(bundleEntries)
	if err != nil {
		return false, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 1<<16), maxBundleLine)
	for lines.Scan() && ctx.Err() == nil {
		x := new(bundleLine)
		if err := streams.Unmarshal(lines.Bytes(), x); err != nil {
			return false, err
		}
		if of(x) && !keptType(x.Type) && (x.Payload != nil || x.Base64 != nil) {
			return true, nil
		}
	}
	return false, errors.Join(lines.Err(), ctx.Err())
}

// Remake writes a shard again (a bundle that Seal wrote), without the payloads that the log can no longer read.
func (l *Log) Remake(ctx context.Context, file string, trust []byte) error {
	z, err := zip.OpenReader(file)
	if err != nil {
		return err
	}
	v := &bundleCheck{files: make(map[string]*zip.File)}
	for _, f := range z.File {
		v.files[f.Name] = f
	}
	m := new(manifest)
	b, err := v.read(bundleManifest)
	if err == nil {
		err = streams.Unmarshal(b, m)
	}
	old, terr := v.read(bundleTrust)
	if err = errors.Join(err, terr, z.Close()); err != nil {
		return err
	}
	if old != nil {
		trust = old
	}
	_, err = l.writeBundle(ctx, file, BundleOptions{From: m.From, To: m.To, Trust: trust})
	return err
}

// Policy returns the text of the active policy at the log's end, or nil if there is none.
func (l *Log) Policy(ctx context.Context) ([]byte, error) {
	all, err := l.bundlesInForce(ctx, l.Size(), l.Size())
	if err != nil {
		return nil, err
	}
	for _, b := range all {
		if b.do == streams.DoActivatePolicy {
			return b.bundle, nil
		}
	}
	return nil, nil
}

// LastBefore returns the sequence of the last entry of the current ledger that is older than t, or 0.
func (l *Log) LastBefore(t time.Time) (uint64, error) { return l.chain.LastBefore(t) }

// Missing returns the number of payloads of ledger entries from < sequence <= to that this log does not
// hold although they were not erased. It checks every other payload against its commitment and returns
// an error for a mismatch.
func (l *Log) Missing(ctx context.Context, from, to uint64) (n int, err error) {
	if to <= from {
		return 0, nil
	}
	last, err := l.chain.FindSeq(to)
	if err != nil {
		return 0, fmt.Errorf("ledger entry %d: %w", to, err)
	}
	for last+1 < l.Size() { // include all entries of the message
		leaf, err := l.chain.Leaf(last + 1)
		if err != nil {
			return 0, err
		}
		if leaf.Kind != chain.KindEntry || position.Sequence(leaf.Seq) != to {
			break
		}
		last++
	}
	first, err := l.chain.FindSeq(from + 1)
	if err != nil {
		return 0, fmt.Errorf("ledger entry %d: %w", from+1, err)
	}
	err = l.Range(ctx, first, last+1, nil, func(e *Entry) error {
		if e.NotHeld {
			n++
		}
		return nil
	})
	return n, err
}
