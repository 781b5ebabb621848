package approval

import (
	"fmt"
	"regexp/syntax"
	"slices"
)

// machine finds patterns in sequences of words. It gives the same results as package regexp gives for the patterns in
// the words with one space between two of them, but it steps from word to word. The time for a word depends only on
// the patterns. (Package regexp took up to two microseconds for each byte of a text that consists of near misses.)
//
// A pattern must have been made by whole. It may use [^ ]+ for any word, and otherwise only literals and small classes.
type machine struct {
	ids    map[string]int32 // words of the patterns; 0 stands for every other word
	starts [][]int32        // by pattern: the states at the begin of a match
	states []state
	first  []opening // by id of a word: the steps from all starts, for search.which
}

// opening has the steps from all starts for a word.
type opening struct {
	next        []int32
	found, last uint64 // patterns that end after the word; those of last only if it is the last word
}

// state is a state of the machine before a word: a position in a pattern that follows a space.
type state struct {
	pattern int
	other   step           // for a word that is not in words
	words   map[int32]step // by id of a word
}

// step has the states after a word, in the order in which package regexp prefers them. matched stands for the end of
// the pattern.
type step struct {
	next []int32
	ends bool // the pattern ends after the word if it is the last word
}

const matched = -1

// newMachine returns a machine for patterns, at most 64.
func newMachine(patterns []string) *machine {
	if len(patterns) > 64 {
		panic("more patterns than search.which has bits")
	}
	m := &machine{ids: make(map[string]int32)}
	for i, p := range patterns {
		re, err := syntax.Parse(p, syntax.Perl)
		if err != nil {
			panic(err)
		}
		prog, err := syntax.Compile(re.Simplify())
		if err != nil {
			panic(err)
		}
		b := builder{machine: m, pattern: i, prog: prog, states: make(map[uint32]int32)}
		m.starts = append(m.starts, b.start(uint32(prog.Start), nil))
		for len(b.open) > 0 {
			pc := b.open[0]
			b.open = b.open[1:]
			b.build(pc)
		}
	}
	m.first = make([]opening, len(m.ids)+1)
	for id := range m.first {
		o := &m.first[id]
		for p, states := range m.starts {
			for _, from := range states {
				t := m.after(from, int32(id))
				if t.ends {
					o.last |= 1 << p
				}
				for _, to := range t.next {
					if to == matched {
						o.found |= 1 << p
					} else if !slices.Contains(o.next, to) {
						o.next = append(o.next, to)
					}
				}
			}
		}
	}
	return m
}

// builder makes the states of one pattern.
type builder struct {
	*machine
	pattern int
	prog    *syntax.Prog
	states  map[uint32]int32 // by instruction after a space
	open    []uint32         // instructions whose states are not made yet
}

// state returns the state that begins with an instruction.
func (b *builder) state(pc uint32) int32 {
	if b.prog.Inst[pc].Op == syntax.InstMatch {
		return matched
	}
	s, ok := b.states[pc]
	if !ok {
		s = int32(len(b.machine.states))
		b.states[pc] = s
		b.machine.states = append(b.machine.states, state{pattern: b.pattern})
		b.open = append(b.open, pc)
	}
	return s
}

// start appends the states after (?:^| ), with which a pattern begins.
func (b *builder) start(pc uint32, states []int32) []int32 {
	switch in := &b.prog.Inst[pc]; {
	case in.Op == syntax.InstAlt:
		return b.start(in.Arg, b.start(in.Out, states))
	case in.Op == syntax.InstNop, in.Op == syntax.InstCapture:
		return b.start(in.Out, states)
	case in.Op == syntax.InstEmptyWidth && syntax.EmptyOp(in.Arg) == syntax.EmptyBeginText, isSpace(in):
		if s := b.state(in.Out); !slices.Contains(states, s) {
			states = append(states, s)
		}
		return states
	default:
		panic(fmt.Sprintf("a pattern begins with %v", in))
	}
}

// path is a way through a pattern that consumes one word.
type path struct {
	word string
	any  bool // it consumes any word
	last bool // only if the word is the last one; next is not set
	next int32
}

// build makes the state that begins with an instruction.
func (b *builder) build(pc uint32) {
	var paths []path
	b.walk(pc, path{}, 0, &paths)
	s := &b.machine.states[b.states[pc]]
	s.words = make(map[int32]step)
	for _, p := range paths {
		if p.any || b.ids[p.word] == 0 {
			if p.any {
				continue
			}
			b.ids[p.word] = int32(len(b.ids) + 1)
		}
		s.words[b.ids[p.word]] = step{}
	}
	of := func(fits func(p path) bool) (t step) {
		for _, p := range paths {
			switch {
			case !fits(p):
			case p.last:
				t.ends = true
			case !slices.Contains(t.next, p.next):
				t.next = append(t.next, p.next)
			}
		}
		return t
	}
	s.other = of(func(p path) bool { return p.any })
	for id := range s.words {
		s.words[id] = of(func(p path) bool { return p.any || b.ids[p.word] == id })
	}
}

