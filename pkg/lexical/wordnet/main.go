package main

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kljensen/snowball/english"
)

const maxSense = 4

// parts are the parts of speech. The key is the digit for it in a sense key of WordNet.
var parts = map[byte]string{'1': "noun", '2': "verb", '3': "adj", '4': "adv", '5': "adj"}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: wordnet DICT")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "wordnet:", err)
		os.Exit(1)
	}
}

func run(dict string) error {
	words := make(map[string][]string) // by part of speech and offset
	for _, part := range []string{"noun", "verb", "adj", "adv"} {
		err := lines(filepath.Join(dict, "data."+part), func(f []string) error {
			if len(f) < 4 || len(f[0]) != 8 {
				return nil // a line of the license
			}
			n, err := strconv.ParseUint(f[3], 16, 8)
			if err != nil || len(f) < 4+2*int(n) {
				return fmt.Errorf("synset %s of %s is cut", f[0], part)
			}
			for i := range int(n) {
				w, _, _ := strings.Cut(strings.ToLower(f[4+2*i]), "(")
				words[part+f[0]] = append(words[part+f[0]], w)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	sets := make(map[string]bool)
	err := lines(filepath.Join(dict, "index.sense"), func(f []string) error {
		lemma, key, ok := strings.Cut(f[0], "%")
		if len(f) != 4 || !ok || key == "" {
			return fmt.Errorf("index.sense: %q", f)
		}
		sense, err := strconv.Atoi(f[2])
		if err != nil || !plain(lemma) || sense > maxSense || sense > 1 && f[3] == "0" {
			return err
		}
		set := slices.DeleteFunc(slices.Clone(words[parts[key[0]]+f[1]]), func(w string) bool { return !plain(w) })
		for i, w := range set {
			set[i] = english.Stem(w, true)
		}
		slices.Sort(set)
		if set = slices.Compact(set); len(set) > 1 {
			sets[strings.Join(set, " ")] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, s := range slices.Sorted(maps.Keys(sets)) {
		fmt.Println(s)
	}
	return nil
}

// plain reports whether a word has at least three English letters and nothing else.
func plain(w string) bool {
	return len(w) > 2 && !strings.ContainsFunc(w, func(r rune) bool { return r < 'a' || r > 'z' })
}

func lines(name string, fn func(fields []string) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		if err := fn(strings.Fields(sc.Text())); err != nil {
			return err
		}
	}
	return sc.Err()
}
