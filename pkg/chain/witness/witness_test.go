package witness_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	fnote "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/fuzztest"
	"lazaret/pkg/chain"
	"lazaret/pkg/chain/witness"
)

func cosigner(t *testing.T, k fuzztest.Pair) string {
	t.Helper()
	c, err := witness.CosignerKey(k.Public)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newLog(t *testing.T, k fuzztest.Pair, payload string) *chain.Log {
	t.Helper()
	l := emptyLog(t, k)
	grow(t, l, 10, payload)
	return l
}

func emptyLog(t *testing.T, k fuzztest.Pair) *chain.Log {
	t.Helper()
	l, err := chain.Open("log", chain.Options{FS: vfs.NewMem(), Signer: k.Signer, MasterKey: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// grow appends n entries and signs.
func grow(t *testing.T, l *chain.Log, n int, payload string) []byte {
	t.Helper()
	for range n {
		if err := l.Append([]chain.Entry{{Seq: l.Head().LastSeq + 1, Time: time.Unix(1, 0), Type: "t", Project: "p",
			Payload: []byte(payload)}}); err != nil {
			t.Fatal(err)
		}
	}
	cp, err := l.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	return cp
}

// serve starts a witness over HTTP, and returns the line that a policy needs for it.
func serve(t *testing.T, name string, k fuzztest.Pair, dir string, log fuzztest.Pair) (*witness.Server, string) {
	t.Helper()
	s, err := witness.NewServer(k.Private, dir, []note.Verifier{log.Verifier})
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, fmt.Sprintf("witness %s %s %s\n", name, cosigner(t, k), h.URL)
}

func TestWitnessesCosignWhatExtendsWhatTheySaw(t *testing.T) {
	logKey, a, b := fuzztest.NewPair(t, "log"), fuzztest.NewPair(t, "a.example"), fuzztest.NewPair(t, "b.example")
	l := newLog(t, logKey, "x")
	dir := t.TempDir()
	_, lineA := serve(t, "a", a, dir, logKey)
	_, lineB := serve(t, "b", b, t.TempDir(), logKey)
	p, err := witness.ParsePolicy([]byte(lineA + lineB + "group both all a b\nquorum both\n"))
	if err != nil {
		t.Fatal(err)
	}
	var c witness.Client
	for i := range 3 {
		cp := grow(t, l, 1+300*i, "x")
		if p.Satisfied(cp) {
			t.Fatal("satisfied before anybody cosigned")
		}
		if cp, err = c.Cosign(context.Background(), p, l, cp); err != nil {
			t.Fatal(err)
		}
		if !p.Satisfied(cp) {
			t.Fatalf("cosigned is\n%s", cp)
		}
		if err := l.Cosigned(cp); err != nil {
			t.Fatal(err)
		}
		// All witnesses have cosigned this checkpoint, so Cosign must return it unchanged and ask no witness.
		again, err := c.Cosign(context.Background(), p, l, cp)
		if err != nil || !bytes.Equal(again, cp) {
			t.Errorf("again: %v", err)
		}
		// An independent verifier accepts the cosignatures.
		for _, k := range []fuzztest.Pair{a, b} {
			v, err := fnote.NewVerifierForCosignatureV1(k.Public)
			if err != nil {
				t.Fatal(err)
			}
			n, err := note.Open(l.Head().Checkpoint, note.VerifierList(v))
			if err != nil || len(n.Sigs) != 1 {
				t.Fatal(err)
			}
			if at, err := fnote.CoSigV1Timestamp(n.Sigs[0]); err != nil || time.Since(at) > time.Hour {
				t.Errorf("cosigned at %v, %v", at, err)
			}
		}
	}
	// A restarted witness remembers its last checkpoint.
	_, lineA = serve(t, "a", a, dir, logKey)
	if p, err = witness.ParsePolicy([]byte(lineA + "quorum a\n")); err != nil {
		t.Fatal(err)
	}
	forged := newLog(t, logKey, "something else")
	for _, n := range []int{1, int(l.Head().Size) - 11, 50} { // smaller, as large, larger
		cp := grow(t, forged, n, "something else")
		if cp, err = new(witness.Client).Cosign(context.Background(), p, forged, cp); err == nil || p.Satisfied(cp) {
			t.Errorf("a forged log of %d leaves was cosigned", forged.Head().Size)
		}
		if forged.Head().Size >= l.Head().Size && !errors.Is(err, witness.ErrForked) {
			t.Errorf("a forged log of %d leaves: %v", forged.Head().Size, err)
		}
	}
	if _, err := new(witness.Client).Cosign(context.Background(), p, l, grow(t, l, 5, "x")); err != nil {
		t.Errorf("the true log: %v", err)
	}
}

func TestAWitnessAnswersAsTheProtocolSays(t *testing.T) {
	logKey, other, w := fuzztest.NewPair(t, "log"), fuzztest.NewPair(t, "other"), fuzztest.NewPair(t, "w")
	l := newLog(t, logKey, "x")
	first := grow(t, l, 1, "x") // 11
	second := grow(t, l, 9, "x")
	proof, err := l.ProveConsistency(11, 20)
	if err != nil {
		t.Fatal(err)
	}
	var good strings.Builder
	for _, h := range proof {
		fmt.Fprintln(&good, base64.StdEncoding.EncodeToString(h[:]))
	}
	foreign := grow(t, newLog(t, other, "x"), 1, "x")
	badKey := fuzztest.NewPair(t, "log")
	stolen := grow(t, newLog(t, badKey, "x"), 1, "x")
	forked := grow(t, newLog(t, logKey, "y"), 1, "y")
	s, _ := serve(t, "w", w, t.TempDir(), logKey)
	empty := grow(t, emptyLog(t, logKey), 0, "")
	unlike := func(root string) string { // a checkpoint of size 0 whose root is not the empty tree's
		sum := sha256.Sum256([]byte(root))
		cp, err := note.Sign(&note.Note{Text: fmt.Sprintf("log\n0\n%s\n", base64.StdEncoding.EncodeToString(sum[:]))},
			logKey.Signer)
		if err != nil {
			t.Fatal(err)
		}
		return string(cp)
	}
	zero := base64.StdEncoding.EncodeToString(make([]byte, 32)) + "\n"
	for _, c := range []struct {
		name, body string
		code       int
		answer     string
	}{
		{"no body", "", 400, ""},
		{"no old size", "\n" + string(first), 400, ""},
		{"an old size with a zero before it", "old 00\n\n" + string(first), 400, ""},
		{"no checkpoint", "old 0\n\nhello", 400, ""},
		{"a hash cut short", "old 0\nAAAA\n\n" + string(first), 400, ""},
		{"too many hashes", "old 0\n" + strings.Repeat(zero, 64) + "\n" + string(first), 400, ""},
		{"an unknown log", "old 0\n\n" + string(foreign), 404, ""},
		{"another key", "old 0\n\n" + string(stolen), 403, ""},
		{"an old size above the checkpoint's", "old 12\n\n" + string(first), 400, ""},
		{"a size that was not cosigned", "old 5\n\n" + string(first), 409, "0\n"},
		{"a proof from nothing", "old 0\n" + zero + "\n" + string(first), 400, ""},
		{"a tree of size 0 that is not empty", "old 0\n\n" + unlike("x"), 422, ""},
		{"the empty tree", "old 0\n\n" + string(empty), 200, "— w "},
		{"another tree of size 0", "old 0\n\n" + unlike("y"), 422, ""},
		{"the empty tree again", "old 0\n\n" + string(empty), 200, "— w "},
		{"the first", "old 0\n\n" + string(first), 200, "— w "},
		{"the first again", "old 11\n\n" + string(first), 200, "— w "},
		{"from nothing again", "old 0\n\n" + string(second), 409, "11\n"},
		{"another tree of the same size", "old 11\n\n" + string(forked), 409, ""},
		{"no proof", "old 11\n\n" + string(second), 422, ""},
		{"a wrong proof", "old 11\n" + zero + "\n" + string(second), 422, ""},
		{"the second", "old 11\n" + good.String() + "\n" + string(second), 200, "— w "},
		{"the first after the second", "old 11\n\n" + string(first), 409, "20\n"},
	} {
		r := httptest.NewRequest(http.MethodPost, "/add-checkpoint", strings.NewReader(c.body))
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, r)
		body, err := io.ReadAll(rec.Body)
		if err != nil {
			t.Fatal(err)
		}
		if rec.Code != c.code || !strings.HasPrefix(string(body), c.answer) {
			t.Errorf("%s: %d %q, want %d %q", c.name, rec.Code, body, c.code, c.answer)
		}
		if c.code == 409 && c.answer != "" && rec.Header().Get("Content-Type") != "text/x.tlog.size" {
			t.Errorf("%s: content type %q", c.name, rec.Header().Get("Content-Type"))
		}
	}
	for path, code := range map[string]int{"/add-checkpoint": 405, "/other": 404} {
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
		if rec.Code != code {
			t.Errorf("GET %s: %d", path, rec.Code)
		}
	}
}

func TestAWitnessWhoseMemoryIsDamagedCosignsNothing(t *testing.T) {
	logKey, w := fuzztest.NewPair(t, "log"), fuzztest.NewPair(t, "w")
	l := newLog(t, logKey, "x")
	dir := t.TempDir()
	s, _ := serve(t, "w", w, dir, logKey)
	cp := grow(t, l, 1, "x")
	if _, err := s.Add(append([]byte("old 0\n\n"), cp...)); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.WriteFile(files[0], nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if sig, err := s.Add(append([]byte("old 0\n\n"), cp...)); err == nil {
		t.Errorf("it cosigned %s", sig)
	}
}

func TestAPolicyIsReadStrictly(t *testing.T) {
	a, b, c := fuzztest.NewPair(t, "a"), fuzztest.NewPair(t, "b"), fuzztest.NewPair(t, "c")
	ka, kb, kc := cosigner(t, a), cosigner(t, b), cosigner(t, c)
	head := "# who vouches\nlog " + c.Public + " https://log.example\nwitness a " + ka + "\n\twitness b " + kb +
		" https://b.example\n"
	for _, good := range []string{"quorum a\n", "quorum none\n", "group g any a b\nquorum g\n",
		"group g 2 a b\nwitness c " + kc + "\ngroup h all g c\nquorum h"} {
		p, err := witness.ParsePolicy([]byte(head + good))
		if err != nil || len(p.Logs) != 1 || len(p.Witnesses) < 2 || p.Witnesses[1].URL != "https://b.example" ||
			p.Witnesses[0].URL != "" {
			t.Errorf("%q: %+v, %v", good, p, err)
		}
	}
	for _, bad := range []string{
		"", "quorum d\n", "quorum a\nquorum a\n", "group g 0 a b\nquorum g\n", "group g 3 a b\nquorum g\n",
		"group g any\nquorum g\n", "group g any a a\nquorum g\n",
		"witness c " + ka + "\nquorum a\n", "witness c " + a.Public + "\nquorum a\n", "witness a " + kc + "\nquorum a\n",
		"witness c nonsense\nquorum a\n", "log nonsense\nquorum a\n", "what\nquorum a\n", "group g any c\nquorum g\n",
	} {
		if _, err := witness.ParsePolicy([]byte(head + bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func FuzzParsePolicy(f *testing.F) {
	f.Add([]byte("quorum none\n"))
	f.Add([]byte("witness a b c\ngroup g any a\nquorum g\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := witness.ParsePolicy(b); err == nil && p == nil {
			t.Fatal("neither a policy nor an error")
		}
	})
}

func FuzzServer(f *testing.F) {
	private, public, err := note.GenerateKey(nil, "log")
	if err != nil {
		f.Fatal(err)
	}
	v, err := note.NewVerifier(public)
	if err != nil {
		f.Fatal(err)
	}
	s, err := witness.NewServer(private, f.TempDir(), []note.Verifier{v})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("old 0\n\nlog\n1\nAAAA\n\n"))
	f.Add([]byte("old 5\n" + strings.Repeat("A", 43) + "=\n\nlog\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if sig, err := s.Add(b); err == nil {
			t.Fatalf("it cosigned %q: %s", b, sig)
		}
	})
}
