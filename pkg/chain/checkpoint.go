package chain

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Checkpoint signs the head, stores the checkpoint and returns it: a C2SP signed note over origin, size, root and the
// checkpoints stored before. It returns an error if the log was opened without a signer. If the head was already
// signed, Checkpoint returns the stored checkpoint, with the cosignatures that were added since.
func (l *Log) Checkpoint() ([]byte, error) {
	l.signing.Lock()
	defer l.signing.Unlock()
	if l.opts.Signer == nil {
		return nil, errors.New("this log has no signer")
	}
	h := l.Head()
	if cp, err := ParseCheckpoint(h.Checkpoint); err == nil && cp.Size == h.Size && cp.Root == h.Root &&
		cp.by(l.opts.Signer) {
		return h.Checkpoint, nil // the stored note may have cosignatures
	}
	kept, err := readHistory(l.db)
	if err != nil {
		return nil, err
	}
	cp, err := note.Sign(&note.Note{Text: checkpointText(l.opts.Origin, h.Size, h.Root) + kept.line()}, l.opts.Signer)
	if err != nil {
		return nil, fmt.Errorf("signing a checkpoint of size %d: %w", h.Size, err)
	}
	return cp, l.keep(h.Size, cp)
}

// keep stores a checkpoint of the given size. The caller must hold l.signing.
func (l *Log) keep(size int64, cp []byte) error {
	if err := l.record(key8(spaceCheckpoint, uint64(size)), cp); err != nil {
		return fmt.Errorf("storing a checkpoint of size %d: %w", size, err)
	}
	last := true
	if have, err := ParseCheckpoint(l.Head().Checkpoint); err == nil {
		last = have.Size <= size
	}
	if !last {
		return nil
	}
	if err := writeFile(l.fs, l.dir, HeadFile, cp); err != nil {
		return fmt.Errorf("storing a checkpoint of size %d: %w", size, err)
	}
	l.mu.Lock()
	l.head.Checkpoint = cp
	l.mu.Unlock()
	return nil
}

// Cosigned stores cosignatures of one of this log's own checkpoints. cp is the whole note with the
// cosignatures. The caller must have verified them.
func (l *Log) Cosigned(cp []byte) error {
	l.signing.Lock()
	defer l.signing.Unlock()
	c, err := ParseCheckpoint(cp)
	if err != nil {
		return err
	}
	k := key8(spaceCheckpoint, uint64(c.Size))
	have, closer, err := l.db.Get(k)
	if err != nil {
		return fmt.Errorf("the checkpoint of size %d is not one of this log: %w", c.Size, err)
	}
	same := bytes.HasPrefix(cp, have)
	if err := closer.Close(); err != nil {
		return err
	}
	if !same {
		return fmt.Errorf("the checkpoint of size %d is not this log's checkpoint with added signatures", c.Size)
	}
	return l.keep(c.Size, cp)
}

// A Checkpoint is a signed head of a log.
type Checkpoint struct {
	Origin    string
	Size      int64
	Root      tlog.Hash
	Extension string // extension lines, each with its line break
	Note      []byte // the signed note
}

// ParseCheckpoint parses a checkpoint without verifying its signatures.
func ParseCheckpoint(b []byte) (c Checkpoint, err error) {
	i := bytes.Index(b, []byte("\n\n"))
	if i < 0 {
		return c, errors.New("it is not a signed note")
	}
	return parseCheckpoint(string(b[:i+1]), b)
}

// OpenCheckpoint parses a checkpoint and verifies that one of the verifiers' keys signed it. A verifier may have a
// method ReplacedAt() int64. Its key was then replaced when the log had that many leaves, and a signature of the key on
// a larger tree does not count.
func OpenCheckpoint(b []byte, vs note.Verifiers) (c Checkpoint, err error) {
	n, err := note.Open(b, vs)
	if err != nil {
		return c, err
	}
	if c, err = strict(n, b); err != nil {
		return c, err
	}
	return c, inPeriod(c.Size, n.Sigs, func(id keyID) (int64, bool) { return replacedAt(vs, id) })
}

// replacedAt returns the number of leaves that the log had when the key id was replaced. The bool is false if the key
// was not replaced.
func replacedAt(vs note.Verifiers, id keyID) (int64, bool) {
	if vs == nil {
		return 0, false
	}
	v, err := vs.Verifier(id.name, id.hash)
	if err != nil {
		return 0, false
	}
	r, ok := v.(interface{ ReplacedAt() int64 })
	if !ok {
		return 0, false
	}
	return r.ReplacedAt(), true
}

// inPeriod returns an error if every key that signed a checkpoint of this size was replaced when the log was smaller.
func inPeriod(size int64, sigs []note.Signature, replaced func(keyID) (int64, bool)) (err error) {
	for _, s := range sigs {
		at, ok := replaced(keyID{s.Name, s.Hash})
		if !ok || size <= at {
			return nil
		}
		err = fmt.Errorf("its key %s was replaced at size %d: it signs trees of at most %d leaves, and this tree has %d",
			KeyID(s.Name, s.Hash), at, at, size)
	}
	return err
}

