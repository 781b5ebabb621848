package natsserver

import (
	"bytes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/minio/highwayhash"
	"github.com/nats-io/nats-server/v2/server/avl"
)

// indexName is the name of the index file that nats-server writes for a stream. The file is in the folder of the
// stream's blocks.
const indexName = "index.db"

const (
	indexMagic   = 11
	indexVersion = 4
)

// index is the decoded content of a stream's index file, as nats-server 2.15.2 writes it
// (filestore._writeFullState). Times are in nanoseconds.
type index struct {
	msgs, bytes         uint64
	first, last         uint64
	firstTime, lastTime int64
	subjects            map[string]indexSubject
	blocks              []indexBlock
	sum                 [checksumSize]byte // checksum of the last record in the last block that the index lists
}

// indexSubject has the number of messages with a subject, and the numbers of the first and the last block that contain
// one.
type indexSubject struct {
	total, first, last uint64
}

// indexBlock lists the messages of a block: those with the sequences from first to last, without the deleted ones.
type indexBlock struct {
	number, bytes       uint64
	first, last         uint64
	firstTime, lastTime int64
	deleted             avl.SequenceSet
}

func (b *indexBlock) msgs() uint64 { return b.last + 1 - b.first - uint64(b.deleted.Size()) }

// openIndex checks and decodes an index file.
func openIndex(file []byte, stream string, key cipher.AEAD) (*index, error) {
	size := len(file) - checksumSize
	if size < key.NonceSize() {
		return nil, errors.New("the index is cut off")
	}
	sum, err := indexChecksum(file[:size], stream)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(sum, file[size:]) {
		return nil, errors.New("the index has a wrong checksum")
	}
	plain, err := key.Open(nil, file[:key.NonceSize()], file[key.NonceSize():size], nil)
	if err != nil {
		return nil, fmt.Errorf("the index is encrypted with another key: %w", err)
	}
	if len(plain) < 2 || plain[0] != indexMagic || plain[1] != indexVersion {
		return nil, errors.New("the index is from another version of nats-server")
	}
	return decodeIndex(plain[2:])
}

func indexChecksum(sealed []byte, stream string) ([]byte, error) {
	key := sha256.Sum256([]byte(stream))
	h, err := highwayhash.New64(key[:])
	if err != nil {
		return nil, err
	}
	h.Write(sealed)
	return h.Sum(nil), nil
}

// indexReader decodes an index. After an error, bad is set and its methods return zero values.
type indexReader struct {
	rest []byte
	bad  bool
}

func (r *indexReader) take(n int) []byte {
	if r.bad = r.bad || n <= 0 || n > len(r.rest); r.bad {
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *indexReader) uint() uint64 {
	v, n := binary.Uvarint(r.rest)
	r.take(n)
	return v
}

func (r *indexReader) int() int64 {
	v, n := binary.Varint(r.rest)
	r.take(n)
	return v
}

func decodeIndex(plain []byte) (*index, error) {
	r := &indexReader{rest: plain}
	ix := &index{msgs: r.uint(), bytes: r.uint(), first: r.uint(), firstTime: r.int(), last: r.uint(), lastTime: r.int(),
		subjects: make(map[string]indexSubject)}
	for n := r.uint(); n > 0 && !r.bad; n-- {
		subject := string(r.take(int(min(r.uint(), 1<<16))))
		ix.subjects[subject] = indexSubject{r.uint(), r.uint(), r.uint()}
	}
	for n := r.uint(); n > 0 && !r.bad; n-- {
		b := indexBlock{number: r.uint(), bytes: r.uint(), first: r.uint(), firstTime: r.int() + ix.firstTime,
			last: r.uint(), lastTime: r.int() + ix.firstTime}
		deleted, timed, scheduled := r.uint(), r.uint(), r.uint()
		if timed != 0 || scheduled != 0 {
			return nil, fmt.Errorf("block %d has messages that expire or are scheduled", b.number)
		}
		if deleted > 0 {
			set, n, err := avl.Decode(r.rest)
			if err != nil {
				return nil, fmt.Errorf("the deleted messages of block %d: %w", b.number, err)
			}
			r.take(n)
			b.deleted = *set
		}
		ix.blocks = append(ix.blocks, b)
	}
	number := r.uint()
	copy(ix.sum[:], r.take(checksumSize))
	if r.bad || len(r.rest) > 0 || len(ix.blocks) == 0 || ix.blocks[len(ix.blocks)-1].number != number {
		return nil, errors.New("the index cannot be decoded")
	}
	return ix, nil
}

// seal encodes and encrypts an index file.
func (ix *index) seal(stream string, key cipher.AEAD) ([]byte, error) {
	b := []byte{indexMagic, indexVersion}
	uint := func(of ...uint64) {
		for _, v := range of {
			b = binary.AppendUvarint(b, v)
		}
	}
	uint(ix.msgs, ix.bytes, ix.first)
	b = binary.AppendVarint(b, ix.firstTime)
	uint(ix.last)
	b = binary.AppendVarint(b, ix.lastTime)
	uint(uint64(len(ix.subjects)))
	for _, subject := range slices.Sorted(maps.Keys(ix.subjects)) {
		s := ix.subjects[subject]
		uint(uint64(len(subject)))
		b = append(b, subject...)
		uint(s.total, s.first, s.last)
	}
	uint(uint64(len(ix.blocks)))
	for i := range ix.blocks {
		k := &ix.blocks[i]
		uint(k.number, k.bytes, k.first)
		b = binary.AppendVarint(b, k.firstTime-ix.firstTime)
		uint(k.last)
		b = binary.AppendVarint(b, k.lastTime-ix.firstTime)
		uint(uint64(k.deleted.Size()), 0, 0)
		if !k.deleted.IsEmpty() {
			b = append(b, k.deleted.Encode(nil)...)
		}
	}
	uint(ix.blocks[len(ix.blocks)-1].number)
	b = append(b, ix.sum[:]...)
	nonce := make([]byte, key.NonceSize())
	rand.Read(nonce)
	sealed := key.Seal(nonce, nonce, b, nil)
	sum, err := indexChecksum(sealed, stream)
	return append(sealed, sum...), err
}
