package inquiry

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"slices"
	"sort"
	"strings"
	"time"
	"unicode/utf8"

	"lazaret/internal/statement"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// A bundle is a range of the log in one zip file. It verifies with nothing but the public
// keys that may sign checkpoints.
const (
	bundleFormat    = "lazaret/bundle/v2"
	bundleFormat1   = "lazaret/bundle/v1" // without bundleOrders
	bundleManifest  = "manifest.json"
	bundleEntries   = "entries.jsonl"
	bundleAfter     = "checkpoint"
	bundleBefore    = "proofs/checkpoint-before"
	bundleLater     = "proofs/checkpoint-later"
	bundleHandovers = "proofs/handovers/"
	bundleTrust     = "keys/trust.yaml"
	bundleOrders    = "proofs/statements.jsonl"
	bundleSums      = "SHA256SUMS"
	bundleReadme    = "README.md"
)

//go:embed bundle.md
var bundleText string

// manifest is a bundle's own description, and the proofs without files of their own.
type manifest struct {
	Format   string    `json:"format"`
	Origin   string    `json:"origin"`
	From     int64     `json:"from"`
	To       int64     `json:"to"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	Prev     string    `json:"prev"` // hex
	Next     uint64    `json:"next_seq"`
	Edge     string    `json:"edge"`                 // base64 of 32 bytes each
	Extends  string    `json:"consistency,omitzero"` // the same
	Payloads bool      `json:"payloads"`
}

// bundleLine is a leaf in entries.jsonl. Index and link follow from the place.
type bundleLine struct {
	Index      int64     `json:"index"`
	Kind       string    `json:"kind"`
	Seq        uint64    `json:"seq"`
	Time       time.Time `json:"time"`
	Type       string    `json:"type"`
	Project    string    `json:"project"`
	Length     uint64    `json:"length"`
	Commitment string    `json:"commitment,omitzero"` // hex
	Salt       string    `json:"salt,omitzero"`       // hex
	Payload    *string   `json:"payload,omitzero"`
	Base64     []byte    `json:"payload_base64,omitzero"` // where it is no UTF-8
	Forgotten  bool      `json:"forgotten,omitzero"`
	NotHeld    bool      `json:"not_held,omitzero"`
}

// BundleOptions is what goes into a bundle.
type BundleOptions struct {
	From, To int64 // as CheckpointAt allows; To 0: the last checkpoint
	// WithoutPayloads leaves out payloads: the rest proves which kinds of entries were
	// logged when, and reveals nothing else.
	WithoutPayloads bool
	// Trust is the text of the trust file: public keys and their roles.
	Trust []byte
}

// BundleInfo says what a bundle holds.
type BundleInfo struct {
	From      int64     `json:"from"`
	To        int64     `json:"to"`
	First     time.Time `json:"first"`
	Last      time.Time `json:"last"`
	Payloads  int64     `json:"payloads"`
	Forgotten int64     `json:"forgotten"`
	Policies  int       `json:"policies"`
	RuleSets  int       `json:"rule_sets"`
	SHA256    string    `json:"sha256"` // of the file, hex
}

// Bundle writes leaves From <= index < To, with their proofs, into a file.
func (l *Log) Bundle(ctx context.Context, w io.Writer, o BundleOptions) (info BundleInfo, err error) {
	if o.To == 0 {
		cp, err := l.chain.CheckpointAt(l.Size())
		if err != nil {
			return info, err
		}
		o.To = cp.Size
	}
	span, err := l.chain.Span(o.From, o.To)
	if err != nil {
		return info, err
	}
	after, err := chain.ParseCheckpoint(span.After)
	if err != nil {
		return info, err
	}
	all := sha256.New()
	z := &archive{z: zip.NewWriter(io.MultiWriter(w, all)), sums: make(map[string]string)}
	m := &manifest{Format: bundleFormat, Origin: after.Origin, From: o.From, To: o.To, Prev: hex.EncodeToString(span.Prev[:]), Next: span.Next,
		Edge: base64.StdEncoding.EncodeToString(chain.EdgeBytes(span.Edge)), Extends: base64.StdEncoding.EncodeToString(chain.EdgeBytes(span.Consistency)), Payloads: !o.WithoutPayloads}
	info = BundleInfo{From: o.From, To: o.To}
	inForce, err := l.bundlesInForce(ctx, o.From, o.To)
	if err != nil {
		return info, err
	}
	f, err := z.create(bundleEntries)
	if err != nil {
		return info, err
	}
	out := bufio.NewWriterSize(f, 1<<16)
	stated := false
	err = l.chain.Range(o.From, o.To, func(i int64, leaf chain.Leaf) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if i == o.From {
			m.First = leaf.Time
		}
		m.Last = leaf.Time
		line, err := l.bundleLine(&leaf, !o.WithoutPayloads)
		if err != nil {
			return err
		}
		if line.Forgotten {
			info.Forgotten++
		} else if line.Salt != "" {
			info.Payloads++
		}
		stated = stated || slices.Contains(statement.Types(), leaf.Type)
		b, err := streams.Marshal(line)
		if err != nil {
			return err
		}
		_, err = out.Write(append(b, '\n'))
		return err
	})
	if err = errors.Join(err, out.Flush()); err != nil {
		return info, err
	}
	for _, b := range inForce {
		switch b.do {
		case streams.DoActivatePolicy:
			info.Policies++
		case streams.DoActivateRules:
			info.RuleSets++
		}
		if err := z.put(b.file(), b.bundle); err != nil {
			return info, err
		}
	}
	if info.Forgotten > 0 || stated && !o.WithoutPayloads {
		orders, err := l.orders(o.From, o.To)
		if err != nil {
			return info, err
		}
		if err := z.put(bundleOrders, orders); err != nil {
			return info, err
		}
	}
	manifestText, err := streams.Marshal(m)
	if err != nil {
		return info, err
	}
	type file struct {
		name string
		b    []byte
	}
	files := []file{{bundleAfter, span.After}, {bundleManifest, append(manifestText, '\n')}, {bundleTrust, o.Trust}, {bundleBefore, span.Before}, {bundleLater, span.Later}, {bundleReadme, []byte(bundleText)}}
	for i, h := range span.Handovers {
		files = append(files, file{fmt.Sprintf("%s%03d", bundleHandovers, i), h})
	}
	for _, f := range files {
		if f.b == nil {
			continue
		}
		if err := z.put(f.name, f.b); err != nil {
			return info, err
		}
	}
	if err := z.close(); err != nil {
		return info, err
	}
	info.First, info.Last, info.SHA256 = m.First, m.Last, hex.EncodeToString(all.Sum(nil))
	return info, nil
}

// bundleLine is a leaf as bundles have it, with its payload if that is asked for.
func (l *Log) bundleLine(leaf *chain.Leaf, payload bool) (*bundleLine, error) {
	x := &bundleLine{Index: leaf.Index, Kind: leaf.Kind.String(), Seq: leaf.Seq, Time: leaf.Time, Type: leaf.Type, Project: leaf.Project, Length: leaf.Length}
	if leaf.Kind != chain.KindEntry {
		return x, nil
	}
	x.Commitment = hex.EncodeToString(leaf.Commitment[:])
	if !payload {
		return x, nil
	}
	salt, p, err := l.chain.Salted(leaf.Index)
	switch {
	case errors.Is(err, chain.ErrForgotten):
		x.Forgotten = true
	case errors.Is(err, chain.ErrNotHeld):
		x.NotHeld = true
	case err != nil:
		return nil, err
	default:
		x.Salt = hex.EncodeToString(salt[:])
		if utf8.Valid(p) {
			s := string(p)
			x.Payload = &s
		} else {
			x.Base64 = p
		}
	}
	return x, nil
}

// archive is a zip archive in the making that knows the digests of its files.
type archive struct {
	z    *zip.Writer
	sums map[string]string
	open string
	hash hash.Hash
}

func (a *archive) end() {
	if a.open != "" {
		a.sums[a.open] = hex.EncodeToString(a.hash.Sum(nil))
	}
	a.open = ""
}

func (a *archive) create(name string) (io.Writer, error) {
	a.end()
	// Without a time: the same range makes the same file.
	w, err := a.z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate})
	if err != nil {
		return nil, err
	}
	a.open, a.hash = name, sha256.New()
	return io.MultiWriter(w, a.hash), nil
}

func (a *archive) put(name string, b []byte) error {
	w, err := a.create(name)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

func (a *archive) close() error {
	a.end()
	var names []string
	for n := range a.sums {
		names = append(names, n)
	}
	sort.Strings(names)
	var b bytes.Buffer
	for _, n := range names {
		fmt.Fprintf(&b, "%s  %s\n", a.sums[n], n)
	}
	if err := a.put(bundleSums, b.Bytes()); err != nil {
		return err
	}
	return a.z.Close()
}

// activatedBundle is a rule set, policy or trust file that was in force.
type activatedBundle struct {
	do, digest string
	bundle     []byte
}

func (b *activatedBundle) file() string {
	dir := map[string]string{streams.DoActivatePolicy: "policy", streams.DoActivateRules: "rules", streams.DoActivateTrust: "keys"}[b.do]
	return path.Join(dir, strings.TrimPrefix(b.digest, "sha256:"))
}

// bundlesInForce collects the bundles in force at the beginning of a range or activated
// within it, from the log's chunks. Bundles with forgotten or missing chunks are left
// out, and verification reports them missing.
func (l *Log) bundlesInForce(ctx context.Context, from, to int64) ([]*activatedBundle, error) {
	chunks := make(map[string][][]byte)
	before := make(map[string]*activatedBundle) // by what it is
	seen := make(map[string]bool)
	var out []*activatedBundle
	err := l.Range(ctx, 0, to, func(e *Entry) bool {
		return e.Project == streams.SystemProject && (e.Type == string(streams.TypeChunk) || e.Type == string(streams.TypeActivation))
	}, func(e *Entry) error {
		if e.Body == nil || e.Stage != streams.StageIngest {
			return nil
		}
		switch streams.Type(e.Type) {
		case streams.TypeChunk:
			c := new(streams.ChunkEntry)
			if err := e.decode(c); err != nil {
				return err
			}
			if c.Count < 1 || c.Count > streams.MaxChunks || c.Index < 0 || c.Index >= c.Count {
				return nil
			}
			if len(chunks[c.Digest]) != c.Count {
				chunks[c.Digest] = make([][]byte, c.Count)
			}
			chunks[c.Digest][c.Index] = c.Chunk
		case streams.TypeActivation:
			a := new(streams.ActivationEntry)
			if err := e.decode(a); err != nil {
				return err
			}
			b := &activatedBundle{a.Do, a.Digest, slices.Concat(chunks[a.Digest]...)}
			if streams.Digest(b.bundle) != a.Digest {
				return nil
			}
			if e.Index < from {
				before[a.Do] = b
			} else if !seen[a.Do+a.Digest] {
				seen[a.Do+a.Digest] = true
				out = append(out, b)
			}
		}
		return nil
	})
	for _, b := range before {
		if !seen[b.do+b.digest] {
			out = append(out, b)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].file() < out[j].file() })
	return slices.CompactFunc(out, func(a, b *activatedBundle) bool { return a.file() == b.file() }), err
}

// Bounds of a bundle that is read, since its author may be hostile.
const (
	maxBundleFile = 64 << 20
	maxBundleLine = 64 << 20
	// Of notes there may be many, and all are held at once.
	maxBundleNote = 64 << 10
	maxHandovers  = 1000
)

// VerifyBundle verifies a bundle: the digests of its files, the signatures of
// its checkpoints, every leaf and link, that they are the checkpoint's, every
// payload against its commitment, and that what was in force is there. against
// are earlier checkpoints that it must agree with. Without verifiers the keys
// in the bundle are used, and the result is incomplete: whoever made the bundle
// chose them.
func VerifyBundle(ctx context.Context, file string, trust *keys.Trust, against [][]byte, progress func(done, total int64)) (rep chain.Report, err error) {
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

// verifyBundle is VerifyBundle of an archive of size bytes.
func verifyBundle(ctx context.Context, r io.ReaderAt, size int64, trust *keys.Trust, against [][]byte, progress func(done, total int64)) (rep chain.Report, err error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return rep, err
	}
	// The files of an archive may overlap, so that a small one unfolds into any
	// size. Those of an honest one fit into it, and deflate unfolds into about a
	// thousand times what it reads.
	var packed uint64
	for _, f := range z.File {
		if packed += f.CompressedSize64; packed > uint64(size) || f.CompressedSize64 > uint64(size) {
			return rep, errors.New("the files in the archive overlap: it was made to unfold without end")
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

type bundleCheck struct {
	rep   chain.Report
	files map[string]*zip.File
	seen  map[string]bool // digests that activations in the range name
	from  int64
	said  []*chain.Statement // in the range
	reset int64              // the first leaf of the ledger that is being read
	gone  []chain.Leaf       // whose payloads are forgotten
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

// read returns a file of the bundle; nil if it is not there.
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

// check finds the faults of a bundle. An error says that it could not be checked.
func (v *bundleCheck) check(ctx context.Context, z *zip.Reader, trust *keys.Trust, against [][]byte, progress func(done, total int64)) error {
	for _, f := range z.File {
		if v.files[f.Name] != nil {
			v.bad(0, "%s is there twice", f.Name)
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
		v.skip("whether the keys are the right ones: those in the bundle were used; give --keys")
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
			v.bad(m.From, "the earlier checkpoint: %v", err)
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
			v.bad(max(m.From, r.Size()-1), "the earlier checkpoint of size %d has another root than the leaves that are here", c.Size)
		}
	}
	hold()
	if !m.Payloads {
		v.skip("payloads: the bundle was made without them")
	}
	if err := v.entries(ctx, m, r, hold, progress); err != nil {
		return err
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
			v.skip("%s, which was put in force: the bundle does not hold it", d)
		}
	}
	sort.Strings(v.rep.Skipped)
	return nil
}

// has reports whether a bundle of rules, policy or keys is there; its name is
// its digest.
func (v *bundleCheck) has(digest string) bool {
	for _, dir := range []string{"policy", "rules", "keys"} {
		if b, err := v.read(path.Join(dir, strings.TrimPrefix(digest, "sha256:"))); err == nil && b != nil && streams.Digest(b) == digest {
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
			v.bad(0, "%s is not what %s says it is", name, bundleSums)
		}
		delete(want, name)
	}
	for name := range want {
		v.bad(0, "%s is missing", name)
	}
}

// span collects what the leaves are checked against.
func (v *bundleCheck) span(m *manifest) (*chain.Span, error) {
	s := &chain.Span{From: m.From, To: m.To, Next: m.Next}
	prev, err := hex.DecodeString(m.Prev)
	if err != nil || len(prev) != len(s.Prev) {
		return nil, fmt.Errorf("%s: prev is no hash", bundleManifest)
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

// entries reads every leaf and payload.
func (v *bundleCheck) entries(ctx context.Context, m *manifest, r *chain.SpanReader, each func(), progress func(done, total int64)) error {
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
		return leaf, fmt.Errorf("leaf %d stands where leaf %d should", x.Index, at)
	}
	leaf = chain.Leaf{Seq: x.Seq, Time: x.Time, Type: x.Type, Project: x.Project, Length: x.Length}
	for _, k := range []chain.Kind{chain.KindEntry, chain.KindGap, chain.KindReset} {
		if k.String() == x.Kind {
			leaf.Kind = k
		}
	}
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
	if x.Commitment != "" {
		c, err := hex.DecodeString(x.Commitment)
		if err != nil || len(c) != len(leaf.Commitment) {
			return leaf, fmt.Errorf("the commitment of leaf %d is no hash", at)
		}
		copy(leaf.Commitment[:], c)
	}
	return leaf, nil
}

// payload holds a payload against its leaf.
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
