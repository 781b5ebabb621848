package natsserver

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sync/errgroup"

	"lazaret/pkg/files"
	"lazaret/streams"
)

// nats-server 2.15.2 writes the index of a stream every two minutes and at a regular stop. After a kill, the index
// usually lacks the latest messages. The server then discards the index and rebuilds it, which is slow: it reads each
// block of the stream three times, on one processor (filestore.recoverFullState, recoverMsgs). Therefore freshen adds
// the missing messages to the ledger's index before the server starts. It reads the last block that the index lists and
// all later blocks, each once, on all processors.
//
// For the earlier blocks, the index is in most cases still right. The ledger discards no old messages. In an encrypted
// stream, a deletion leaves the message where it is and writes a record of the deletion, a tombstone, to the last
// block. A purge replaces the index. A compaction does change an earlier block: it removes deleted messages and later
// their tombstones, or both at once if they are in the same block. So freshen also reads the earlier blocks that
// changed since the index was written, and compares them with it.
//
// freshen does not handle these rare cases: an index of another version, and a tombstone or a damaged record that was
// written after the index. Then it changes nothing, and the server rebuilds the index. After a start of the machine it
// changes nothing either, because the blocks on disk may then be older than the index.

// freshen adds to the ledger's index the messages that it lacks. The server must not be running. If freshen fails, the
// old index stays, and the server rebuilds it.
func freshen(store, key string, log *slog.Logger) {
	dirs, err := ledgerDirs(store)
	for _, dir := range dirs {
		err = errors.Join(err, freshenStream(store, dir, key))
	}
	if err != nil {
		log.Debug("nats-server rebuilds the index of the ledger", "err", err)
	}
}

// ledgerDirs returns the folders of the ledgers in a store.
func ledgerDirs(store string) ([]string, error) {
	return files.Glob(store, server.JetStreamStoreDir+"/*/streams/"+streams.LedgerStream)
}

// bootFile returns the path of the file with the id of the machine's boot in which the server last recovered the
// streams of a store. After each start of the machine, the file is written when the server first recovers its streams.
func bootFile(store string) string { return filepath.Join(store, "boot") }

// bootID returns the id of the machine's current boot. It is empty on other systems than Linux, which have no such id.
func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(id)
}

// sameBoot reports whether the server has recovered the streams of a store since the machine started.
func sameBoot(store string) bool {
	id, err := os.ReadFile(bootFile(store))
	return err == nil && string(id) == bootID()
}

// setBoot writes the id of the current boot to bootFile. It must be called after the server has recovered its streams.
// From then on, freshenStream ignores indexes that are older than bootFile. These indexes are not removed: when the
// server rebuilds an index, it reads the last sequence from the old one.
func setBoot(store string) error {
	if bootID() == "" {
		return nil
	}
	return files.Write(bootFile(store), []byte(bootID()), 0o600)
}

// justBefore is longer than the time that nats-server needs to write an index, from reading its state to the end of the
// write.
const justBefore = 10 * time.Second

