package ingest

import (
	"fmt"
	"strings"
	"testing"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Short messages of a user are compared with the agent's latest readings. The words of each reading must be split once,
// and not for each message.
func TestReadingsAreSplitIntoWordsOnce(t *testing.T) {
	h := newHouse(t, offline(t))
	const readings = 4
	for i := range readings {
		page := fmt.Sprintf("page %d says something of no use. ", i)
		h.read(beliefs.OriginWeb, fmt.Sprint("r", i), strings.Repeat(page, 800))
	}
	for i := range 20 {
		h.read(beliefs.OriginUser, fmt.Sprint("u", i),
			fmt.Sprintf("please look up flight %d to Rome and write the price into the list", i))
	}
	if n := h.f.wordings.made; n != readings {
		t.Errorf("%d readings were split %d times", readings, n)
	}
	h.f.Reset()
	if n := len(h.f.wordings.now) + len(h.f.wordings.old); n != 0 {
		t.Errorf("%d readings are cached after a reset", n)
	}
}

func TestTheCacheOfWordingsIsBounded(t *testing.T) {
	var c wordings
	for i := range 200 {
		if w := c.of(strings.Repeat(fmt.Sprintf("w%d ", i), 10_000)); w.Len() != 10_000 {
			t.Fatalf("%d words", w.Len())
		}
	}
	held := 0
	for _, m := range []map[string]int{sizes(c.now), sizes(c.old)} {
		for _, n := range m {
			held += n
		}
	}
	if held == 0 || held > 2*wordingBytes || c.old == nil {
		t.Errorf("texts of %d bytes are cached", held)
	}
}

func sizes[V any](m map[string]V) map[string]int {
	out := make(map[string]int)
	for s := range m {
		out[s] = len(s)
	}
	return out
}

// A recall's items are analyzed when they count as read. The next recall of the same items must find the analyses.
func TestTheItemsOfARecallAreAnalyzedOnce(t *testing.T) {
	h := newHouse(t, offline(t))
	page := "The harbour of Kiel opens at seven and closes at nine."
	h.read(beliefs.OriginWeb, "r", page)
	h.f.Reset()
	e := h.say(streams.KindRecall, "", &streams.Recall{Head: streams.Head{ID: "q", Session: "s"}, Query: "harbour Kiel"})
	if r, ok := e.(*streams.RecallEntry); !ok || len(r.ContextOnly) != 1 || r.ContextOnly[0].Content != page {
		t.Fatalf("the recall is %+v", e)
	}
	if _, ok := h.f.analyses.now[page]; !ok {
		t.Error("the analysis of the item is not cached")
	}
}
