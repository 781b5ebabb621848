package statement

import (
	"errors"
	"slices"

	"golang.org/x/mod/sumdb/note"

	"lazaret/pkg/keys"
	"lazaret/streams"
)

// maxOpen bounds the bundles whose chunks are held at once.
const maxOpen = 64

// Keys holds the operators' keys in force while the log is read in order.
type Keys struct {
	pinned note.Verifiers
	chunks map[string][][]byte // digest → bundle in the making
	trusts map[string]*keys.Trust
	// force holds the trust files in force, oldest first: more than one while the
	// partitions switch one after the other.
	force []inForce
}

type inForce struct {
	command    string // its id
	trust      *keys.Trust
	partitions int // that have switched
}

// NewKeys returns the state before the first entry. Operators are the keys that the
// reader pinned.
func NewKeys(operators note.Verifiers) *Keys {
	return &Keys{pinned: operators, chunks: make(map[string][][]byte), trusts: make(map[string]*keys.Trust)}
}

// Grounds are the types of the entries that Take needs.
func Grounds() []string { return []string{string(streams.TypeChunk), string(streams.TypeActivation)} }

// Take folds an entry of ingest. Entries of other types than Grounds are ignored, and so
// are those that no operator signed.
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

// Activate puts a trust file in force by its signed command, once for each partition.
// A command that no operator signed changes nothing.
func (k *Keys) Activate(signed string, bundle []byte) {
	c, _, err := streams.OpenCommand([]byte(signed), either{k.Operators(), k.pinned})
	if err != nil || c.Do != streams.DoActivateTrust {
		return
	}
	trust := k.trusts[c.Digest]
	if trust == nil {
		if streams.Digest(bundle) != c.Digest {
			return
		}
		if trust, err = keys.ParseTrust(keys.TrustFile, bundle); err != nil {
			return
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
}

// Operators are the operators' keys that are in force.
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

// Open verifies a signed statement with the keys that are in force.
func (k *Keys) Open(signed []byte) (streams.Custody, error) {
	if len(signed) == 0 {
		return streams.Custody{}, errors.New("nobody signed it")
	}
	c, _, err := streams.OpenCustody(signed, k.Operators())
	if err != nil {
		if _, _, pinned := streams.OpenCustody(signed, k.pinned); pinned == nil {
			return c, errors.New("it is signed with an operator's key that was not in force in the log")
		}
		return c, err
	}
	return c, nil
}

// either is several sets of keys.
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
