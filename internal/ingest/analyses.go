package ingest

import (
	"crypto/sha256"
	"sync"
	"sync/atomic"

	"lazaret/pkg/signals"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// analyses caches the analyses of recently read contents. Agents read the same pages, files and tool results again and
// again, and analyzing a content takes longer than the rest of ingest's work on it.
//
// Sentinels in the same process get the field analyzed.derived of a content, and store the results of their own
// analysis there.
//
// The cache does not influence decisions, because an analysis depends only on the content. It may be used from several
// goroutines.
type analyses struct {
	mu sync.Mutex
	// now has the contents that were added since old was replaced. When now is full, it becomes old, and the former old
	// is dropped.
	now, old map[string]analyzed // guarded by mu
	bytes    int                 // estimated size of now; guarded by mu
}

// analyzed is the analysis of a content. It is read-only.
type analyzed struct {
	sum       [sha256.Size]byte // of the content
	features  text.Features
	views     []text.View
	instructs bool          // see signals.Instructs
	derived   *atomic.Value // the sentinels' own analysis, see streams.BlockEntry; nil if not cached
	encoded   []byte        // see streams.BlockEntry; nil if not cached
}

const (
	// analyzedBytes is the estimated size in bytes at which the map `now` is full and becomes `old`. The cache has both
	// maps, so its size is at most about twice this value.
	analyzedBytes = 5 << 20
	// analyzedMost is the size in bytes of the largest content that is cached.
	analyzedMost = 32 << 10
)

// of returns the analysis of a content, from the cache if it is there.
func (a *analyses) of(content string) analyzed {
	if len(content) > analyzedMost {
		return analyze(content, nil)
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
		found = analyze(content, new(atomic.Value))
		a.mu.Lock()
		a.put(content, found)
		a.mu.Unlock()
	}
	return found
}

func analyze(content string, derived *atomic.Value) (a analyzed) {
	a.derived = derived
	a.sum = sha256.Sum256([]byte(content))
	a.features, a.views = text.AnalyzeViews(content)
	a.instructs = signals.Instructs(a.views, a.features.HasHidden(), derived)
	if derived != nil {
		a.encoded = streams.EncodeBlock(content, &a.features)
	}
	return a
}

// put adds an analysis to the cache. The caller must hold mu.
func (a *analyses) put(content string, of analyzed) {
	size := 2048 + 2*len(content) + 8*len(of.features.Phrases.Hashes) + 96*len(of.features.Carriers)
	size += len(of.encoded)
	for _, v := range of.views {
		size += len(v.Text) + len(v.Lines)
	}
	if a.bytes += size; a.bytes > analyzedBytes || a.now == nil {
		a.now, a.old, a.bytes = make(map[string]analyzed), a.now, size
	}
	a.now[content] = of
}

// drop empties the cache.
func (a *analyses) drop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now, a.old, a.bytes = nil, nil, 0
}
