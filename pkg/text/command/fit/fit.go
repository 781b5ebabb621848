package fit

import (
	"fmt"
	"math"
	"math/rand"

	"lazaret/pkg/text/command"
)

// The parameters of the fit. They are those with the best results in the validation.
const (
	epochs     = 3
	rate       = 0.3  // learning rate of AdaGrad
	decay      = 1e-4 // L2
	negatives  = 3    // total weight of harmless sentences relative to that of attack sentences
	minSources = 3    // a feature is used only if this many (data set, label) pairs have it
	drawnLines = 6000 // generated lines of each kind
)

// Corpus is a set of texts to fit weights to.
type Corpus struct {
	Texts    []Text
	examples []example
	models   map[int]command.Model // by the group that is left out
}

// New returns a corpus of the sentences of texts.
func New(texts []Text) *Corpus { return &Corpus{texts, sentences(texts), make(map[int]command.Model)} }

// Score returns the points of a text under a model that was fitted without the group to which the text's data set
// belongs. It is not safe for concurrent use.
func (c *Corpus) Score(dataset, text string) (points int, err error) {
	group := min(GroupOf(dataset), GroupCount) // GroupCount leaves no group out
	m, ok := c.models[group]
	if !ok {
		if m, err = c.Without(group); err != nil {
			return 0, err
		}
		c.models[group] = m
	}
	return m.Score(text).Points, nil
}

// Sentences returns the number of distinct sentences.
func (c *Corpus) Sentences() int { return len(c.examples) }

// All returns the weights fitted to all texts, in the encoding of package command.
func (c *Corpus) All() []byte {
	m := fit(c.examples, nobody)
	return command.New(m.bias, m.w)
}

// Without returns the model fitted to the texts of all groups except the given one.
func (c *Corpus) Without(group int) (command.Model, error) {
	m := fit(c.examples, group)
	return command.Read(command.New(m.bias, m.w))
}

// Group returns the group of a text.
func (t *Text) Group() int { return t.group }

// example is one sentence.
type example struct {
	features []uint32
	attack   float64 // 1 or 0
	weight   float64
	group    int
	source   string // data set and label
}

// sentences returns the distinct sentences of texts, with weights. A source is a data set with a label. Its total
// weight is the square root of its number of sentences, so that a large data set does not dominate.
func sentences(texts []Text) []example {
	var all []example
	seen := map[string]bool{}
	count := map[string]float64{}
	for _, t := range texts {
		content, label := t.Content, 0.0
		if t.Attack {
			label = 1
		}
		if t.injected != "" {
			content = t.injected
		}
		source := fmt.Sprint(t.Dataset, label)
		for s := range command.Sentences(content) {
			features := make([]uint32, len(s))
			for i, f := range s {
				features[i] = f.Hash
			}
			if key := fmt.Sprint(source, features); !seen[key] {
				seen[key] = true
				count[source]++
				all = append(all, example{features, label, 0, t.group, source})
			}
		}
	}
	var sum [2]float64
	for _, e := range all {
		sum[int(e.attack)] += 1 / math.Sqrt(count[e.source])
	}
	for i := range all {
		e := &all[i]
		e.weight = 10000 / math.Sqrt(count[e.source]) / sum[int(e.attack)]
		if e.attack == 0 {
			e.weight *= negatives
		}
	}
	return all
}

// weights are the unrounded weights of a fit.
type weights struct {
	bias float64
	w    []float64
}

// logit returns the log-odds that a sentence belongs to an attack.
func (m weights) logit(features []uint32) float64 {
	sum := 0.0
	for _, f := range features {
		sum += m.w[f]
	}
	return m.bias + sum/math.Sqrt(float64(len(features)))
}

// fit runs AdaGrad over the sentences of all groups except the group without.
func fit(all []example, without int) weights {
	var use []example
	for _, e := range all {
		if e.group != without && e.group != neverFitted {
			use = append(use, e)
		}
	}
	known := supported(use)
	m := weights{w: make([]float64, 1<<command.Bits)}
	square, biasSquare := make([]float64, len(m.w)), 1.0
	rng := rand.New(rand.NewSource(1))
	for range epochs {
		rng.Shuffle(len(use), func(i, j int) { use[i], use[j] = use[j], use[i] })
		for _, e := range use {
			g := (1/(1+math.Exp(-m.logit(e.features))) - e.attack) * e.weight
			biasSquare += g * g
			m.bias -= rate * g / math.Sqrt(biasSquare)
			g /= math.Sqrt(float64(len(e.features)))
			for _, f := range e.features {
				if known[f] {
					d := g + decay*m.w[f]
					square[f] += d * d
					m.w[f] -= rate * d / math.Sqrt(square[f]+1e-8)
				}
			}
		}
	}
	return m
}

// supported reports for each feature whether at least minSources sources have it.
func supported(use []example) []bool {
	sources := make([]map[string]bool, 1<<command.Bits)
	known := make([]bool, len(sources))
	for _, e := range use {
		for _, f := range e.features {
			if known[f] {
				continue
			}
			if sources[f] == nil {
				sources[f] = map[string]bool{}
			}
			sources[f][e.source] = true
			known[f] = len(sources[f]) >= minSources
		}
	}
	return known
}