func strict(n *note.Note, b []byte) (c Checkpoint, err error) {
	for _, sig := range n.Sigs {
		// The last character of a base64 text has unused bits. They must be zero, so that each signature has only one
		// encoding.
		if _, err := base64.StdEncoding.Strict().DecodeString(sig.Base64); err != nil {
			return c, fmt.Errorf("its signature by %s is not in canonical form", sig.Name)
		}
	}
	return parseCheckpoint(n.Text, b)
}

func parseCheckpoint(text string, b []byte) (c Checkpoint, err error) {
	lines := strings.SplitN(text, "\n", 4)
	if len(lines) < 4 || lines[0] == "" {
		return c, errors.New("it is not a checkpoint: it needs at least three lines")
	}
	c.Origin, c.Extension, c.Note = lines[0], lines[3], b
	if c.Size, err = parseSize(lines[1]); err != nil {
		return c, err
	}
	root, err := base64.StdEncoding.Strict().DecodeString(lines[2])
	if err != nil || len(root) != len(c.Root) {
		return c, errors.New("its root is not 32 bytes of base64")
	}
	copy(c.Root[:], root)
	return c, nil
}

// parseSize parses the number of leaves of a tree. It accepts only the canonical decimal form.
func parseSize(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != s {
		return 0, fmt.Errorf("%q is not the size of a tree", s)
	}
	return n, nil
}

func checkpointText(origin string, size int64, root tlog.Hash) string {
	return fmt.Sprintf("%s\n%d\n%s\n", origin, size, base64.StdEncoding.EncodeToString(root[:]))
}

// by reports whether the checkpoint's note has a signature line of the signer's key. It does not verify the signature.
func (c *Checkpoint) by(s note.Signer) bool { return c.line(s.Name(), s.KeyHash()) }

func (c *Checkpoint) line(name string, hash uint32) bool {
	for _, k := range c.signers() {
		if k.name == name && k.hash == hash {
			return true
		}
	}
	return false
}

// keyID is the name and the hash of a key. A signature line names a key by them.
type keyID struct {
	name string
	hash uint32
}

// signers returns the keys that a checkpoint's signature lines name.
func (c *Checkpoint) signers() []keyID {
	_, sigs, _ := bytes.Cut(c.Note, []byte("\n\n"))
	var out []keyID
	for line := range strings.Lines(string(sigs)) {
		name, b64, ok := strings.Cut(strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "— "), " ")
		sig, err := base64.StdEncoding.DecodeString(b64)
		if ok && err == nil && len(sig) >= 4 {
			out = append(out, keyID{name, binary.BigEndian.Uint32(sig)})
		}
	}
	return out
}

// nextKey is the beginning of the extension line by which a handover names the new key.
const nextKey = "lazaret-next-key "

// Handover changes the key that signs the log. The old key and the new key both sign the head together with the new
// public key, and the log stores this note. So a reader who trusts the old key can also trust the new one. After the
// handover, a checkpoint that only the old key signed is invalid. vkey is the public key of next.
//
// The note is stored beside the tree, not in it, because replicas have the same tree but their own keys.
func (l *Log) Handover(next note.Signer, vkey string) ([]byte, error) {
	l.appending.Lock()
	defer l.appending.Unlock()
	l.signing.Lock()
	defer l.signing.Unlock()
	if l.opts.Signer == nil {
		return nil, errors.New("this log has no signer")
	}
	v, err := note.NewVerifier(vkey)
	if err != nil {
		return nil, fmt.Errorf("the new public key: %w", err)
	}
	if v.KeyHash() != next.KeyHash() || v.Name() != next.Name() {
		return nil, fmt.Errorf("the new public key is of %s, the new signer is %s", v.Name(), next.Name())
	}
	if next.KeyHash() == l.opts.Signer.KeyHash() && next.Name() == l.opts.Signer.Name() {
		return nil, errors.New("the new key is the old one")
	}
	h := l.Head()
	text := checkpointText(l.opts.Origin, h.Size, h.Root) + nextKey + vkey + "\n"
	msg, err := note.Sign(&note.Note{Text: text}, l.opts.Signer, next)
	if err != nil {
		return nil, fmt.Errorf("signing a handover at size %d: %w", h.Size, err)
	}
	n, err := l.Handovers()
	if err != nil {
		return nil, err
	}
	if err := l.record(key8(spaceHandover, uint64(len(n))), msg); err != nil {
		return nil, fmt.Errorf("storing a handover at size %d: %w", h.Size, err)
	}
	l.opts.Signer = next
	return msg, nil
}

