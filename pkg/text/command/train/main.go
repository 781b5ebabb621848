package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"sync"

	"lazaret/pkg/text/command/fit"
)

func main() {
	log.SetFlags(0)
	dir := flag.String("corpora", "../shared/corpora", "folder of labelled lines and sessions")
	out := flag.String("o", "", "file to write the weights to")
	flag.Parse()
	texts, err := fit.Load([]string{*dir})
	if err != nil {
		log.Fatal(err)
	}
	c := fit.New(texts)
	validate(c)
	if *out != "" {
		if err := os.WriteFile(*out, c.All(), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

type scored struct {
	fit.Text
	points int
}

// validate scores each text with weights that were fitted without its group of data sets. It prints the share of
// attacks found for each share of false positives.
func validate(c *fit.Corpus) {
	var mu sync.Mutex
	var all []scored
	var wg sync.WaitGroup
	for group := range fit.GroupCount {
		wg.Go(func() {
			model, err := c.Without(group)
			if err != nil {
				log.Fatal(err)
			}
			for _, t := range c.Texts {
				if t.Group() == group && t.Counts {
					s := scored{t, model.Score(t.Content).Points}
					mu.Lock()
					all = append(all, s)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	fmt.Printf("%d texts, %d distinct sentences\n\n", len(c.Texts), c.Sentences())
	fmt.Println("| points | benign | attack, mean of sets | by set |\n|---|---|---|---|")
	for _, points := range []int{30, 40, 50, 55, 60, 65, 70, 80, 90} {
		row(all, points)
	}
}

// row prints the shares at one threshold.
func row(all []scored, points int) {
	found, count := map[string]float64{}, map[string]float64{}
	for _, s := range all {
		set := s.Dataset
		if !s.Attack {
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
