package otel

import (
	"testing"
	"time"

	"lazaret/streams"
)

func TestAGroupOfSomebodyElseMakesNoSpans(t *testing.T) {
	body := []byte(`{"id":"o1","agent":"a","session":"s","tool":"fetch","origin":"tool"}`)
	for stage, want := range map[string]int{streams.StageIngest: 1, "sentinel-theirs": 0} {
		f := NewFold(Options{}, nil)
		spans, err := f.Take(&streams.Entry{Seq: 2, Stage: stage, Type: streams.TypeObservation, Project: "p", Body: body,
			Time: time.Now()})
		if err != nil || len(spans) != want {
			t.Errorf("%s: %d spans, %v", stage, len(spans), err)
		}
	}
}
