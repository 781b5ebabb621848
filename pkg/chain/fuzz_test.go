package chain_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"lazaret/internal/fuzztest"
	"lazaret/pkg/chain"
)

// FuzzParseCheckpoint: OpenCheckpoint, which verifies the signature, and ParseCheckpoint, which does not, must read the
// same from a signed checkpoint. A checkpoint without a signature must not open.
func FuzzParseCheckpoint(f *testing.F) {
	signer, v := fuzztest.Signer(f, "log")
	vs := note.VerifierList(v)
	root := tlog.Hash{1}
	f.Add("log\n5\n" + root.String() + "\n")
	f.Add("log\n5\n" + root.String() + "\nlazaret-next-key log+1+AA\n")
	f.Add("log\n05\n" + root.String() + "\n")
	f.Add("log\n-1\n\n\n— log AAAA\n")
	f.Fuzz(func(t *testing.T, text string) {
		fuzztest.Bounded(t, len(text), func() {
			if c, err := chain.OpenCheckpoint([]byte(text), vs); err == nil {
				t.Fatalf("without a signature, the checkpoint opens as %+v", c)
			}
			_, _ = chain.ParseCheckpoint([]byte(text))
			signed, err := note.Sign(&note.Note{Text: text}, signer)
			if err != nil {
				return
			}
			c, err := chain.OpenCheckpoint(signed, vs)
			if err != nil {
				return
			}
			if c.Size < 0 || c.Origin == "" {
				t.Fatalf("%+v", c)
			}
			// The text may contain an empty line, and then a checkpoint ends there. ParseCheckpoint must read the same
			// as OpenCheckpoint even then.
			if p, err := chain.ParseCheckpoint(signed); err != nil || p.Size != c.Size || p.Root != c.Root ||
				p.Origin != c.Origin {
				t.Fatalf("OpenCheckpoint reads %+v, but ParseCheckpoint %+v (%v)", c, p, err)
			}
		})
	})
}

// FuzzOpenSigned passes arbitrary notes as handovers, because handovers come from others.
func FuzzOpenSigned(f *testing.F) {
	signer, v := fuzztest.Signer(f, "log")
	vs := note.VerifierList(v)
	_, public := fuzztest.Key(f, "log")
	root := tlog.Hash{1}
	f.Add("log\n5\n"+root.String()+"\n", "log\n3\n"+root.String()+"\nlazaret-next-key "+public+"\n")
	f.Add("log\n5\n"+root.String()+"\n", "log\n3\n"+root.String()+"\nlazaret-next-key x\n")
	f.Fuzz(func(t *testing.T, text, handover string) {
		fuzztest.Bounded(t, len(text)+len(handover), func() {
			_, _ = chain.OpenSigned([]byte(text), vs, [][]byte{[]byte(handover)})
			cp, err := note.Sign(&note.Note{Text: text}, signer)
			if err != nil {
				return
			}
			h, err := note.Sign(&note.Note{Text: handover}, signer)
			if err != nil {
				return
			}
			_, _ = chain.OpenSigned(cp, vs, [][]byte{h, h})
		})
	})
}

// FuzzSplitBundle splits arbitrary bytes as a bundle of leaves. If that succeeds, the leaves must make up all the
// bytes.
func FuzzSplitBundle(f *testing.F) {
	leaf, err := chain.AppendLeaf(nil, &chain.Leaf{Kind: chain.KindEntry, Index: 1, Seq: 2, Type: "t", Project: "p"})
	if err != nil {
		f.Fatal(err)
	}
	one := append(binary.BigEndian.AppendUint16(nil, uint16(len(leaf))), leaf...)
	f.Add(one)
	f.Add(append(bytes.Clone(one), one...))
	f.Add(one[:len(one)-1])
	f.Add([]byte{0, 0, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzztest.Bounded(t, len(b), func() {
			leaves, err := chain.SplitBundle(b)
			if err != nil {
				return
			}
			var again []byte
			for _, l := range leaves {
				again = append(binary.BigEndian.AppendUint16(again, uint16(len(l))), l...)
			}
			if !bytes.Equal(again, b) {
				t.Fatalf("%x is cut into %x", b, leaves)
			}
		})
	})
}

