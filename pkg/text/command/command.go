package command

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Bits is the binary logarithm of the number of weights.
const Bits = 17

// PointsPerLogit is the number of points per unit of log-odds.
const PointsPerLogit = 20

// Score says how much a text reads like an order.
type Score struct {
	Points int      // 0 to 100; docs/detection.md gives the false positives of each threshold
	Words  []string // at most three words or pairs with the highest weights, highest first, in lower case
}

//go:embed weights.bin
var embedded []byte

var shipped = func() Model {
	m, err := Read(embedded)
	if err != nil {
		panic(err)
	}
	return m
}()

// Of scores a text with the shipped weights.
func Of(text string) Score { return shipped.Score(text) }

// Model is a set of weights.
type Model struct {
	bias    int // in units of 1/Unit
	weights []byte
}

// Unit is the number of weight steps in one unit of log-odds.
const Unit = 32

const header = 2 // bytes of the bias, little-endian

// Read decodes weights that [New] encoded. The model uses b without copying it.
func Read(b []byte) (Model, error) {
	if len(b) != header+1<<Bits {
		return Model{}, fmt.Errorf("weights of %d bytes, want %d: run the program in pkg/text/command/train", len(b),
			header+1<<Bits)
	}
	return Model{int(int16(binary.LittleEndian.Uint16(b))), b[header:]}, nil
}

// New rounds weights to steps of 1/Unit and returns their encoding. weights has one element for
// each feature hash. Weights beyond ±127 steps are clipped.
func New(bias float64, weights []float64) []byte {
	b := binary.LittleEndian.AppendUint16(nil, uint16(int16(math.Round(bias*Unit))))
	for _, w := range weights {
		b = append(b, byte(int8(max(-127, min(127, math.Round(w*Unit))))))
	}
	return b
}

// Score returns the score of a text.
func (m Model) Score(text string) Score {
	best, at := math.MinInt, [2]int{}
	for s := range sentences(text) {
		sum, n := m.sum(s)
		if p := (m.bias<<16 + sum*inverseRoot[n]) * PointsPerLogit / (Unit << 16); p > best {
			best, at = p, [2]int{s[0].start, s[len(s)-1].end}
		}
	}
	if best <= 0 {
		return Score{}
	}
	return Score{Points: min(best, 100), Words: m.heaviest(text[at[0]:at[1]])}
}

// sum adds up the weights of the features of a sentence, and counts the features. It must generate the same features as
// the function features.
func (m Model) sum(s []word) (sum, n int) {
	w := (*[1 << Bits]byte)(m.weights)
	add := func(kind, a, b uint64) { sum += int(int8(w[hashFeature(kind, a, b)])) }
	c1, c2, c3 := begin, begin, begin
	var one, two uint64 // hashes of the previous two words
	for i := range s {
		h := s[i].hash
		c1, c2, c3 = c2, c3, s[i].class
		add(wordKind, h, 0)
		add(classKind, uint64(c2), uint64(c3))
		add(classesKind, uint64(c1)<<8|uint64(c2), uint64(c3))
		n += 3
		if s[i].stem != 0 {
			add(stemKind, s[i].stem, 0)
			n++
		}
		if c2 == begin || c2 == other {
			add(openKind, uint64(c2), h)
			n++
		}
		if i > 0 {
			add(pairKind, one, h)
			add(afterClassKind, uint64(c2), h)
			n += 2
		}
		if i > 1 {
			add(gapKind, two, h)
			n++
		}
		one, two = h, one
	}
	return sum, n
}

func (m Model) weight(f Feature) int { return int(int8(m.weights[f.Hash])) }

// inverseRoot is 1/√n in units of 1/65536, indexed by the number of features n.
var inverseRoot = func() (t [maxWords*featuresPerWord + 1]int) {
	for n := 1; n < len(t); n++ {
		t[n] = int(math.Round(65536 / math.Sqrt(float64(n))))
	}
	return t
}()

// heaviest returns the words of the features that have the highest weights in a sentence, at most three.
func (m Model) heaviest(sentence string) []string {
	var all []Feature
	for s := range Sentences(sentence) {
		all = append(all, s...)
	}
	slices.SortStableFunc(all, func(a, b Feature) int { return m.weight(b) - m.weight(a) })
	var words []string
	for _, f := range all {
		w := strings.ToLower(sentence[f.Start:f.End])
		if len(words) == 3 || m.weight(f) <= 0 {
			break
		}
		if len(w) <= maxShown && !slices.ContainsFunc(words, func(s string) bool {
			return strings.Contains(s, w) || strings.Contains(w, s)
		}) {
			words = append(words, w)
		}
	}
	return words
}

// maxShown is the maximum length of a word or pair in Score.Words, in bytes.
const maxShown = 60
