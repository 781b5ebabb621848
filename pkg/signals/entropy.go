package signals

import (
	"math"
)

func init() {
	register(0, Signal{"content.entropy", "Shannon entropy of the content in bits per byte, 0 to 8", "", "", "", "0"},
		(*State).entropy)
}

// entropy returns the Shannon entropy of the bytes of a text, over its first 64 KiB. That is log2 n minus the mean of
// log2 c over the n bytes. For each byte, c is how often its value occurs.
func entropy(s string) float64 {
	// There are four counters for each byte value. So an increment need not wait for the one before it. Each counter
	// counts at most a quarter of the bytes, so it cannot overflow.
	var n [4][256]uint16
	s = s[:min(len(s), BoundText)]
	i, all := 0, byte(0)
	for ; i+3 < len(s); i += 4 {
		a, b, c, d := s[i], s[i+1], s[i+2], s[i+3]
		n[0][a]++
		n[1][b]++
		n[2][c]++
		n[3][d]++
		all |= a | b | c | d
	}
	for ; i < len(s); i++ {
		n[i&3][s[i]]++
		all |= s[i]
	}
	sum := 0.0
	for b := range int(all) + 1 { // no byte is greater
		if c := int(n[0][b]) + int(n[1][b]) + int(n[2][b]) + int(n[3][b]); c > 1 {
			sum += timesLog(c)
		}
	}
	if len(s) == 0 {
		return 0
	}
	return max(0, math.Log2(float64(len(s)))-sum/float64(len(s)))
}

// timesLog returns n log2 n.
func timesLog(n int) float64 {
	if n < len(timesLogs) {
		return timesLogs[n]
	}
	return float64(float64(n) * math.Log2(float64(n))) // the conversion prevents a fused multiply-add
}

var timesLogs = func() (t [1024]float64) {
	for n := 1; n < len(t); n++ {
		t[n] = float64(n) * math.Log2(float64(n))
	}
	return t
}()

func (s *State) entropy() float64 {
	if !s.measured {
		s.bits, s.measured = entropy(s.In.Content.Text), true
	}
	return s.bits
}
