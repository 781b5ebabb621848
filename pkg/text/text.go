// Package text computes from a piece of content what the rest of the firewall
// compares, indexes and matches: views, carriers, phrases and fingerprints.
//
// A segment is a stretch of the content that is read on its own: a string of a
// document, a cell, the text of an element, with its escapes resolved. A view is
// the content as a model would understand it with the disguise taken off:
// normalised, or decoded. A carrier is a typed token that can take an
// attack from a document to an action: an address, a host, a path, an account.
// Phrases are hashed word n-grams that survive copying, extracting and
// reordering. A fingerprint recognises the same and almost the same text.
//
// Beside them stand what a guard does with a text once it has an opinion: [Mask]
// takes parts out, [Spotlight] and [Annotate] mark it, and [Grounding] measures
// how far an answer is supported by what the agent had read.
//
// Guarantees: pure functions of their input and of [Version], the same on every
// machine; time and memory grow linearly with the content, whatever the content
// is; no input makes them panic. Where a bound cut something off, [Features]
// says so in Partial, because an attacker may fill a bound on purpose.
//
// It gives no opinion: rules say whether a text is an injection or a
// secret. Recognising is not trusting either: a match says
// that two texts look alike, and only [VerbatimSpan] is strict enough to grant
// anything.
//
// The normal form follows Unicode UAX #15 (NFKC) and UTS #39 (confusables).
// Phrases are selected by winnowing (Schleimer, Wilkerson, Aiken: "Winnowing:
// local algorithms for document fingerprinting", 2003); near-duplicates by
// min-hash (Broder, 1997) with banding.
package text

import (
	"slices"
	"sync"

	"lazaret/pkg/text/command"
)

// Version changes whenever the same content would give other features. Features
// of different versions are not comparable.
const Version = 2

// Features is what [Analyze] finds in one content. It is made to travel: its
// JSON form is short and keeps nothing that [Features.Views] can compute again
// at the cost of reading the content once.
type Features struct {
	Version  int           `json:"v"`
	Hidden   Hidden        `json:"h,omitzero"`
	Spans    []Span        `json:"s,omitempty"` // what to decode, in order of discovery
	Carriers []Carrier     `json:"c,omitempty"` // in order of appearance, the content's own before those of decoded views
	Phrases  Phrases       `json:"p,omitzero"`
	Prints   []Fingerprint `json:"f,omitempty"` // of the content, then of decoded views with at least three words
	Words    int           `json:"w,omitzero"`  // words in the content
	Command  CommandScore  `json:"o,omitzero"`  // of the text or decoded view that reads most like an order
	Partial  bool          `json:"x,omitzero"`  // a bound was reached: more spans, carriers or phrases than are kept
}

// CommandScore is how much a content reads like an order to its reader, by the linear
// model of package [command]. Below minCommand points it is zero.
type CommandScore struct {
	Points int      `json:"p"`           // to 100
	Words  []string `json:"w,omitempty"` // at most three that weigh most, heaviest first
}

// minCommand is the least score that travels in an entry.
const minCommand = 25

// HasHidden reports whether the content has characters that a person would not
// see.
func (f Features) HasHidden() bool { return f.Hidden.Any() }

// Analyze computes the features of a content of any kind and encoding.
func Analyze(content string) Features {
	sc := newScratch()
	defer sc.free()
	f := Features{Version: Version}
	a := analysis{scratch: sc, f: &f, budget: decodeBudget(len(content)), spans: maxSpans}
	a.phrases.reset()
	a.carriers.reset()
	f.Spans = a.explore(content, "", 0, false)
	f.Carriers = a.carriers.list()
	f.Phrases = a.phrases.list()
	f.Partial = a.partial || a.carriers.full || a.phrases.full
	return f
}

// analysis is the state of one call of [Analyze].
type analysis struct {
	*scratch
	f       *Features
	budget  int // bytes that may still be decoded
	spans   int // spans that may still be found
	partial bool
}

// explore adds the features of a text and of what it decodes to, and returns
// the spans that were decoded. The text's own features come before those of
// anything inside it. read says that the text is what a segmenter made.
func (a *analysis) explore(raw, via string, depth int, read bool) []Span {
	var h Hidden
	clean := a.clean(raw, &h)
	if depth == 0 {
		a.f.Hidden.atLeast(h)
	}
	a.digest(clean, depth == 0 && !read)
	if c := command.Of(clean); c.Points >= minCommand && c.Points > a.f.Command.Points {
		a.f.Command = CommandScore(c)
	}
	a.scanner.reset(clean, via, depth < maxDepth)
	found := a.scanner.scan(&a.carriers, h)
	a.partial = a.partial || a.scanner.full
	joined := ""
	if g := &a.segmenter; !read {
		if g.run(a.scratch, clean); g.decoded {
			joined = g.join()
			if depth == 0 {
				a.f.Hidden.atLeast(g.hidden)
			}
			// It decodes all escapes and character references.
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
			inner = depth // of the size of the text itself, and never twice
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

// digest adds phrases and fingerprint of one clean text.
func (a *analysis) digest(clean string, own bool) {
	normal := a.fold(clean)
	content, all := a.words(normal)
	if own {
		a.f.Words = len(all)
	} else if len(all) < minDecodedWords || len(a.f.Prints) == maxPrints {
		return
	}
	a.phrases.add(content)
	a.f.Prints = append(a.f.Prints, newFingerprint(normal, content))
}

const (
	minDecodedWords = 3 // below, a decoded view is too short to recognise by
	maxPrints       = 5
)

// scratch holds the buffers of one analysis. They are reused between calls;
// nothing in a result points into them.
type scratch struct {
	cleaned, run, folded []byte
	contentWords         []uint64
	allWords             []uint64
	scanner              scanner
	segmenter            segmenter
	marked               []byte // of lines
	carriers             carrierSet
	phrases              phraseSet
	stems                *[keptStems]keptStem
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func newScratch() *scratch { return scratches.Get().(*scratch) }

// maxKept is the buffer size above which a scratch is not kept: one large
// content should not pin its memory.
const maxKept = 256 << 10

func (sc *scratch) free() {
	sc.scanner.s, sc.scanner.via = "", ""
	clear(sc.segmenter.segs)
	sc.segmenter = segmenter{segs: sc.segmenter.segs[:0]}
	if cap(sc.cleaned)+cap(sc.folded)+cap(sc.run)+cap(sc.marked)+16*cap(sc.allWords)+40*cap(sc.segmenter.segs) <= maxKept {
		scratches.Put(sc)
	}
}
