package calibration

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"lazaret/internal/proptest"
)

var forecast = rapid.Custom(func(t *rapid.T) Forecast {
	return Forecast{uint16(rapid.IntRange(0, Unit).Draw(t, "confidence")), rapid.Bool().Draw(t, "success")}
})

func times(n int, c float64, hits int) (fs []Forecast) {
	for i := range n {
		fs = append(fs, Of(c, i < hits))
	}
	return fs
}

func TestKnownForecasters(t *testing.T) {
	for _, c := range []struct {
		name                              string
		fs                                []Forecast
		gap, brier, ece, success, confide float64
		over                              bool
	}{
		{"nothing", nil, 0, 0, 0, 0, 0, false},
		{"certain and right", times(50, 1, 50), 0, 0, 0, 1, 1, false},
		{"certain and wrong", times(50, 1, 0), 1, 1, 1, 0, 1, true},
		{"certain, one in ten wrong", times(50, 1, 45), 0.1, 0.1, 0.1, 0.9, 1, true},
		{"certain, one in twenty wrong", times(40, 1, 38), 0.05, 0.05, 0.05, 0.95, 1, false},
		{"eight in ten, and it says so", times(50, 0.8, 40), 0, 0.16, 0, 0.8, 0.8, false},
		{"eight in ten said, six in ten right", times(50, 0.8, 30), 0.2, 0.28, 0.2, 0.6, 0.8, true},
		// The gap is as large as in "certain, one in ten wrong". But the forecasts are so few and so uncertain that
		// chance can explain it.
		{"six in ten said, half right, few", times(20, 0.6, 10), 0.1, 0.26, 0.1, 0.5, 0.6, false},
		{"too few to judge", times(19, 1, 0), 1, 1, 1, 0, 1, false},
		{"too little confidence", times(50, 0.2, 45), -0.7, 0.58, 0.7, 0.9, 0.2, false},
		// In the gap, two errors cancel each other. In the calibration error of the bins, they add up.
		{"wrong at both ends", append(times(25, 0.9, 20), times(25, 0.1, 5)...), 0, 0.17, 0.1, 0.5, 0.5, false},
	} {
		r := Judge(c.fs)
		for what, x := range map[string][2]float64{"gap": {r.Gap, c.gap}, "brier": {r.Brier, c.brier},
			"ece": {r.ECE, c.ece}, "success": {r.Success, c.success}, "confidence": {r.Confidence, c.confide}} {
			if math.Abs(x[0]-x[1]) > 1e-9 {
				t.Errorf("%s: %s is %v, want %v", c.name, what, x[0], x[1])
			}
		}
		if r.Over != c.over {
			t.Errorf("%s: over-confident %t, want %t: %+v", c.name, r.Over, c.over, r)
		}
	}
}

func TestMeasuresAreThoseOfTheTextbook(t *testing.T) {
	proptest.Check(t, func(t *rapid.T) {
		fs := rapid.SliceOfN(forecast, 1, Keep).Draw(t, "forecasts")
		r := Judge(fs)
		var gap, brier float64
		var bins [Bins]struct{ n, c, y float64 }
		for _, f := range fs {
			c, y := float64(f.Confidence)/Unit, 0.0
			if f.Success {
				y = 1
			}
			gap += c - y
			brier += (c - y) * (c - y)
			b := &bins[min(int(f.Confidence)*Bins/Unit, Bins-1)]
			b.n, b.c, b.y = b.n+1, b.c+c, b.y+y
		}
		n := float64(len(fs))
		ece := 0.0
		for _, b := range bins {
			if b.n > 0 {
				ece += b.n / n * math.Abs(b.c/b.n-b.y/b.n)
			}
		}
		if math.Abs(r.Gap-gap/n) > 1e-9 || math.Abs(r.Brier-brier/n) > 1e-9 || math.Abs(r.ECE-ece) > 1e-9 {
			t.Fatalf("%+v, want gap %v, brier %v, ece %v", r, gap/n, brier/n, ece)
		}
		if r.ECE+1e-9 < math.Abs(r.Gap) || r.Brier < 0 || r.Brier > 1 || r.ECE > 1 {
			t.Fatalf("out of range: %+v", r)
		}
		if r.Over && (r.Gap < float64(MaxGap)/Unit || r.N < MinForecasts) {
			t.Fatalf("over-confident for nothing: %+v", r)
		}
	})
}

