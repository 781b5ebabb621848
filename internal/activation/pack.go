package activation

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"

	"lazaret/internal/stage"
)

// packed caches the last results of pack by the digest of the input, because the sixteen partitions of each stage
// of a process store the same bundle.
var packed struct {
	sync.Mutex
	by map[[sha256.Size]byte][]byte
}

// give stores a bundle, or a chunk of one, in compressed form. Without compression, the shipped rules and policy took
// 8 MiB of the memtables of a new pipeline.
func give(st *stage.State, key, value []byte) error {
	b, err := pack(value)
	if err != nil {
		return err
	}
	return st.Give(key, b)
}

// pack returns b compressed. The result must not be modified.
func pack(b []byte) ([]byte, error) {
	sum := sha256.Sum256(b)
	packed.Lock()
	defer packed.Unlock()
	if p, ok := packed.by[sum]; ok {
		return p, nil
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write(b)
	if err = errors.Join(err, z.Close()); err != nil {
		return nil, err
	}
	if packed.by == nil || len(packed.by) >= 16 {
		packed.by = make(map[[sha256.Size]byte][]byte)
	}
	packed.by[sum] = bytes.Clone(out.Bytes())
	return packed.by[sum], nil
}

// unpack reverses pack. The state of an earlier version has bundles that are not compressed. unpack returns them
// unchanged: they are text, which does not begin with the two bytes of a gzip header.
func unpack(b []byte) ([]byte, error) {
	if !bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
		return b, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err == nil {
		b, err = io.ReadAll(z)
	}
	if err != nil {
		return nil, fmt.Errorf("a bundle in the state does not decompress: %w", err)
	}
	return b, nil
}
