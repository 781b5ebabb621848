package inquiry

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

// shardLog returns a log of several days with a checkpoint every few entries.
func shardLog(t *testing.T, n int) *writer {
	t.Helper()
	w := newWriter(t)
	policy := []byte("a policy")
	w.project = streams.SystemProject
	w.add(streams.StageIngest, streams.TypeChunk, 0, &streams.ChunkEntry{Digest: streams.Digest(policy), Count: 1,
		Chunk: policy})
	w.add(streams.StageIngest, streams.TypeActivation, 0, &streams.ActivationEntry{Do: streams.DoActivatePolicy,
		Digest: streams.Digest(policy), Signer: "op"})
	w.project = "p"
	for i := range n {
		w.at = w.at.Add(time.Hour)
		w.observation(fmt.Sprintf("o%d", i), beliefs.OriginWeb, fmt.Sprintf("content %d", i), beliefs.Unverified)
		if i%5 == 4 {
			if _, err := w.log.Checkpoint(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return w
}

func bundleOf(t *testing.T, l *Log, o BundleOptions) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := l.Bundle(context.Background(), &b, o); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func verified(t *testing.T, b []byte, trust *keys.Trust, against ...[]byte) chain.Report {
	t.Helper()
	file := filepath.Join(t.TempDir(), "b.zip")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	rep, err := VerifyBundle(context.Background(), file, trust, against, nil)
	if err != nil {
		return chain.Report{Status: chain.Failed, Problems: []string{err.Error()}}
	}
	return rep
}

// auditors returns a trust file with auditors' keys.
func auditors(t *testing.T, public ...string) *keys.Trust {
	t.Helper()
	trust := new(keys.Trust)
	for _, p := range public {
		if err := trust.Add(keys.Pin{Key: p, Roles: []keys.Role{keys.RoleAuditor}}); err != nil {
			t.Fatal(err)
		}
	}
	return trust
}

func TestABundleVerifiesWithNothingButItselfAndPublicKeys(t *testing.T) {
	w := shardLog(t, 60)
	if n, err := w.log.DestroyKeys("q"); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	l := w.open(false)
	trust, err := w.trust.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to int64 }{{0, 0}, {0, 17}, {17, 42}, {42, 0}} {
		b := bundleOf(t, l, BundleOptions{From: c.from, To: c.to, Trust: trust})
		if again := bundleOf(t, l, BundleOptions{From: c.from, To: c.to, Trust: trust}); !bytes.Equal(b, again) {
			t.Errorf("%v: two exports differ", c)
		}
		to := c.to
		if to == 0 {
			to = l.Size()
		}
		rep := verified(t, b, w.trust)
		if rep.Status != chain.Verified || rep.Size != to-c.from || rep.Payloads != rep.Entries || rep.Forgotten != 0 {
			t.Errorf("%v: %+v", c, rep)
		}
		// A bundle's own keys prove nothing.
		if rep := verified(t, b, nil); rep.Status != chain.Incomplete {
			t.Errorf("%v, with the bundle's own keys: %+v", c, rep)
		}
		_, stranger, err := keys.Generate("test-log")
		if err != nil {
			t.Fatal(err)
		}
		if rep := verified(t, b, auditors(t, stranger)); rep.Status != chain.Failed {
			t.Errorf("%v, with a stranger's keys: %+v", c, rep)
		}
		bare := verified(t, bundleOf(t, l, BundleOptions{From: c.from, To: c.to, Trust: trust, WithoutPayloads: true}),
			w.trust)
		if bare.Status != chain.Incomplete || bare.Payloads != 0 || bare.Size != to-c.from {
			t.Errorf("%v, without payloads: %+v", c, bare)
		}
	}
	if _, err := l.chain.Span(3, 17); err == nil {
		t.Error("a span begins where no checkpoint is")
	}
	cp, err := l.chain.CheckpointAt(30)
	if err != nil {
		t.Fatal(err)
	}
	if rep := verified(t, bundleOf(t, l, BundleOptions{Trust: trust}), w.trust, cp.Note); rep.Status != chain.Verified {
		t.Errorf("against its own checkpoint: %+v", rep)
	}
	other := shardLog(t, 60)
	ol := other.open(false)
	ocp, err := ol.chain.CheckpointAt(30)
	if err != nil {
		t.Fatal(err)
	}
	both := auditors(t, w.public, other.public)
	if rep := verified(t, bundleOf(t, l, BundleOptions{Trust: trust}), both, ocp.Note); rep.Status != chain.Failed {
		t.Errorf("against another log's checkpoint: %+v", rep)
	}
}

// repack changes a bundle's files. With sums it recomputes the sums, as a forger would.
func repack(t *testing.T, b []byte, sums bool, change func(files map[string][]byte)) []byte {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string][]byte)
	for _, f := range r.File {
		rc, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if files[f.Name], err = io.ReadAll(rc); err != nil {
			t.Fatal(err)
		}
	}
	change(files)
	if sums {
		delete(files, bundleSums)
		var names []string
		for n := range files {
			names = append(names, n)
		}
		sort.Strings(names)
		var s bytes.Buffer
		for _, n := range names {
			h := sha256.Sum256(files[n])
			fmt.Fprintf(&s, "%s  %s\n", hex.EncodeToString(h[:]), n)
		}
		files[bundleSums] = s.Bytes()
	}
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for n, b := range files {
		f, err := z.Create(n)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestABundleThatWasTamperedWithFails(t *testing.T) {
	w := shardLog(t, 30)
	l := w.open(false)
	trust, err := w.trust.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	whole := bundleOf(t, l, BundleOptions{From: 17, Trust: trust})
	if rep := verified(t, repack(t, whole, true, func(map[string][]byte) {}), w.trust); rep.Status != chain.Verified {
		t.Fatalf("untouched: %+v", rep)
	}
	lines := func(f func(ls []string) []string) func(map[string][]byte) {
		return func(files map[string][]byte) {
			ls := strings.SplitAfter(strings.TrimSuffix(string(files[bundleEntries]), "\n"), "\n")
			files[bundleEntries] = []byte(strings.Join(f(ls), ""))
		}
	}
	replace := func(name, old, new string) func(map[string][]byte) {
		return func(files map[string][]byte) {
			if !bytes.Contains(files[name], []byte(old)) {
				t.Fatalf("%s does not hold %q", name, old)
			}
			files[name] = bytes.Replace(files[name], []byte(old), []byte(new), 1)
		}
	}
	remove := func(name string) func(map[string][]byte) {
		return func(files map[string][]byte) {
			if files[name] == nil {
				t.Fatalf("there is no %s", name)
			}
			delete(files, name)
		}
	}
	for name, change := range map[string]func(map[string][]byte){
		"a payload altered":         replace(bundleEntries, "content 20", "content 21"),
		"a salt altered":            replace(bundleEntries, `"salt":"`, `"salt":"00`),
		"a type altered":            replace(bundleEntries, `"type":"observation"`, `"type":"rejected"`),
		"a project altered":         replace(bundleEntries, `"project":"p"`, `"project":"q"`),
		"a time altered":            replace(bundleEntries, `:0`, `:1`),
		"a line gone":               lines(func(ls []string) []string { return append(ls[:3:3], ls[4:]...) }),
		"the last line gone":        lines(func(ls []string) []string { return ls[:len(ls)-1] }),
		"all lines gone":            lines(func(ls []string) []string { return nil }),
		"a line twice":              lines(func(ls []string) []string { return append(ls[:4:4], ls[3:]...) }),
		"two lines swapped":         lines(func(ls []string) []string { ls[2], ls[3] = ls[3], ls[2]; return ls }),
		"the prev altered":          replace(bundleManifest, `"prev":"`, `"prev":"00`),
		"the range altered":         replace(bundleManifest, `"from":17`, `"from":16`),
		"the edge altered":          replace(bundleManifest, `"edge":"`, `"edge":"AAAA`),
		"the checkpoint altered":    replace(bundleAfter, "\n32\n", "\n31\n"),
		"the checkpoint gone":       remove(bundleAfter),
		"the one before gone":       remove(bundleBefore),
		"the manifest gone":         remove(bundleManifest),
		"the entries gone":          remove(bundleEntries),
		"not even JSON":             func(f map[string][]byte) { f[bundleEntries] = []byte("{") },
		"a checkpoint of its own":   func(f map[string][]byte) { f[bundleAfter] = f[bundleBefore] },
		"a later one of another":    func(f map[string][]byte) { f[bundleLater] = f[bundleBefore] },
		"the consistency is broken": replace(bundleManifest, `"payloads":true`, `"consistency":"AAAA","payloads":true`),
	} {
		if rep := verified(t, repack(t, whole, true, change), w.trust); rep.Status != chain.Failed {
			t.Errorf("%s: %+v", name, rep)
		}
	}
	// The digests cover files that no leaf commits to, and faults in them are reported.
	if rep := verified(t, repack(t, whole, false, func(f map[string][]byte) { f[bundleReadme] = []byte("x") }),
		w.trust); rep.Status != chain.Failed {
		t.Errorf("a README altered: %+v", rep)
	}
	first := bundleOf(t, l, BundleOptions{To: 17, Trust: trust})
	name := "policy/" + strings.TrimPrefix(streams.Digest([]byte("a policy")), "sha256:")
	if rep := verified(t, repack(t, first, true, remove(name)), w.trust); rep.Status != chain.Incomplete ||
		len(rep.Skipped) != 1 {
		t.Errorf("a policy gone: %+v", rep)
	}
	withheld := regexp.MustCompile(`"salt":"[^"]*","payload":"(\\.|[^"\\])*"`)
	if rep := verified(t, repack(t, whole, true, func(f map[string][]byte) {
		f[bundleEntries] = withheld.ReplaceAll(f[bundleEntries], []byte(`"not_held":true`))
	}), w.trust); rep.Status != chain.Incomplete || rep.NotHeld == 0 || len(rep.Skipped) != 1 {
		t.Errorf("payloads withheld: %+v", rep)
	}
	// Flip bits anywhere in the file.
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	survived := 0
	for range 200 {
		b := bytes.Clone(whole)
		i := rnd.IntN(len(b))
		b[i] ^= 1 << rnd.IntN(8)
		if rep := verified(t, b, w.trust); rep.Status == chain.Verified {
			// Only flips in zip's own headers may remain undetected: they do not change the content.
			if repacked(t, b) != repacked(t, whole) {
				t.Fatalf("seed %d: a flipped bit at %d of %d is not found", seed, i, len(b))
			}
			survived++
		}
	}
	t.Logf("%d of 200 flipped bits are in fields of the archive that mean nothing", survived)
}

func repacked(t *testing.T, b []byte) string {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	out := ""
	for _, f := range r.File {
		rc, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		c, err := io.ReadAll(rc)
		if err != nil {
			t.Fatal(err)
		}
		out += f.Name + "\x00" + string(c) + "\x00"
	}
	return out
}

func TestShardsJoinAndAreSealedOnce(t *testing.T) {
	w := shardLog(t, 100) // one entry per hour
	l := w.open(false)
	trust, err := w.trust.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	seal := func(before time.Time) []Sealed {
		t.Helper()
		s, err := l.Seal(context.Background(), dir, ByDay, before, BundleOptions{Trust: trust})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	some := seal(w.at.Add(-48 * time.Hour))
	if len(some) < 2 {
		t.Fatalf("%d shards", len(some))
	}
	if again := seal(w.at.Add(-48 * time.Hour)); len(again) != 0 {
		t.Errorf("sealed twice: %+v", again)
	}
	more := seal(w.at)
	if len(more) == 0 {
		t.Error("a period that ended in the meantime is not sealed")
	}
	end := int64(0)
	for _, s := range append(some, more...) {
		if s.From != end {
			t.Errorf("%s begins at %d, the one before it ended at %d", s.File, s.From, end)
		}
		end = s.To
		rep, err := VerifyBundle(context.Background(), s.File, w.trust, nil, nil)
		if err != nil || rep.Status != chain.Verified {
			t.Errorf("%s: %+v, %v", s.File, rep, err)
		}
	}
	// A folder without the file that says up to where shards are sealed is one of an earlier version. Without this
	// file, a missing first shard must be reported.
	mark := filepath.Join(dir, sealedFile)
	if err := errors.Join(os.Remove(mark), os.Remove(some[0].File)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Seal(context.Background(), dir, ByDay, w.at, BundleOptions{}); err == nil {
		t.Error("a missing shard is not noticed")
	}
	if err := os.WriteFile(mark, []byte("all"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Seal(context.Background(), dir, ByDay, w.at, BundleOptions{}); err == nil {
		t.Error("an unreadable end is not noticed")
	}
}

// Some or all sealed shards are moved to another folder. Then their range must not be sealed again, and the next shard
// must begin where the last one ended.
func TestShardsMayBeMovedAway(t *testing.T) {
	w := shardLog(t, 100)
	l := w.open(false)
	trust, err := w.trust.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for _, moved := range [][]int{{0, 1, 2}, {0, 1}, {1}, {2}} {
		for _, fresh := range []bool{true, false} {
			dir := t.TempDir()
			seal := func(before time.Time) []Sealed {
				t.Helper()
				s, err := l.Seal(context.Background(), dir, ByDay, before, BundleOptions{Trust: trust})
				if err != nil {
					t.Fatalf("%v moved: %v", moved, err)
				}
				return s
			}
			some := seal(w.at.Add(-24 * time.Hour))
			if len(some) != 3 {
				t.Fatalf("%d shards", len(some))
			}
			if !fresh { // as an earlier version left the folder, after the first run of this version
				if err := os.Remove(filepath.Join(dir, sealedFile)); err != nil {
					t.Fatal(err)
				}
				seal(w.at.Add(-24 * time.Hour))
			}
			for _, i := range moved {
				if err := os.Remove(some[i].File); err != nil {
					t.Fatal(err)
				}
			}
			if again := seal(w.at.Add(-24 * time.Hour)); len(again) != 0 {
				t.Errorf("%v moved, and sealed again: %+v", moved, again)
			}
			if more := seal(w.at.Add(24 * time.Hour)); len(more) == 0 || more[0].From != some[2].To {
				t.Errorf("%v moved: the shards after leaf %d are %+v", moved, some[2].To, more)
			}
			if err := markSealed(dir, l.Size()+1); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Seal(context.Background(), dir, ByDay, w.at, BundleOptions{}); err == nil {
				t.Error("the shards are of another log, which is not noticed")
			}
		}
	}
}
