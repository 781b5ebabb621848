package natsserver

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/minio/highwayhash"
	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/crypto/chacha20"
	"golang.org/x/crypto/chacha20poly1305"

	"lazaret/pkg/files"
)

// nats-server 2.15.2 stores the messages of a stream in block files (server/filestore.go). A record in a block has
// these parts, in little-endian order:
//
//	length (4), sequence (8), time (8), length of the subject (2), subject,
//	and, if hasHeaders is set in the length: length of the headers (4), headers,
//	message, checksum (8)
//
// The checksum is HighwayHash-64 of sequence, time, subject, headers and message. Its key is derived from the stream's
// name and the block's number. A block of an encrypted stream is encrypted from its first byte on with AES-CTR under
// the seed in the block's key file. The key file is encrypted under a key that is derived from the server's key, the
// account, the stream and the block's number.
const (
	recordHeader = 4 + 8 + 8 + 2
	checksumSize = 8
	hasHeaders   = 1 << 31 // flag in the length: the record has headers
	isErased     = 1 << 63 // flag in the sequence: the message is overwritten
	isTombstone  = 1 << 62 // flag in the sequence: the record only says that the message with this sequence was deleted
)

// block is a block file of a stream.
type block struct {
	file   string
	number uint64
	stream string
	stamp  cipherStamp
	hash   [32]byte // key of the records' checksums
}

// cipherStamp has the values with which a block is encrypted. The seed is nil if the stream is not encrypted.
type cipherStamp struct {
	seed, nonce []byte
	raft        bool // the block is of a Raft log, which nats-server always encrypts with ChaCha20
}

// xor encrypts or decrypts a whole block in place.
func (c cipherStamp) xor(b []byte) error {
	if c.seed == nil {
		return nil
	}
	if c.raft {
		k, err := chacha20.NewUnauthenticatedCipher(c.seed, c.nonce)
		if err == nil {
			k.XORKeyStream(b, b)
		}
		return err
	}
	k, err := aes.NewCipher(c.seed)
	if err != nil {
		return err
	}
	cipher.NewCTR(k, c.nonce).XORKeyStream(b, b)
	return nil
}

// raftDir is the name of the folder with the Raft logs of a clustered server. It is in the folder of an account.
const raftDir = "_js_"

// openBlock derives the keys of a block file: ACCOUNT/streams/STREAM/msgs/N.blk, or
// ACCOUNT/_js_/GROUP/msgs/N.blk for a Raft log.
func openBlock(file, storageKey string) (*block, error) {
	dir := filepath.Dir(filepath.Dir(file))
	stream, account := filepath.Base(dir), filepath.Base(filepath.Dir(filepath.Dir(dir)))
	raft := filepath.Base(filepath.Dir(dir)) == raftDir
	if raft {
		account = stream // for a Raft log, the group's name is also used in the place of the account
	}
	name := strings.TrimSuffix(filepath.Base(file), ".blk")
	n, err := strconv.ParseUint(name, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("%s is not named like a block of a stream", file)
	}
	b := &block{file: file, number: n, stream: stream, hash: sha256.Sum256(fmt.Appendf(nil, "%s-%d", stream, n))}
	seed, nonce, err := openKey(strings.TrimSuffix(file, ".blk")+".key",
		sealingKey(storageKey, fmt.Sprintf("%s%s:%d", account, stream, n)), raft)
	if errors.Is(err, fs.ErrNotExist) {
		encrypted, err := exists(filepath.Join(dir, server.JetStreamMetaFileKey))
		if err == nil && encrypted {
			err = fmt.Errorf("%s has no key file", file)
		}
		return b, err
	}
	b.stamp = cipherStamp{seed: seed, nonce: nonce, raft: raft}
	return b, err
}

// openStreamKey returns the cipher that encrypts a stream's index. dir is the stream's folder.
func openStreamKey(dir, storageKey string) (cipher.AEAD, error) {
	stream, account := filepath.Base(dir), filepath.Base(filepath.Dir(filepath.Dir(dir)))
	seed, _, err := openKey(filepath.Join(dir, server.JetStreamMetaFileKey), sealingKey(storageKey, account+stream), false)
	if err != nil {
		return nil, err
	}
	return keyCipher(seed, false)
}

// sealingKey returns the key that encrypts a key file. context is the account and the stream. For the key file of a
// block, it also has ":" and the number of the block.
func sealingKey(storageKey, context string) []byte {
	h := hmac.New(sha256.New, []byte(storageKey))
	h.Write([]byte(context))
	return h.Sum(nil)
}

