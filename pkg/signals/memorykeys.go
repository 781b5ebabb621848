package signals

import (
	"math"

	"lazaret/pkg/signals/index"
)

var partKeys = keep(orderKeys, (*State).noteKey)

func init() {
	sig := func(name, doc string) Signal { return Signal{name, doc, "key", "all", "20000 keys", "1"} }
	register(partKeys, sig("signal.key_writes", "number of writes to this memory key, including this one"),
		func(s *State) int64 { return s.keyHistory().writes })
	register(partKeys, sig("signal.key_growth", "size of the value, as a multiple of the first value's size"),
		func(s *State) float64 { return s.keyHistory().growth(s.In) })
	register(partKeys,
		sig("signal.key_entropy_rise", "entropy of the value minus that of the first value, in bits per byte"),
		func(s *State) float64 { return s.keyHistory().rise(s) })
}

// tableKeys has the history of memory keys.
var tableKeys = index.NewTable(5, "keys", 20_000)

type keyRec struct {
	writes    int64
	firstSize float64
	firstH    float64
}

// noteKey counts how often the key of a memory was written.
func (s *State) noteKey() {
	if s.In.Event.Kind != "memory" || s.In.Memory.Key == "" {
		return
	}
	r := s.keyHistory()
	if r.writes == 0 {
		r.firstSize, r.firstH = float64(len(s.In.Content.Text)), s.entropy()
	}
	r.writes++
	e := index.Encoder(s.t.Take())
	e.Num(uint64(r.writes))
	e.Num(math.Float64bits(r.firstSize))
	e.Num(math.Float64bits(r.firstH))
	s.t.Put(tableKeys, s.t.NameKey(s.In.Memory.Key), s.t.Give(e))
}

func (s *State) keyHistory() *keyRec {
	if !s.keyRead && s.In.Memory.Key != "" {
		d := index.Decoder(s.t.Get(tableKeys, s.t.NameKey(s.In.Memory.Key)))
		s.keyRec = keyRec{int64(d.Num()), math.Float64frombits(d.Num()), math.Float64frombits(d.Num())}
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

func (r *keyRec) rise(s *State) float64 { return s.entropy() - r.firstH }
