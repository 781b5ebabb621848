package ingest

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// encodedSize returns the sizes of a recall's request and of its entry.
func encodedSize(t testing.TB, ev *streams.Recall, e *streams.RecallEntry) (request, entry int) {
	t.Helper()
	a, err := streams.Marshal(ev)
	if err != nil {
		t.Fatal(err)
	}
	b, err := streams.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return len(a), len(b)
}

// overhead is the size of a recall's entry without its items and its request: the head, refusals
// and counts.
const overhead = 16 << 10

func TestPromiseC20ARecallOfLargeMemoriesHasABoundedEntry(t *testing.T) {
	words := []string{"stone größe\x01 ", "stone ", "sto\"ne\\ ", "stone \x01\x02\x03", "stone größe 世界 "}
	if testing.Short() {
		words = words[:1]
	}
	for _, word := range words {
		w := newWorld(t)
		whole := map[string]string{}
		for i := range 100 {
			text := fmt.Sprintf("zebra %d ", i) + strings.Repeat(word, 98_000/len(word))
			whole[w.remember("p", "a", "user", &streams.Memory{Key: fmt.Sprint("big", i), Content: text}, streams.Allow)] = text
		}
		for _, limit := range []int{1, 10, 100} {
			ev := &streams.Recall{Query: "zebra", Limit: limit}
			e := w.recall("p", "a", ev)
			request, entry := encodedSize(t, ev, e)
			if entry > recallBytes+request+overhead {
				t.Errorf("%q: a request of %d bytes makes an entry of %d", word, request, entry)
			}
			if len(e.Admitted) == 0 || !e.More {
				t.Errorf("%q: %d of %d are admitted, more: %v", word, len(e.Admitted), limit, e.More)
			}
			for _, it := range e.Admitted {
				text := whole[it.ID]
				if !it.Partial || it.Size != len(text) || it.Digest != streams.Digest([]byte(text)) {
					t.Fatalf("%q: partial %v, size %d of %d", word, it.Partial, it.Size, len(text))
				}
				if !strings.HasPrefix(text, it.Content) || !utf8.ValidString(it.Content) ||
					len(it.Content) < recallBytes/limit/8 && len(it.Content) < leastServed/6 {
					t.Fatalf("%q: served %d bytes: %.40q", word, len(it.Content), it.Content)
				}
			}
			if left := limit - len(e.Admitted); left > 0 && e.Omitted["admitted"] < left {
				t.Errorf("%q: %d are admitted of %d, omitted %v", word, len(e.Admitted), limit, e.Omitted)
			}
		}
	}
}

// A text that is too large for one answer can be read in pieces, one recall for each piece. Each recall's entry must
// have the piece, so that the sentinels judge it.
func TestALargeMemoryIsReadInPieces(t *testing.T) {
	w := newWorld(t)
	text := "zebra " + strings.Repeat("größe \x01 世界 ", 20_000)
	w.remember("p", "a", "user", &streams.Memory{Key: "big", Content: text}, streams.Allow)
	small := w.remember("p", "a", "user", &streams.Memory{Key: "small", Content: "zebra crossing"}, streams.Allow)
	var got strings.Builder
	for got.Len() < len(text) {
		e := w.recall("p", "a", &streams.Recall{Key: "big", Offset: got.Len()})
		if len(e.Admitted) != 1 || e.Admitted[0].Content == "" || e.Admitted[0].Size != len(text) {
			t.Fatalf("from %d: %+v", got.Len(), e.Admitted)
		}
		got.WriteString(e.Admitted[0].Content)
	}
	if got.String() != text {
		t.Errorf("the pieces have %d bytes and are not the memory, which has %d", got.Len(), len(text))
	}
	// A short text in the same answer is complete.
	e := w.recall("p", "a", &streams.Recall{Query: "zebra"})
	for _, it := range e.Admitted {
		if it.ID == small && (it.Partial || it.Content != "zebra crossing") {
			t.Errorf("a short text is served as %+v", it)
		}
	}
}

