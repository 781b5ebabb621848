package bench_test

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"lazaret/internal/bench"
)

// grown returns a report of a run whose memory grows by this fraction.
func grown(by float64) *bench.SoakReport {
	r := &bench.SoakReport{Events: 40_000, Projects: 1}
	for i := range 40 {
		rss := 200 << 20 * (1 + by*float64(i)/40)
		r.Samples = append(r.Samples, bench.Sample{Seconds: float64(i), Decided: uint64(i+1) * 1000, RSS: uint64(rss),
			Streams: uint64(i) << 20, Log: uint64(i) << 19, State: uint64(i) << 18})
	}
	return r
}

func TestASoakIsFlatOrItIsNot(t *testing.T) {
	for by, missed := range map[float64]bool{0: false, 0.1: false, 1: true} {
		r := grown(by)
		if err := r.Conclude(); err != nil {
			t.Fatal(err)
		}
		if bench.Missed(r.Lines()) != missed {
			t.Errorf("memory grows by %g of itself: %+v", by, r.Lines())
		}
	}
	r := grown(0)
	r.Samples = r.Samples[:5]
	if err := r.Conclude(); err == nil {
		t.Error("a report with five samples has a conclusion")
	}
	r = grown(0)
	r.Lost = 1
	if err := r.Conclude(); err != nil || !bench.Missed(r.Lines()) {
		t.Errorf("an event was lost, but no budget is missed: %v", err)
	}
}

func TestSamplesTravelAsCSVAndAreDrawn(t *testing.T) {
	r := grown(0.3)
	var b bytes.Buffer
	if err := r.CSV(&b); err != nil {
		t.Fatal(err)
	}
	back, err := bench.ReadCSV(b.Bytes())
	if err != nil || !slices.Equal(back, r.Samples) {
		t.Errorf("%v, %+v", err, back)
	}
	if _, err := bench.ReadCSV([]byte("h\n1,2\n")); err == nil {
		t.Error("a line with two fields is accepted")
	}
	b.Reset()
	if err := bench.Graph(&b, "a < soak", r.Samples); err != nil {
		t.Fatal(err)
	}
	d, curves := xml.NewDecoder(&b), 0
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		e, ok := tok.(xml.StartElement)
		if !ok {
			continue
		}
		for _, a := range e.Attr {
			if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
				t.Errorf("%s %s=%q", e.Name.Local, a.Name.Local, a.Value)
			}
			if a.Name.Local == "points" {
				curves++
				if n := len(strings.Fields(a.Value)); n != len(r.Samples) {
					t.Errorf("%d points of %d samples", n, len(r.Samples))
				}
			}
		}
	}
	if curves != 4 {
		t.Errorf("%d curves", curves)
	}
}

func TestASoakEndsOnceAllIsChained(t *testing.T) {
	r := &bench.SoakReport{Events: 10}
	loaded := make(chan error, 1)
	n := uint64(0)
	err := r.Sampling(context.Background(), time.Millisecond, loaded, func(context.Context) (bench.Sample, error) {
		if n++; n == 3 {
			loaded <- nil
		}
		return bench.Sample{Decided: min(2*n, 10), Chained: n, Lag: 20 - min(n, 20)}, nil
	})
	if err != nil || r.Lost != 0 || len(r.Samples) < 20 {
		t.Errorf("%v, %d lost after %d samples", err, r.Lost, len(r.Samples))
	}
	loaded <- errors.New("broken")
	if err := r.Sampling(context.Background(), time.Hour, loaded, nil); err == nil || !strings.Contains(err.Error(),
		"broken") {
		t.Errorf("%v", err)
	}
}
