package rules

import (
	"fmt"
)

// Suggest returns a hint that names the known word most similar to s. If no known word is similar, it returns "".
func Suggest(s string, known []string) string {
	best, at := "", 3
	for _, k := range known {
		if d := distance(s, k); d < at {
			best, at = k, d
		}
	}
	if best == "" || s == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

// distance returns the Levenshtein distance of two short words.
func distance(a, b string) int {
	prev := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := range len(a) {
		cur := make([]int, len(b)+1)
		cur[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			cur[j+1] = min(prev[j+1]+1, cur[j]+1, prev[j]+cost)
		}
		prev = cur
	}
	return prev[len(b)]
}