func TestTheOrderOfForecastsDoesNotMatter(t *testing.T) {
	proptest.Check(t, func(t *rapid.T) {
		fs := rapid.SliceOfN(forecast, 0, 40).Draw(t, "forecasts")
		if a, b := fmt.Sprint(Judge(fs)), fmt.Sprint(Judge(rapid.Permutation(fs).Draw(t, "order"))); a != b {
			t.Fatalf("%s\n%s", a, b)
		}
	})
}

func TestLessSuccessNeverClears(t *testing.T) {
	proptest.Check(t, func(t *rapid.T) {
		fs := rapid.SliceOfN(forecast, MinForecasts, 60).Draw(t, "forecasts")
		i := rapid.IntRange(0, len(fs)-1).Draw(t, "which")
		was := Judge(fs).Over
		fs[i].Success = false
		if was && !Judge(fs).Over {
			t.Fatal("a failure cleared it")
		}
	})
}

func TestACalibratedForecasterIsSeldomFlagged(t *testing.T) {
	flagged, n := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		r := rapid.Uint64().Draw(t, "seed")
		next := func() float64 { // splitmix64
			r += 0x9e3779b97f4a7c15
			z := r
			z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
			z = (z ^ z>>27) * 0x94d049bb133111eb
			return float64((z^z>>31)>>11) / (1 << 53)
		}
		var fs []Forecast
		for range 100 {
			c := 0.5 + next()/2
			fs = append(fs, Of(c, next() < c))
		}
		n++
		if Judge(fs).Over {
			flagged++
		}
	})
	if flagged > n/10 {
		t.Errorf("%d of %d calibrated forecasters were flagged", flagged, n)
	}
}

func TestWindowsAreReadBack(t *testing.T) {
	proptest.Check(t, func(t *rapid.T) {
		var w Window
		fs := rapid.SliceOfN(forecast, 0, 12).Draw(t, "forecasts")
		w.Total = rapid.Uint64Range(0, 1<<40).Draw(t, "before")
		for _, f := range fs {
			w.Add(f)
		}
		b, _ := w.MarshalBinary()
		var v Window
		if err := v.UnmarshalBinary(b); err != nil || fmt.Sprint(v) != fmt.Sprint(w) {
			t.Fatalf("%v became %v (%v)", w, v, err)
		}
	})
	var w Window
	for i := range 3 * Keep {
		w.Add(Forecast{uint16(i), true})
	}
	if len(w.Forecasts) != Keep || w.Total != 3*Keep || w.Forecasts[Keep-1].Confidence != 3*Keep-1 ||
		w.Forecasts[0].Confidence != 2*Keep {
		t.Errorf("%d, %d, %v", len(w.Forecasts), w.Total, w.Forecasts[0])
	}
}

func FuzzWindow(f *testing.F) {
	f.Add([]byte("00000000\x00\x01\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var w Window
		if err := w.UnmarshalBinary(b); err != nil {
			t.Fatal(err)
		}
		Judge(w.Forecasts)
	})
}

func TestWhatIsNoConfidenceCountsAsCertain(t *testing.T) {
	for c, want := range map[float64]uint16{-1: 0, 0: 0, 0.00004: 0, 0.12345: 1235, 1: Unit, 7: Unit, math.Inf(1): Unit,
		math.Inf(-1): 0, math.NaN(): Unit} {
		if f := Of(c, true); f.Confidence != want {
			t.Errorf("%v: %d, want %d", c, f.Confidence, want)
		}
	}
}
