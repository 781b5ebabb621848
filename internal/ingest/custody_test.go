package ingest

import (
	"encoding/binary"
	"testing"
	"time"

	"lazaret/internal/stage"
	"lazaret/streams"
)

// Every kind of key that a project leaves is known to be its own, wherever in
// the key the project stands.
func TestARecordIsKnownToBeItsProjects(t *testing.T) {
	// Times with bytes that look like the ends of names, and like spaces.
	at := time.Unix(0, 0x4100_41_42_00_61_63_ff)
	stamp := func(t time.Time) []byte { return binary.BigEndian.AppendUint64(nil, uint64(t.UnixNano())) }
	owed, err := streams.Marshal(&owed{Because: becauseTime, Project: "acme", At: at})
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
		{"the end of a nonce", append(append([]byte{keyNonceEnd}, stamp(at)...), stage.Key(keyNonce, "acme", "n")...), nil, true},
		{"of another nonce", append(append([]byte{keyNonceEnd}, stamp(at)...), stage.Key(keyNonce, "x", "acme")...), nil, false},
		{"revisions that are owed", owedKey(7), owed, true},
		{"the number of the last", []byte{keyOwed}, stamp(at), false},
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
