package notify

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// acks counts the acknowledgements of a message.
type acks struct {
	jetstream.Msg
	n int
}

func (m *acks) Ack() error { m.n++; return nil }

func TestAnEntryThatComesAgainAfterItsDeliveryIsNotToldAgain(t *testing.T) {
	w := &worker{
		Route:   &Route{Name: "r", On: []Kind{KindHold}},
		dir:     t.TempDir(),
		log:     slog.New(slog.DiscardHandler),
		waiting: make(map[uint64]*waiting),
		groups:  make(map[string]*batch),
	}
	arrive := func(seq uint64) *acks {
		m := new(acks)
		w.take(arrival{msg: m, seq: seq, notices: []*Notice{{ID: "n", Kind: KindHold, Project: "acme", Hold: "h"}}})
		return m
	}
	first := arrive(7)
	if len(w.queue) != 1 || first.n != 0 {
		t.Fatalf("%d are due, %d acknowledged", len(w.queue), first.n)
	}
	w.settle(w.queue[0], nil)
	again := arrive(7)
	if len(w.queue) != 0 || first.n != 1 || again.n != 1 {
		t.Errorf("%d are due, acknowledged are %d and %d", len(w.queue), first.n, again.n)
	}
	for seq := range uint64(3 * maxSettled) {
		arrive(100 + seq)
		w.settle(w.queue[0], nil)
	}
	if len(w.settled) > maxSettled {
		t.Errorf("%d settled entries are kept", len(w.settled))
	}
	if arrive(8); len(w.queue) != 1 {
		t.Error("another entry is not told")
	}
}

func TestAHoldIsRepeatedUntilItIsAcknowledgedSettledOrToldOftenEnough(t *testing.T) {
	data := t.TempDir()
	if _, _, err := Acknowledge(data, Ack{Thread: "other/x", By: "anna", Time: time.Now()}); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	fresh := func() *worker {
		w := &worker{
			Route: &Route{Name: "r", On: []Kind{KindHold}, Repeat: time.Hour, Times: 2},
			dir:   Dir(data),
			log:   slog.New(slog.DiscardHandler),
			told:  make(reminders),
		}
		b := &batch{
			notices: []*Notice{
				{ID: "hold-1-0", Kind: KindHold, Project: "acme", Hold: "h1", Text: "secret", Tool: "t", Time: start},
			},
			from: []uint64{1},
		}
		w.queue = []*batch{b}
		w.settle(b, nil)
		return w
	}
	w := fresh()
	kept, err := readJSON[reminders](remindersFile(w.dir, "r"))
	if err != nil || kept["acme/h1"] == nil || kept["acme/h1"].Notice.Text != "" {
		t.Fatalf("kept is %+v, %v", kept, err)
	}
	w.remind(start.Add(30 * time.Minute))
	if len(w.queue) != 0 {
		t.Error("repeated too early")
	}
	ids := make(map[string]bool)
	for i := range 5 {
		w.remind(start.Add(time.Duration(i+1)*time.Hour + time.Minute))
	}
	for _, b := range w.queue {
		ids[newMessage(b.notices).ID] = true
	}
	if len(w.queue) != 2 || len(ids) != 2 {
		t.Errorf("repeated %d times under %v", len(w.queue), ids)
	}

	w = fresh()
	w.ended("acme/h1")
	if w.remind(start.Add(2 * time.Hour)); len(w.queue) != 0 {
		t.Error("a settled hold is repeated")
	}

	w = fresh()
	routes, before, err := Acknowledge(data, Ack{Thread: "acme/h1", By: "anna", Time: start.Add(time.Minute)})
	if err != nil || !slices.Equal(routes, []string{"r"}) || before != nil {
		t.Fatalf("acknowledged for %q, before %+v: %v", routes, before, err)
	}
	// The worker has not read the acknowledgement yet, and another person acknowledges the hold again.
	routes, before, err = Acknowledge(data, Ack{Thread: "acme/h1", By: "ben", Time: start.Add(2 * time.Minute)})
	if err != nil || len(routes) != 0 || before == nil || before.By != "anna" || !before.Time.Equal(start.Add(time.Minute)) {
		t.Fatalf("acknowledged again for %q, before %+v: %v", routes, before, err)
	}
	if w.remind(start.Add(2 * time.Hour)); len(w.queue) != 0 {
		t.Error("an acknowledged hold is repeated")
	}
	w = fresh()
	w.told["acme/h1"].Notice.Time = start.Add(time.Hour) // a further notification of the hold
	w.changed = true
	w.save()
	routes, before, err = Acknowledge(data, Ack{Thread: "acme/h1", By: "eve", Time: start.Add(2 * time.Hour)})
	if err != nil || !slices.Equal(routes, []string{"r"}) || before == nil || before.By != "ben" {
		t.Fatalf("acknowledged for %q, before %+v: %v", routes, before, err)
	}
}

func TestNotificationsOfOneKindAndRuleAreToldTogether(t *testing.T) {
	w := &worker{
		Route:   &Route{Name: "r", On: []Kind{KindAlert}, Severity: "info", Group: time.Minute},
		dir:     t.TempDir(),
		log:     slog.New(slog.DiscardHandler),
		told:    make(reminders),
		waiting: make(map[uint64]*waiting),
		groups:  make(map[string]*batch),
	}
	for i := range uint64(250) {
		w.take(
			arrival{
				seq: i + 1,
				notices: []*Notice{
					{
						ID:       string(rune('a' + i)),
						Kind:     KindAlert,
						Project:  "acme",
						Rule:     []string{"one", "two"}[i%2],
						Severity: "high",
					},
				},
			},
		)
	}
	if len(w.queue) != 2 || len(w.groups) != 2 || len(w.queue[0].notices) != mostOf {
		t.Errorf("%d are due, %d are collected", len(w.queue), len(w.groups))
	}
	w.flush(time.Now())
	if len(w.groups) != 2 {
		t.Error("a group ends before its time")
	}
	w.flush(time.Now().Add(time.Hour))
	if len(w.groups) != 0 || len(w.queue) != 4 {
		t.Errorf("%d are due, %d are collected", len(w.queue), len(w.groups))
	}
	if a, b := newMessage(w.queue[0].notices).ID, newMessage(w.queue[2].notices).ID; a == b {
		t.Errorf("two groups have the id %s", a)
	}
}
