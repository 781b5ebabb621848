package chain_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	tlogproof "github.com/transparency-dev/formats/proof"
	mproof "github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/tessera/api"
	"github.com/transparency-dev/tessera/client"
	"github.com/transparency-dev/tessera/fsck"
	"golang.org/x/mod/sumdb/note"

	"lazaret/pkg/chain"
)

// served makes a log with n entries, and an HTTP server that serves its tiles.
func served(t *testing.T, k vkey, n uint64) (*chain.Log, *httptest.Server) {
	t.Helper()
	l := open(t, vfs.NewMem(), "log", keypair{signer: k.signer})
	t.Cleanup(func() { l.Close() })
	for at := uint64(0); at < n; at += 700 {
		if err := l.Append(entries(at+1, min(at+700, n))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(chain.NewHandler(l.Source()))
	t.Cleanup(h.Close)
	return l, h
}

// hashBundle returns the leaf hashes of a bundle. fsck calls it for each bundle.
func hashBundle(b []byte) ([][]byte, error) {
	var eb api.EntryBundle
	if err := eb.UnmarshalText(b); err != nil {
		return nil, err
	}
	var out [][]byte
	for _, e := range eb.Entries {
		out = append(out, rfc6962.DefaultHasher.HashLeaf(e))
	}
	return out, nil
}

// TestTesseraReadsTheLog lets Tessera's client and fsck, which do not use this package, read a
// served log.
func TestTesseraReadsTheLog(t *testing.T) {
	k := newVkey(t, "example.org/log")
	v, err := note.NewVerifier(k.text)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	for _, n := range []uint64{1, 255, 256, 257, 66_000} {
		l, h := served(t, k, n)
		u, err := url.Parse(h.URL)
		if err != nil {
			t.Fatal(err)
		}
		f, err := client.NewHTTPFetcher(u, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := fsck.New("example.org/log", v, f, hashBundle, fsck.Opts{N: 2}).Check(ctx); err != nil {
			t.Fatalf("fsck of %d leaves: %v", n, err)
		}
		cp, _, _, err := client.FetchCheckpoint(ctx, f.ReadCheckpoint, v, "example.org/log")
		if err != nil || cp.Size != n {
			t.Fatal(cp, err)
		}
		pb, err := client.NewProofBuilder(ctx, cp.Size, f.ReadTile)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range []uint64{0, n / 2, n - 1} {
			// Our code must accept Tessera's proof for our tree, and Tessera's code must accept our proof.
			p, err := pb.InclusionProof(ctx, i)
			if err != nil {
				t.Fatal(err)
			}
			b, err := client.GetEntryBundle(ctx, f.ReadEntryBundle, i/256, cp.Size)
			if err != nil {
				t.Fatal(err)
			}
			leaf := b.Entries[i%256]
			if err := mproof.VerifyInclusion(rfc6962.DefaultHasher, i, cp.Size, rfc6962.DefaultHasher.HashLeaf(leaf), p,
				cp.Hash); err != nil {
				t.Errorf("leaf %d of %d: %v", i, n, err)
			}
			var parsed tlogproof.TLogProof
			if err := parsed.Unmarshal(proofOf(t, l, k, int64(i))); err != nil {
				t.Fatal(err)
			}
			ours := make([][]byte, len(parsed.Hashes))
			for j := range parsed.Hashes {
				ours[j] = parsed.Hashes[j][:]
			}
			if err := mproof.VerifyInclusion(rfc6962.DefaultHasher, parsed.Index, cp.Size,
				rfc6962.DefaultHasher.HashLeaf(leaf), ours, cp.Hash); err != nil {
				t.Errorf("our proof of leaf %d of %d: %v", i, n, err)
			}
		}
	}
}

func proofOf(t *testing.T, l *chain.Log, k vkey, i int64) []byte {
	t.Helper()
	v, err := chain.NewView(context.Background(), l.Source(), k.verifiers(t))
	if err != nil {
		t.Fatal(err)
	}
	p, err := v.Prove(i)
	if err != nil {
		t.Fatal(err)
	}
	if p.Leaf.Kind == chain.KindEntry {
		if p.Salt, p.Payload, err = l.Salted(i); err != nil {
			t.Fatal(err)
		}
	}
	b, err := p.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFsckFindsATileThatLies(t *testing.T) {
	k := newVkey(t, "example.org/log")
	v, err := note.NewVerifier(k.text)
	if err != nil {
		t.Fatal(err)
	}
	l, _ := served(t, k, 600)
	honest := chain.NewHandler(l.Source())
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/tile/0/001" {
			honest.ServeHTTP(w, r)
			return
		}
		b, err := l.Tile(0, 1, 256)
		if err != nil {
			t.Error(err)
		}
		b[100] ^= 1
		_, _ = w.Write(b)
	}))
	defer h.Close()
	u, err := url.Parse(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	f, err := client.NewHTTPFetcher(u, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := fsck.New("example.org/log", v, f, hashBundle, fsck.Opts{N: 2}).Check(context.Background()); err == nil {
		t.Error("fsck accepts a log whose data was changed: the test above shows nothing")
	}
	// Our view does not accept it either.
	src, err := chain.NewClient(h.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	view, err := chain.NewView(context.Background(), src, k.verifiers(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := view.Prove(300); err == nil {
		t.Error("a leaf was proven by a changed tile")
	}
}

func TestAViewOverHTTPProvesWhatTheLogProves(t *testing.T) {
	k := newVkey(t, "log")
	l, h := served(t, k, 1500)
	ctx := context.Background()
	src, err := chain.NewClient(h.URL+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	early, err := chain.NewView(ctx, src, k.verifiers(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Append(entries(1501, 1800)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	late, err := chain.NewView(ctx, src, k.verifiers(t))
	if err != nil {
		t.Fatal(err)
	}
	p, err := late.Consistent(early.Checkpoint)
	if err != nil || len(p) == 0 {
		t.Fatal(p, err)
	}
	want, err := l.ProveConsistency(1500, 1800)
	if err != nil || !slices.Equal(p, want) {
		t.Errorf("consistency proofs differ: %v", err)
	}
	other := early.Checkpoint
	other.Root[0] ^= 1
	if _, err := late.Consistent(other); err == nil {
		t.Error("a consistency proof is accepted for another tree")
	}
	if _, err := early.Consistent(late.Checkpoint); !errors.Is(err, chain.ErrRange) {
		t.Errorf("a shorter log: %v", err)
	}
	// A view must prove an entry that its checkpoint covers, and must not prove a later one.
	for _, v := range []*chain.View{early, late} {
		p, err := v.Prove(1400)
		if err != nil {
			t.Fatal(err)
		}
		b, err := p.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		got, err := chain.CheckProof(b, k.verifiers(t), nil)
		if err != nil || got.Leaf.Index != 1400 || got.Payload != nil {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if _, _, err := early.Leaf(1500); !errors.Is(err, chain.ErrRange) {
		t.Errorf("a leaf behind the checkpoint: %v", err)
	}
	if _, err := chain.NewView(ctx, src, newVkey(t, "log").verifiers(t)); err == nil {
		t.Error("a checkpoint that an unknown key signed is accepted")
	}
	for _, path := range []string{"/tile/0/007", "/tile/0/x001/000", "/tile/0/000.p/0", "/tile/0/000.p/256",
		"/tile/data/000", "/tile/entries/900", "/tile/0/7", "/tile/00/007", "/tile/", "/tile/-1/000", "/other"} {
		res, err := http.Get(h.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if want := http.StatusNotFound; path != "/tile/0/007" && res.StatusCode != want {
			t.Errorf("GET %s: %s", path, res.Status)
		}
	}
	res, err := http.Post(h.URL+"/checkpoint", "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST checkpoint: %s", res.Status)
	}
}

func TestAProofHoldsForItsLeafOnly(t *testing.T) {
	k := newVkey(t, "log")
	l, _ := served(t, k, 300)
	text := proofOf(t, l, k, 123)
	p, err := chain.CheckProof(text, k.verifiers(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := entry(124); p.Leaf.Index != 123 || p.Leaf.Seq != 124 || !bytes.Equal(p.Payload, want.Payload) ||
		p.Salt != want.Salt {
		t.Errorf("proof of %+v", p.Leaf)
	}
	again, err := p.MarshalText()
	if err != nil || !bytes.Equal(again, text) {
		t.Errorf("it is written again as\n%s\n%v", again, err)
	}
	for i := range text {
		bad := bytes.Clone(text)
		bad[i] ^= 1
		if got, err := chain.CheckProof(bad, k.verifiers(t), nil); err == nil {
			// The changed text may still be valid, because base64 texts can have two encodings. It must then have the
			// same meaning.
			out, err := got.MarshalText()
			if err != nil || !bytes.Equal(out, text) && !bytes.Equal(got.Checkpoint, bad[len(bad)-len(got.Checkpoint):]) {
				t.Errorf("with byte %d (%q) flipped, the proof is still valid and means something else", i, text[i])
			}
			if !bytes.Equal(got.Raw, p.Raw) || !bytes.Equal(got.Payload, p.Payload) {
				t.Errorf("with byte %d flipped it proves another leaf", i)
			}
		}
	}
	if _, err := chain.CheckProof(text, newVkey(t, "log").verifiers(t), nil); !errors.Is(err, chain.ErrProof) {
		t.Errorf("by another key: %v", err)
	}
	if _, err := chain.CheckProof(text, k.verifiers(t), quorum("nobody")); !errors.Is(err, chain.ErrProof) {
		t.Errorf("without the quorum: %v", err)
	}
}

func FuzzCheckProof(f *testing.F) {
	f.Add([]byte("c2sp.org/tlog-proof@v1\nextra AQAA\nindex 0\n\nlog\n1\nAAAA\n\n"))
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = chain.CheckProof(b, note.VerifierList(), nil) })
}

func TestTheFirstDifferenceIsFound(t *testing.T) {
	k := newVkey(t, "log")
	const n = 66_100
	make := func(change int64) *chain.Log {
		l := open(t, vfs.NewMem(), "log", keypair{signer: k.signer})
		t.Cleanup(func() { l.Close() })
		es := entries(1, n)
		if change >= 0 {
			es[change].Type = "other"
		}
		for b := range slices.Chunk(es, 5000) {
			if err := l.Append(b); err != nil {
				t.Fatal(err)
			}
		}
		return l
	}
	a := make(-1)
	changes := []int64{-1, 256, 65_535, n - 1}
	if testing.Short() {
		changes = changes[2:3]
	}
	for _, at := range changes {
		b := make(at)
		got, rooted, err := chain.FirstDifference(context.Background(), [2]chain.Source{a.Source(), b.Source()},
			[2]chain.Checkpoint{headOf(t, a), headOf(t, b)})
		if err != nil || got != at || rooted != [2]bool{true, true} {
			t.Errorf("changed at %d, found at %d, %v, %v", at, got, rooted, err)
		}
	}
}

// headOf signs the head of a log and returns it as a parsed checkpoint.
func headOf(t *testing.T, l *chain.Log) chain.Checkpoint {
	t.Helper()
	b, err := l.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	cp, err := chain.ParseCheckpoint(b)
	if err != nil {
		t.Fatal(err)
	}
	return cp
}

// otherLeaves is a source with the tiles and the checkpoint of one log, and the leaves of another one.
type otherLeaves struct{ chain.Source }

func (o otherLeaves) ReadEntryBundle(ctx context.Context, n int64, width int) ([]byte, error) {
	b, err := o.Source.ReadEntryBundle(ctx, n, width)
	if err == nil {
		b[len(b)-1] ^= 1
	}
	return b, err
}

func TestLeavesThatTheCheckpointDoesNotCoverAreFound(t *testing.T) {
	a := open(t, vfs.NewMem(), "log", newKey(t, "log"))
	defer a.Close()
	if err := a.Append(entries(1, 300)); err != nil {
		t.Fatal(err)
	}
	cp := headOf(t, a)
	got, rooted, err := chain.FirstDifference(context.Background(), [2]chain.Source{a.Source(), otherLeaves{a.Source()}},
		[2]chain.Checkpoint{cp, cp})
	if err != nil || got != 255 || rooted != [2]bool{true, false} {
		t.Errorf("the last leaf of each bundle differs: found at %d, roots %v, %v", got, rooted, err)
	}
	other := otherLeaves{a.Source()}
	got, rooted, err = chain.FirstDifference(context.Background(), [2]chain.Source{other, other},
		[2]chain.Checkpoint{cp, cp})
	if err != nil || got != -1 || rooted != [2]bool{} {
		t.Errorf("both serve the same other leaves: found at %d, roots %v, %v", got, rooted, err)
	}
}

func TestALogIsMadeOfAnothersTiles(t *testing.T) {
	k, own := newVkey(t, "log"), newVkey(t, "log")
	ctx := context.Background()
	l, h := served(t, k, 1500)
	src, err := chain.NewClient(h.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	fs := vfs.NewMem()
	opts := chain.Options{FS: fs, Signer: own.signer, MasterKey: master}
	if err := chain.Import(ctx, "copy", opts, src, newVkey(t, "log").verifiers(t), nil, nil); err == nil {
		t.Fatal("a log was imported whose checkpoint no trusted key signed")
	}
	if err := errors.Join(fs.MkdirAll("home/papers", 0o700), fs.MkdirAll("copy", 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := chain.Import(ctx, "home", opts, src, k.verifiers(t), nil, nil); err == nil ||
		!strings.Contains(err.Error(), "papers") {
		t.Errorf("into a folder with files: %v", err)
	}
	if _, err := fs.Stat("home/papers"); err != nil {
		t.Errorf("the folder's files: %v", err)
	}
	if err := chain.Import(ctx, "copy", opts, src, k.verifiers(t), nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := chain.Import(ctx, "copy", opts, src, k.verifiers(t), nil, nil); !errors.Is(err, chain.ErrNotEmpty) {
		t.Errorf("a second time: %v", err)
	}
	c, err := chain.Open("copy", opts)
	if err != nil {
		t.Fatal(err)
	}
	if h := c.Head(); h.Root != l.Head().Root || h.LastSeq != 1500 || h.Imported != 1500 {
		t.Fatalf("head is %+v", h)
	}
	if _, err := c.Payload(7); !errors.Is(err, chain.ErrNotHeld) {
		t.Errorf("payload 7: %v", err)
	}
	// The ledger still has the last 300.
	bad := entries(1201, 1500)
	bad[10].Payload = []byte("other")
	if err := c.Fill(bad); !errors.Is(err, chain.ErrDiffers) {
		t.Errorf("another ledger: %v", err)
	}
	if err := c.Fill(entries(1201, 1600)); err != nil {
		t.Fatal(err)
	}
	if err := c.Append(entries(1501, 1600)); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(entries(1501, 1600)); err != nil {
		t.Fatal(err)
	}
	if c.Head().Root != l.Head().Root {
		t.Error("the copy has another root than the original")
	}
	if i, err := c.FindSeq(1234); i != 1233 || err != nil {
		t.Errorf("sequence 1234 is leaf %d, %v", i, err)
	}
	if _, err := c.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	c.Close()
	rep := verify(t, fs, "copy", keypair{verifier: own.verifiers(t)}, nil)
	if rep.Status != chain.Incomplete || rep.NotHeld != 1200 || rep.Payloads != 400 || len(rep.Skipped) != 1 {
		t.Errorf("report is %+v", rep)
	}
}

// lying is a source that serves changed data for one bundle of leaves.
type lying struct {
	chain.Source
	n int64
}

func (s lying) ReadEntryBundle(ctx context.Context, n int64, width int) ([]byte, error) {
	b, err := s.Source.ReadEntryBundle(ctx, n, width)
	if n == s.n {
		b = bytes.Clone(b)
		b[60] ^= 1 // in a commitment
	}
	return b, err
}

func TestNothingIsTakenFromASourceThatLies(t *testing.T) {
	k := newVkey(t, "log")
	l, _ := served(t, k, 1000)
	for n := range int64(4) {
		fs := vfs.NewMem()
		err := chain.Import(context.Background(), "copy", chain.Options{FS: fs, Signer: k.signer, MasterKey: master},
			lying{l.Source(), n}, k.verifiers(t), nil, nil)
		if err == nil {
			t.Errorf("the changed bundle %d was accepted", n)
		}
		if _, err := fs.Stat("copy"); err == nil {
			t.Error("a failed import left a log in the folder")
		}
	}
}

func TestARangeIsVerifiedAgainstTheTilesAroundIt(t *testing.T) {
	k := newVkey(t, "log")
	fs := vfs.NewMem()
	l := open(t, fs, "log", keypair{signer: k.signer})
	for at := uint64(1); at < 12_000; at += 500 {
		if err := l.Append(entries(at, at+499)); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	defer l.Close()
	for _, r := range [][2]int64{{0, 1}, {300, 400}, {5000, 0}, {0, 11_000}, {4096, 8192}} {
		rep, err := l.Verify(context.Background(), chain.VerifyOptions{Verifiers: k.verifiers(t), From: r[0], To: r[1]})
		if err != nil || rep.Status != chain.Incomplete || len(rep.Skipped) != 1 || rep.Payloads == 0 ||
			rep.Payloads != rep.Size || rep.Root != l.Head().Root.String() {
			t.Errorf("%v: %+v, %v", r, rep, err)
		}
	}
	rep, err := l.Verify(context.Background(), chain.VerifyOptions{Verifiers: k.verifiers(t), To: 50_000})
	if err != nil || rep.Status != chain.Verified {
		t.Errorf("all of it: %+v, %v", rep, err)
	}
	if _, err := l.Verify(context.Background(), chain.VerifyOptions{From: 12_001}); !errors.Is(err, chain.ErrRange) {
		t.Errorf("behind the end: %v", err)
	}
}

// A log without leaves must not satisfy a witness policy.
func TestAnEmptyLogLacksTheQuorum(t *testing.T) {
	k := newVkey(t, "log")
	l, err := chain.Open("log", chain.Options{FS: vfs.NewMem(), Signer: k.signer, MasterKey: master})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	rep, err := l.Verify(t.Context(), chain.VerifyOptions{Verifiers: k.verifiers(t), Quorum: quorum("a checkpoint")})
	if err != nil || rep.Status != chain.Failed {
		t.Errorf("report is %+v, %v", rep, err)
	}
}
