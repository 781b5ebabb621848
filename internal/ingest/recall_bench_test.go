package ingest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// BenchmarkRecall decides and folds recalls by three to seven words among LAZARET_BENCH_DOCS beliefs, of
// which nine of ten come from documents and the others from the user. The default is 20,000.
func BenchmarkRecall(b *testing.B) {
	n := 20_000
	if s := os.Getenv("LAZARET_BENCH_DOCS"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	o, err := stage.OpenOffline()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { o.Close() })
	h := newHouse(b, o.State(0))
	r := rand.New(rand.NewPCG(1, 1))
	for i := range n {
		origin := beliefs.OriginDocument
		if i%10 == 0 {
			origin = beliefs.OriginUser
		}
		h.say(streams.KindObs, origin, &streams.Observation{Head: streams.Head{ID: fmt.Sprint("o", i),
			Session: fmt.Sprint("s", i/100)}, Content: sentence(r, 12+r.IntN(16), i), Source: fmt.Sprint("file-", i%5000)})
		if i%200 == 0 {
			if err := o.Commit(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		body, err := streams.Marshal(&streams.Recall{Head: streams.Head{ID: fmt.Sprint("r", i), Session: "asked"},
			Query: sentence(r, 3+r.IntN(5), n+i)})
		if err != nil {
			b.Fatal(err)
		}
		h.seq++
		h.now = h.now.Add(time.Millisecond)
		m := &stage.Message{Address: streams.Address{Project: "demo", Agent: "agent", Kind: streams.KindRecall},
			Seq: h.seq, Time: h.now, Data: body}
		a, err := h.f.Admit(h.st, m)
		if err != nil {
			b.Fatal(err)
		}
		if e, ok := a.Decided.(*streams.RecallEntry); !ok || len(e.ContextOnly) == 0 {
			b.Fatalf("recall %d finds nothing", i)
		}
		if err := h.f.Apply(h.st, &streams.Entry{Stage: streams.StageIngest, Type: a.Type, Project: a.Project, Src: h.seq,
			Body: a.Body}, a.Decided); err != nil {
			b.Fatal(err)
		}
		if err := o.Commit(); err != nil {
			b.Fatal(err)
		}
	}
}
