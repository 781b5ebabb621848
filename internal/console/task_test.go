package console

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

func TestAComparisonThatTakesLongShowsItsProgressAtOnceAndItsOutcomeOnce(t *testing.T) {
	long(t)
	project, _ := attackAs(t, "long")
	path := "/backtest?with=without&rule=action-from-instruction&since=all&project=" + project
	shared.c.judging <- struct{}{} // another comparison runs
	free := func() { <-shared.c.judging }
	c, other := visitor(t, viewer), visitor(t, viewer)
	for range 2 { // the second request finds the task of the first
		res, err := c.Get(shared.c.URL() + path)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK || res.Header.Get("Refresh") != "1" {
			t.Errorf("while it waits: %d, refresh %q", res.StatusCode, res.Header.Get("Refresh"))
		}
	}
	get(t, other, path)
	if n := len(shared.c.tasks.by); n != 2 {
		t.Errorf("%d works of two sessions", n)
	}
	b := newBrowser(t)
	b.open(t, link(t, viewer))
	running := func() {
		t.Helper()
		b.run(t, chromedp.Navigate(b.base+path), chromedp.WaitVisible(chromedp.CSS("#running")))
	}
	running()
	eval[bool](t, b, "window.stop(), true") // otherwise the page comes again while axe reads it
	if bad := b.axe(t); bad != "" {
		t.Error(bad)
	}
	running()
	free()
	b.run(t, chromedp.WaitVisible(chromedp.CSS("#judged"))) // the page came again by itself
	for _, c := range []*http.Client{c, other} {
		if _, body := outcome(t, c, path); !strings.Contains(body, "−action-from-instruction") {
			t.Errorf("the outcome is %s", body)
		}
	}
	if n := len(shared.c.tasks.by); n != 0 {
		t.Errorf("%d works are kept after their outcome was taken", n)
	}
	if b.mu.Lock(); len(b.foreign)+len(b.complain) > 0 {
		t.Errorf("requests to others %v, complaints %v", b.foreign, b.complain)
	}
	b.mu.Unlock()
}

func TestWorksOfAConsoleAreBounded(t *testing.T) {
	var l tasks
	for i := range maxTasks + 1 {
		_, err := l.find([2]string{"a", string(rune('a' + i))}, func(*task) {})
		if (err != nil) != (i == maxTasks) {
			t.Errorf("work %d: %v", i, err)
		}
	}
}
