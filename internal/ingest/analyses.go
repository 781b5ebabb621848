package ingest

import (
	"sync"
	"sync/atomic"

	"lazaret/pkg/text"
)

// analyses is a cache of the analyses of recently read contents. Agents read the same pages, files and
// tool results again and again, and the analysis of a content takes longer than the rest of ingest's
// work on it.
//
// Sentinels in the same process store the results of their own analysis in it.
//
// It has no influence on decisions, because an analysis depends on the content alone. It may be used
// from several goroutines.
type analyses struct {
	mu sync.Mutex
	// now has the newer contents, old has the others.
	now, old map[string]analyzed // guarded by mu
	bytes    int                 // estimated size of now; guarded by mu
}

// analyzed is the analysis of a content. It is read-only.
type analyzed struct {
	features text.Features
	views    []text.View
	derived  *atomic.Value // see streams.BlockEntry; nil if the analysis is not remembered
}

const (
	// analyzedBytes is the estimated size of each half of analyses.
	analyzedBytes = 4 << 20
	// analyzedMost is the size of the largest content that is remembered, in bytes.
	analyzedMost = 32 << 10
)

// of returns the analysis of a content.
func (a *analyses) of(content string) analyzed {
	if len(content) > analyzedMost {
		return analyze(content)
	}
	a.mu.Lock()
	found, ok := a.now[content]
	if !ok {
		if found, ok = a.old[content]; ok {
			a.put(content, found)
		}
	}
	a.mu.Unlock()
	if !ok {
		found = analyze(content)
		found.derived = new(atomic.Value)
		a.mu.Lock()
		a.put(content, found)
		a.mu.Unlock()
	}
	return found
}

func analyze(content string) (a analyzed) {
	a.features, a.views = text.AnalyzeViews(content)
	return a
}

// put remembers an analysis. The caller must hold mu.
func (a *analyses) put(content string, of analyzed) {
	size := 2048 + 2*len(content) + 8*len(of.features.Phrases.Hashes) + 96*len(of.features.Carriers)
	for _, v := range of.views {
		size += len(v.Text) + len(v.Lines)
	}
	if a.bytes += size; a.bytes > analyzedBytes || a.now == nil {
		a.now, a.old, a.bytes = make(map[string]analyzed), a.now, size
	}
	a.now[content] = of
}

// drop forgets all contents.
func (a *analyses) drop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now, a.old, a.bytes = nil, nil, 0
}
