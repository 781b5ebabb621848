package chain

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// vault encrypts payloads, each under the key of its data subject. Keys are
// wrapped by the master key.
type vault struct {
	master cipher.AEAD

	// Owned by the appender.
	keys  map[string]cipher.AEAD
	epoch [4]byte
}

const maxCachedKeys = 4096

// ErrForgotten says that a payload's key was destroyed.
var ErrForgotten = errors.New("the payload was forgotten: its key is destroyed")

func newVault(master []byte) (*vault, error) {
	if len(master) != 32 {
		return nil, fmt.Errorf("the master key is %d bytes, want 32", len(master))
	}
	a, err := aead(master)
	if err != nil {
		return nil, err
	}
	v := &vault{master: a, keys: make(map[string]cipher.AEAD)}
	rand.Read(v.epoch[:])
	return v, nil
}

func aead(key []byte) (cipher.AEAD, error) {
	b, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(b)
}

func subjectKey(subject string) []byte { return append([]byte{spaceKey}, subject...) }

// errNoKey says that a subject never had a key.
var errNoKey = errors.New("there is no key for this data subject, nor a sign that it was destroyed")

// open returns the subject's key. A key that was destroyed leaves an empty
// record behind, so that a payload whose subject was altered does not pass for
// a forgotten one.
func (v *vault) open(r pebble.Reader, subject string) (cipher.AEAD, error) {
	wrapped, c, err := r.Get(subjectKey(subject))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, errNoKey
	}
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if len(wrapped) == 0 {
		return nil, ErrForgotten
	}
	n := v.master.NonceSize()
	if len(wrapped) < n {
		return nil, fmt.Errorf("the key of subject %q is cut short", subject)
	}
	key, err := v.master.Open(nil, wrapped[:n], wrapped[n:], subjectKey(subject))
	if err != nil {
		return nil, fmt.Errorf("the key of subject %q does not open with this master key", subject)
	}
	return aead(key)
}

// key returns the subject's key, making it if there is none. A new one is
// written with the batch.
func (v *vault) key(b *pebble.Batch, db *pebble.DB, subject string) (cipher.AEAD, error) {
	if a, ok := v.keys[subject]; ok {
		return a, nil
	}
	a, err := v.open(db, subject)
	if errors.Is(err, errNoKey) || errors.Is(err, ErrForgotten) {
		// What is said about a subject after it was forgotten is new.
		raw := make([]byte, 32)
		rand.Read(raw)
		nonce := make([]byte, v.master.NonceSize())
		rand.Read(nonce)
		if err := b.Set(subjectKey(subject), v.master.Seal(nonce, nonce, raw, subjectKey(subject)), nil); err != nil {
			return nil, err
		}
		a, err = aead(raw)
	}
	if err != nil {
		return nil, err
	}
	if len(v.keys) >= maxCachedKeys {
		clear(v.keys)
	}
	v.keys[subject] = a
	return a, nil
}

// A payload record is: length of the subject (2 bytes), subject, nonce (12),
// AES-256-GCM of salt ‖ payload with the leaf's index as additional data.
//
// The nonce is drawn anew for each opening of the log (4 bytes) and counts by
// the index (8): a crash can make an index be written twice, but never under
// one nonce.
func (v *vault) seal(dst []byte, a cipher.AEAD, subject string, index int64, salt [16]byte, payload, scratch []byte) (record, scratch2 []byte) {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(subject)))
	dst = append(dst, subject...)
	at := len(dst)
	dst = append(dst, v.epoch[:]...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(index))
	scratch = append(append(scratch[:0], salt[:]...), payload...)
	return a.Seal(dst, dst[at:at+12], scratch, dst[at+4:at+12]), scratch
}

// splitRecord cuts a payload record.
func splitRecord(rec []byte) (subject string, box []byte, err error) {
	if len(rec) < 2 {
		return "", nil, errors.New("the payload record is cut short")
	}
	n := int(binary.BigEndian.Uint16(rec))
	if len(rec) < 2+n {
		return "", nil, errors.New("the payload record is cut short")
	}
	return string(rec[2 : 2+n]), rec[2+n:], nil
}

// unseal opens what splitRecord cut off.
func unseal(a cipher.AEAD, index int64, box []byte) (salt [16]byte, payload []byte, err error) {
	altered := errors.New("the payload record was altered: it does not decrypt")
	if len(box) < 12 {
		return salt, nil, altered
	}
	plain, err := a.Open(nil, box[:12], box[12:], binary.BigEndian.AppendUint64(nil, uint64(index)))
	if err != nil || len(plain) < len(salt) {
		return salt, nil, altered
	}
	copy(salt[:], plain)
	return salt, plain[len(salt):], nil
}
