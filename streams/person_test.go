package streams_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"pgregory.net/rapid"

	"lazaret/internal/fuzztest"
	"lazaret/streams"
)

func TestListsOfEntriesHaveOneForm(t *testing.T) {
	for _, bad := range []string{"0", "5,4", "5,5", "5,6", "3-3", "7-3", "1-", "-1", "1,,2", " 1", "1, 3", "01",
		"1-2,3-4", "x", "18446744073709551616", "1-9999999", ","} {
		if got, err := streams.ParseSeqs(bad); err == nil {
			t.Errorf("%q opens as %v", bad, got)
		}
	}
	if _, err := streams.ParseSeqs(strings.Repeat("1", streams.MaxSeqs+1)); err == nil {
		t.Error("a list that is too long opens")
	}
	rapid.Check(t, func(rt *rapid.T) {
		seqs := rapid.SliceOfNDistinct(rapid.Uint64Range(1, 60), 0, 40, rapid.ID[uint64]).Draw(rt, "seqs")
		slices.Sort(seqs)
		text := streams.FormatSeqs(seqs)
		got, err := streams.ParseSeqs(text)
		if err != nil || !slices.Equal(got, seqs) {
			rt.Fatalf("%v is written %q and read as %v, %v", seqs, text, got, err)
		}
	})
}

func TestStatementsAboutADataSubject(t *testing.T) {
	signer, v := fuzztest.Signer(t, "op")
	good := streams.Custody{Do: streams.DoForget, Project: "acme", DataSubject: "p-17", ID: "c1",
		Issued: time.Unix(1_790_000_000, 0).UTC(), Reason: "request 18",
		Others: []string{"p-18", "p-19"}, Entries: []uint64{12, 13, 14, 15, 19}}
	open := func(text string) (streams.Custody, error) {
		msg, err := note.Sign(&note.Note{Text: text}, signer)
		if err != nil {
			t.Fatal(err)
		}
		c, _, err := streams.OpenCustody(msg, note.VerifierList(v))
		return c, err
	}
	if c, err := open(good.Text()); err != nil || c.Text() != good.Text() || !slices.Equal(c.Entries, good.Entries) ||
		c.DataSubject != "p-17" {
		t.Errorf("the statement is read as %+v, %v", c, err)
	}
	for _, c := range []struct{ what, old, new string }{
		{"no pseudonym", "data-subject: p-17", "data-subject: "},
		{"what is not an identifier", "data-subject: p-17", "data-subject: Ada Lovelace"},
		{"nothing to forget", "entries: 12-15,19", "entries: "},
		{"another form of the list", "12-15,19", "12,13,14,15,19"},
		{"others out of order", "p-18,p-19", "p-19,p-18"},
		{"a project's header", "custody/v2", "custody/v1"},
		{"a hold that lists entries", "do: forget", "do: legal-hold"},
	} {
		text := strings.Replace(good.Text(), c.old, c.new, 1)
		if text == good.Text() {
			t.Fatalf("%s: the statement has no line %q to replace", c.what, c.old)
		}
		if got, err := open(text); err == nil {
			t.Errorf("%s: opens as %+v", c.what, got)
		}
	}
	hold := good
	hold.Do, hold.Others, hold.Entries = streams.DoHold, nil, nil
	if _, err := open(hold.Text()); err != nil {
		t.Error(err)
	}
	body, err := streams.Marshal(&streams.CustodyEntry{Do: hold.Do, Note: hold.Text() + "\n— op AAAA\n"})
	if err != nil || streams.Erasure(body) != nil {
		t.Errorf("a statement to hold opens as one to erase: %v", err)
	}
}

func TestADataSubjectIsAPseudonymOfBoundedLength(t *testing.T) {
	a := streams.Address{Project: "acme", Agent: "a", Kind: streams.KindObs, Origin: "web"}
	for subject, good := range map[string]bool{"p-17": true, strings.Repeat("a", 64): true,
		strings.Repeat("a", 65): false, "ada@lovelace.example": false, "Ada Lovelace": false, "a/b": false} {
		body, err := streams.Marshal(&streams.Observation{Head: streams.Head{ID: "o1", DataSubject: subject}, Content: "x"})
		if err != nil {
			t.Fatal(err)
		}
		e, err := streams.ParseEvent(a, "", body, 0)
		if (err == nil) != good {
			t.Errorf("data subject %q: %v", subject, err)
		}
		if good && streams.HeadOf(e).DataSubject != subject {
			t.Errorf("%q is lost", subject)
		}
	}
}
