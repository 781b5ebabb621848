package inquiry

import (
	"archive/zip"
	"bufio"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"sort"
	"strings"

	"lazaret/internal/statement"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// Limits on a bundle, whose author may be hostile. Sizes are in bytes.
const (
	maxBundleFile = 64 << 20
	maxBundleLine = 64 << 20
	// A bundle may contain many notes, which are all kept in memory.
	maxBundleNote = 64 << 10
	maxHandovers  = 1000
)

// VerifyBundle verifies a bundle. It checks the digests of the bundle's files, the signatures of the
// checkpoints, each leaf, its link to the previous leaf and its inclusion in the checkpoint's tree, and each
// payload against its commitment. It checks that the active rule sets, policies and trust files are included.
// against are earlier checkpoints that the bundle must agree with. If trust is nil, the keys in the bundle are
// used and the result is incomplete, because the bundle's author chose them.
func VerifyBundle(ctx context.Context, file string, trust *keys.Trust, against [][]byte,
	progress func(done, total int64)) (rep chain.Report, err error) {
	f, err := os.Open(file)
	if err != nil {
		return rep, fmt.Errorf("opening bundle: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	fi, err := f.Stat()
	if err != nil {
		return rep, fmt.Errorf("opening bundle: %w", err)
	}
	if rep, err = verifyBundle(ctx, f, fi.Size(), trust, against, progress); err != nil {
		return rep, fmt.Errorf("bundle %s: %w", file, err)
	}
	return rep, nil
}

// verifyBundle is VerifyBundle for an archive of size bytes.
func verifyBundle(ctx context.Context, r io.ReaderAt, size int64, trust *keys.Trust, against [][]byte,
	progress func(done, total int64)) (rep chain.Report, err error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return rep, err
	}
	// Files in an archive can overlap, so that a small archive expands to any size. In a valid archive,
	// the files fit in it and deflate expands them by at most a factor of about a thousand.
	var packed uint64
	for _, f := range z.File {
		if packed += f.CompressedSize64; packed > uint64(size) || f.CompressedSize64 > uint64(size) {
			return rep, errors.New("the files in the archive overlap, as in a zip bomb")
		}
	}
	v := &bundleCheck{rep: chain.Report{FirstBad: -1}, files: make(map[string]*zip.File), seen: make(map[string]bool)}
	if err := v.check(ctx, z, trust, against, progress); err != nil {
		return rep, err
	}
	switch {
	case v.rep.FirstBad >= 0:
		v.rep.Status = chain.Failed
	case len(v.rep.Skipped) > 0:
		v.rep.Status = chain.Incomplete
	default:
		v.rep.Status = chain.Verified
	}
	return v.rep, nil
}

// bundleCheck is a verification in progress.
type bundleCheck struct {
	rep   chain.Report
	files map[string]*zip.File
	seen  map[string]bool // digests of rule sets, policies and trust files that the range activates
	from  int64
	said  []*chain.Statement // signed statements in the range
	reset int64              // index of the first leaf after the last reset of the ledger
	gone  []chain.Leaf       // leaves whose payloads were erased
}

func (v *bundleCheck) bad(index int64, format string, args ...any) {
	if v.rep.FirstBad < 0 || index < v.rep.FirstBad {
		v.rep.FirstBad = index
	}
	if len(v.rep.Problems) < 20 {
		v.rep.Problems = append(v.rep.Problems, fmt.Sprintf(format, args...))
	}
}

func (v *bundleCheck) skip(format string, args ...any) {
	v.rep.Skipped = append(v.rep.Skipped, fmt.Sprintf(format, args...))
}

// read returns a file of the bundle, or nil if there is none.
func (v *bundleCheck) read(name string) ([]byte, error) { return v.readUpTo(name, maxBundleFile) }

func (v *bundleCheck) readUpTo(name string, most int64) ([]byte, error) {
	f := v.files[name]
	if f == nil {
		return nil, nil
	}
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s is larger than %d bytes", name, most)
	}
	return b, errors.Join(err, r.Close())
}

// check collects the faults of a bundle. It returns an error if the bundle could not be checked.
func (v *bundleCheck) check(ctx context.Context, z *zip.Reader, trust *keys.Trust, against [][]byte,
	progress func(done, total int64)) error {
	for _, f := range z.File {
		if v.files[f.Name] != nil {
			v.bad(0, "%s occurs twice", f.Name)
		}
		v.files[f.Name] = f
	}
	v.checkSums()
	b, err := v.read(bundleManifest)
	m := new(manifest)
	if err == nil && b == nil {
		err = errors.New("it is missing")
	}
	if err == nil {
		err = streams.Unmarshal(b, m)
	}
	if err == nil && m.Format != bundleFormat && m.Format != bundleFormat1 {
		err = fmt.Errorf("format %q, this program reads %q", m.Format, bundleFormat)
	}
	if err != nil {
		v.bad(0, "%s: %v", bundleManifest, err)
		return nil
	}
	span, err := v.span(m)
	if err != nil {
		v.bad(m.From, "%v", err)
		return nil
	}
	if trust == nil {
		v.skip("whether the keys are correct: those in the bundle were used; give --keys")
		if b, err = v.read(bundleTrust); err == nil {
			trust, err = keys.ParseTrust(bundleTrust, b)
		}
		if err != nil {
			v.bad(m.From, "%s: %v", bundleTrust, err)
			return nil
		}
	}
	vs := trust.Verifiers(keys.RoleAuditor)
	r, err := span.Read(vs)
	if err != nil {
		v.bad(m.From, "%v", err)
		return nil
	}
	v.from = m.From
	v.rep.Checkpoints, v.rep.Handovers = 1, int64(len(span.Handovers))
	for _, c := range [][]byte{span.Before, span.Later} {
		if c != nil {
			v.rep.Checkpoints++
		}
	}
	earlier := make(map[int64]chain.Checkpoint)
	for _, b := range against {
		c, err := chain.OpenSigned(b, vs, span.Handovers)
		if err != nil {
			v.bad(m.From, "the earlier checkpoint to compare with: %v", err)
			continue
		}
		if c.Size < m.From || c.Size > m.To {
			v.skip("the earlier checkpoint of size %d: the bundle holds leaves %d to %d", c.Size, m.From, m.To-1)
			continue
		}
		earlier[c.Size] = c
	}
	hold := func() {
		if c, ok := earlier[r.Size()]; ok && (c.Root != r.Root() || c.Origin != r.Origin()) {
			v.bad(max(m.From, r.Size()-1), "the earlier checkpoint of size %d has another root than the leaves in the bundle",
				c.Size)
		}
	}
	hold()
	if !m.Payloads {
		v.skip("payloads: the bundle was made without them")
	}
	if err := v.entries(ctx, m, r, hold, progress); err != nil {
		return err
	}
	if v.rep.NotHeld > 0 {
		v.skip("%d payloads: the bundle does not have them, because the log that it was made from never had them",
			v.rep.NotHeld)
	}
	v.judge(m, trust.Verifiers(keys.RoleOperator))
	root := r.Root()
	v.rep.Root, v.rep.Size = root.String(), r.Size()-m.From
	v.rep.Signed = v.rep.Size
	if err := r.Done(); err != nil {
		v.bad(max(m.From, r.Size()-1), "%v", err)
	}
	for d := range v.seen {
		if !v.has(d) {
			v.skip("%s was activated, but the bundle does not contain it", d)
		}
	}
	sort.Strings(v.rep.Skipped)
	return nil
}

// has reports whether the bundle contains the rules, policy or keys with this digest. The digest is the
// file's name.
func (v *bundleCheck) has(digest string) bool {
	for _, dir := range []string{"policy", "rules", "keys"} {
		if b, err := v.read(path.Join(dir, strings.TrimPrefix(digest, "sha256:"))); err == nil && b != nil &&
			streams.Digest(b) == digest {
			return true
		}
	}
	return false
}

func (v *bundleCheck) checkSums() {
	b, err := v.read(bundleSums)
	if err != nil || b == nil {
		v.bad(0, "%s: it is missing or cannot be read: %v", bundleSums, err)
		return
	}
	want := make(map[string]string)
	for line := range strings.Lines(string(b)) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if ok {
			want[name] = sum
		}
	}
	for name, f := range v.files {
		if name == bundleSums {
			continue
		}
		r, err := f.Open()
		if err != nil {
			v.bad(0, "%s: %v", name, err)
			continue
		}
		h := sha256.New()
		_, err = io.Copy(h, r)
		if err = errors.Join(err, r.Close()); err != nil || hex.EncodeToString(h.Sum(nil)) != want[name] {
			v.bad(0, "%s does not have the digest that %s states", name, bundleSums)
		}
		delete(want, name)
	}
	for name := range want {
		v.bad(0, "%s is missing", name)
	}
}