// openKey decrypts a key file.
func openKey(file string, key []byte, raft bool) (seed, nonce []byte, err error) {
	sealed, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	aead, err := keyCipher(key, raft)
	if err != nil {
		return nil, nil, err
	}
	if len(sealed) < aead.NonceSize() {
		return nil, nil, fmt.Errorf("the key file %s is truncated", file)
	}
	nonce = sealed[:aead.NonceSize()]
	if seed, err = aead.Open(nil, nonce, sealed[aead.NonceSize():], nil); err != nil {
		err = fmt.Errorf("the key file %s cannot be read with the server's key: %w", file, err)
	}
	return seed, nonce, err
}

// keyCipher returns the cipher of a block's key file.
func keyCipher(key []byte, raft bool) (cipher.AEAD, error) {
	if raft {
		return chacha20poly1305.NewX(key)
	}
	k, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithNonceSize(k, aes.BlockSize)
}

// read returns the decrypted content of the block.
func (b *block) read() ([]byte, error) {
	buf, err := os.ReadFile(b.file)
	if err != nil {
		return nil, err
	}
	if err := b.stamp.xor(buf); err != nil {
		return nil, err
	}
	if bytes.HasPrefix(buf, []byte("cmp")) {
		return nil, fmt.Errorf("%s is compressed", b.file)
	}
	return buf, nil
}

// checksum returns the checksum of a record. rec is the record without its last 8 bytes, which store the checksum.
func (b *block) checksum(rec []byte, headers bool) ([]byte, error) {
	h, err := highwayhash.New64(b.hash[:])
	if err != nil {
		return nil, err
	}
	subject := int(binary.LittleEndian.Uint16(rec[20:]))
	h.Write(rec[4:20])
	rest := rec[recordHeader:]
	h.Write(rest[:subject])
	if rest = rest[subject:]; headers {
		rest = rest[4:]
	}
	h.Write(rest)
	return h.Sum(nil), nil
}

// each calls fn for every record of a decrypted block. fn may change the record in place.
func (b *block) each(buf []byte, fn func(seq uint64, rec []byte) error) error {
	for off := 0; off < len(buf); {
		bad := func(what string) error {
			return fmt.Errorf("%s: the record at %d %s: the file is from another version of nats-server, or "+
				"damaged", b.file, off, what)
		}
		if len(buf)-off < recordHeader+checksumSize {
			return bad("is cut off")
		}
		n := binary.LittleEndian.Uint32(buf[off:])
		headers, size := n&hasHeaders != 0, int(n&^hasHeaders)
		least := recordHeader + int(binary.LittleEndian.Uint16(buf[off+20:])) + checksumSize
		if headers {
			least += 4
		}
		if size < least || size > len(buf)-off {
			return bad(fmt.Sprintf("has a length of %d", size))
		}
		rec := buf[off : off+size]
		sum, err := b.checksum(rec[:size-checksumSize], headers)
		if err != nil {
			return err
		}
		if !bytes.Equal(sum, rec[size-checksumSize:]) {
			return bad("has a wrong checksum")
		}
		if err := fn(binary.LittleEndian.Uint64(rec[4:]), rec); err != nil {
			return err
		}
		off += size
	}
	return nil
}

// erase overwrites the record of a deleted message with random bytes. nats-server does the same, but only in an
// unencrypted stream. The length of the record does not change, so that the offsets of the other records stay the same.
func (b *block) erase(seq uint64, rec []byte) error {
	binary.LittleEndian.PutUint32(rec, uint32(len(rec)))
	binary.LittleEndian.PutUint64(rec[4:], seq|isErased)
	binary.LittleEndian.PutUint16(rec[20:], 0)
	end := len(rec) - checksumSize
	rand.Read(rec[recordHeader:end])
	sum, err := b.checksum(rec[:end], false)
	copy(rec[end:], sum)
	return err
}

// blockFiles returns the block files of all streams that have this name, in the store of a server.
func blockFiles(store, stream string) ([]string, error) {
	return files.Glob(store, server.JetStreamStoreDir+"/*/streams/"+stream+"/msgs/*.blk")
}

// ReadBlocks calls fn with the decrypted content of each block file in a server's store: those of its streams and of
// its Raft logs. If store is empty, it reads the store in the data folder. It needs only the files of the store and the
// keys in the data folder. The server may run meanwhile.
func ReadBlocks(data, store string, fn func(file string, content []byte) error) error {
	key, err := Secret(data, storageKey)
	if err != nil {
		return err
	}
	if store == "" {
		store = storeDir(data)
	}
	blocks, err := blockFiles(store, "*")
	if err != nil {
		return err
	}
	logs, err := files.Glob(store, server.JetStreamStoreDir+"/*/"+raftDir+"/*/msgs/*.blk")
	if err != nil {
		return err
	}
	for _, f := range append(blocks, logs...) {
		b, err := openBlock(f, key)
		var buf []byte
		if err == nil {
			buf, err = b.read()
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // the server has removed it
		}
		if err != nil {
			return err
		}
		if err := fn(f, buf); err != nil {
			return err
		}
	}
	return nil
}
