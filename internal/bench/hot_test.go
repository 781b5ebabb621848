package bench

import (
	"sync"
	"testing"

	"lazaret/internal/backtest"
	"lazaret/pkg/rules"
	"lazaret/pkg/signals/index"
	"lazaret/streams"
)

var hotRun = sync.OnceValues(func() (*shippedRun, error) { return newShippedRun(3000) })

// BenchmarkShipped judges 1 KiB by the shipped packs, like shippedRun: each event is already parsed,
// and the state grows with the events. On a shared machine, compare cpu-ns/op.
func BenchmarkShipped(b *testing.B) {
	s, err := hotRun()
	if err != nil {
		b.Fatal(err)
	}
	for _, t := range append([]streams.Type{""}, shippedKinds...) {
		name := string(t)
		if t == "" {
			name = "mixed"
		}
		var ps []*rules.Prepared
		for _, e := range s.events {
			if t == "" || e.Type == t {
				p, err := rules.Prepare(e)
				if err != nil {
					b.Fatal(err)
				}
				ps = append(ps, p)
			}
		}
		b.Run(name, func(b *testing.B) {
			var st index.Store
			b.ReportAllocs()
			used := cpuTime()
			for i := range b.N {
				if i%len(ps) == 0 {
					st = index.NewMemStore()
				}
				if _, err := s.ev.EvalPrepared(st, ps[i%len(ps)]); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cpuTime()-used)/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkBacktestFull judges a history again by the shipped packs.
func BenchmarkBacktestFull(b *testing.B) {
	none, err := nobody()
	if err != nil {
		b.Fatal(err)
	}
	ship, err := shippedSet()
	if err != nil {
		b.Fatal(err)
	}
	events, err := newCorpus(4).events(10_000, "")
	if err != nil {
		b.Fatal(err)
	}
	h := backtest.NewHistory()
	for _, p := range events {
		if err := h.Add(p.Entry); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	used := cpuTime()
	for b.Loop() {
		if _, err := backtest.Run(b.Context(), none, ship, h, backtest.Options{Full: true}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cpuTime()-used)/float64(b.N*len(events)), "cpu-ns/event")
}
