// Command train fits the weights of package command to labelled texts and
// validates them with whole data sets left out.
//
//	go run ./pkg/text/command/train -corpora DIR [-o pkg/text/command/weights.bin]
//
// It prints the share of distinct attack texts that are found at each share of
// false positives. Each text is scored by weights that were fitted without its
// group of data sets.
package main

import (
	"flag"
	"fmt"
	"log"
	"math"
	"math/rand"
	"os"
	"slices"
	"sync"

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

func main() {
	log.SetFlags(0)
	dir := flag.String("corpora", "../shared/corpora", "folder of labelled lines and sessions")
	out := flag.String("o", "", "file to write the weights to")
	flag.Parse()
	texts, err := load(*dir)
	if err != nil {
		log.Fatal(err)
	}
	examples := sentences(texts)
	validate(texts, examples)
	if *out != "" {
		m := fit(examples, nobody)
		if err := os.WriteFile(*out, command.New(m.bias, m.w), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

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
func sentences(texts []labelled) []example {
	var all []example
	seen := map[string]bool{}
	count := map[string]float64{}
	for _, t := range texts {
		content, label := t.content, 0.0
		if t.attack {
			label = 1
		}
		if t.injected != "" {
			content = t.injected
		}
		source := fmt.Sprint(t.dataset, label)
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

type scored struct {
	labelled
	points int
}

// validate scores each text without its group and prints the curve.
func validate(texts []labelled, examples []example) {
	var mu sync.Mutex
	var all []scored
	var wg sync.WaitGroup
	for group := range groupCount {
		wg.Go(func() {
			m := fit(examples, group)
			model, err := command.Read(command.New(m.bias, m.w))
			if err != nil {
				log.Fatal(err)
			}
			for _, t := range texts {
				if t.group == group && t.counts {
					s := scored{t, model.Score(t.content).Points}
					mu.Lock()
					all = append(all, s)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	fmt.Printf("%d texts, %d distinct sentences\n\n", len(texts), len(examples))
	fmt.Println("| points | benign | attack, mean of sets | by set |\n|---|---|---|---|")
	for _, points := range []int{30, 40, 50, 55, 60, 65, 70, 80, 90} {
		row(all, points)
	}
}

// row prints the shares at a threshold.
func row(all []scored, points int) {
	found, count := map[string]float64{}, map[string]float64{}
	for _, s := range all {
		set := s.dataset
		if !s.attack {
			set = ""
		}
		count[set]++
		if s.points >= points {
			found[set]++
		}
	}
	var sets []string
	for set := range count {
		if set != "" {
			sets = append(sets, set)
		}
	}
	slices.Sort(sets)
	mean, each := 0.0, ""
	for _, set := range sets {
		share := found[set] / count[set]
		mean += share / float64(len(sets))
		each += fmt.Sprintf(" %s %.0f %%", set, 100*share)
	}
	fmt.Printf("| %d | %.2f %% | %.1f %% |%s |\n", points, 100*found[""]/count[""], 100*mean, each)
}
