package statement

import (
	"errors"
	"slices"

	"golang.org/x/mod/sumdb/note"

	"lazaret/pkg/keys"
	"lazaret/streams"
)

// maxOpen is the maximum number of incomplete bundles whose chunks are stored.
const maxOpen = 64

// Keys tracks the active operators' keys while the log is read in order.
type Keys struct {
	pinned note.Verifiers
	chunks map[string][][]byte // digest → chunks of an incomplete bundle
	trusts map[string]*keys.Trust
	// force has the active trust files, oldest first. There is more than one while the partitions activate a new file
	// one after the other.
	force []inForce
}

type inForce struct {
	command    string // id of the command
	trust      *keys.Trust
	partitions int // number of partitions that have activated it
}

// NewKeys returns the state before the first entry. operators are the keys that the reader has pinned.
func NewKeys(operators note.Verifiers) *Keys {
	return &Keys{pinned: operators, chunks: make(map[string][][]byte), trusts: make(map[string]*keys.Trust)}
}

// Grounds returns the entry types that Take needs.
func Grounds() []string { return []string{string(streams.TypeChunk), string(streams.TypeActivation)} }

// Take folds an entry of ingest. It ignores entries of types not in Grounds, and activations that no
// operator signed.
func (k *Keys) Take(typ streams.Type, body []byte) {
	switch typ {
	case streams.TypeChunk:
		c := new(streams.ChunkEntry)
		if streams.Unmarshal(body, c) == nil {
			k.chunk(c)
		}
	case streams.TypeActivation:
		a := new(streams.ActivationEntry)
		if streams.Unmarshal(body, a) == nil {
			k.activate(a)
		}
	}
}

func (k *Keys) chunk(c *streams.ChunkEntry) {
	if c.Count < 1 || c.Count > streams.MaxChunks || c.Index < 0 || c.Index >= c.Count || k.trusts[c.Digest] != nil {
		return
	}
	if len(k.chunks[c.Digest]) != c.Count {
		if len(k.chunks) >= maxOpen {
			clear(k.chunks)
		}
		k.chunks[c.Digest] = make([][]byte, c.Count)
	}
	k.chunks[c.Digest][c.Index] = c.Chunk
}

func (k *Keys) activate(a *streams.ActivationEntry) {
	if a.Do != streams.DoActivateTrust {
		delete(k.chunks, a.Digest)
		return
	}
	k.Activate(a.Note, slices.Concat(k.chunks[a.Digest]...))
}

// Activate activates a trust file by its signed command and returns the file. It must be called once for each partition
// that activates the file. A command that no operator signed has no effect, and Activate returns nil.
func (k *Keys) Activate(signed string, bundle []byte) *keys.Trust {
	c, _, err := streams.OpenCommand([]byte(signed), either{k.Operators(), k.pinned})
	if err != nil || c.Do != streams.DoActivateTrust {
		return nil
	}
	trust := k.trusts[c.Digest]
	if trust == nil {
		if streams.Digest(bundle) != c.Digest {
			return nil
		}
		if trust, err = keys.ParseTrust(keys.TrustFile, bundle); err != nil {
			return nil
		}
		k.trusts[c.Digest] = trust
	}
	delete(k.chunks, c.Digest)
	i := slices.IndexFunc(k.force, func(f inForce) bool { return f.command == c.ID })
	if i < 0 {
		i = len(k.force)
		k.force = append(k.force, inForce{command: c.ID, trust: trust})
	}
	if k.force[i].partitions++; k.force[i].partitions >= streams.Partitions {
		k.force = k.force[i:]
	}
	return trust
}

// Operators returns the active keys of operators.
func (k *Keys) Operators() note.Verifiers {
	if len(k.force) == 0 {
		return k.pinned
	}
	var out either
	for _, f := range k.force {
		out = append(out, f.trust.Verifiers(keys.RoleOperator))
	}
	return out
}

// Open verifies a signed statement with the active keys and returns it.
func (k *Keys) Open(signed []byte) (streams.Custody, error) {
	if len(signed) == 0 {
		return streams.Custody{}, errors.New("nobody signed it")
	}
	c, _, err := streams.OpenCustody(signed, k.Operators())
	if err != nil {
		if _, _, pinned := streams.OpenCustody(signed, k.pinned); pinned == nil {
			return c, errors.New("it is signed with an operator's key that was not active in the log")
		}
		return c, err
	}
	return c, nil
}

// either is a union of sets of keys.
type either []note.Verifiers

// Verifier implements note.Verifiers.
func (e either) Verifier(name string, hash uint32) (note.Verifier, error) {
	for _, vs := range e {
		if v, err := vs.Verifier(name, hash); err == nil {
			return v, nil
		}
	}
	return nil, &note.UnknownVerifierError{Name: name, KeyHash: hash}
}
