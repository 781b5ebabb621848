package rules

import (
	"encoding/binary"
)

// enc and dec are the plain encoding of what tables hold.
type enc []byte

func (e *enc) num(n uint64) { *e = binary.AppendUvarint(*e, n) }

func (e *enc) str(s string) {
	e.num(uint64(len(s)))
	*e = append(*e, s...)
}

func (e *enc) bytes(b []byte) {
	e.num(uint64(len(b)))
	*e = append(*e, b...)
}

func (e enc) longs(hs []uint64) enc {
	e.num(uint64(8 * len(hs)))
	for _, h := range hs {
		e = binary.BigEndian.AppendUint64(e, h)
	}
	return e
}

func (e *enc) hashes(hs []uint32) {
	e.num(uint64(len(hs)))
	for _, h := range hs {
		*e = binary.BigEndian.AppendUint32(*e, h)
	}
}

// dec reads what enc wrote; what is missing reads as zero.
type dec []byte

func (d *dec) num() uint64 {
	n, size := binary.Uvarint(*d)
	if size <= 0 {
		*d = nil
		return 0
	}
	*d = (*d)[size:]
	return n
}

func (d *dec) str() string {
	n := d.num()
	if n > uint64(len(*d)) {
		*d = nil
		return ""
	}
	s := string((*d)[:n])
	*d = (*d)[n:]
	return s
}

// raw is str without a copy.
func (d *dec) raw() []byte {
	n := d.num()
	if n > uint64(len(*d)) {
		*d = nil
		return nil
	}
	b := (*d)[:n]
	*d = (*d)[n:]
	return b
}

// into is hashes at the end of a buffer.
func (d *dec) into(buf []uint32) (hs, rest []uint32) {
	n := d.num()
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

func (d *dec) hashes() []uint32 {
	n := d.num()
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
