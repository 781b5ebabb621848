package activation

import (
	"bytes"
	"fmt"
	"log/slog"

	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/stage"
	"lazaret/streams"
)

// keySpace is the first byte of this package's keys in a stage's state. The stage itself uses no keys with this byte.
const keySpace = 0xA0

func chunkKey(digest string, i int) []byte {
	return fmt.Appendf([]byte{keySpace, 'c'}, "%s\x00%04d", digest, i)
}

func activeKey(do string) []byte { return append([]byte{keySpace, 'a'}, do...) }
func bundleKey(do string) []byte { return append([]byte{keySpace, 'b'}, do...) }

// Apply folds an entry of ingest of type chunk or activation. A chunk of a bundle is stored. An activation puts the
// bundle in force that its signed command names. If the command's signature is not valid, or the stored chunks are not
// those of the bundle, Apply logs the error and returns nil, and the bundle that was in force stays in force.
func Apply(st *stage.State, e *streams.Entry, pinned note.Verifiers, log *slog.Logger) error {
	switch e.Type {
	case streams.TypeChunk:
		c := new(streams.ChunkEntry)
		if err := streams.Unmarshal(e.Body, c); err != nil {
			log.Error("a part of a rule set, policy or trust file cannot be read and is ignored", "seq", e.Seq, "err", err)
			return nil
		}
		return give(st, chunkKey(c.Digest, c.Index), c.Chunk)
	case streams.TypeActivation:
		a := new(streams.ActivationEntry)
		if err := streams.Unmarshal(e.Body, a); err != nil {
			log.Error("unreadable activation", "seq", e.Seq, "err", err)
			return nil
		}
		cmd, _, err := streams.OpenCommand([]byte(a.Note), pinned)
		if err != nil {
			log.Error("an activation was refused; the rules, policy or keys in force stay in force", "seq", e.Seq, "err", err)
			return nil
		}
		bundle, err := Assemble(st, cmd.Digest)
		if err != nil {
			log.Error("an activation was refused; the rules, policy or keys in force stay in force", "seq", e.Seq, "err", err)
			return nil
		}
		if err := dropChunks(st, cmd.Digest); err != nil {
			return err
		}
		if err := give(st, bundleKey(cmd.Do), bundle); err != nil {
			return err
		}
		return st.Give(activeKey(cmd.Do), []byte(cmd.Digest))
	}
	return nil
}

// Assemble joins the chunks of a bundle and checks its digest. If there are no chunks, it returns the bundle in force
// that has this digest.
func Assemble(st *stage.State, digest string) ([]byte, error) {
	var bundle []byte
	err := st.Scan(append([]byte{keySpace, 'c'}, digest+"\x00"...), func(_, v []byte) (bool, error) {
		chunk, err := unpack(v)
		bundle = append(bundle, chunk...)
		return true, err
	})
	if err != nil {
		return nil, err
	}
	if bundle == nil {
		for _, do := range []string{streams.DoActivatePolicy, streams.DoActivateRules, streams.DoActivateTrust} {
			if d, err := Digest(st, do); err != nil || d != digest {
				continue
			}
			b, err := Bundle(st, do)
			if err != nil {
				return nil, err
			}
			if b != nil {
				bundle = bytes.Clone(b)
			}
		}
	}
	if got := streams.Digest(bundle); got != digest {
		return nil, fmt.Errorf("the chunks have digest %s, but the command names %s: publish the bundle again", got,
			digest)
	}
	return bundle, nil
}

func dropChunks(st *stage.State, digest string) error {
	for i := range streams.MaxChunks {
		if err := st.Delete(chunkKey(digest, i)); err != nil {
			return err
		}
	}
	return nil
}

// Digest returns the digest of the rules, policy or trust file in force. do is the command that activates it, such as
// streams.DoActivatePolicy. If nothing is in force, Digest returns "".
func Digest(st *stage.State, do string) (string, error) {
	v, ok, err := st.GetHot(activeKey(do))
	if err != nil || !ok {
		return "", err
	}
	return string(v), nil
}

// Bundle returns the bundle that the command do put in force, or nil if nothing is in force.
func Bundle(st *stage.State, do string) ([]byte, error) {
	b, ok, err := st.Get(bundleKey(do))
	if err != nil || !ok {
		return nil, err
	}
	return unpack(b)
}

// Cache compiles bundles and caches the results by digest. Several partitions share one compiled value,
// which must not be modified.
//
// It must be used only by the stage's loop.
type Cache[T any] struct {
	compile func([]byte) (T, error)
	byDig   map[string]T
}

// NewCache returns an empty cache.
func NewCache[T any](compile func(bundle []byte) (T, error)) *Cache[T] {
	return &Cache[T]{compile: compile, byDig: make(map[string]T)}
}

// Active returns the compiled bundle that the command do put in force, and its digest. Both are zero if nothing is in
// force. If a bundle that ingest accepted does not compile here, Active returns an error: this process is older than
// the bundle and must not judge.
func (c *Cache[T]) Active(st *stage.State, do string) (v T, digest string, err error) {
	if digest, err = Digest(st, do); err != nil || digest == "" {
		return v, "", err
	}
	if v, ok := c.byDig[digest]; ok {
		return v, digest, nil
	}
	b, err := Bundle(st, do)
	if err != nil {
		return v, "", err
	}
	if v, err = c.Compiled(digest, b); err != nil {
		return v, "", fmt.Errorf("the active bundle %s does not compile in this version: %w", digest, err)
	}
	return v, digest, nil
}

// Compiled returns a compiled bundle, which need not be in force. digest must be the digest of the bundle.
func (c *Cache[T]) Compiled(digest string, bundle []byte) (T, error) {
	if v, ok := c.byDig[digest]; ok {
		return v, nil
	}
	v, err := c.compile(bundle)
	if err != nil {
		return v, err
	}
	if len(c.byDig) > 8 {
		clear(c.byDig)
	}
	c.byDig[digest] = v
	return v, nil
}

// Put puts a bundle in force without a signed command. It is for tests and tools whose state has no ledger.
func Put(st *stage.State, do string, bundle []byte) error {
	if err := st.Set(bundleKey(do), bundle); err != nil {
		return err
	}
	return st.Set(activeKey(do), []byte(streams.Digest(bundle)))
}
