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

// vault encrypts payloads, each under a key of its data subject. The master key encrypts these keys. If a subject's key
// was destroyed and a new payload comes for the subject, the subject gets a new key with the next generation number.
type vault struct {
	master cipher.AEAD
	epoch  [4]byte // random for each opening

	keys map[string]subjectKey // guarded by Log.appending
}

// subjectKey is a key of a data subject.
type subjectKey struct {
	aead       cipher.AEAD
	generation uint32 // from 1
}

const maxCachedKeys = 4096

// ErrForgotten reports that a payload was erased, or its key destroyed.
var ErrForgotten = errors.New("the payload was forgotten")

// errErased reports that a single payload was erased. The beginning of an erased payload's record remains. If an
// attacker removes a record, nothing remains, so it is not taken for an erased one.
var errErased = fmt.Errorf("it was erased: %w", ErrForgotten)

// ErrNoKey reports that a payload cannot be read because the log was opened without its master key.
var ErrNoKey = errors.New("the log was opened without the key that decrypts it")

// newVault returns a vault. If without is set, master may be nil. The vault then decrypts no payload.
func newVault(master []byte, without bool) (*vault, error) {
	if master == nil && without {
		return new(vault), nil
	}
	if len(master) != 32 {
		return nil, fmt.Errorf("the master key is %d bytes, want 32", len(master))
	}
	a, err := aead(master)
	if err != nil {
		return nil, err
	}
	v := &vault{master: a, keys: make(map[string]subjectKey)}
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

// subjectPrefix returns the prefix that all records with keys of a data subject have.
func subjectPrefix(subject string) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{spaceKey}, uint16(len(subject))), subject...)
}

func subjectRecord(subject string, generation uint32) []byte {
	return binary.BigEndian.AppendUint32(subjectPrefix(subject), generation)
}

// errNoKey reports that a subject never had a key.
var errNoKey = errors.New("there is no key for this data subject, and no record that it was destroyed")

// open returns the key of a data subject with the given generation. A key that was destroyed leaves an empty record. If
// there is no record at all, open returns errNoKey, because the record was removed or the payload's subject was
// altered.
func (v *vault) open(r pebble.Reader, subject string, generation uint32) (cipher.AEAD, error) {
	k := subjectRecord(subject, generation)
	wrapped, c, err := r.Get(k)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, errNoKey
	}
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return v.unwrap(k, wrapped, subject)
}

func (v *vault) unwrap(k, wrapped []byte, subject string) (cipher.AEAD, error) {
	if len(wrapped) == 0 {
		return nil, ErrForgotten
	}
	if v.master == nil {
		return nil, ErrNoKey
	}
	n := v.master.NonceSize()
	if len(wrapped) < n {
		return nil, fmt.Errorf("the key of data subject %q is truncated", subject)
	}
	key, err := v.master.Open(nil, wrapped[:n], wrapped[n:], k)
	if err != nil {
		return nil, fmt.Errorf("the key of data subject %q cannot be decrypted with this master key", subject)
	}
	return aead(key)
}

// key returns the data subject's current key. If there is none, it creates one and adds it to the batch.
func (v *vault) key(b *pebble.Batch, db *pebble.DB, subject string) (subjectKey, error) {
	if k, ok := v.keys[subject]; ok {
		return k, nil
	}
	k, err := v.newest(db, subject)
	if err != nil {
		return k, err
	}
	if k.aead == nil {
		if k, err = v.create(b, subject, k.generation+1); err != nil {
			return k, err
		}
	}
	v.keys[subject] = k
	return k, nil
}

// create creates a data subject's key of the given generation and adds it to the batch.
func (v *vault) create(b *pebble.Batch, subject string, generation uint32) (k subjectKey, err error) {
	raw := make([]byte, 32)
	rand.Read(raw)
	nonce := make([]byte, v.master.NonceSize())
	rand.Read(nonce)
	record := subjectRecord(subject, generation)
	if err := b.Set(record, v.master.Seal(nonce, nonce, raw, record), nil); err != nil {
		return k, err
	}
	k.generation = generation
	k.aead, err = aead(raw)
	return k, err
}

