package console

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// disclosures collects the entries of a project in the ledger that record privileged views.
type disclosures struct {
	mu   sync.Mutex
	next uint64
	of   string
	all  []*streams.DisclosureEntry
}

func (d *disclosures) Next() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return max(d.next, 1)
}

func (d *disclosures) Take(entries []streams.Entry, _ bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range entries {
		e := &entries[i]
		d.next = e.Seq + 1
		if e.Type != streams.TypeDisclosure || e.Project != d.of {
			continue
		}
		l, err := streams.Read[streams.DisclosureEntry](e)
		if err != nil {
			return err
		}
		d.all = append(d.all, l)
	}
	return nil
}

func (d *disclosures) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.all)
}

func follow(t *testing.T, project string) *disclosures {
	t.Helper()
	d := &disclosures{of: project}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := stage.Follow(ctx, shared.nc, nil, d, 256, slog.Default(), nil, nil); err != nil && ctx.Err() == nil {
			t.Errorf("following the ledger: %v", err)
		}
	}()
	t.Cleanup(func() { stop(); <-done })
	return d
}

func TestAPrivilegedLookIsAnEntryOfTheLedgerOnceForEachPageAndSession(t *testing.T) {
	const project, secret = "looked-at", "the code of the Geneva safe is 9902 and nobody else knows"
	m := &streams.Memory{Head: streams.Head{Session: "s"}, Key: "safe", Content: secret, Sensitivity: beliefs.Secret}
	if _, err := keeper(t, project).Remember(t.Context(), beliefs.OriginUser, m); err != nil {
		t.Fatal(err)
	}
	d := follow(t, project)
	page := "/beliefs?project=" + project
	low, high := visitor(t, viewer), visitor(t, User{Name: "sam", Role: RoleViewer, Ceiling: beliefs.Secret})
	await(t, "the belief", func() bool { _, body := get(t, high, page); return strings.Contains(body, "9902") })
	for range 3 {
		get(t, high, page)
		if _, body := get(t, low, page); strings.Contains(body, "9902") {
			t.Fatal("a viewer sees the secret")
		}
	}
	if _, body := get(t, high, "/sessions/"+project+"/s"); !strings.Contains(body, "9902") {
		t.Fatal("the session does not show the secret to a user who may see it")
	}
	again := visitor(t, User{Name: "sam", Role: RoleViewer, Ceiling: beliefs.Secret})
	get(t, again, page)
	await(t, "three looks", func() bool { return d.count() >= 3 })
	// After this view is recorded, no entry about an earlier view can be missing.
	get(t, visitor(t, User{Name: "last", Role: RoleViewer, Ceiling: beliefs.Secret}), page)
	await(t, "the last look", func() bool { return d.count() >= 4 })
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.all) != 4 {
		t.Fatalf("%d looks are in the ledger, want 4", len(d.all))
	}
	pages := map[string]int{}
	logins := map[string]bool{}
	for _, e := range d.all {
		if e.Look == nil || e.Signed != nil || e.Look.Ceiling != beliefs.Secret || e.Look.Path == "" {
			t.Fatalf("the entry is %+v", e)
		}
		pages[e.Look.By+" "+e.Look.Page]++
		logins[e.Look.Login] = true
	}
	if pages["sam /beliefs"] != 2 || pages["sam /sessions/{project}/{session}"] != 1 || pages["last /beliefs"] != 1 ||
		len(logins) != 3 {
		t.Errorf("looks %v by %d sessions", pages, len(logins))
	}
}

func TestALookThatCannotBeRecordedShowsNothing(t *testing.T) {
	x := newIndex()
	x.next, x.ready = 10, true
	var asked int
	err := errors.New("the intake is full")
	c := &Console{index: x, journal: newJournal(func(context.Context, string, []byte) error { asked++; return err },
		slog.New(slog.DiscardHandler))}
	high := &User{Name: "sam", Ceiling: beliefs.Secret}
	p := &page{User: high, c: c}
	for range 5 {
		if p.sees("p", beliefs.Confidential) {
			t.Error("a text is shown, and its look is not recorded")
		}
	}
	if !p.sees("p", beliefs.Internal) {
		t.Error("an internal text is hidden")
	}
	if asked != 1 {
		t.Errorf("the page tried %d times, want once", asked)
	}
	err = nil
	if p = (&page{User: high, c: c}); !p.sees("p", beliefs.Confidential) {
		t.Error("the next page shows nothing")
	}
	if (&page{User: high, c: &Console{index: x}}).sees("p", beliefs.Secret) {
		t.Error("without a journal a secret is shown")
	}
}

func TestALookIsRecordedAgainAfterItsWindow(t *testing.T) {
	n, now := 0, time.Unix(1_700_000_000, 0)
	j := newJournal(func(context.Context, string, []byte) error { n++; return nil }, slog.Default())
	j.now = func() time.Time { return now }
	record := func(k look) {
		t.Helper()
		if err := j.record(t.Context(), k, "/", beliefs.Secret); err != nil {
			t.Fatal(err)
		}
	}
	k := lookOf("a")
	record(k)
	now = now.Add(lookWindow - time.Second)
	if record(k); n != 1 {
		t.Errorf("%d entries within the window", n)
	}
	now = now.Add(time.Second)
	if record(k); n != 2 {
		t.Errorf("%d entries after the window", n)
	}
	for i := range maxLooks + 10 {
		record(lookOf(string(rune('b' + i))))
	}
	if len(j.seen) > maxLooks {
		t.Errorf("%d looks are kept", len(j.seen))
	}
}

func lookOf(user string) look { return look{"login", user, "p", "/holds"} }
