package compiled

import (
	"math"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
)

const (
	// maxAlternatives is the maximum number of literals in one set of alternatives, of which a text must contain one.
	maxAlternatives = 64
	// MinLiteral is the minimum length of a literal that the index can search, in bytes.
	MinLiteral = 3
	// minJoined is the minimum length in bytes of a literal that is required in addition to other literals.
	minJoined = 4
	// maxClass is the maximum number of characters of a character class. The characters of a larger class are not tried
	// one by one.
	maxClass = 8
)

// requirement is a necessary condition for a match: every text that matches the regular expression meets it. Exactly
// one field is set.
type requirement struct {
	one  []string       // the text contains at least one of these literals
	all  []*requirement // it meets all of these requirements
	some []*requirement // it meets at least one of these requirements
}

// requires returns the requirement of a regular expression, with literals in lower case. If there is no useful
// requirement, it returns nil.
func requires(expr string) *requirement {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil
	}
	return required(re.Simplify())
}

// RequiredLiterals returns lower-case literals of which every match of a regular expression contains at least one. If
// there are no such literals that the index can search, it returns nil.
func RequiredLiterals(expr string) []string { return requires(expr).rarest() }

// rarest returns the set of literals of the requirement that probably occurs in the fewest texts.
func (q *requirement) rarest() []string {
	if q == nil {
		return nil
	}
	var best []string
	for _, k := range q.all {
		if set := k.rarest(); set != nil && better(set, best) {
			best = set
		}
	}
	if q.all != nil {
		return best
	}
	if q.some != nil {
		for _, k := range q.some {
			set := k.rarest()
			if set == nil {
				return nil
			}
			best = append(best, set...)
		}
		return useful(best)
	}
	return q.one
}

func requireOne(set []string) *requirement {
	if set = useful(set); set == nil {
		return nil
	}
	return &requirement{one: set}
}

// useful returns set, if the index can search all its literals, and otherwise nil.
func useful(set []string) []string {
	if len(set) == 0 || len(set) > maxAlternatives {
		return nil
	}
	for _, s := range set {
		if len(s) < MinLiteral {
			return nil
		}
	}
	slices.Sort(set)
	return slices.Compact(set)
}

// required returns the requirement of a parsed regular expression.
func required(re *syntax.Regexp) *requirement {
	if q := requireOne(exact(re)); q != nil {
		return q
	}
	switch re.Op {
	case syntax.OpLiteral:
		// A literal that ignores case may have too many spellings as a whole. So use the requirements of its parts.
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
		out := new(requirement)
		for _, sub := range re.Sub {
			q := required(sub)
			if q == nil {
				return nil
			}
			out.some = append(out.some, q)
		}
		return out
	case syntax.OpConcat:
		return requiredOfConcat(re.Sub)
	}
	return nil
}

// requiredOfConcat returns what all parts of a concatenation require. If adjacent parts match only a few texts, it
// joins these texts to longer literals. That is useful because the parser splits alternatives with a common prefix into
// the prefix and the rest.
func requiredOfConcat(subs []*syntax.Regexp) *requirement {
	var found []*requirement
	// Of the adjacent parts that are being joined: the best set of literals so far, and all joined texts.
	var best, run []string
	end := func() {
		if q := requireOne(best); q != nil {
			found = append(found, q)
		}
		best, run = nil, nil
	}
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
		end()
		if set == nil {
			if q := required(sub); q != nil {
				found = append(found, q)
			}
			continue
		}
		run = set
		try(set)
	}
	end()
	switch len(found) {
	case 0:
		return nil
	case 1:
		return found[0]
	}
	return &requirement{all: found}
}

func isEmptyWidth(op syntax.Op) bool {
	switch op {
	case syntax.OpBeginLine,
		syntax.OpEndLine,
		syntax.OpBeginText,
		syntax.OpEndText,
		syntax.OpWordBoundary,
		syntax.OpNoWordBoundary,
		syntax.OpEmptyMatch:
		return true
	}
	return false
}

// better reports whether probably fewer texts contain a literal of set a than one of set b. It assumes that an
// additional byte makes a literal half as frequent, and that a set of twice as many literals is found twice as often.
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

// cross returns all concatenations of an element of a and one of b. If a or b is nil, or if there would be too many, it
// returns nil.
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

// exact returns all texts that a regular expression matches, in lower case. If they are too many, or not a finite set
// of this simple form, it returns nil.
func exact(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		if slices.Contains(re.Rune, unicode.ReplacementChar) {
			return nil // it also matches invalid UTF-8
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

// spellings returns all letters that equal r if case is ignored, in lower case. Some of them are outside ASCII: the
// Kelvin sign for k, and the long s for s.
func spellings(r rune) []string {
	out := []string{lowerASCII(string(r))}
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		if s := lowerASCII(string(f)); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// letters splits a literal into one expression for each of its runes.
func letters(re *syntax.Regexp) []*syntax.Regexp {
	out := make([]*syntax.Regexp, len(re.Rune))
	for i := range re.Rune {
		out[i] = &syntax.Regexp{Op: syntax.OpLiteral, Flags: re.Flags, Rune: re.Rune[i : i+1]}
	}
	return out
}

// lowerASCII converts the letters A to Z in s to lower case, and leaves all other bytes unchanged.
func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}
