package rules

import (
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

// better prefers a longer shortest literal, then fewer of them.
func better(a, b []string) bool {
	if b == nil {
		return true
	}
	la, lb := shortest(a), shortest(b)
	if min(la, 8) != min(lb, 8) {
		return la > lb
	}
	return len(a) < len(b)
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
		s, ok := lowered(re.Rune, re.Flags&syntax.FoldCase != 0)
		if !ok {
			return nil
		}
		return []string{s}
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

// lowered is a literal in lower case. One that ignores case has no single
// form when a letter of it has a partner outside of ASCII, such as K and the
// Kelvin sign.
func lowered(rs []rune, fold bool) (string, bool) {
	if slices.Contains(rs, unicode.ReplacementChar) {
		return "", false // also matches bytes that are no UTF-8
	}
	if fold {
		for _, r := range rs {
			for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
				if f >= 0x80 || r >= 0x80 {
					return "", false
				}
			}
		}
	}
	return lowerASCII(string(rs)), true
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
