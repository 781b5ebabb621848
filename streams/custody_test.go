package streams_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lazaret/internal/fuzztest"
	"lazaret/streams"

	"golang.org/x/mod/sumdb/note"
)

func TestAnOrderOnAProjectNamesWhatItCovers(t *testing.T) {
	signer, v := fuzztest.Signer(t, "op")
	c := streams.Custody{Do: streams.DoForget, Project: "acme", ID: "c1", Issued: time.Unix(1_790_000_000, 0).UTC(),
		Reason: "r",
		UpTo:   20, Ranges: []streams.SeqRange{{From: 3, To: 5}, {From: 20, To: 20}}}
	open := func(text string) (streams.Custody, error) {
		msg, err := note.Sign(&note.Note{Text: text}, signer)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := streams.OpenCustody(msg, note.VerifierList(v))
		return got, err
	}
	got, err := open(c.Text())
	if err != nil || got.UpTo != 20 || !slices.Equal(got.Ranges, c.Ranges) {
		t.Fatalf("the order is read as %+v, %v", got, err)
	}
	for _, bad := range [][2]string{{"up-to: 20", "up-to: 0"}, {"up-to: 20", "up-to: 020"}, {"up-to: 20", "up-to: 19"},
		{"3-5,20", "3-5,20-21"},
		{"3-5,20", "3-5,6"}, {"3-5,20", "5-3"}, {"do: forget", "do: legal-hold"}, {"custody/v3", "custody/v1"}} {
		if got, err := open(strings.Replace(c.Text(), bad[0], bad[1], 1)); err == nil {
			t.Errorf("with %q the order is read as %+v, want an error", bad, got)
		}
	}
}

func TestWidenedRangesHoldAllThatTheyHeld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seqs := rapid.SliceOfNDistinct(rapid.Uint64Range(1, 1<<20), 1, 200, rapid.ID).Draw(t, "seqs")
		slices.Sort(seqs)
		limit := rapid.IntRange(20, 400).Draw(t, "limit")
		rs := streams.Widen(streams.Ranges(seqs), limit)
		text := streams.FormatRanges(rs)
		if len(text) > limit {
			t.Fatalf("%d bytes, at most %d: %s", len(text), limit, text)
		}
		if again, err := streams.ParseRanges(text); err != nil || !slices.Equal(again, rs) {
			t.Fatalf("%s is read as %v, %v", text, again, err)
		}
		for _, s := range seqs {
			if !streams.InRanges(rs, s) {
				t.Fatalf("%d is not in %s", s, text)
			}
		}
		if len(streams.FormatSeqs(seqs)) <= limit && streams.InRanges(rs, seqs[len(seqs)-1]+1) {
			t.Fatal("the ranges were widened although the text was short enough")
		}
	})
}
