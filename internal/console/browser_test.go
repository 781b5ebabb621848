package console

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"lazaret/pkg/beliefs"
)

//go:embed testdata/axe.min.js.gz
var axeGzip []byte

// browser is a headless Chromium. It records the requests and the errors of a page.
type browser struct {
	ctx  context.Context
	base string // address of the console

	mu       sync.Mutex
	foreign  []string // requests to other hosts
	complain []string // error messages in the browser console
}

// long skips a test with -short (make test) because its pages take ten seconds of processor time in Chromium. make ci
// runs all tests without -short. With the race detector, the test is not skipped. In a short run,
// TestAStrangerApprovesAHoldWithAPasskeyAndVerifiesItOffline opens pages in Chromium.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() && slower == 1 {
		t.Skip("long: make ci runs it")
	}
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		t.Fatal("no Chromium: apt-get install chromium")
	}
	// Chromium leaves folders among the temporary files.
	dir, err := os.MkdirTemp("", "lazaret-chromium-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Env("TMPDIR="+dir),
		chromedp.WindowSize(1280, 900),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(time.Minute))
	alloc, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(cancel)
	b := &browser{ctx: ctx, base: shared.c.URL()}
	b.run(t) // starts it
	err = chromedp.Listen(ctx, func(ev any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch ev := ev.(type) {
		case *network.EventRequestWillBeSent:
			if u := ev.Request.URL; !strings.HasPrefix(u, b.base+"/") && !strings.HasPrefix(u, "data:") {
				b.foreign = append(b.foreign, u)
			}
		case *runtime.EventConsoleAPICalled:
			if ev.Type == runtime.ConsoleAPICalledTypeError {
				for _, a := range ev.Args {
					b.complain = append(b.complain, fmt.Sprintf("%s %s", a.Value, a.Description))
				}
			}
		case *runtime.EventExceptionThrown:
			b.complain = append(b.complain, fmt.Sprint(ev.ExceptionDetails))
		case *log.EventEntryAdded:
			if ev.Entry.Level == log.EntryLevelError {
				b.complain = append(b.complain, ev.Entry.Text+" "+ev.Entry.URL)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	call(t, b, log.Enable, cdp.Empty{})
	call(t, b, network.Enable, network.EnableParams{})
	return b
}

// call sends a protocol command.
func call[P, R any](t *testing.T, b *browser, cmd cdp.Command[P, R], params P) R {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	r, err := chromedp.Call(ctx, cmd, params)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (b *browser) run(t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx := b.ctx
	// the first run, without steps, makes the context of the browser, so it must not end with a timeout
	if len(steps) > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Minute)
		defer cancel()
	}
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		t.Fatalf("%v; the page says %q", err, b.complain)
	}
}

// eval runs a script and returns its value. If the value is a promise, eval waits for its result.
func eval[T any](t *testing.T, b *browser, script string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%v in %.200s", err, script)
	}
	return v
}

// open opens a page and waits until its scripts have run and its task, if it has one, is done.
func (b *browser) open(t *testing.T, path string) {
	t.Helper()
	if strings.HasPrefix(path, "/") {
		path = b.base + path
	}
	b.run(t, chromedp.Navigate(path), chromedp.WaitReady(chromedp.CSS("main")),
		chromedp.WaitNotPresent(chromedp.CSS("#running")))
}

// axe returns the accessibility violations that axe-core finds on the page. With the race detector, it looks for none:
// axe-core runs in the browser alone, for longer than the page.
func (b *browser) axe(t *testing.T) string {
	t.Helper()
	if slower > 1 {
		return ""
	}
	r, err := gzip.NewReader(bytes.NewReader(axeGzip))
	if err != nil {
		t.Fatal(err)
	}
	script, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	eval[int](t, b, string(script)+";0")
	return eval[string](t, b, `axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.map(
		v => v.id + ": " + v.nodes.map(n => n.html.slice(0, 160) + " " + n.failureSummary).join(" | ")).join("\n"))`)
}

