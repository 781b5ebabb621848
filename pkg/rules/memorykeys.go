package rules

import (
	"math"
)

var noteKeys = keep(orderKeys, (*signals).noteKey)

func init() {
	sig := func(name, doc string) Signal { return Signal{name, doc, "key", "all", "20000 keys", "1"} }
	register(noteKeys, sig("signal.key_writes", "writes of this memory key, this one included"),
		func(s *signals) int64 { return s.keyHistory().writes })
	register(noteKeys, sig("signal.key_growth", "size of the value as a multiple of its first size"),
		func(s *signals) float64 { return s.keyHistory().growth(s.in) })
	register(noteKeys, sig("signal.key_entropy_rise", "entropy of the value less that of its first, bits a byte"),
		func(s *signals) float64 { return s.keyHistory().rise(s) })
}

// tableKeys holds the history of memory keys.
var tableKeys = newTable(5, "keys", 20_000)

type keyRec struct {
	writes    int64
	firstSize float64
	firstH    float64
}

// noteKey counts a write of the memory key.
func (s *signals) noteKey() {
	if s.in.Event.Kind != "memory" || s.in.Memory.Key == "" {
		return
	}
	r := s.keyHistory()
	if r.writes == 0 {
		r.firstSize, r.firstH = float64(len(s.in.Content.Text)), s.entropy()
	}
	r.writes++
	e := enc(s.t.take())
	e.num(uint64(r.writes))
	e.num(math.Float64bits(r.firstSize))
	e.num(math.Float64bits(r.firstH))
	s.t.put(tableKeys, s.t.named(s.in.Memory.Key), s.t.give(e))
}

func (s *signals) keyHistory() *keyRec {
	if !s.keyRead && s.in.Memory.Key != "" {
		d := dec(s.t.get(tableKeys, s.t.named(s.in.Memory.Key)))
		s.keyRec = keyRec{int64(d.num()), math.Float64frombits(d.num()), math.Float64frombits(d.num())}
	}
	s.keyRead = true
	return &s.keyRec
}

func (r *keyRec) growth(in *Input) float64 {
	if r.firstSize == 0 {
		return 1
	}
	return float64(len(in.Content.Text)) / r.firstSize
}

func (r *keyRec) rise(s *signals) float64 { return s.entropy() - r.firstH }