// limit limits the number of cached keys. Call it only between two batches: until a batch is
// applied, its new keys are only in this cache, and creating another key for the same subject would
// overwrite them.
func (v *vault) limit() {
	if len(v.keys) >= maxCachedKeys {
		clear(v.keys)
	}
}

// newest returns the data subject's key of the last generation. If that key was destroyed, or if there is none, aead is
// nil.
func (v *vault) newest(r pebble.Reader, subject string) (k subjectKey, err error) {
	prefix := subjectPrefix(subject)
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix,
		UpperBound: binary.BigEndian.AppendUint64(subjectPrefix(subject), 1<<64-1)})
	if err != nil {
		return k, err
	}
	if it.Last() && len(it.Key()) == len(prefix)+4 {
		k.generation = binary.BigEndian.Uint32(it.Key()[len(prefix):])
		if k.aead, err = v.unwrap(it.Key(), it.Value(), subject); errors.Is(err, ErrForgotten) {
			err = nil
		}
	}
	return k, errors.Join(err, it.Error(), it.Close())
}

// DestroyKeys durably destroys every key that encrypts payloads of a data subject, and returns the number of keys.
// Reading one of these payloads then fails with ErrForgotten. All proofs stay valid. The log can no longer read the
// destroyed keys, but Pebble's files contain them, encrypted with the master key, until Erase is called.
//
// The payloads of the leaves in stay are kept, under a new key of their own.
//
// DestroyKeys does not record its reason in the log. Append an entry that states it, before or after the call. Verify
// accepts the missing payloads if VerifyOptions.Lawful finds that entry.
func (l *Log) DestroyKeys(subject string, stay ...int64) (int, error) {
	l.appending.Lock()
	defer l.appending.Unlock()
	k, err := l.vault.newest(l.db, subject)
	if err != nil {
		return 0, fmt.Errorf("looking for the keys of data subject %q: %w", subject, err)
	}
	b := l.db.NewBatch()
	defer b.Close()
	alone, err := l.rekey(b, subject, k, stay)
	if err != nil {
		return 0, fmt.Errorf("storing %d payloads of data subject %q: %w", len(stay), subject, err)
	}
	n := 0
	for g := uint32(1); g <= k.generation; g++ {
		if alone && g == k.generation {
			break // an earlier, interrupted call made this key for the payloads in stay
		}
		record := subjectRecord(subject, g)
		v, c, err := l.db.Get(record)
		if err != nil {
			return 0, fmt.Errorf("reading key %d of data subject %q: %w", g, subject, err)
		}
		if len(v) > 0 {
			n++
		}
		if err := errors.Join(c.Close(), b.Set(record, nil, nil)); err != nil {
			return 0, err
		}
	}
	if n > 0 {
		if err := b.Commit(pebble.Sync); err != nil {
			return 0, fmt.Errorf("destroying the keys of data subject %q: %w", subject, err)
		}
	}
	delete(l.vault.keys, subject)
	return n, nil
}