func (b *browser) scheme(t *testing.T, name string) {
	t.Helper()
	call(t, b, emulation.SetEmulatedMedia,
		emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
}

// shot saves a screenshot in the folder that LAZARET_SCREENSHOTS names. If it is not set, shot does nothing.
func (b *browser) shot(t *testing.T, name string) {
	t.Helper()
	dir := os.Getenv("LAZARET_SCREENSHOTS")
	if dir == "" {
		return
	}
	quality := int64(80)
	r := call(t, b, cdppage.CaptureScreenshot, cdppage.CaptureScreenshotParams{Format: "webp", Quality: &quality})
	if err := os.WriteFile(filepath.Join(dir, name+".webp"), r.Data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestEveryPageIsAccessibleAndAsksNobodyElse(t *testing.T) {
	long(t)
	project, hold := attack(t)
	b := newBrowser(t)
	b.open(t, link(t, User{Name: "operator", Role: RoleApprover, Ceiling: beliefs.Secret}))
	b.open(t, "/beliefs?project="+project)
	ids := eval[[]string](t, b, `[...document.querySelectorAll("td a")].map(a => a.getAttribute("href"))`)
	if len(ids) == 0 {
		t.Fatal("no belief is listed")
	}
	b.open(t, "/alerts?rule=read-command-score&tool=GoogleCalendarReadEvents&project="+project)
	draft := eval[string](t, b, `document.querySelector("td a[href^='/exceptions/draft']").getAttribute("href")`)
	for _, x := range []struct{ name, path string }{
		{"draft", draft}, {"queue", "/queue?hold=" + project + "/" + hold}, {"proof", "/log?project=" + project + "&entry=2"},
		{"passkeys", "/passkeys"}, {"tools", "/tools"}, {"now", "/"}, {"holds", "/holds"},
		{"hold", "/holds/" + project + "/" + hold}, {"alerts", "/alerts"},
		{"alert", "/alerts?rule=read-command-score&tool=GoogleCalendarReadEvents"}, {"sessions", "/sessions"},
		{"session", "/sessions/" + project + "/s1"},
		{"beliefs", "/beliefs?project=" + project}, {"belief", ids[0]}, {"quarantine", ids[0] + "/quarantine"},
		{"log", "/log?project=" + project + "&entry=1"},
		{"rules", "/rules"}, {"rule", "/rules/action-from-instruction"},
		{"backtest", "/backtest?with=without&rule=action-from-instruction&since=all&project=" + project},
		{"whatif", "/whatif/" + project + "/s1?with=without&rule=action-from-instruction"},
		{"help", "/help"},
	} {
		for _, scheme := range []string{"light", "dark"} {
			if scheme == "dark" && testing.Short() && !slices.Contains([]string{"now", "hold", "alerts", "rule"}, x.name) {
				continue // all pages have the colors of these
			}
			b.scheme(t, scheme)
			b.open(t, x.path)
			if bad := b.axe(t); bad != "" {
				t.Errorf("%s, %s: %s", x.path, scheme, bad)
			}
			name := "console-" + x.name
			if scheme == "dark" {
				name += "-dark"
			}
			b.shot(t, name)
		}
	}
	b.scheme(t, "light")
	b.run(t, chromedp.EmulateViewport(390, 844))
	for _, path := range []string{"/", "/holds", "/holds/" + project + "/" + hold, "/alerts",
		"/sessions/" + project + "/s1", ids[0], ids[0] + "/quarantine", "/rules", "/rules/action-from-instruction", "/log"} {
		b.open(t, path)
		if wide := eval[int](t, b, `document.documentElement.scrollWidth - innerWidth`); wide > 0 {
			t.Errorf("%s on a phone is %d pixels too wide", path, wide)
		}
	}
	b.shot(t, "console-phone")
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.foreign) > 0 {
		t.Errorf("requests to others: %v", b.foreign)
	}
	if len(b.complain) > 0 {
		t.Errorf("the browser complains: %v", b.complain)
	}
}
