package index

import (
	"encoding/binary"
)

// Encoder encodes table values.
type Encoder []byte

// Num appends a number.
func (e *Encoder) Num(n uint64) { *e = binary.AppendUvarint(*e, n) }

// Str appends a text.
func (e *Encoder) Str(s string) {
	e.Num(uint64(len(s)))
	*e = append(*e, s...)
}

// Bytes appends a byte string.
func (e *Encoder) Bytes(b []byte) {
	e.Num(uint64(len(b)))
	*e = append(*e, b...)
}

func (e Encoder) longs(hs []uint64) Encoder {
	e.Num(uint64(8 * len(hs)))
	for _, h := range hs {
		e = binary.BigEndian.AppendUint64(e, h)
	}
	return e
}

// Hashes appends hashes.
func (e *Encoder) Hashes(hs []uint32) {
	e.Num(uint64(len(hs)))
	for _, h := range hs {
		*e = binary.BigEndian.AppendUint32(*e, h)
	}
}

// Decoder decodes what an Encoder has encoded. If the encoding ends early, the missing values are zero.
type Decoder []byte

// Num reads a number.
func (d *Decoder) Num() uint64 {
	n, size := binary.Uvarint(*d)
	if size <= 0 {
		*d = nil
		return 0
	}
	*d = (*d)[size:]
	return n
}

// Str reads a text.
func (d *Decoder) Str() string {
	n := d.Num()
	if n > uint64(len(*d)) {
		*d = nil
		return ""
	}
	s := string((*d)[:n])
	*d = (*d)[n:]
	return s
}

// Raw is like Str, without a copy.
func (d *Decoder) Raw() []byte {
	n := d.Num()
	if n > uint64(len(*d)) {
		*d = nil
		return nil
	}
	b := (*d)[:n]
	*d = (*d)[n:]
	return b
}

// Into is like Hashes, but appends the hashes to buf. It returns the hashes, and buf with the hashes appended.
func (d *Decoder) Into(buf []uint32) (hs, rest []uint32) {
	n := d.Num()
	if n > uint64(len(*d)/4) {
		*d = nil
		return nil, buf
	}
	from := len(buf)
	for i := range n {
		buf = append(buf, binary.BigEndian.Uint32((*d)[4*i:]))
	}
	*d = (*d)[4*n:]
	return buf[from:len(buf):len(buf)], buf
}

// Hashes reads hashes.
func (d *Decoder) Hashes() []uint32 {
	n := d.Num()
	if n > uint64(len(*d)/4) {
		*d = nil
		return nil
	}
	hs := make([]uint32, n)
	for i := range hs {
		hs[i] = binary.BigEndian.Uint32((*d)[4*i:])
	}
	*d = (*d)[4*n:]
	return hs
}
