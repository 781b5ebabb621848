package statement

import (
	"testing"

	"lazaret/pkg/position"
	"lazaret/streams"
)

func TestAStatementToForgetAProjectCoversEarlierEntriesOnly(t *testing.T) {
	var x Erased
	at := func(seq uint64, index int, typ streams.Type, src uint64) *streams.Entry {
		return &streams.Entry{Seq: seq, Index: index, Stage: streams.StageIngest, Type: typ, Project: "p", Src: src}
	}
	if x.CoversEntry(at(3, 0, streams.TypeAction, 3)) || x.Covers("p", 0) {
		t.Error("an entry is covered without a statement")
	}
	if !x.Add(at(10, 1, streams.TypeForgotten, 9)) || x.Add(at(11, 0, streams.TypeAction, 9)) {
		t.Error("a statement is not recognized, or an action is taken for one")
	}
	for at, want := range map[uint64]bool{9: true, 10: true, position.At(9, 3): true, position.At(10, 1): false,
		position.At(10, 2): false, 11: false} {
		if x.Covers("p", at) != want || x.Covers("q", at) {
			t.Errorf("%s: covered is %v", position.Text(at), !want)
		}
	}
	by := func(stage string, typ streams.Type) *streams.Entry {
		e := at(20, 0, typ, 9)
		e.Stage = stage
		return e
	}
	if x.CoversEntry(by(streams.StageIngest, streams.TypeAction)) { // its source is a position of the intake
		t.Error("a later event is covered")
	}
	if !x.CoversEntry(by(streams.StageArbiter, streams.TypeVerdict)) {
		t.Error("a late verdict on an earlier entry is not covered")
	}
	if x.CoversEntry(by(streams.StageArbiter, streams.TypeDue)) || x.CoversEntry(by("sentinel-a", streams.TypeDropped)) {
		t.Error("a timer, or a stage's report, is covered")
	}
}