// freshenStream adds to the index of a stream the messages that it lacks. dir is the stream's folder.
func freshenStream(store, dir, key string) error {
	stream, file := filepath.Base(dir), filepath.Join(dir, "msgs", indexName)
	sealer, err := openStreamKey(dir, key)
	if err != nil {
		return err
	}
	ix := &index{subjects: make(map[string]indexSubject)}
	var written time.Time
	if fi, err := os.Stat(file); err == nil {
		written = fi.ModTime()
		if boot, err := os.Stat(bootFile(store)); err != nil || !written.After(boot.ModTime()) {
			return errors.Join(errors.New("the index may be from before the machine started"), err)
		}
		sealed, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if ix, err = openIndex(sealed, stream, sealer); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	later, err := readLater(dir, key, ix, written.Add(-justBefore))
	if err != nil {
		return err
	}
	sum := ix.sum
	for i := range later {
		if err := ix.add(&later[i]); err != nil {
			return err
		}
	}
	if ix.sum == sum {
		return nil
	}
	if err := ix.check(); err != nil {
		return err
	}
	sealed, err := ix.seal(stream, sealer)
	if err != nil {
		return err
	}
	// The server reads every file in the stream's folder, so the temporary file is outside of it. The file is not
	// synced, because the server discards an index with a wrong checksum.
	tmp := filepath.Join(store, "indexing")
	defer os.Remove(tmp)
	if err := os.WriteFile(tmp, sealed, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, file)
}

// readLater reads the last block that an index lists and all later blocks, and returns the records that the index
// lacks. If the file of an earlier block changed after the time changed, readLater also compares this block with the
// index.
func readLater(dir, key string, ix *index, changed time.Time) ([]laterBlock, error) {
	paths, err := files.Glob(dir, "msgs/*.blk")
	if err != nil {
		return nil, err
	}
	blocks := make(map[uint64]*block, len(paths))
	var later []laterBlock
	for _, f := range paths {
		b, err := openBlock(f, key)
		if err != nil {
			return nil, err
		}
		blocks[b.number] = b
		if n := len(ix.blocks); n == 0 || b.number > ix.blocks[n-1].number {
			later = append(later, laterBlock{number: b.number})
		}
	}
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range ix.blocks {
		k := &ix.blocks[i]
		b := blocks[k.number]
		if b == nil {
			return nil, fmt.Errorf("block %d of the index does not exist", k.number)
		}
		fi, err := os.Stat(b.file)
		if err != nil {
			return nil, err
		}
		if uint64(fi.Size()) < k.bytes {
			return nil, fmt.Errorf("%s is shorter than the messages that the index states", b.file)
		}
		if i == len(ix.blocks)-1 {
			later = append(later, laterBlock{number: k.number})
			continue
		}
		if !fi.ModTime().Before(changed) {
			g.Go(func() error { return b.compare(k) })
		}
	}
	slices.SortFunc(later, func(a, b laterBlock) int { return cmp.Compare(a.number, b.number) })
	for i := range later {
		var after *indexBlock
		if i == 0 && len(ix.blocks) > 0 {
			after = &ix.blocks[len(ix.blocks)-1]
		}
		g.Go(func() error { return blocks[later[i].number].readAfter(after, ix.sum, &later[i]) })
	}
	return later, g.Wait()
}

// compare returns an error if the block does not have exactly the messages that the index lists for it.
func (b *block) compare(k *indexBlock) error {
	buf, err := b.read()
	if err != nil {
		return err
	}
	var t tally
	err = b.each(buf, func(seq uint64, rec []byte) error {
		t.count(k, seq, rec)
		return nil
	})
	if err == nil {
		err = t.check(b, k)
	}
	return err
}

// tally counts the messages of a block that are also listed in the index.
type tally struct{ msgs, bytes uint64 }

func (t *tally) count(k *indexBlock, seq uint64, rec []byte) {
	if seq&(isErased|isTombstone) == 0 && seq >= k.first && seq <= k.last && !k.deleted.Exists(seq) {
		t.msgs++
		t.bytes += uint64(len(rec))
	}
}

// check returns an error if the block does not have exactly the messages that the index lists for it.
func (t *tally) check(b *block, k *indexBlock) error {
	if t.msgs != k.msgs() || t.bytes != k.bytes {
		return fmt.Errorf("%s changed after the index", b.file)
	}
	return nil
}

// laterBlock has those records of a block that the index lacks.
type laterBlock struct {
	number, bytes       uint64
	first, last         uint64
	firstTime, lastTime int64
	subjects            map[string]uint64 // number of messages
	sum                 [checksumSize]byte
}

func (l *laterBlock) msgs() uint64 {
	if l.first == 0 {
		return 0
	}
	return l.last + 1 - l.first
}

// readAfter reads those records of a block that the index lacks. If known is nil, the index lacks the whole block.
// Otherwise, it lacks the records after the one with the checksum last. In this case readAfter also compares the
// earlier records with the index, because a compaction may have removed messages together with their tombstones.
func (b *block) readAfter(known *indexBlock, last [checksumSize]byte, l *laterBlock) error {
	l.subjects = make(map[string]uint64)
	buf, err := b.read()
	if err != nil {
		return err
	}
	var t tally
	found := known == nil
	if err := b.each(buf, func(seq uint64, rec []byte) error {
		sum := rec[len(rec)-checksumSize:]
		if !found {
			t.count(known, seq, rec)
			found = bytes.Equal(sum, last[:])
			return nil
		}
		at := int64(binary.LittleEndian.Uint64(rec[12:]))
		switch {
		case seq == 0 || seq&(isErased|isTombstone) != 0:
			return fmt.Errorf("%s records a deletion that is newer than the index", b.file)
		case l.first == 0:
			l.first, l.firstTime = seq, at
		case seq != l.last+1:
			return fmt.Errorf("%s has no message %d", b.file, l.last+1)
		}
		l.last, l.lastTime = seq, at
		l.bytes += uint64(len(rec))
		l.subjects[string(rec[recordHeader:][:binary.LittleEndian.Uint16(rec[20:])])]++
		l.sum = [checksumSize]byte(sum)
		return nil
	}); err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("%s does not have the last record of the index", b.file)
	}
	if known != nil {
		return t.check(b, known)
	}
	return nil
}

// add adds the records of a block to the index.
func (ix *index) add(l *laterBlock) error {
	n := len(ix.blocks)
	known := n > 0 && ix.blocks[n-1].number == l.number
	switch {
	case known && l.msgs() == 0:
		return nil
	case l.msgs() == 0:
		return fmt.Errorf("block %d has no messages", l.number)
	case n > 0 && (l.first != ix.last+1 || ix.msgs == 0 || ix.blocks[n-1].msgs() == 0):
		return fmt.Errorf("block %d does not continue the index", l.number)
	case known:
		k := &ix.blocks[n-1]
		k.bytes += l.bytes
		k.last, k.lastTime = l.last, l.lastTime
	default:
		ix.blocks = append(ix.blocks, indexBlock{number: l.number, bytes: l.bytes, first: l.first, last: l.last,
			firstTime: l.firstTime, lastTime: l.lastTime})
	}
	if n == 0 {
		ix.first, ix.firstTime = l.first, l.firstTime
	}
	ix.msgs += l.msgs()
	ix.bytes += l.bytes
	ix.last, ix.lastTime, ix.sum = l.last, l.lastTime, l.sum
	for subject, total := range l.subjects {
		s, found := ix.subjects[subject]
		if !found {
			s.first = l.number
		}
		ix.subjects[subject] = indexSubject{s.total + total, s.first, l.number}
	}
	return nil
}

// check returns an error if the totals of the index differ from those of its blocks and subjects.
func (ix *index) check() error {
	msgs, size, bySubject := ix.msgs, ix.bytes, ix.msgs
	for i := range ix.blocks {
		msgs -= ix.blocks[i].msgs()
		size -= ix.blocks[i].bytes
	}
	for _, s := range ix.subjects {
		bySubject -= s.total
	}
	if msgs != 0 || size != 0 || bySubject != 0 {
		return errors.New("the totals of the index differ from those of its blocks or subjects")
	}
	return nil
}
