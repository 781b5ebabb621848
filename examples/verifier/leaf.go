package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

type leaf struct {
	Index      int64     `json:"index"`
	Kind       string    `json:"kind"`
	Seq        uint64    `json:"seq"`
	Time       time.Time `json:"time"`
	Type       string    `json:"type"`
	Project    string    `json:"project"`
	Length     uint64    `json:"length"`
	Commitment string    `json:"commitment"`
	Salt       string    `json:"salt"`
	Payload    *string   `json:"payload"`
	Base64     []byte    `json:"payload_base64"`
	Prev       string    `json:"prev"`
	Withheld   string    `json:"withheld"`
	Proof      []string  `json:"proof"`

	hash    [32]byte
	payload []byte
}

// leaves checks every leaf, its payload and its proof.
func leaves(ev *evidence, size int64, root [32]byte) (map[int64]*leaf, error) {
	out := make(map[int64]*leaf)
	last := int64(-1)
	for _, l := range ev.Leaves {
		if l == nil || l.Index <= last {
			return nil, fmt.Errorf("the leaf after %d is out of order", last)
		}
		last = l.Index
		if err := l.check(out[l.Index-1], size, root); err != nil {
			return nil, fmt.Errorf("leaf %d: %w", l.Index, err)
		}
		out[l.Index] = l
	}
	return out, nil
}

func unhex(s string, n int) ([]byte, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != n || s != hex.EncodeToString(b) {
		return nil, fmt.Errorf("%q is not %d bytes in hex", s, n)
	}
	return b, nil
}

func (l *leaf) check(before *leaf, size int64, root [32]byte) error {
	if l.Kind != "entry" || len(l.Type) > 1024 || len(l.Project) > 1024 {
		return errors.New("it is not an entry")
	}
	commitment, err := unhex(l.Commitment, 32)
	if err != nil {
		return err
	}
	prev, err := unhex(l.Prev, 32)
	if err != nil {
		return err
	}
	b := []byte{0, 1, 1} // 0: the prefix of a leaf's hash
	for _, n := range []uint64{uint64(l.Index), l.Seq, uint64(l.Time.UnixNano()), l.Length} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	b = append(append(b, commitment...), prev...)
	for _, s := range []string{l.Type, l.Project} {
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
	}
	l.hash = sha256.Sum256(b)
	if before != nil && !bytes.Equal(prev, before.hash[:]) {
		return errors.New("prev is not the hash of the leaf before")
	}
	if got, err := climb(l.hash, l.Index, size, l.Proof); err != nil || got != root {
		return errors.Join(errors.New("the proof does not lead to the root of the checkpoint"), err)
	}
	if l.Withheld != "" {
		if l.Payload != nil || l.Base64 != nil || l.Salt != "" {
			return errors.New("its payload is marked as withheld, but is in the file")
		}
		return nil
	}
	salt, err := unhex(l.Salt, 16)
	if err != nil {
		return err
	}
	l.payload = l.Base64
	if l.Payload != nil {
		if l.payload = []byte(*l.Payload); l.Base64 != nil {
			return errors.New("it has two payloads")
		}
	}
	if sum := sha256.Sum256(append(salt, l.payload...)); !bytes.Equal(sum[:], commitment) ||
		uint64(len(l.payload)) != l.Length {
		return errors.New("the payload does not match its commitment")
	}
	return nil
}

// climb computes the root from a leaf's hash (RFC 9162, section 2.1.3.2).
func climb(h [32]byte, index, size int64, proof []string) ([32]byte, error) {
	if index < 0 || index >= size {
		return h, fmt.Errorf("the tree has %d leaves", size)
	}
	node := func(l, r []byte) [32]byte { return sha256.Sum256(append(append([]byte{1}, l...), r...)) }
	fn, sn := index, size-1
	for _, p := range proof {
		b, err := base64.StdEncoding.Strict().DecodeString(p)
		if err != nil || len(b) != 32 || sn == 0 {
			return h, errors.New("the proof has an invalid hash, or too many hashes")
		}
		if fn&1 == 1 || fn == sn {
			h = node(b, h[:])
			for fn&1 == 0 && fn != 0 {
				fn, sn = fn>>1, sn>>1
			}
		} else {
			h = node(h[:], b)
		}
		fn, sn = fn>>1, sn>>1
	}
	if sn != 0 {
		return h, errors.New("the proof is too short")
	}
	return h, nil
}

// body reads the body of an entry of a stage.
func (l *leaf) body(stage string, into any) error {
	if l == nil || l.payload == nil {
		return errors.New("the file lacks a leaf that it names, or the payload of this leaf")
	}
	head, body, ok := bytes.Cut(l.payload, []byte("\n"))
	if f := strings.Split(string(head), " "); !ok || len(f) != 3 || f[0] != stage {
		return fmt.Errorf("leaf %d is not of stage %s", l.Index, stage)
	}
	return json.Unmarshal(body, into)
}
