package notify

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/streams"
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
		t.Fatalf("%d batches are queued, the message is acknowledged %d times", len(w.queue), first.n)
	}
	w.settle(w.queue[0], nil)
	again := arrive(7)
	if len(w.queue) != 0 || first.n != 1 || again.n != 1 {
		t.Errorf("%d batches are queued, the message is acknowledged %d times and its repeat %d times", len(w.queue), first.n, again.n)
	}
	for seq := range uint64(3 * maxSettled) {
		arrive(100 + seq)
		w.settle(w.queue[0], nil)
	}
	if len(w.settled) > maxSettled {
		t.Errorf("%d settled entries are kept", len(w.settled))
	}
	if arrive(8); len(w.queue) != 1 {
		t.Error("another entry is not queued")
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
	// Another person acknowledges the hold again, before the worker has read the first acknowledgement. The result must
	// have no routes, since no reminders were left to end, and the first acknowledgement.
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

func TestNotificationsOfAForgottenProjectAreNotSent(t *testing.T) {
	w := &worker{
		Route: &Route{
			Name: "r", On: []Kind{KindHold, KindAlert}, Severity: "info", Group: time.Minute, Repeat: time.Hour, Times: 3,
		},
		dir:     t.TempDir(),
		log:     slog.New(slog.DiscardHandler),
		told:    make(reminders),
		waiting: make(map[uint64]*waiting),
		groups:  make(map[string]*batch),
		seen:    new(sensitivities),
	}
	msgs := make(map[uint64]*acks)
	arrive := func(seq uint64, projects ...string) {
		a := arrival{seq: seq}
		for _, p := range projects {
			a.notices = append(a.notices,
				&Notice{ID: p, Kind: KindHold, Project: p, Hold: "h" + p, Entry: seq, Severity: "high", Text: "text of " + p})
		}
		msgs[seq] = new(acks)
		a.msg = msgs[seq]
		w.take(a)
	}
	arrive(1, "gone", "stays") // told before the statement
	w.flush(time.Now().Add(time.Hour))
	for len(w.queue) > 0 {
		w.settle(w.queue[0], nil)
	}
	arrive(2, "gone")
	w.flush(time.Now().Add(time.Hour)) // being sent
	sending := w.queue[0]
	arrive(3, "gone", "stays") // collected
	w.seen.erased.Add(&streams.Entry{Seq: 9, Stage: streams.StageIngest, Type: streams.TypeForgotten, Project: "gone"})
	w.seen.erasures++
	w.forget()
	w.settle(sending, refusal{errors.New("no")})
	arrive(10, "gone") // after the statement
	w.flush(time.Now().Add(time.Hour))
	var left []string
	for _, b := range w.queue {
		for _, n := range b.notices {
			left = append(left, fmt.Sprint(n.Entry, n.Project))
		}
	}
	slices.Sort(left)
	if fmt.Sprint(left) != "[10gone 3stays]" || len(w.groups) != 0 {
		t.Errorf("%v are to be sent", left)
	}
	if w.told["gone/hgone"] != nil || w.told["stays/hstays"] == nil {
		t.Errorf("reminders are left of %v", w.told)
	}
	for len(w.queue) > 0 {
		w.settle(w.queue[0], nil)
	}
	for seq, m := range msgs {
		if m.n != 1 {
			t.Errorf("message %d is acknowledged %d times", seq, m.n)
		}
	}
	if letters, err := readDead(deadFile(w.dir)); err != nil || len(letters) != 0 {
		t.Errorf("dead letters %v, %v", letters, err)
	}
}

func TestADeadLetterAndTheLogQuoteNoReceiver(t *testing.T) {
	const text = "orders of Zanzibar"
	http400 := func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.WriteHeader(400)
		w.Write(b)
	}
	raw := func(answer string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			io.WriteString(c, answer)
			c.Close()
		}
	}
	for name, h := range map[string]http.HandlerFunc{
		"quotes the body":         http400,
		"is no HTTP":              raw(text + "\r\n\r\n"),
		"has a malformed status":  raw("HTTP/1.1 " + text + "\r\n\r\n"),
		"has a malformed header":  raw("HTTP/1.1 400 Bad\r\n" + text + "\r\n\r\n"),
		"has an invalid Location": raw("HTTP/1.1 302 Found\r\nLocation: http://%zz/" + text + "\r\n\r\n"),
		"quotes it in the reason": raw("HTTP/1.1 503 " + text + "\r\nContent-Length: 0\r\n\r\n"),
	} {
		s := httptest.NewServer(h)
		quotedBy(t, name, text, &Route{Name: "r", To: To{Slack: &Slack{URL: s.URL + "/x"}}})
		s.Close()
	}
	for name, answers := range map[string][]string{
		"refuses the mail":      {"220 hi", "250 ok", "250 ok", "250 ok", "354 go", "554 spam: " + text},
		"delays the mail":       {"220 hi", "250 ok", "250 ok", "250 ok", "354 go", "451 later: " + text},
		"refuses the next":      {"220 hi", "250 ok", "550 after your mail " + text},
		"is no SMTP":            {text},
		"answers without sense": {"220 hi", "250 ok", "250 ok", "250 ok", "354 go", text},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			in := bufio.NewReader(c)
			for i, a := range answers {
				fmt.Fprintf(c, "%s\r\n", a)
				for line := "\r\n"; i < len(answers)-1; { // a command, or the mail up to its last line
					if line, err = in.ReadString('\n'); err != nil || !strings.HasPrefix(a, "354") || line == ".\r\n" {
						break
					}
				}
			}
		}()
		quotedBy(t, name, text, &Route{Name: "r", To: To{Email: &Email{Server: l.Addr().String(), TLS: "none",
			From: "a@example.org", To: []string{"b@example.org"}}}})
		l.Close()
	}
}

// quotedBy fails the test if a dead letter or the log quotes the text after a delivery to a receiver that repeats it.
func quotedBy(t *testing.T, name, text string, r *Route) {
	t.Helper()
	if err := r.check(); err != nil {
		t.Fatal(err)
	}
	r.GiveUp = 0
	log := new(bytes.Buffer)
	w := &worker{Route: r, dir: t.TempDir(), log: slog.New(slog.NewTextHandler(log, nil)), told: make(reminders)}
	b := &batch{notices: []*Notice{{ID: "n", Kind: KindHold, Project: "acme", Hold: "h", Text: text}}, from: []uint64{0}}
	w.queue = []*batch{b}
	err := r.cleaned(r.receiver.send(t.Context(), newMessage(b.notices)))
	if err == nil {
		t.Errorf("%s: it was delivered", name)
		return
	}
	w.settle(b, err)
	dead, derr := os.ReadFile(deadFile(w.dir))
	if derr != nil || len(dead) == 0 {
		t.Errorf("%s: no dead letter, %v", name, derr)
	}
	for _, s := range []string{string(dead), log.String()} {
		for _, word := range strings.Fields(text) {
			if strings.Contains(s, word) && word != "of" {
				t.Errorf("%s: %q is in %s", name, word, s)
			}
		}
	}
}
