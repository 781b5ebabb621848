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
	"maps"
	"path"
	"slices"
	"sort"
	"strings"
	"time"
	"unicode/utf8"

	"lazaret/internal/statement"
	"lazaret/pkg/chain"
	"lazaret/streams"
)

// A bundle is a range of the log in one zip file. Its verification needs only the public keys that may
// sign checkpoints.
const (
	bundleFormat    = "lazaret/bundle/v2"
	bundleFormat1   = "lazaret/bundle/v1" // the earlier format, without the file bundleOrders
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

// manifest describes a bundle. It also contains the proofs that have no file of their own.
type manifest struct {
	Format   string    `json:"format"`
	Origin   string    `json:"origin"`
	From     int64     `json:"from"`
	To       int64     `json:"to"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	Prev     string    `json:"prev"` // chain.Span.Prev, in hex
	Next     uint64    `json:"next_seq"`
	Edge     string    `json:"edge"`                 // chain.Span.Edge: hashes of 32 bytes, joined, in base64
	Extends  string    `json:"consistency,omitzero"` // consistency proof, in the format of Edge
	Payloads bool      `json:"payloads"`
}

// bundleLine is a line of entries.jsonl: a leaf of the log. A verifier checks Index against the line's
// position, and computes the hash of the previous leaf from the previous line.
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
	Base64     []byte    `json:"payload_base64,omitzero"` // if the payload is not UTF-8
	Forgotten  bool      `json:"forgotten,omitzero"`
	NotHeld    bool      `json:"not_held,omitzero"` // the log never had the payload
}

// BundleOptions select the content of a bundle.
type BundleOptions struct {
	From, To int64 // sizes of trees that checkpoints sign, see AtCheckpoints; To 0: the last such size
	// WithoutPayloads omits the payloads. Then the bundle proves only which kinds of entries were logged when.
	WithoutPayloads bool
	// Trust is the content of the trust file: public keys and their roles.
	Trust []byte
}

// BundleInfo describes a bundle.
type BundleInfo struct {
	From      int64     `json:"from"`
	To        int64     `json:"to"`
	First     time.Time `json:"first"`
	Last      time.Time `json:"last"`
	Payloads  int64     `json:"payloads"`
	Forgotten int64     `json:"forgotten"`
	Policies  int       `json:"policies"`
	RuleSets  int       `json:"rule_sets"`
	SHA256    string    `json:"sha256"` // digest of the bundle's file, hex
}

// Bundle writes the leaves From <= index < To with their proofs to w.
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
	m := &manifest{Format: bundleFormat, Origin: after.Origin, From: o.From, To: o.To,
		Prev: hex.EncodeToString(span.Prev[:]), Next: span.Next,
		Edge:    base64.StdEncoding.EncodeToString(chain.EdgeBytes(span.Edge)),
		Extends: base64.StdEncoding.EncodeToString(chain.EdgeBytes(span.Consistency)), Payloads: !o.WithoutPayloads}
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
	if err := z.putSpan(m, span, o.Trust); err != nil {
		return info, err
	}
	if err := z.close(); err != nil {
		return info, err
	}
	info.First, info.Last, info.SHA256 = m.First, m.Last, hex.EncodeToString(all.Sum(nil))
	return info, nil
}

// putSpan writes the manifest, the checkpoints and the keys that verify the leaves.
func (z *archive) putSpan(m *manifest, span *chain.Span, trust []byte) error {
	manifestText, err := streams.Marshal(m)
	if err != nil {
		return err
	}
	type file struct {
		name string
		b    []byte
	}
	files := []file{{bundleAfter, span.After}, {bundleManifest, append(manifestText, '\n')}, {bundleTrust, trust},
		{bundleBefore, span.Before}, {bundleLater, span.Later}, {bundleReadme, []byte(bundleText)}}
	for i, h := range span.Handovers {
		files = append(files, file{fmt.Sprintf("%s%03d", bundleHandovers, i), h})
	}
	for _, f := range files {
		if f.b == nil {
			continue
		}
		if err := z.put(f.name, f.b); err != nil {
			return err
		}
	}
	return nil
}

// lineOf returns a leaf in the format of bundles, without its payload.
func lineOf(leaf *chain.Leaf) *bundleLine {
	x := &bundleLine{Index: leaf.Index, Kind: leaf.Kind.String(), Seq: leaf.Seq, Time: leaf.Time, Type: leaf.Type,
		Project: leaf.Project, Length: leaf.Length}
	if leaf.Kind == chain.KindEntry {
		x.Commitment = hex.EncodeToString(leaf.Commitment[:])
	}
	return x
}

// leaf returns the leaf of a line, without the hash of the previous leaf. If the line's kind is unknown, the kind of
// the leaf is 0.
func (x *bundleLine) leaf() (leaf chain.Leaf, err error) {
	leaf = chain.Leaf{Kind: kindOf(x.Kind), Index: x.Index, Seq: x.Seq, Time: x.Time, Type: x.Type, Project: x.Project,
		Length: x.Length}
	if x.Commitment == "" {
		return leaf, nil
	}
	c, err := hex.DecodeString(x.Commitment)
	if err != nil || len(c) != len(leaf.Commitment) {
		return leaf, fmt.Errorf("the commitment of leaf %d is not a hash", x.Index)
	}
	copy(leaf.Commitment[:], c)
	return leaf, nil
}

// kindOf returns the kind of leaves with this name, or 0.
func kindOf(name string) chain.Kind {
	for _, k := range []chain.Kind{chain.KindEntry, chain.KindGap, chain.KindReset} {
		if k.String() == name {
			return k
		}
	}
	return 0
}

// put sets the payload and its salt.
func (x *bundleLine) put(salt [16]byte, payload []byte) {
	x.Salt = hex.EncodeToString(salt[:])
	if utf8.Valid(payload) {
		text := string(payload)
		x.Payload = &text
	} else {
		x.Base64 = payload
	}
}

// bundleLine returns a leaf in the format of bundles, with its payload if payload is set.
func (l *Log) bundleLine(leaf *chain.Leaf, payload bool) (*bundleLine, error) {
	x := lineOf(leaf)
	if leaf.Kind != chain.KindEntry || !payload {
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
		x.put(salt, p)
	}
	return x, nil
}

// archive is a zip archive being written. It computes the digests of its files.
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
	// Set no time, so that the same range gives the same file.
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
	var b bytes.Buffer
	for _, n := range slices.Sorted(maps.Keys(a.sums)) {
		fmt.Fprintf(&b, "%s  %s\n", a.sums[n], n)
	}
	if err := a.put(bundleSums, b.Bytes()); err != nil {
		return err
	}
	return a.z.Close()
}

// activatedBundle is an activated rule set, policy or trust file.
type activatedBundle struct {
	do, digest string
	bundle     []byte
}

func (b *activatedBundle) file() string {
	dir := map[string]string{streams.DoActivatePolicy: "policy", streams.DoActivateRules: "rules",
		streams.DoActivateTrust: "keys"}[b.do]
	return path.Join(dir, strings.TrimPrefix(b.digest, "sha256:"))
}

// bundlesInForce returns the bundles that are active at the beginning of a range or activated in it,
// from the log's chunks. It omits bundles with erased or missing chunks; verification reports those as
// missing.
func (l *Log) bundlesInForce(ctx context.Context, from, to int64) ([]*activatedBundle, error) {
	chunks := make(map[string][][]byte)
	before := make(map[string]*activatedBundle) // bundles that are active before the range, by Command.Do
	seen := make(map[string]bool)
	var out []*activatedBundle
	err := l.Range(ctx, 0, to, func(e *Entry) bool {
		return e.Project == streams.SystemProject && (e.Type == string(streams.TypeChunk) ||
			e.Type == string(streams.TypeActivation))
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