// span returns the data against which the leaves are checked.
func (v *bundleCheck) span(m *manifest) (*chain.Span, error) {
	s := &chain.Span{From: m.From, To: m.To, Next: m.Next}
	prev, err := hex.DecodeString(m.Prev)
	if err != nil || len(prev) != len(s.Prev) {
		return nil, fmt.Errorf("%s: prev is not a hash", bundleManifest)
	}
	copy(s.Prev[:], prev)
	for name, to := range map[string]*[]byte{bundleAfter: &s.After, bundleBefore: &s.Before, bundleLater: &s.Later} {
		if *to, err = v.readUpTo(name, maxBundleNote); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	for i := 0; ; i++ {
		h, err := v.readUpTo(fmt.Sprintf("%s%03d", bundleHandovers, i), maxBundleNote)
		if err == nil && i >= maxHandovers {
			err = fmt.Errorf("there are more than %d handovers", maxHandovers)
		}
		if err != nil {
			return nil, err
		}
		if h == nil {
			break
		}
		s.Handovers = append(s.Handovers, h)
	}
	b, err := base64.StdEncoding.DecodeString(m.Edge)
	if err == nil {
		s.Edge, err = chain.ParseEdge(b)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: edge: %w", bundleManifest, err)
	}
	if b, err = base64.StdEncoding.DecodeString(m.Extends); err == nil {
		s.Consistency, err = chain.ParseEdge(b)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: consistency: %w", bundleManifest, err)
	}
	return s, nil
}

// entries checks every leaf and payload.
func (v *bundleCheck) entries(ctx context.Context, m *manifest, r *chain.SpanReader, each func(),
	progress func(done, total int64)) error {
	f := v.files[bundleEntries]
	if f == nil {
		v.bad(m.From, "%s is missing", bundleEntries)
		return nil
	}
	in, err := f.Open()
	if err != nil {
		v.bad(m.From, "%s: %v", bundleEntries, err)
		return nil
	}
	defer in.Close()
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 1<<16), maxBundleLine)
	for lines.Scan() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		at := r.Size()
		x := new(bundleLine)
		if err := streams.Unmarshal(lines.Bytes(), x); err != nil {
			v.bad(at, "%s, leaf %d: %v", bundleEntries, at, err)
			return nil
		}
		leaf, err := v.leaf(x, at)
		if err == nil {
			err = r.Add(leaf)
		}
		if err != nil {
			v.bad(at, "%s: %v", bundleEntries, err)
			return nil
		}
		v.payload(m, x, &leaf, at)
		each()
		if progress != nil && at%1024 == 0 {
			progress(at-m.From, m.To-m.From)
		}
	}
	if err := lines.Err(); err != nil {
		v.bad(r.Size(), "%s: %v", bundleEntries, err)
	}
	return nil
}