// rekey encrypts the payloads in stay under a new key. If the newest key encrypts exactly the payloads in stay, rekey
// changes nothing and returns true. That happens if an earlier call of DestroyKeys was interrupted after rekey.
func (l *Log) rekey(b *pebble.Batch, subject string, newest subjectKey, stay []int64) (alone bool, err error) {
	if len(stay) == 0 || newest.aead == nil {
		return false, nil
	}
	under := 0 // number of payloads under the newest key
	it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: []byte{spacePayload}, UpperBound: []byte{spacePayload + 1}})
	if err != nil {
		return false, err
	}
	for ok := it.First(); ok && under <= len(stay); ok = it.Next() {
		of, generation, box, err := splitRecord(it.Value())
		if err == nil && string(of) == subject && generation == newest.generation && len(box) > 0 {
			under++
		}
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return false, err
	}
	type kept struct {
		index   int64
		salt    [16]byte
		payload []byte
	}
	var all []kept
	alone = under == len(stay)
	for _, i := range stay {
		k := indexKey(spacePayload, i)
		rec, c, err := l.db.Get(k[:])
		if err != nil {
			return false, err
		}
		of, generation, _, err := splitRecord(rec)
		alone = alone && generation == newest.generation
		same := string(of) == subject
		if err := errors.Join(err, c.Close()); err != nil || !same {
			return false, errors.Join(err, fmt.Errorf("the payload of leaf %d is not encrypted with a key of the subject", i))
		}
		x := kept{index: i}
		if x.salt, x.payload, err = l.Salted(i); err != nil {
			return false, err
		}
		all = append(all, x)
	}
	if alone {
		return true, nil
	}
	next, err := l.vault.create(b, subject, newest.generation+1)
	if err != nil {
		return false, err
	}
	for _, x := range all {
		_, d := l.vault.draft(nil, next, subject, x.index, x.salt, x.payload)
		k := indexKey(spacePayload, x.index)
		if err := b.Set(k[:], d.seal(next), nil); err != nil {
			return false, err
		}
	}
	return false, nil
}

// A payload record is: length of the subject (2 bytes), subject, generation of the key (4), nonce (12), AES-256-GCM of
// salt ‖ payload with the leaf's index as additional data.
//
// The nonce has 4 random bytes, which are new each time the log is opened, and the index in 8 bytes. After a crash, a
// record with the same index may be written again, but not with the same nonce.
//
// draft appends a record that is not encrypted yet, with room for the authentication tag.
func (v *vault) draft(dst []byte, k subjectKey, subject string, index int64, salt [16]byte, payload []byte) ([]byte,
	draft) {
	from := len(dst)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(subject)))
	dst = append(dst, subject...)
	dst = binary.BigEndian.AppendUint32(dst, k.generation)
	dst = append(dst, v.epoch[:]...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(index))
	at := len(dst) - from
	dst = append(append(dst, salt[:]...), payload...)
	plain := len(dst) - from
	dst = append(dst, make([]byte, k.aead.Overhead())...)
	return dst, draft{record: dst[from:], at: at, plain: plain}
}

// draft is a payload record that is not encrypted yet. record[at:plain] is the part to encrypt, salt ‖ payload.
type draft struct {
	record    []byte
	at, plain int
}

func (d *draft) salted() []byte { return d.record[d.at:d.plain] }

// seal encrypts the record.
func (d *draft) seal(k subjectKey) []byte {
	r, at := d.record, d.at
	return k.aead.Seal(r[:at], r[at-12:at], r[at:d.plain], r[at-8:at])
}

// recordSize returns the size in bytes of a record for a payload of the given size.
func recordSize(subject string, payload int) int {
	return 2 + len(subject) + 4 + 12 + 16 + payload + 16
}

// splitRecord splits a payload record into its parts.
func splitRecord(rec []byte) (subject []byte, generation uint32, box []byte, err error) {
	if len(rec) < 2 {
		return nil, 0, nil, errors.New("the payload record is truncated")
	}
	n := 2 + int(binary.BigEndian.Uint16(rec))
	if len(rec) < n+4 {
		return nil, 0, nil, errors.New("the payload record is truncated")
	}
	return rec[2:n], binary.BigEndian.Uint32(rec[n:]), rec[n+4:], nil
}

var errAltered = errors.New("the payload record was altered: it does not decrypt")

// unseal decrypts box, which is from splitRecord, and appends the result to dst. It returns salt ‖ payload. ad is the
// leaf's index in bytes, the additional data of the encryption.
func unseal(dst []byte, a cipher.AEAD, ad, box []byte) ([]byte, error) {
	if len(box) < 12 {
		return nil, errAltered
	}
	plain, err := a.Open(dst, box[:12], box[12:], ad)
	if err != nil || len(plain) < 16 {
		return nil, errAltered
	}
	return plain, nil
}
