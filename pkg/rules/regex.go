package rules

import (
	"math"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
)

const (
	// maxAlternatives is how many literals may stand for one expression.
	maxAlternatives = 64
	// minLiteral is the shortest literal that is looked for, in bytes.
	minLiteral = 3
	// maxClass is how many characters of a class are tried one by one.
	maxClass = 8
)

// requiredLiterals returns literals one of which stands in every text that a
// regular expression matches, in lower case; nil when there are none that help.
func requiredLiterals(expr string) []string {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil
	}
	return useful(required(re.Simplify()))
}

// useful is a set of literals that the index can look for, or nil.
func useful(set []string) []string {
	if len(set) == 0 || len(set) > maxAlternatives {
		return nil
	}
	for _, s := range set {
		if len(s) < minLiteral {
			return nil
		}
	}
	slices.Sort(set)
	return slices.Compact(set)
}

// required finds a set of literals of which each match holds one.
func required(re *syntax.Regexp) []string {
	if set := exact(re); set != nil {
		if set = useful(set); set != nil {
			return set
		}
	}
	switch re.Op {
	case syntax.OpLiteral:
		// Of one that has too many spellings as a whole, a part.
		if len(re.Rune) > 1 {
			return requiredOfConcat(letters(re))
		}
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return required(re.Sub[0])
		}
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			set := useful(required(sub))
			if set == nil {
				return nil
			}
			all = append(all, set...)
		}
		return useful(all)
	case syntax.OpConcat:
		return requiredOfConcat(re.Sub)
	}
	return nil
}

// requiredOfConcat takes the best of the parts that stand one after another.
// Neighbours that match a few texts only are joined, because the parser cuts
// common beginnings off alternatives.
func requiredOfConcat(subs []*syntax.Regexp) []string {
	var best, run []string
	try := func(set []string) {
		if set = useful(slices.Clone(set)); set != nil && better(set, best) {
			best = set
		}
	}
	for _, sub := range subs {
		if isEmptyWidth(sub.Op) {
			continue
		}
		set := exact(sub)
		if joined := cross(run, set); joined != nil {
			run = joined
			try(run)
			continue
		}
		run = set
		if set != nil {
			try(set)
		} else {
			try(required(sub))
		}
	}
	return best
}

func isEmptyWidth(op syntax.Op) bool {
	switch op {
	case syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary, syntax.OpEmptyMatch:
		return true
	}
	return false
}

// better prefers the set that fewer texts hold one of: a byte more makes a
// literal about half as frequent, and twice as many literals are met twice as
// often.
func better(a, b []string) bool { return b == nil || rarity(a) > rarity(b) }

func rarity(set []string) float64 {
	return float64(min(shortest(set), 40)) - math.Log2(float64(len(set)))
}

func shortest(set []string) int {
	n := len(set[0])
	for _, s := range set {
		n = min(n, len(s))
	}
	return n
}

// cross joins each of a with each of b; nil if one is missing or they become
// too many.
func cross(a, b []string) []string {
	if a == nil || b == nil || len(a)*len(b) > maxAlternatives {
		return nil
	}
	var out []string
	for _, x := range a {
		for _, y := range b {
			out = append(out, x+y)
		}
	}
	return out
}

// exact is the whole language of a small expression in lower case, or nil.
func exact(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		if slices.Contains(re.Rune, unicode.ReplacementChar) {
			return nil // also matches bytes that are no UTF-8
		}
		if re.Flags&syntax.FoldCase == 0 {
			return []string{lowerASCII(string(re.Rune))}
		}
		out := []string{""}
		for _, r := range re.Rune {
			if out = cross(out, spellings(r)); out == nil {
				return nil
			}
		}
		return out
	case syntax.OpCharClass:
		var out []string
		for i := 0; i+1 < len(re.Rune); i += 2 {
			if re.Rune[i+1]-re.Rune[i] >= maxClass {
				return nil
			}
			for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
				if s := lowerASCII(string(r)); !slices.Contains(out, s) {
					out = append(out, s)
				}
			}
		}
		if len(out) == 0 || len(out) > maxClass {
			return nil
		}
		return out
	case syntax.OpQuest:
		if set := exact(re.Sub[0]); set != nil && len(set) < maxAlternatives {
			return append([]string{""}, set...)
		}
	case syntax.OpCapture:
		return exact(re.Sub[0])
	case syntax.OpEmptyMatch:
		return []string{""}
	case syntax.OpAlternate:
		var out []string
		for _, sub := range re.Sub {
			set := exact(sub)
			if set == nil || len(out)+len(set) > maxAlternatives {
				return nil
			}
			out = append(out, set...)
		}
		return out
	case syntax.OpConcat:
		out := []string{""}
		for _, sub := range re.Sub {
			if isEmptyWidth(sub.Op) {
				continue
			}
			if out = cross(out, exact(sub)); out == nil {
				return nil
			}
		}
		return out
	}
	return nil
}

// spellings are the forms that a letter has where case is ignored, in lower
// case. Some have partners outside of ASCII: K and the Kelvin sign, s and the
// long s.
func spellings(r rune) []string {
	out := []string{lowerASCII(string(r))}
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		if s := lowerASCII(string(f)); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// letters are the runes of a literal, one expression each.
func letters(re *syntax.Regexp) []*syntax.Regexp {
	out := make([]*syntax.Regexp, len(re.Rune))
	for i := range re.Rune {
		out[i] = &syntax.Regexp{Op: syntax.OpLiteral, Flags: re.Flags, Rune: re.Rune[i : i+1]}
	}
	return out
}

// lowerASCII folds the letters A to Z and leaves every other byte alone.
func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}
