package text

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// Fingerprint recognizes a text that is the same or almost the same.
type Fingerprint struct {
	Exact Digest `json:"x"` // of the normalized text
	// Sketch is of the text's content words and pairs of adjacent words; it is zero if the text has no words
	Sketch Sketch `json:"k,omitzero"`
}

// Digest is the first 16 bytes of a SHA-256. Its text form is hexadecimal.
type Digest [16]byte

// Sketch is a min-hash of a text. The share of equal elements of two sketches estimates the share
// of words and word pairs that the texts have in common. Its text form is base64 of 60 bytes,
// big-endian.
type Sketch [sketchSize]uint16

const (
	bands      = 10
	bandRows   = 3
	sketchSize = bands * bandRows
	nearPlaces = 14 // two texts are near if 14 of 30 elements are equal: an estimated similarity of 0.47
)

// Bands returns the index keys of all fingerprints of f. Two texts that are near each other share at least one key with
// high probability: above 0.98 if they have two thirds of their words and pairs in common. To find near-duplicates,
// look up each key and check the results with [Fingerprint.Near].
func (f Features) Bands() []uint64 {
	keys := make([]uint64, 0, len(f.Prints)*bands)
	for _, p := range f.Prints {
		keys = append(keys, p.Bands()...)
	}
	return keys
}

// Near reports whether the texts with the fingerprints p and q are the same or almost the same.
func (p Fingerprint) Near(q Fingerprint) bool {
	return p.Exact == q.Exact || p.Sketch.equalPlaces(q.Sketch) >= nearPlaces
}

// Similarity estimates the share of words and word pairs that the texts with the fingerprints p and q have in common,
// from 0 to 1. It is 1 if the texts have the same normal form.
func (p Fingerprint) Similarity(q Fingerprint) float64 {
	if p.Exact == q.Exact {
		return 1
	}
	return float64(p.Sketch.equalPlaces(q.Sketch)) / sketchSize
}

// Bands returns the index keys of the fingerprint. A text with words has ten keys of 52 bits, with
// the number of the band in the highest four bits. A text without words has one key, from the exact
// digest.
func (p Fingerprint) Bands() []uint64 {
	if p.Sketch == (Sketch{}) {
		return []uint64{binary.BigEndian.Uint64(p.Exact[:])&mask48 | 0xf<<48}
	}
	keys := make([]uint64, bands)
	for i := range keys {
		keys[i] = uint64(i)
		for _, v := range p.Sketch[i*bandRows : (i+1)*bandRows] {
			keys[i] = keys[i]<<16 | uint64(v)
		}
	}
	return keys
}

func (s Sketch) equalPlaces(t Sketch) int {
	if s == (Sketch{}) || t == (Sketch{}) {
		return 0
	}
	n := 0
	for i := range s {
		if s[i] == t[i] {
			n++
		}
	}
	return n
}

func (sc *scratch) fingerprint(normal []byte, words []uint64) Fingerprint {
	var p Fingerprint
	sum := sha256.Sum256(normal)
	copy(p.Exact[:], sum[:])
	p.Sketch = sc.sketch(words)
	return p
}

// sketchKeys are odd multipliers. The upper and lower halves of each product are two of the thirty
// hash functions.
var sketchKeys = func() (k [sketchSize / 2]uint64) {
	x := uint64(0x6c617a6172657431) // a fixed seed
	for i := range k {
		// splitmix64
		x += 0x9e3779b97f4a7c15
		z := x
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		k[i] = z ^ z>>31 | 1
	}
	return k
}()

// sketch computes the sketch of the set of the words and of the pairs of adjacent words. A sentence that is moved to
// another place changes only the pairs at its ends and where it was.
func (sc *scratch) sketch(words []uint64) Sketch {
	var out Sketch
	if len(words) == 0 {
		return out
	}
	hashes := sc.pairs[:0]
	hashes = append(hashes, words[0])
	for i, w := range words[1:] {
		hashes = append(hashes, w, join(words[i], w))
	}
	sc.pairs = hashes
	// One key at a time, so that its two minima stay in registers.
	for i, k := range &sketchKeys {
		high, low := ^uint32(0), ^uint32(0)
		for _, h := range hashes {
			p := h * k
			high, low = min(high, uint32(p>>32)), min(low, uint32(p))
		}
		out[2*i], out[2*i+1] = uint16(high>>16)^uint16(high), uint16(low>>16)^uint16(low)
	}
	return out
}

// MarshalText implements [encoding.TextMarshaler].
func (d Digest) MarshalText() ([]byte, error) { return d.AppendText(nil) }

// AppendText implements [encoding.TextAppender].
func (d Digest) AppendText(b []byte) ([]byte, error) { return hex.AppendEncode(b, d[:]), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Digest) UnmarshalText(text []byte) error {
	raw, err := hex.AppendDecode(nil, text)
	if err != nil {
		return fmt.Errorf("digest: %w", err)
	}
	if len(raw) != len(d) {
		return fmt.Errorf("digest: %d bytes, want %d", len(raw), len(d))
	}
	copy(d[:], raw)
	return nil
}

// String returns the text form.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText implements [encoding.TextMarshaler].
func (s Sketch) MarshalText() ([]byte, error) { return s.AppendText(nil) }

// AppendText implements [encoding.TextAppender].
func (s Sketch) AppendText(b []byte) ([]byte, error) {
	var raw [2 * sketchSize]byte
	for i, v := range s {
		binary.BigEndian.PutUint16(raw[2*i:], v)
	}
	return base64.RawStdEncoding.AppendEncode(b, raw[:]), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *Sketch) UnmarshalText(text []byte) error {
	raw, err := base64.RawStdEncoding.AppendDecode(nil, text)
	if err != nil {
		return fmt.Errorf("sketch: %w", err)
	}
	if len(raw) != 2*len(s) {
		return fmt.Errorf("sketch: %d bytes, want %d", len(raw), 2*len(s))
	}
	for i := range s {
		s[i] = binary.BigEndian.Uint16(raw[2*i:])
	}
	return nil
}