func (v *bundleCheck) leaf(x *bundleLine, at int64) (leaf chain.Leaf, err error) {
	if x.Index != at {
		return leaf, fmt.Errorf("found leaf %d, want leaf %d", x.Index, at)
	}
	leaf, err = x.leaf()
	switch leaf.Kind {
	case chain.KindEntry:
		v.rep.Entries++
		v.rep.LastSeq = position.Sequence(x.Seq)
	case chain.KindGap:
		v.rep.Gaps++
	case chain.KindReset:
		v.rep.Resets++
		v.reset = at + 1
	default:
		return leaf, fmt.Errorf("leaf %d is of kind %q", at, x.Kind)
	}
	return leaf, err
}

// payload checks a payload against its leaf.
func (v *bundleCheck) payload(m *manifest, x *bundleLine, leaf *chain.Leaf, at int64) {
	if leaf.Kind != chain.KindEntry {
		return
	}
	if slices.Contains(statement.Types(), leaf.Type) || slices.Contains(statement.Grounds(), leaf.Type) {
		v.said = append(v.said, x.statement(leaf, v.reset))
	}
	switch {
	case x.Forgotten:
		v.rep.Forgotten++
		leaf.Index = at
		v.gone = append(v.gone, *leaf)
		return
	case x.NotHeld:
		v.rep.NotHeld++
		return
	case !m.Payloads && x.Payload == nil && x.Base64 == nil:
		return
	}
	p, err := x.opened(leaf)
	if err != nil {
		v.bad(at, "leaf %d: %v", at, err)
		return
	}
	v.rep.Payloads++
	v.rep.Bytes += int64(len(p))
	if leaf.Type != string(streams.TypeActivation) || leaf.Project != streams.SystemProject {
		return
	}
	e := new(Entry)
	a := new(streams.ActivationEntry)
	if e.take(p) == nil && e.Stage == streams.StageIngest && e.Body != nil && e.decode(a) == nil {
		v.seen[a.Digest] = true
	}
}

// LoadTrustFile reads public keys from a trust file.
func LoadTrustFile(file string) (*keys.Trust, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return keys.ParseTrust(file, b)
}
