package text

import (
	"slices"
	"sync"

	"lazaret/pkg/text/command"
)

// Version changes whenever the features of some content change. Features of different versions are
// not comparable.
const Version = 2

// Features is the result of [Analyze] for one content. It is stored in ledger entries, so its JSON
// form is short. It leaves out what [Features.Views] can compute from the content.
type Features struct {
	Version  int       `json:"v"`
	Hidden   Hidden    `json:"h,omitzero"`
	Spans    []Span    `json:"s,omitempty"` // encoded parts, in order of discovery
	Carriers []Carrier `json:"c,omitempty"` // in order of appearance; decoded views last
	Phrases  Phrases   `json:"p,omitzero"`
	// Prints are the fingerprints of the content, and then of each decoded view that has at least three words
	Prints  []Fingerprint `json:"f,omitempty"`
	Words   int           `json:"w,omitzero"` // number of words in the content
	Command CommandScore  `json:"o,omitzero"` // the highest of the scores of the text and its decoded views
	Partial bool          `json:"x,omitzero"` // a limit was reached and something was left out
}

// CommandScore says how much a content reads like an order to its reader, by the linear model of package [command]. A
// score below 25 points is recorded as zero.
type CommandScore struct {
	Points int      `json:"p"`           // 0 to 100
	Words  []string `json:"w,omitempty"` // at most three words with the highest weight, highest first
}

// minCommand is the lowest score that is recorded.
const minCommand = 25

// HasHidden reports whether the content has characters that a person does not see.
func (f Features) HasHidden() bool { return f.Hidden.Any() }

// Analyze computes the features of a content of any kind and encoding.
func Analyze(content string) Features {
	f, _ := analyze(content, false)
	return f
}

// AnalyzeViews returns the features of a content and their views, as [Features.Views] computes them.
func AnalyzeViews(content string) (Features, []View) { return analyze(content, true) }

func analyze(content string, viewing bool) (Features, []View) {
	sc := newScratch()
	defer sc.free()
	f := Features{Version: Version}
	a := analysis{scratch: sc, f: &f, budget: decodeBudget(len(content)), spans: maxSpans, viewing: viewing}
	a.phrases.reset()
	a.carriers.reset()
	f.Spans = a.explore(content, "", 0, false)
	f.Carriers = a.carriers.list()
	f.Phrases = a.phrases.list()
	f.Partial = a.partial || a.carriers.full || a.phrases.full
	return f, a.views
}

// analysis is the state of one call of [Analyze].
type analysis struct {
	*scratch
	f       *Features
	budget  int // bytes that may still be decoded
	spans   int // number of encoded spans that may still be decoded
	partial bool
	viewing bool // collect views
	views   []View
}

// explore adds the features of a text and of its decoded parts, and returns the decoded spans. The text's own features
// come before those of its parts. read is set if raw consists of the decoded segments of another text. Then it is not
// split into segments again.
func (a *analysis) explore(raw, via string, depth int, read bool) []Span {
	var h Hidden
	clean := a.clean(raw, &h)
	if depth == 0 {
		a.f.Hidden.atLeast(h)
	}
	normal := a.fold(clean)
	view := len(a.views)
	if a.viewing {
		a.views = append(a.views, newView(via, normal))
	}
	a.digest(normal, depth == 0 && !read)
	if c := command.Of(clean); c.Points >= minCommand && c.Points > a.f.Command.Points {
		a.f.Command = CommandScore(c)
	}
	a.scanner.reset(clean, via, depth < maxDepth)
	found := a.scanner.scan(&a.carriers, h)
	a.partial = a.partial || a.scanner.full
	joined := ""
	if g := &a.segmenter; !read {
		g.run(a.scratch, clean)
		if a.viewing {
			v := &a.views[view]
			v.Lines, v.Whole, v.Cells = g.linesOf(clean, v.Text), g.whole(), g.cells()
		}
		if g.decoded {
			joined = g.join()
			if depth == 0 {
				a.f.Hidden.atLeast(g.hidden)
			}
			// The segmenter has decoded all escapes and character references, so spans of these kinds are not needed.
			found = slices.DeleteFunc(found, func(s Span) bool { return s.Kind == encEscape || s.Kind == encHTML })
			found = slices.Insert(found, 0, Span{Kind: encStrings})
		}
	}
	kept := found[:0]
	for _, s := range found {
		if a.spans == 0 || a.budget <= 0 && s.Kind != encStrings {
			a.partial = true
			break
		}
		inner, decoded := depth+1, joined
		if s.Kind == encStrings {
			inner = depth // not one level deeper, because this is the same text with its escapes decoded
		} else {
			var cut bool
			decoded, cut = s.decode(raw, clean, spanLimit(a.budget, depth))
			a.partial = a.partial || cut
			a.budget -= len(decoded)
		}
		if decoded == "" {
			continue
		}
		a.spans--
		kept = append(kept, s)
		s := &kept[len(kept)-1]
		s.In = a.explore(decoded, viewName(via, s.Kind), inner, s.Kind == encStrings)
	}
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// digest adds the phrases and the fingerprint of one normalized text. own is set for the content itself, and not for a
// decoded part.
func (a *analysis) digest(normal []byte, own bool) {
	content, all := a.words(normal)
	if own {
		a.f.Words = len(all)
	} else if len(all) < minDecodedWords || len(a.f.Prints) == maxPrints {
		return
	}
	a.phrases.add(content)
	a.f.Prints = append(a.f.Prints, a.fingerprint(normal, content))
}

const (
	minDecodedWords = 3 // shorter decoded views are too short to recognize
	maxPrints       = 5
)

// scratch holds the buffers of one analysis. The next analysis uses the same buffers. Results must not refer to them.
type scratch struct {
	cleaned, run, folded []byte
	contentWords         []uint64
	allWords             []uint64
	pairs                []uint64 // words and pairs of words, of sketch
	scanner              scanner
	segmenter            segmenter
	marked               []byte // buffer of lines
	carriers             carrierSet
	phrases              phraseSet
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func newScratch() *scratch { return scratches.Get().(*scratch) }

// maxKept is a size of a scratch's buffers. A scratch with larger buffers is not reused, so that the memory that one
// large content needed is freed.
const maxKept = 256 << 10

func (sc *scratch) free() {
	sc.scanner.s, sc.scanner.via = "", ""
	clear(sc.segmenter.segs)
	clear(sc.segmenter.split)
	sc.segmenter = segmenter{segs: sc.segmenter.segs[:0], split: sc.segmenter.split[:0]}
	if cap(sc.cleaned)+cap(sc.folded)+cap(sc.run)+cap(sc.marked)+32*cap(sc.allWords)+40*cap(sc.segmenter.segs) <= maxKept {
		scratches.Put(sc)
	}
}
