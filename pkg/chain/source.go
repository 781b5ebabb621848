package chain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// A Source provides the parts of a log that C2SP tlog-tiles serves: the last checkpoint, tiles of hashes, and bundles
// of leaves. They are returned as they are stored. They are untrusted until they are checked against a checkpoint with
// a trusted signature. A Source has no payloads.
type Source interface {
	ReadCheckpoint(ctx context.Context) ([]byte, error)
	ReadTile(ctx context.Context, level int, n int64, width int) ([]byte, error)
	ReadEntryBundle(ctx context.Context, n int64, width int) ([]byte, error)
}

// Source returns a Source for the log.
func (l *Log) Source() Source { return local{l} }

type local struct{ l *Log }

func (s local) ReadCheckpoint(context.Context) ([]byte, error) {
	if cp := s.l.Head().Checkpoint; cp != nil {
		return cp, nil
	}
	return nil, ErrNoCheckpoint
}

func (s local) ReadTile(_ context.Context, level int, n int64, width int) ([]byte, error) {
	return s.l.Tile(level, n, width)
}

func (s local) ReadEntryBundle(_ context.Context, n int64, width int) ([]byte, error) {
	return s.l.EntryBundle(n, width)
}

// ErrNoCheckpoint reports that no checkpoint of a log has been signed yet.
var ErrNoCheckpoint = errors.New("the log has no checkpoint yet")

// NewHandler returns a read-only HTTP handler that serves a source in the layout of C2SP tlog-tiles. Below the path at
// which it is mounted, it answers GET requests for checkpoint, tile/<L>/<N>[.p/<W>] and tile/entries/<N>[.p/<W>].
func NewHandler(src Source) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /checkpoint", func(w http.ResponseWriter, r *http.Request) {
		b, err := src.ReadCheckpoint(r.Context())
		w.Header().Set("Cache-Control", "no-cache")
		serve(w, b, "text/plain; charset=utf-8", err)
	})
	mux.HandleFunc("GET /tile/{path...}", func(w http.ResponseWriter, r *http.Request) {
		level, n, width, err := parseTilePath(r.PathValue("path"))
		var b []byte
		switch {
		case err != nil:
		case level < 0:
			b, err = src.ReadEntryBundle(r.Context(), n, width)
		default:
			b, err = src.ReadTile(r.Context(), level, n, width)
		}
		if err == nil {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		serve(w, b, "application/octet-stream", err)
	})
	return mux
}

func serve(w http.ResponseWriter, b []byte, contentType string, err error) {
	switch {
	case errors.Is(err, ErrRange), errors.Is(err, ErrNoCheckpoint), errors.Is(err, errTilePath):
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil:
		http.Error(w, "the log cannot be read", http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(b) // the client may have disconnected
	}
}

var errTilePath = errors.New("there is no such tile")

// parseTilePath parses <L>/<N>[.p/<W>]. <L> may also be "entries", for which the level is -1.
func parseTilePath(p string) (level int, n int64, width int, err error) {
	l, rest, ok := strings.Cut(p, "/")
	if !ok {
		return 0, 0, 0, errTilePath
	}
	// Let tlog parse the path. It parses paths of the same form, but with the height of the tile before the level.
	name := l
	if l == "entries" {
		name = "data"
	}
	t, err := tlog.ParseTilePath(fmt.Sprintf("tile/%d/%s/%s", TileHeight, name, rest))
	if err != nil || (l == "data") {
		return 0, 0, 0, errTilePath
	}
	return t.L, t.N, t.W, nil
}

func tilePath(level int, n int64, width int) string {
	p := tlog.Tile{H: TileHeight, L: max(level, 0), N: n, W: width}.Path()
	p = strings.TrimPrefix(p, fmt.Sprintf("tile/%d/", TileHeight))
	if level < 0 {
		_, p, _ = strings.Cut(p, "/")
		p = "entries/" + p
	}
	return "tile/" + p
}

// NewClient returns a Source that reads a log over HTTP. The log is served below the URL prefix in the layout of C2SP
// tlog-tiles. client may be nil.
func NewClient(prefix string, client *http.Client) (Source, error) {
	u, err := url.Parse(prefix)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("%q is not an http or https URL", prefix)
	}
	if client == nil {
		client = &http.Client{Timeout: 30 * time.Second}
	}
	return remote{u, client}, nil
}