// FuzzSpan checks an arbitrary edge and arbitrary leaves, which come from others, against a signed checkpoint. They
// must not be accepted unless they match it.
func FuzzSpan(f *testing.F) {
	signer, v := fuzztest.Signer(f, "log")
	vs := note.VerifierList(v)
	leaf, err := chain.AppendLeaf(nil, &chain.Leaf{Kind: chain.KindEntry, Seq: 1, Type: "t", Project: "p"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(int64(0), int64(1), uint64(1), []byte{}, leaf)
	f.Add(int64(3), int64(5), uint64(4), bytes.Repeat([]byte{7}, 64), leaf)
	f.Add(int64(1)<<62, int64(1)<<62+1, uint64(0), bytes.Repeat([]byte{7}, 32), []byte{})
	f.Fuzz(func(t *testing.T, from, to int64, next uint64, edge, raw []byte) {
		fuzztest.Bounded(t, len(edge)+len(raw), func() {
			hs, err := chain.ParseEdge(edge)
			if err != nil {
				return
			}
			if !bytes.Equal(chain.EdgeBytes(hs), edge) {
				t.Fatal("EdgeBytes does not give the bytes that ParseEdge read")
			}
			text := "log\n" + strconv.FormatInt(to, 10) + "\n" + tlog.Hash{}.String() + "\n"
			cp, err := note.Sign(&note.Note{Text: text}, signer)
			if err != nil {
				t.Fatal(err)
			}
			s := &chain.Span{From: from, To: to, Next: next, Edge: hs, Consistency: hs, After: cp, Before: cp, Later: cp}
			r, err := s.Read(vs)
			if err != nil {
				s.Before, s.Later, s.Consistency = nil, nil, nil
				if r, err = s.Read(vs); err != nil {
					return
				}
			}
			if l, err := chain.DecodeLeaf(raw); err == nil {
				l.Index = 0
				_ = r.Add(l)
			}
			if r.Done() == nil {
				t.Fatal("arbitrary leaves match a checkpoint that they do not have")
			}
		})
	})
}

// liar is a remote log that serves arbitrary data as checkpoint, tiles and bundles.
type liar struct{ checkpoint, tile, bundle []byte }

func (l liar) ReadCheckpoint(context.Context) ([]byte, error) { return l.checkpoint, nil }
func (l liar) ReadTile(context.Context, int, int64, int) ([]byte, error) {
	return l.tile, nil
}
func (l liar) ReadEntryBundle(context.Context, int64, int) ([]byte, error) { return l.bundle, nil }

// FuzzRemoteLog reads from a remote log that serves arbitrary data under a checkpoint that it signed. No leaf may be
// accepted as proven, and no log may be imported.
func FuzzRemoteLog(f *testing.F) {
	signer, v := fuzztest.Signer(f, "log")
	vs := note.VerifierList(v)
	l := open(f, vfs.NewMem(), "log", keypair{signer: signer})
	if err := l.Append(entries(1, 300)); err != nil {
		f.Fatal(err)
	}
	cp, err := l.Checkpoint()
	if err != nil {
		f.Fatal(err)
	}
	tile, err := l.Tile(0, 0, 256)
	if err != nil {
		f.Fatal(err)
	}
	bundle, err := l.EntryBundle(0, 256)
	if err != nil {
		f.Fatal(err)
	}
	if err := l.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(tile, bundle, int64(3))
	f.Add(tile[:32*44], bundle[:200], int64(299))
	f.Add([]byte{}, []byte{}, int64(-1))
	f.Fuzz(func(t *testing.T, tile, bundle []byte, i int64) {
		src := liar{cp, tile, bundle}
		fuzztest.Bounded(t, len(tile)+len(bundle), func() {
			v, err := chain.NewView(context.Background(), src, vs)
			if err != nil {
				t.Fatal(err)
			}
			if raw, _, err := v.Leaf(i); err == nil {
				t.Fatalf("one tile and one bundle prove leaf %d: %x", i, raw)
			}
			if err := chain.Import(context.Background(), "copy", chain.Options{FS: vfs.NewMem(), MasterKey: master}, src, vs,
				nil, nil); err == nil {
				t.Fatal("a log that serves arbitrary data was imported")
			}
		})
	})
}

// FuzzTilePath requests arbitrary paths. Each path must give a tile of the log, or an error that blames the caller.
func FuzzTilePath(f *testing.F) {
	signer, _ := fuzztest.Signer(f, "log")
	l := open(f, vfs.NewMem(), "log", keypair{signer: signer})
	f.Cleanup(func() { l.Close() })
	if err := l.Append(entries(1, 600)); err != nil {
		f.Fatal(err)
	}
	h := chain.NewHandler(l.Source())
	for _, p := range []string{"0/000", "0/001.p/3", "entries/000", "entries/002.p/88", "1/000.p/2", "0/x001/234",
		"data/000", "7/999", "-1/000", "63/000"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		u, err := url.Parse("http://log/")
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("GET", "http://log/checkpoint", nil)
		u.Path = "/tile/" + p
		r.URL = u
		fuzztest.Bounded(t, len(p), func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			switch w.Code {
			case 200, 404, 301, 307:
			default:
				t.Fatalf("%q: %d %s", p, w.Code, w.Body)
			}
		})
	})
}

// FuzzTileNumbers reads tiles and bundles with arbitrary numbers, as they come from requests. If data is returned, it
// must be the data of the requested tile.
func FuzzTileNumbers(f *testing.F) {
	signer, _ := fuzztest.Signer(f, "log")
	l := open(f, vfs.NewMem(), "log", keypair{signer: signer})
	f.Cleanup(func() { l.Close() })
	const size = 600
	if err := l.Append(entries(1, size)); err != nil {
		f.Fatal(err)
	}
	f.Add(0, int64(1), 256)
	f.Add(1, int64(0), 2)
	f.Add(0, int64(1)<<56, 1)
	f.Add(-1, int64(-1), -1)
	f.Add(63, int64(1)<<62, 256)
	f.Fuzz(func(t *testing.T, level int, n int64, width int) {
		fuzztest.Bounded(t, 1, func() {
			if b, err := l.EntryBundle(n, width); err == nil {
				if leaves, err := chain.SplitBundle(b); err != nil || len(leaves) != width || n > size/chain.TileWidth {
					t.Fatalf("bundle %d, %d wide: %d leaves, %v", n, width, len(leaves), err)
				}
			}
			if b, err := l.Tile(level, n, width); err == nil && (len(b) != width*tlog.HashSize || level > 1 ||
				n > size/chain.TileWidth) {
				t.Fatalf("tile %d of level %d, %d wide: %d bytes", n, level, width, len(b))
			}
		})
	})
}
