package calibration

import (
	"math"
	"math/bits"
)

// Unit represents a confidence of 1.
const Unit = 10_000

const (
	// Bins is the number of bins into which the expected calibration error divides the confidences.
	Bins = 10
	// MinForecasts is the minimum number of forecasts with a known outcome. With fewer, an agent does not count as
	// over-confident.
	MinForecasts = 20
	// MaxGap is the smallest gap, in Units, that counts as over-confident: 0.10.
	MaxGap = Unit / 10
	// zSquared is 1.645² in thousandths: the limit of a one-sided test at 5 %.
	zSquared = 2706
)

// Forecast is the confidence that an agent stated for an action, from 0 to Unit, and whether the action succeeded.
type Forecast struct {
	Confidence uint16
	Success    bool
}

// Of returns a forecast with a confidence from 0 to 1. A value outside of this range becomes the nearer limit. NaN
// becomes 1.
func Of(confidence float64, success bool) Forecast {
	c := uint16(Unit)
	if confidence < 1 {
		c = uint16(math.Round(max(confidence, 0) * Unit))
	}
	return Forecast{c, success}
}

// Bin is a bin of the reliability diagram. It has the confidences from its Low (inclusive) to the Low of the next bin
// (exclusive).
type Bin struct {
	Low        float64 `json:"low"`
	N          int     `json:"n"`
	Confidence float64 `json:"confidence"` // mean
	Success    float64 `json:"success"`    // rate
}

// Report says how well forecasts are calibrated. N is their number. The gap is from -1 to 1, and all other values are
// from 0 to 1.
type Report struct {
	N          int     `json:"n"`
	Confidence float64 `json:"confidence"` // mean
	Success    float64 `json:"success"`    // rate
	Gap        float64 `json:"gap"`        // confidence minus success
	Brier      float64 `json:"brier"`
	ECE        float64 `json:"ece"`
	Over       bool    `json:"over_confident"`
	Bins       []Bin   `json:"bins,omitzero"` // bins with forecasts
}

// Judge returns the report on forecasts. Their order does not matter.
func Judge(fs []Forecast) Report {
	type sum struct{ n, conf, hits int64 }
	var all sum
	var bins [Bins]sum
	var brier, spread int64
	for _, f := range fs {
		c := int64(min(f.Confidence, Unit))
		y := int64(0)
		if f.Success {
			y = 1
		}
		b := &bins[min(c*Bins/Unit, Bins-1)]
		for _, s := range []*sum{&all, b} {
			s.n, s.conf, s.hits = s.n+1, s.conf+c, s.hits+y
		}
		d := c - y*Unit
		brier += d * d
		spread += c * (Unit - c)
	}
	r := Report{N: len(fs)}
	if all.n == 0 {
		return r
	}
	over := all.conf - all.hits*Unit
	r.Confidence = ratio(all.conf, all.n*Unit)
	r.Success = ratio(all.hits, all.n)
	r.Gap = ratio(over, all.n*Unit)
	r.Brier = ratio(brier, all.n*Unit*Unit)
	var ece int64
	for i, b := range bins {
		if b.n == 0 {
			continue
		}
		ece += abs(b.conf - b.hits*Unit)
		r.Bins = append(
			r.Bins,
			Bin{
				Low:        ratio(int64(i), Bins),
				N:          int(b.n),
				Confidence: ratio(b.conf, b.n*Unit),
				Success:    ratio(b.hits, b.n),
			},
		)
	}
	r.ECE = ratio(ece, all.n*Unit)
	r.Over = all.n >= MinForecasts && over >= MaxGap*all.n && significant(uint64(over), uint64(spread))
	return r
}

// significant reports whether an over-confidence is statistically significant: over²/spread > z². It computes this
// without a division.
func significant(over, spread uint64) bool {
	h, l := bits.Mul64(1000*over, over)
	zh, zl := bits.Mul64(zSquared, spread)
	return h > zh || h == zh && l > zl
}

func ratio(a, b int64) float64 { return float64(a) / float64(b) }

func abs(a int64) int64 {
	if a < 0 {
		return -a
	}
	return a
}