type remote struct {
	u *url.URL
	c *http.Client
}

// maxBundle is the maximum size of an entry bundle, in bytes.
const maxBundle = TileWidth * (2 + MaxLeaf)

func (s remote) get(ctx context.Context, p string, limit int64) ([]byte, error) {
	u := s.u.JoinPath(p).String()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return nil, err
	}
	res, err := s.c.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", u, err)
	case res.StatusCode == http.StatusNotFound && p == "checkpoint":
		return nil, fmt.Errorf("%s: %w", u, ErrNoCheckpoint)
	case res.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("%s: %w", u, ErrRange)
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %s", u, res.Status)
	case int64(len(b)) > limit:
		return nil, fmt.Errorf("%s is larger than %d bytes", u, limit)
	}
	return b, nil
}

func (s remote) ReadCheckpoint(ctx context.Context) ([]byte, error) {
	return s.get(ctx, "checkpoint", maxCheckpoint)
}

func (s remote) ReadTile(ctx context.Context, level int, n int64, width int) ([]byte, error) {
	return s.get(ctx, tilePath(level, n, width), TileWidth*tlog.HashSize)
}

func (s remote) ReadEntryBundle(ctx context.Context, n int64, width int) ([]byte, error) {
	return s.get(ctx, tilePath(-1, n, width), maxBundle)
}

// maxCheckpoint is the maximum size of a checkpoint with its cosignatures, in bytes.
const maxCheckpoint = 64 << 10

// A View is a source together with a checkpoint of it that a trusted key signed. A read returns only leaves that are
// proven to be in the checkpoint's tree, and otherwise an error.
type View struct {
	Checkpoint
	src Source
	ctx context.Context
}

// NewView reads a source's checkpoint and verifies its signature.
func NewView(ctx context.Context, src Source, vs note.Verifiers) (*View, error) {
	b, err := src.ReadCheckpoint(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the checkpoint: %w", err)
	}
	cp, err := OpenCheckpoint(b, vs)
	if err != nil {
		return nil, fmt.Errorf("the checkpoint: %w", err)
	}
	return &View{Checkpoint: cp, src: src, ctx: ctx}, nil
}

// Height implements tlog.TileReader.
func (v *View) Height() int { return TileHeight }

// ReadTiles implements tlog.TileReader.
func (v *View) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	out := make([][]byte, len(tiles))
	for i, t := range tiles {
		b, err := v.src.ReadTile(v.ctx, t.L, t.N, t.W)
		if err != nil {
			return nil, err
		}
		if len(b) != t.W*tlog.HashSize {
			return nil, fmt.Errorf("tile %s has %d bytes, want %d", t.Path(), len(b), t.W*tlog.HashSize)
		}
		out[i] = b
	}
	return out, nil
}

// SaveTiles implements tlog.TileReader.
func (v *View) SaveTiles([]tlog.Tile, [][]byte) {}

// Hashes returns a reader of the tree's hashes. It checks that each hash is in the tree of the view's checkpoint.
func (v *View) Hashes() tlog.HashReader {
	return tlog.TileHashReader(tlog.Tree{N: v.Size, Hash: v.Root}, v)
}