// walk appends the paths from an instruction to the end of a word. It takes alternatives in the order of preference. p
// is the path to the instruction; if p.any is set, loop is the instruction that consumed the word.
func (b *builder) walk(pc uint32, p path, loop uint32, paths *[]path) {
	in := &b.prog.Inst[pc]
	switch in.Op {
	case syntax.InstAlt:
		b.walk(in.Out, p, loop, paths)
		b.walk(in.Arg, p, loop, paths)
	case syntax.InstNop, syntax.InstCapture:
		b.walk(in.Out, p, loop, paths)
	case syntax.InstEmptyWidth:
		if syntax.EmptyOp(in.Arg) == syntax.EmptyEndText && (p.word != "" || p.any) {
			p.last = true
			b.walk(in.Out, p, loop, paths)
		}
	case syntax.InstMatch:
		if !p.last {
			panic("a pattern ends inside a word")
		}
		*paths = append(*paths, p)
	case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		switch {
		case p.last, p.any && pc == loop:
		case isSpace(in):
			if p.word != "" || p.any {
				p.next = b.state(in.Out)
				*paths = append(*paths, p)
			}
		case p.any:
			panic("a pattern has letters after [^ ]+")
		case in.MatchRune('a') && in.MatchRune('~') && in.MatchRune('я') && !in.MatchRune(' '):
			if p.word != "" {
				panic("a pattern has letters before [^ ]+")
			}
			p.any = true
			b.walk(in.Out, p, pc, paths)
		default:
			for r := rune(' '); r <= '~'; r++ {
				if in.MatchRune(r) {
					q := p
					q.word += string(r)
					b.walk(in.Out, q, loop, paths)
				}
			}
		}
	default:
		panic(fmt.Sprintf("a pattern has %v", in))
	}
}

func isSpace(in *syntax.Inst) bool {
	return (in.Op == syntax.InstRune || in.Op == syntax.InstRune1) && len(in.Rune) == 1 && in.Rune[0] == ' '
}

// read returns the ids of words.
func (m *machine) read(words []string, ids []int32) []int32 {
	ids = ids[:0]
	for _, w := range words {
		ids = append(ids, m.ids[w])
	}
	return ids
}

// after returns the step from a state for a word.
func (m *machine) after(s, word int32) step {
	if word != 0 {
		if t, ok := m.states[s].words[word]; ok {
			return t
		}
	}
	return m.states[s].other
}

// search is the memory of a search with a machine. It is used again for further searches.
type search struct {
	*machine
	now, next []int32
	in        []int // by state: the number of the last step that added it to next
	steps     int   // number of steps, of all searches
}

func (m *machine) search() *search { return &search{machine: m, in: make([]int, len(m.states))} }

// which returns the set of patterns that occur in words, one bit for each.
func (s *search) which(words []int32) (found uint64) {
	s.now = s.now[:0]
	for i, w := range words {
		s.steps++
		s.next = s.next[:0]
		last, first := i == len(words)-1, &s.first[w]
		if found |= first.found; last {
			found |= first.last
		}
		add := func(states []int32, pattern int) {
			for _, to := range states {
				if to == matched {
					found |= 1 << pattern
				} else if s.in[to] != s.steps {
					s.in[to] = s.steps
					s.next = append(s.next, to)
				}
			}
		}
		for _, from := range s.now {
			t := s.after(from, w)
			if t.ends && last {
				found |= 1 << s.states[from].pattern
			}
			add(t.next, s.states[from].pattern)
		}
		add(first.next, 0)
		s.now, s.next = s.next, s.now
	}
	return found
}

// end returns where a match of a pattern ends that begins with the first of words: the number of its words, or 0 if
// there is no match. Of several ends it returns the one that package regexp prefers.
func (s *search) end(pattern int, words []int32) (end int) {
	s.now = append(s.now[:0], s.starts[pattern]...)
	for i, w := range words {
		if len(s.now) == 0 {
			return end
		}
		s.steps++
		s.next = s.next[:0]
	threads:
		for _, from := range s.now {
			t := s.after(from, w)
			if i == len(words)-1 {
				if t.ends {
					return i + 1
				}
				continue
			}
			for _, to := range t.next {
				if to == matched {
					end = i + 1
					break threads
				}
				if s.in[to] != s.steps {
					s.in[to] = s.steps
					s.next = append(s.next, to)
				}
			}
		}
		s.now, s.next = s.next, s.now
	}
	return end
}
