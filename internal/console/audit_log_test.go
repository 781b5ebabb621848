package console

import (
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

func TestTheBrowserVerifiesAProofAndComparesHeads(t *testing.T) {
	long(t)
	project, _ := attackAs(t, "proof")
	b := newBrowser(t)
	b.open(t, link(t, viewer))
	verdict := func(id string) (tone, text string) {
		t.Helper()
		b.run(t, chromedp.WaitReady(chromedp.CSS("#"+id+" [data-verdict=good], #"+id+" [data-verdict=bad]")))
		return eval[string](t, b, `document.querySelector("#`+id+` [data-verdict]").dataset.verdict`),
			eval[string](t, b, `document.querySelector("#`+id+` [data-verdict]").textContent`)
	}
	c := visitor(t, viewer)
	path := "/log?project=" + project + "&entry=replayed/e1"
	await(t, "a proof of the first entry", func() bool {
		_, body := get(t, c, path)
		return strings.Contains(body, "Proven.")
	})
	b.open(t, path)
	if tone, text := verdict("proof"); tone != "good" || !strings.Contains(text, "of project "+project) {
		t.Errorf("a true proof: %s %q", tone, text)
	}
	if bad := b.axe(t); bad != "" {
		t.Error(bad)
	}
	// Each change alters one part of a proof: the leaf, a hash, the index, the root, the signature or its name. The
	// browser must then refuse the proof.
	for name, change := range map[string]string{
		"leaf":      `s.replace(/^(extra .{150})(.)/m, (_, a, x) => a + (x === "A" ? "B" : "A"))`,
		"hash":      `s.replace(/^(index .*\n.{10})(.)/m, (_, a, x) => a + (x === "A" ? "B" : "A"))`,
		"index":     `s.replace(/^index (.*)$/m, (_, n) => "index " + (Number(n) + 1))`,
		"root":      `s.replace(/^(\d+\n.{10})(.)/m, (_, a, x) => a + (x === "A" ? "B" : "A"))`,
		"signature": `s.replace(/^(— \S+ .{20})(.)/m, (_, a, x) => a + (x === "A" ? "B" : "A"))`,
		"signer":    `s.replace(/^— \S+/m, "— somebody")`,
	} {
		b.open(t, path)
		verdict("proof")
		changed := eval[bool](t, b, `(() => { const t = document.querySelector("#proof textarea"), s = t.value;
			t.value = `+change+`; const v = document.querySelector("#proof [data-verdict]"); v.dataset.verdict = "";
			document.querySelector("#proof button").click(); return t.value !== s; })()`)
		if tone, text := verdict("proof"); tone != "bad" || !changed {
			t.Errorf("an altered %s: %s %q, changed: %v", name, tone, text, changed)
		}
	}

	kept := eval[string](t, b, `document.querySelector('pre[aria-label="Checkpoint"]').textContent`)
	attackAs(t, "proof2")
	await(t, "a longer log", func() bool {
		h, err := shared.c.logHead(t.Context())
		return err == nil && h.Checkpoint != kept
	})
	b.open(t, "/log?kept="+url.QueryEscape(kept))
	if tone, text := verdict("compared"); tone != "good" || !strings.Contains(text, "extends the kept checkpoint") {
		t.Errorf("a kept checkpoint: %s %q", tone, text)
	}
	if _, body := get(t, c, "/log?kept="+url.QueryEscape(strings.Replace(kept, "\n", "\nx", 1))); !strings.Contains(body,
		"the kept checkpoint") {
		t.Error("an altered kept checkpoint is not refused")
	}
	// The comparison is changed in the page: the hashes, or the root of the head. The browser must then say that the
	// logs do not agree.
	for name, change := range map[string]string{
		"path": `document.querySelector("#compared [data-path]")`, "head": `document.querySelector("#compared [data-now]")`} {
		b.open(t, "/log?kept="+url.QueryEscape(kept))
		verdict("compared")
		changed := eval[bool](t, b, `(() => { const d = `+change+`, s = d.textContent;
			d.textContent = s.replace(/^(\s*)([A-Za-z0-9+/]{20})(.)/m, (_, w, a, x) => w + a + (x === "A" ? "B" : "A"));
			document.querySelector("#compared [data-verdict]").dataset.verdict = "";
			const again = document.createElement("script"); again.src = "/static/proof.js"; document.body.append(again);
			return d.textContent !== s; })()`)
		if tone, text := verdict("compared"); tone != "bad" || !changed {
			t.Errorf("an altered %s: %s %q, changed: %v", name, tone, text, changed)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.foreign)+len(b.complain) > 0 {
		t.Errorf("requests to others %v, complaints %v", b.foreign, b.complain)
	}
}
