package ingest

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/lexical"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// An index that has numbered nearly as many documents as it can becomes full. Later beliefs go to a second volume.
// Recalls and lineages must find the beliefs of both volumes. An expiry must remove the beliefs of both. Then the first
// volume has room again.
func TestBeliefsThatFollowAFullIndexAreFound(t *testing.T) {
	x, _ := newExpirer(t)
	const before = lexical.MaxDocuments - 4
	first := shelf{class: classExternal}
	numberDocuments(t, x.st, append(stage.Key(keyIndex, "demo", "", ""), first.key()), before)
	var ids []string
	read := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			x.read(beliefs.OriginWeb, fmt.Sprint("o", i), fmt.Sprintf("The heron number%d stands in the reeds.", i))
		}
	}
	found := func(want ...string) {
		t.Helper()
		x.seq++
		e := x.say(streams.KindRecall, "", &streams.Recall{Head: streams.Head{ID: fmt.Sprint("r", x.seq), Session: "s"},
			Query: "heron", Limit: 20}).(*streams.RecallEntry)
		ids = ids[:0]
		for _, it := range e.ContextOnly {
			ids = append(ids, it.Observation)
		}
		if slices.Sort(ids); !slices.Equal(ids, want) {
			t.Errorf("a recall finds %v, want %v", ids, want)
		}
		for _, id := range want {
			all, err := labelled(x.st, "demo", text.Label("event", "agent/"+id))
			if err != nil || len(all) != 1 {
				t.Errorf("the beliefs of event %s are %v, %v; want one", id, all, err)
			}
		}
	}
	count := func(volume byte) uint32 {
		t.Helper()
		s := first
		s.volume = volume
		n, err := index(x.st, "demo", "", s).Len()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	read(0, 7)
	if a, b := count(0), count(1); a != lexical.MaxDocuments || b != 3 {
		t.Errorf("the volumes have numbered %d and %d documents, want %d and 3", a, b, uint32(lexical.MaxDocuments))
	}
	found("o0", "o1", "o2", "o3", "o4", "o5", "o6")
	x.now = x.now.Add(time.Hour)
	horizon := x.now
	read(7, 9)
	x.expire(horizon)
	for x.step() {
	}
	found("o7", "o8")
	read(9, 10)
	if a, b := count(0), count(1); a != 1 || b != 5 {
		t.Errorf("after the expiry, the volumes have numbered %d and %d documents, want 1 and 5", a, b)
	}
	found("o7", "o8", "o9")
}

// numberDocuments writes the state of an index that has given out count document numbers, and whose documents were all
// removed and swept.
func numberDocuments(t *testing.T, st *stage.State, key []byte, count uint32) {
	t.Helper()
	const inSegment, inSpan = 512, 512 * 512
	set := func(kind byte, rest, value []byte) {
		t.Helper()
		if err := st.Set(append(append(slices.Clip(key), kind), rest...), value); err != nil {
			t.Fatal(err)
		}
	}
	set('n', nil, binary.BigEndian.AppendUint32(nil, count))
	var spans []byte
	for _, n := range [...]uint32{0, count / inSpan * inSpan, count / inSpan * inSpan, count % inSpan} {
		spans = binary.BigEndian.AppendUint32(spans, n)
	}
	binary.BigEndian.PutUint32(spans[8:], count/inSpan*inSpan/inSegment)
	set('s', nil, spans)
	for slot := range count % inSegment {
		set('f', binary.BigEndian.AppendUint16(nil, uint16(slot)), nil)
	}
}
