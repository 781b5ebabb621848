package inquiry

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"lazaret/internal/fuzztest"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
)

// FuzzBundle checks that no foreign bundle verifies. The fuzzer generates the files in it, and the
// bytes of the archive.
func FuzzBundle(f *testing.F) {
	signer, _ := fuzztest.Signer(f, "test-log")
	_, public := fuzztest.Key(f, "test-log")
	pinned := new(keys.Trust)
	if err := pinned.Add(keys.Pin{Key: public, Roles: []keys.Role{keys.RoleAuditor}}); err != nil {
		f.Fatal(err)
	}
	manifest := `{"format":"lazaret/bundle/v1","origin":"test-log","from":0,"to":1,"prev":"` + strings.Repeat("0", 64) +
		`","next_seq":1,"edge":"","payloads":true}`
	line := `{"index":0,"kind":"entry","seq":1,"time":"2026-11-21T09:00:00Z","type":"observation","project":"p","length":2,"commitment":"` + strings.Repeat("0", 64) + `","salt":"` + strings.Repeat("0", 32) + `","payload":"{}"}`
	cp := "test-log\n1\n" + tlog.Hash{}.String() + "\n"
	trust := "- key: " + public + "\n  roles: [auditor]\n"
	f.Add([]byte(manifest), []byte(line+"\n"), []byte(cp), []byte(trust), []byte("PK\x03\x04"))
	f.Add([]byte(strings.Replace(manifest, `"from":0`, `"from":4611686018427387904`, 1)), []byte(line), []byte(cp),
		[]byte(nil), []byte(nil))
	f.Add([]byte(manifest), []byte(strings.Repeat(line+"\n", 3)), []byte("x"), []byte("keys: []"), []byte(nil))
	f.Fuzz(func(t *testing.T, manifest, lines, checkpoint, trust, raw []byte) {
		n := len(manifest) + len(lines) + len(checkpoint) + len(trust) + len(raw)
		fuzztest.Bounded(t, n, func() {
			if rep, err := verifyBundle(context.Background(), bytes.NewReader(raw), int64(len(raw)), pinned, nil,
				nil); err == nil && rep.Status == chain.Verified {
				t.Fatalf("%q verifies", raw)
			}
			signed := checkpoint
			if b, err := note.Sign(&note.Note{Text: string(checkpoint)}, signer); err == nil {
				signed = b
			}
			var buf bytes.Buffer
			z := zip.NewWriter(&buf)
			var sums strings.Builder
			for name, b := range map[string][]byte{bundleManifest: manifest, bundleEntries: lines, bundleAfter: signed,
				bundleTrust: trust, bundleHandovers + "000": signed} {
				sum := sha256.Sum256(b)
				fmt.Fprintf(&sums, "%s  %s\n", hex.EncodeToString(sum[:]), name)
				put(t, z, name, b)
			}
			put(t, z, bundleSums, []byte(sums.String()))
			if err := z.Close(); err != nil {
				t.Fatal(err)
			}
			for _, pinned := range []*keys.Trust{pinned, nil} {
				rep, err := verifyBundle(context.Background(), bytes.NewReader(buf.Bytes()), int64(buf.Len()), pinned,
					[][]byte{signed}, nil)
				if err == nil && rep.Status == chain.Verified {
					t.Fatalf("made-up leaves verify: %+v", rep)
				}
			}
		})
	})
}

func put(t testing.TB, z *zip.Writer, name string, b []byte) {
	t.Helper()
	w, err := z.CreateHeader(&zip.FileHeader{Name: name}) // stored
	if err == nil {
		_, err = w.Write(b)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// FuzzWhere evaluates conditions on log entries over entries with untrusted bodies. None may panic.
func FuzzWhere(f *testing.F) {
	f.Add(`type == "verdict" && body.verdict == "deny"`, `counts(groupBy(entries, .type))`,
		[]byte(`{"verdict":"deny","a":[1,{"b":null}]}`))
	f.Add(`body.a.b.c > 3`, `sum(entries, .bytes)`, []byte(`[1,2]`))
	f.Add(`any(body.list, # matches "(a+)+$")`, `sortBy(entries, .body.x)`,
		[]byte(`{"list":["aaaaaaaaaaaaaaaaaaaaaaab",3]}`))
	f.Add(`time < "2027"`, `map(1..999999, entries)`, []byte(`{}`))
	f.Fuzz(func(t *testing.T, where, tally string, body []byte) {
		if len(where) > 300 || len(tally) > 300 {
			return // skip long questions: only their author waits for the answer
		}
		e := &Entry{Index: 1, Seq: 2, Time: time.Unix(1_790_000_000, 0), Kind: "entry", Type: "verdict",
			Body: jsontext.Value(body)}
		fuzztest.Bounded(t, 64<<10+len(body), func() {
			if w, err := NewWhere(where); err == nil {
				if ok, err := w.Match(e); ok && err != nil {
					t.Fatalf("the condition is true, but Match returns an error: %v", err)
				}
			}
			_, _ = Tally(tally, []*Entry{e, e})
		})
	})
}
