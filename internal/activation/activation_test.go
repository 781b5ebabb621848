package activation

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"lazaret/internal/stage"
	"lazaret/streams"
)

// A bundle is joined from its chunks unchanged: from a state that has them compressed, and from a state of an earlier
// version, which has them uncompressed.
func TestABundleIsWhatItsChunksAre(t *testing.T) {
	for name, bundle := range map[string][]byte{
		"text":               []byte(strings.Repeat("when: action.level >= 3\n", 10_000)),
		"like a gzip stream": {0x1f, 0x8b, 8, 0},
		"one byte":           {'x'},
	} {
		st, old := stage.NewMemState(0), stage.NewMemState(0)
		digest := streams.Digest(bundle)
		half := len(bundle) / 2
		for i, chunk := range [][]byte{bundle[:half], bundle[half:]} {
			body, err := streams.Marshal(&streams.ChunkEntry{Digest: digest, Index: i, Count: 2, Chunk: chunk})
			if err != nil {
				t.Fatal(err)
			}
			if err := Apply(st, &streams.Entry{Type: streams.TypeChunk, Body: body}, nil, slog.Default()); err != nil {
				t.Fatal(err)
			}
			if err := old.Set(chunkKey(digest, i), chunk); err != nil {
				t.Fatal(err)
			}
			if v, _, err := st.Get(chunkKey(digest, i)); err != nil || len(chunk) > 1000 && len(v) > len(chunk)/10 {
				t.Errorf("%s: the state has %d bytes for a bundle of %d, %v", name, len(v), len(chunk), err)
			}
		}
		if got, err := Assemble(st, digest); err != nil || !bytes.Equal(got, bundle) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if name == "like a gzip stream" {
			continue // bundles are text, so an earlier version had none like this
		}
		if got, err := Assemble(old, digest); err != nil || !bytes.Equal(got, bundle) {
			t.Errorf("%s, of an earlier version: %d bytes, %v", name, len(got), err)
		}
	}
}