// Leaf returns a leaf, and the proof that it is in the tree of the view's checkpoint. If that checkpoint does not cover
// the leaf, Leaf returns ErrRange.
func (v *View) Leaf(i int64) (raw []byte, proof tlog.RecordProof, err error) {
	if i < 0 || i >= v.Size {
		return nil, nil, fmt.Errorf("leaf %d of %d that the checkpoint covers: %w", i, v.Size, ErrRange)
	}
	n := i >> TileHeight
	leaves, err := readBundle(v.ctx, v.src, n, int(min(v.Size-n<<TileHeight, TileWidth)))
	if err != nil {
		return nil, nil, err
	}
	raw = leaves[i&(TileWidth-1)]
	if proof, err = tlog.ProveRecord(v.Size, i, v.Hashes()); err != nil {
		return nil, nil, fmt.Errorf("proving leaf %d: %w", i, err)
	}
	if err := tlog.CheckRecord(proof, v.Size, v.Root, i, tlog.RecordHash(raw)); err != nil {
		return nil, nil, fmt.Errorf("leaf %d is not in the tree of the checkpoint: %w", i, err)
	}
	return raw, proof, nil
}

// Consistent returns the proof that the view's tree extends the tree of an earlier checkpoint.
func (v *View) Consistent(earlier Checkpoint) (tlog.TreeProof, error) {
	if earlier.Origin != v.Origin {
		return nil, fmt.Errorf("the checkpoints are of different logs, %q and %q", earlier.Origin, v.Origin)
	}
	if earlier.Size > v.Size {
		return nil, fmt.Errorf("the log has %d leaves, the earlier checkpoint covers %d: %w", v.Size, earlier.Size, ErrRange)
	}
	if earlier.Size == 0 {
		return nil, nil
	}
	p, err := tlog.ProveTree(v.Size, earlier.Size, v.Hashes())
	if err != nil {
		return nil, fmt.Errorf("proving consistency of %d and %d: %w", earlier.Size, v.Size, err)
	}
	if err := tlog.CheckTree(p, v.Size, v.Root, earlier.Size, earlier.Root); err != nil {
		return nil, fmt.Errorf("the tree of %d leaves does not extend the checkpoint of size %d: %w", v.Size, earlier.Size,
			err)
	}
	return p, nil
}

// FirstDifference compares the leaves of two logs that are covered by the checkpoints of both. It returns the index of
// the first leaf that differs, or -1. It does not trust the tiles of hashes: it computes each log's root from the
// leaves. rooted reports for each log whether that root equals the checkpoint's root.
func FirstDifference(ctx context.Context, logs [2]Source, cps [2]Checkpoint) (first int64, rooted [2]bool, err error) {
	var trees [2]edge
	first = -1
	both := min(cps[0].Size, cps[1].Size)
	for n := int64(0); n<<TileHeight < max(cps[0].Size, cps[1].Size); n++ {
		var leaves [2][][]byte
		for i, src := range logs {
			width := min(cps[i].Size-n<<TileHeight, TileWidth)
			if width <= 0 {
				continue
			}
			if leaves[i], err = readBundle(ctx, src, n, int(width)); err != nil {
				return 0, rooted, err
			}
			for _, leaf := range leaves[i] {
				trees[i].add(tlog.RecordHash(leaf), nil)
			}
		}
		for i := 0; first < 0 && i < len(leaves[0]) && n<<TileHeight+int64(i) < both; i++ {
			if !bytes.Equal(leaves[0][i], leaves[1][i]) {
				first = n<<TileHeight + int64(i)
			}
		}
	}
	for i := range rooted {
		rooted[i] = trees[i].root() == cps[i].Root
	}
	return first, rooted, nil
}

// readBundle reads an entry bundle of the given number of leaves.
func readBundle(ctx context.Context, src Source, n int64, width int) ([][]byte, error) {
	b, err := src.ReadEntryBundle(ctx, n, width)
	if err != nil {
		return nil, err
	}
	leaves, err := SplitBundle(b)
	if err == nil && len(leaves) != width {
		err = fmt.Errorf("bundle %s has %d leaves, want %d", tilePath(-1, n, width), len(leaves), width)
	}
	return leaves, err
}
