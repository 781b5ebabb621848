package index

// sieve is an approximate filter of hashes. If it reports that a hash was not added, that is certain. It may report
// that a hash was added although it was not; then the lookup that follows finds nothing.
type sieve struct {
	bits []uint64 // at least sixteen bits per hash
	all  []uint32 // all added hashes, to add them again when bits grows
}

func (s *sieve) add(h uint32) {
	s.all = append(s.all, h)
	if 16*len(s.all) > 64*len(s.bits) {
		s.bits = make([]uint64, max(16, 2*len(s.bits)))
		for _, h := range s.all {
			s.set(h)
		}
	}
	s.set(h)
}

func (s *sieve) set(h uint32) { s.bits[int(h>>6)&(len(s.bits)-1)] |= 1 << (h & 63) }

func (s *sieve) may(h uint32) bool {
	return len(s.bits) > 0 && s.bits[int(h>>6)&(len(s.bits)-1)]>>(h&63)&1 != 0
}

func (s *sieve) size() int { return 8*len(s.bits) + 4*cap(s.all) }
