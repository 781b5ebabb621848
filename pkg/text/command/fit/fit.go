package fit

import (
	"fmt"
	"math"
	"math/rand"

	"lazaret/pkg/text/command"
)

// The constants of the fit. They were chosen by the validation below.
const (
	epochs     = 3
	rate       = 0.3  // of AdaGrad
	decay      = 1e-4 // L2
	negatives  = 3    // weight of all harmless sentences, in that of all attack sentences
	minSources = 3    // a feature counts only if this many (data set, label) pairs have it
	drawnLines = 6000 // of each kind, from the grammars
)

// Corpus is what weights are fitted to.
type Corpus struct {
	Texts    []Text
	examples []example
	models   map[int]command.Model // by the group left out
}

// New cuts texts into sentences to fit to.
func New(texts []Text) *Corpus { return &Corpus{texts, sentences(texts), make(map[int]command.Model)} }

// Score returns the points of a text under a model that was fitted without the group of its
// data set. It is not safe for concurrent use.
func (c *Corpus) Score(dataset, text string) (points int, err error) {
	group := min(GroupOf(dataset), GroupCount) // GroupCount leaves out none
	m, ok := c.models[group]
	if !ok {
		if m, err = c.Without(group); err != nil {
			return 0, err
		}
		c.models[group] = m
	}
	return m.Score(text).Points, nil
}

// Sentences is the number of distinct sentences.
func (c *Corpus) Sentences() int { return len(c.examples) }

// All are the weights fitted to all texts, as package command reads them.
func (c *Corpus) All() []byte {
	m := fit(c.examples, nobody)
	return command.New(m.bias, m.w)
}

// Without is the model fitted to the texts of all groups but one.
func (c *Corpus) Without(group int) (command.Model, error) {
	m := fit(c.examples, group)
	return command.Read(command.New(m.bias, m.w))
}

// Group is the group that a text belongs to.
func (t *Text) Group() int { return t.group }

// example is one sentence.
type example struct {
	features []uint32
	attack   float64 // 1 or 0
	weight   float64
	group    int
	source   string // data set and label
}

// sentences cuts texts into distinct sentences. A source weighs as the root of
// its number of sentences, so that a large data set does not drown the others.
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

// weights are those of a fit, before they are rounded.
type weights struct {
	bias float64
	w    []float64
}

// logit is the log-odds that a sentence is an attack's.
func (m weights) logit(features []uint32) float64 {
	sum := 0.0
	for _, f := range features {
		sum += m.w[f]
	}
	return m.bias + sum/math.Sqrt(float64(len(features)))
}

// fit runs AdaGrad over the sentences of all groups but one.
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

// supported tells the features that several sources have.
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