// Handovers returns the notes of all changes of the signing key, oldest first.
func (l *Log) Handovers() ([][]byte, error) {
	var out [][]byte
	it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: []byte{spaceHandover}, UpperBound: []byte{spaceHandover + 1}})
	if err != nil {
		return nil, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		out = append(out, bytes.Clone(it.Value()))
	}
	return out, errors.Join(it.Error(), it.Close())
}

// keyring has the keys that may sign a log's checkpoints. For each replaced key, it has the number of leaves up to
// which the key may sign.
type keyring struct {
	trusted note.Verifiers
	more    []note.Verifier
	retired map[keyID]int64
}

// Verifier implements note.Verifiers.
func (k *keyring) Verifier(name string, hash uint32) (note.Verifier, error) {
	for _, v := range k.more {
		if v.Name() == name && v.KeyHash() == hash {
			return v, nil
		}
	}
	return k.trusted.Verifier(name, hash)
}

// replacedAt returns the number of leaves at which a key was replaced. It knows that from a handover or from the pin of
// the key.
func (k *keyring) replacedAt(id keyID) (int64, bool) {
	at, ok := k.retired[id]
	if pinned, is := replacedAt(k.trusted, id); is && (!ok || pinned < at) {
		return pinned, true
	}
	return at, ok
}

// handover adds to the keyring the new key that a handover's note names.
func (k *keyring) handover(b []byte) (c Checkpoint, err error) {
	n, err := note.Open(b, k)
	if err != nil {
		return c, err
	}
	if c, err = OpenCheckpoint(b, k); err != nil {
		return c, err
	}
	vkey, ok := strings.CutPrefix(c.Extension, nextKey)
	if !ok || !strings.HasSuffix(vkey, "\n") {
		return c, errors.New("it names no new key")
	}
	v, err := note.NewVerifier(strings.TrimSuffix(vkey, "\n"))
	if err != nil {
		return c, fmt.Errorf("its new key: %w", err)
	}
	id := keyID{v.Name(), v.KeyHash()}
	if _, err := note.Open(b, note.VerifierList(v)); err != nil {
		return c, fmt.Errorf("the new key did not sign it: %w", err)
	}
	old := 0
	for _, s := range n.Sigs {
		from := keyID{s.Name, s.Hash}
		if from == id {
			continue
		}
		if at, ok := k.retired[from]; ok && c.Size >= at {
			return c, fmt.Errorf("the key of %s that signed it was itself replaced at size %d", s.Name, at)
		}
		if at, ok := replacedAt(k.trusted, from); ok && c.Size > at {
			return c, fmt.Errorf("the key of %s that signed it was itself replaced at size %d", s.Name, at)
		}
		k.retired[from] = c.Size
		old++
	}
	if old == 0 {
		return c, errors.New("the handover has no signature of a key that was already trusted")
	}
	k.more = append(k.more, v)
	return c, nil
}

// KeyID returns a key's name and its hash in hex, as in signatures.
func KeyID(name string, hash uint32) string { return fmt.Sprintf("%s+%08x", name, hash) }

// Replaced returns the old keys that a handover replaced, and the new key that its note names, in the form of KeyID. A
// trusted key and the new key must both have signed the note.
func Replaced(handover []byte, trusted note.Verifiers) (old []string, next string, err error) {
	ring := &keyring{trusted: trusted, retired: make(map[keyID]int64)}
	if _, err := ring.handover(handover); err != nil {
		return nil, "", err
	}
	for id := range ring.retired {
		old = append(old, KeyID(id.name, id.hash))
	}
	v := ring.more[0]
	return old, KeyID(v.Name(), v.KeyHash()), nil
}

// open parses a checkpoint. It verifies that the checkpoint is signed by at least one key that was valid at the
// checkpoint's size. It returns the keys of the keyring that signed the checkpoint.
func (k *keyring) open(b []byte) (c Checkpoint, by []keyID, err error) {
	n, err := note.Open(b, k)
	if err != nil {
		return c, nil, err
	}
	for _, s := range n.Sigs {
		by = append(by, keyID{s.Name, s.Hash})
	}
	if c, err = strict(n, b); err != nil {
		return c, by, err
	}
	return c, by, inPeriod(c.Size, n.Sigs, k.replacedAt)
}

// Successor returns the public key that the last handover named. This key must sign all checkpoints after that
// handover. If there was no handover, Successor returns "".
func (l *Log) Successor() (string, error) {
	n, err := l.Handovers()
	if err != nil || len(n) == 0 {
		return "", err
	}
	c, err := ParseCheckpoint(n[len(n)-1])
	if err != nil {
		return "", fmt.Errorf("the last handover: %w", err)
	}
	vkey, ok := strings.CutPrefix(c.Extension, nextKey)
	if !ok {
		return "", errors.New("the last handover names no key")
	}
	return strings.TrimSuffix(vkey, "\n"), nil
}