func TestPromiseC20AGateOfManyCandidatesHasABoundedEntry(t *testing.T) {
	w := newWorld(t)
	ev := &streams.Recall{Limit: 100}
	for i := range 50 {
		id := w.remember("p", "a", "user", &streams.Memory{Key: strings.Repeat("k", 900) + fmt.Sprint(i),
			Source: strings.Repeat("\x01", 1000), Content: "zebra " + strings.Repeat(fmt.Sprint(i, " "), 30_000)}, streams.Allow)
		ev.Candidates = append(ev.Candidates, streams.GateCandidate{ID: id},
			streams.GateCandidate{Content: fmt.Sprint("stone ", i, strings.Repeat("\x02 ", 1500))})
	}
	e := w.recall("p", "a", ev)
	request, entry := encodedSize(t, ev, e)
	if entry > recallBytes+request+overhead || !e.More {
		t.Errorf("a request of %d bytes makes an entry of %d, more: %v", request, entry, e.More)
	}
}

// A rollback's entries contain the evidence of each restored belief, with the names of sources. With names of maximum
// length, each entry must still fit into a ledger message.
func TestPromiseC20ARollbackOfWellSourcedBeliefsFits(t *testing.T) {
	h := newHouse(t, offline(t))
	source := func(i int) string { return fmt.Sprintf("%03d", i) + strings.Repeat("\x01", streams.MaxNameLen-3) }
	if err := h.f.takePoint(h.st, "demo", &Point{Name: "p1", Why: "named", At: h.now, Intake: 200}); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		m := h.write(beliefs.OriginUser, &streams.Memory{Head: streams.Head{ID: fmt.Sprint("m", i)},
			Content: fmt.Sprint("zebra ", i)})
		r := h.belief(m.Belief.ID)
		for k := range beliefs.MaxEvidence {
			r.Evidence = r.Evidence.With(beliefs.Evidence{Observation: "o", Quality: beliefs.ToolResult, Source: source(k),
				At: h.now})
		}
		was := *r
		if err := putRecord(h.st, "demo", &was); err != nil {
			t.Fatal(err)
		}
		// It changes after the point.
		r.Evidence = r.Evidence[:1]
		if err := h.f.saveRecord(h.st, "demo", r); err != nil {
			t.Fatal(err)
		}
	}
	p, err := h.f.pointOf(h.st, "demo", "p1")
	if err != nil || p == nil {
		t.Fatal(p, err)
	}
	run := &rolling{Rollback: streams.Rollback{Point: p.Name}, Number: p.Number, Intake: p.Intake, Until: ^uint64(0),
		Order: "o"}
	if err := h.st.Put(stage.Key(keyRollback, "demo"), run); err != nil {
		t.Fatal(err)
	}
	restored := 0
	for !run.Last {
		a, err := h.f.rollback(h.st)
		if err != nil {
			t.Fatal(err)
		}
		if a == nil {
			break
		}
		if len(a.Body) > streams.MaxEntry {
			t.Fatalf("an entry of the rollback has %d bytes", len(a.Body))
		}
		restored += len(a.Decided.(*streams.RevisionsEntry).Revisions)
		h.own(a, h.seq)
	}
	if restored < 100 {
		t.Errorf("%d of 100 beliefs are restored", restored)
	}
}

// A re-audit's entries contain the texts that were read. With texts of maximum length, each entry must still fit into a
// ledger message.
func TestPromiseC20AReauditOfLongTextsFits(t *testing.T) {
	h := newHouse(t, offline(t))
	for i := range 300 {
		h.read(beliefs.OriginWeb, fmt.Sprint("o", i), fmt.Sprint(i)+strings.Repeat("\x01", keptText))
	}
	if err := h.f.startReaudit(h.st, "rules x"); err != nil {
		t.Fatal(err)
	}
	chunks := 0
	for ; ; chunks++ {
		a, err := h.f.FollowUp(h.st)
		if err != nil {
			t.Fatal(err)
		}
		if a == nil {
			break
		}
		if len(a.Body) > streams.MaxEntry {
			t.Fatalf("a chunk of the re-audit has %d bytes", len(a.Body))
		}
		h.own(a, h.seq)
	}
	if chunks < 2 {
		t.Errorf("%d chunks", chunks)
	}
}
