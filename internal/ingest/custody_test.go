package ingest

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/fuzztest"
	"lazaret/internal/stage"
	"lazaret/streams"
)

// A person under legal hold is not forgotten: not alone, not with the project, and not with another
// person in the same entries. After the ledger was trimmed, nobody can be forgotten alone.
func TestStatementsAboutADataSubjectMeetLegalHoldsAndTrimmings(t *testing.T) {
	signer, v := fuzztest.Signer(t, "op")
	h := newHouse(t, stage.NewMemState(streams.PartitionOf("demo")))
	h.f = New(Config{Pinned: note.VerifierList(v)})
	n := 0
	say := func(do, subject, others string) any {
		t.Helper()
		n++
		c := streams.Custody{Do: do, Project: "demo", DataSubject: subject, ID: fmt.Sprintf("c%d", n),
			Issued: h.now.Add(time.Second).Truncate(time.Second), Reason: "r"}
		if subject != "" && do == streams.DoForget {
			c.Entries = []uint64{1, 2}
			if others != "" {
				c.Others = []string{others}
			}
		}
		if subject == "" && do == streams.DoForget && others != "no entries" {
			c.UpTo, c.Ranges = 2, []streams.SeqRange{{From: 1, To: 2}}
		}
		signed, err := c.Sign(signer)
		if err != nil {
			t.Fatal(err)
		}
		body, err := streams.Marshal(streams.Control{ID: c.ID, Custody: string(signed)})
		if err != nil {
			t.Fatal(err)
		}
		return h.put(&stage.Message{Address: streams.Address{Partition: streams.PartitionOf("demo"), Kind: streams.KindCtl},
			Data: body})
	}
	obeyed := func(do, subject, others string) {
		t.Helper()
		e, ok := say(do, subject, others).(*streams.CustodyEntry)
		if !ok || e.DataSubject != subject {
			t.Fatalf("%s %s was refused: %+v", do, subject, e)
		}
		h.followUps()
	}
	refused := func(want streams.Code, do, subject, others string) {
		t.Helper()
		e, ok := say(do, subject, others).(*streams.RejectedEntry)
		if !ok || e.Code != want {
			t.Fatalf("%s %s with %q: %+v, want %s", do, subject, others, e, want)
		}
	}
	obeyed(streams.DoForget, "p-17", "")
	obeyed(streams.DoHold, "p-18", "")
	refused(streams.CodeLegalHold, streams.DoHold, "p-18", "")
	refused(streams.CodeLegalHold, streams.DoForget, "p-18", "")
	refused(streams.CodeLegalHold, streams.DoForget, "p-17", "p-18")
	refused(streams.CodeLegalHold, streams.DoForget, "p-17", streams.AllOthers)
	refused(streams.CodeLegalHold, streams.DoForget, "", "")
	refused(streams.CodeCommand, streams.DoRelease, "p-1", "")
	obeyed(streams.DoForget, "p-17", "p-19")
	obeyed(streams.DoRelease, "p-18", "")
	obeyed(streams.DoForget, "p-18", "")
	obeyed(streams.DoHold, "", "")
	refused(streams.CodeLegalHold, streams.DoForget, "p-17", "")
	obeyed(streams.DoRelease, "", "")
	trim := func(upTo int) {
		t.Helper()
		e := &streams.Entry{Seq: 1 << 40, Stage: streams.StageRetention, Type: streams.TypeTrim,
			Project: streams.SystemProject, Body: fmt.Appendf(nil, `{"id":"t","up_to":%d,"trimmed":0}`, upTo)}
		if !h.f.Relevant(e) {
			t.Fatal("ingest does not hear of trimmings")
		}
		if err := h.f.Apply(h.st, e, nil); err != nil {
			t.Fatal(err)
		}
	}
	trim(7)
	refused(streams.CodeTrimmed, streams.DoForget, "p-17", "")
	trim(0) // taken back
	obeyed(streams.DoForget, "p-17", "")
	trim(7)
	refused(streams.CodeTrimmed, streams.DoForget, "p-17", "")
	refused(streams.CodeCommand, streams.DoForget, "", "no entries") // the form that earlier versions signed
	obeyed(streams.DoForget, "", "")
}

// Every kind of key that a project has is recognized as the project's, wherever the project is in
// the key.
func TestARecordIsKnownToBeItsProjects(t *testing.T) {
	// The bytes of this time include zero bytes, which end names in keys, and letters. ofProject must not take them for
	// a project's name.
	at := time.Unix(0, 0x4100_41_42_00_61_63_ff)
	stamp := func(t time.Time) []byte { return binary.BigEndian.AppendUint64(nil, uint64(t.UnixNano())) }
	pending, err := streams.Marshal(&pendingRevisions{Because: becauseTime, Project: "acme", At: at})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		k, v []byte
		want bool
	}{
		{"an event", stage.Key(keyEvent, "acme", "a", "1"), nil, true},
		{"a belief", stage.Key(keyBelief, "acme", "b1"), nil, true},
		{"another project's", stage.Key(keyBelief, "acme2", "b1"), nil, false},
		{"another one's, whose agent is called so", stage.Key(keyEvent, "x", "acme", "1"), nil, false},
		{"the end of a nonce", append(append([]byte{keyNonceEnd}, stamp(at)...), stage.Key(keyNonce, "acme", "n")...), nil,
			true},
		{"of another nonce", append(append([]byte{keyNonceEnd}, stamp(at)...), stage.Key(keyNonce, "x", "acme")...), nil,
			false},
		{"pending revisions", pendingKey(7), pending, true},
		{"the number of the last", []byte{keyPending}, stamp(at), false},
		{"a time at which it ages", dueKey("acme", at, "b1"), nil, true},
		{"of another project", dueKey("x", at, "acme"), nil, false},
		{"of a synthetic one", dueKey("syn-acme", at, "b1"), nil, false},
		{"a sentinel group of that name", append([]byte{keyCursor}, "acme"...), nil, false},
		{"the proposals decided last", []byte{keyDecided}, stamp(at), true},
		{"the clock", []byte{keyClock}, stamp(at), false},
		{"a legal hold", legalHoldKey("acme"), nil, false},
		{"a statement", statementKey("acme"), nil, false},
	} {
		got, err := ofProject(c.k, c.v, "acme")
		if err != nil || got != c.want {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
	if got, _ := ofProject(dueKey("syn-acme", at, "b1"), nil, "syn-acme"); !got {
		t.Error("a synthetic project's own clock hides that it ages")
	}
}
