package detection

import (
	"math"
	"testing"
)

func TestWilsonOnKnownValues(t *testing.T) {
	// The values are from Newcombe (1998), table I, method 3, and R's prop.test(correct=FALSE).
	for _, c := range []struct {
		hits, n   int
		low, high float64
	}{
		{81, 263, 0.2553, 0.3662},
		{15, 148, 0.0624, 0.1605},
		{0, 20, 0, 0.1611},
		{1, 29, 0.0061, 0.1718},
		{29, 29, 0.8830, 1},
		{5, 10, 0.2366, 0.7634},
		{0, 0, 0, 1},
	} {
		p := 0.0
		if c.n > 0 {
			p = float64(c.hits) / float64(c.n)
		}
		low, high := Wilson(p, c.n)
		if math.Abs(low-c.low) > 5e-5 || math.Abs(high-c.high) > 5e-5 {
			t.Errorf("%d of %d: %.4f to %.4f, want %.4f to %.4f", c.hits, c.n, low, high, c.low, c.high)
		}
	}
}

func TestLinesOfOneClusterAreOneTrial(t *testing.T) {
	var l tally
	for range 98 {
		l.add("a", true)
	}
	l.add("b", false)
	l.add("b", true)
	l.add("c", false)
	got := l.rate()
	low, high := Wilson(0.5, 3)
	want := Rate{N: 101, Clusters: 3, Hits: 99, Rate: 0.5, Low: low, High: high}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestMacroIsTheMeanOfSetsThatHaveAny(t *testing.T) {
	var m Macro
	for _, r := range []Rate{{N: 1000, Rate: 1}, {}, {N: 1, Rate: 0}, {N: 5, Rate: 0.5}} {
		m.add(r)
	}
	if m.Datasets != 3 || math.Abs(m.Rate-0.5) > 1e-12 {
		t.Errorf("got %+v, want the mean 0.5 of 3 sets", m)
	}
}
