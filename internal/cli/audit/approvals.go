package audit

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"lazaret/pkg/approval"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

// maxNotes is the limit of resolutions that a verification stores.
const maxNotes = 100_000

// approvalsSeen is a log's record of people's decisions: the signed statements, the arbiter's entries
// about them, and the trust files in force. Entries may be added in any order.
type approvalsSeen struct {
	mu       sync.Mutex
	parts    map[string]map[int][]byte // of trust files, by digest
	trusts   []trustSeen
	notes    map[uint64]noteSeen // by ledger position
	outcomes []outcomeSeen
	dropped  int // resolutions beyond maxNotes
}

type trustSeen struct {
	index  int64
	digest string
}

type noteSeen struct {
	index int64
	text  string
}

type outcomeSeen struct {
	index   int64
	project string
	*streams.Resolved
}

func newApprovals() *approvalsSeen {
	return &approvalsSeen{parts: make(map[string]map[int][]byte), notes: make(map[uint64]noteSeen)}
}

func (x *approvalsSeen) see(leaf *chain.Leaf, payload []byte) {
	switch streams.Type(leaf.Type) {
	case streams.TypeChunk, streams.TypeActivation, streams.TypeResolution, streams.TypeVerdict, streams.TypeHoldState:
	default:
		return
	}
	_, body, ok := bytes.Cut(payload, []byte("\n"))
	if t := streams.Type(leaf.Type); !ok || (t == streams.TypeVerdict || t == streams.TypeHoldState) &&
		!bytes.Contains(body, []byte(`"resolved"`)) {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch streams.Type(leaf.Type) {
	case streams.TypeChunk:
		var c streams.ChunkEntry
		if streams.Unmarshal(body, &c) == nil && c.Index >= 0 && c.Index < streams.MaxChunks {
			if x.parts[c.Digest] == nil {
				x.parts[c.Digest] = make(map[int][]byte)
			}
			x.parts[c.Digest][c.Index] = c.Chunk
		}
	case streams.TypeActivation:
		var a streams.ActivationEntry
		if streams.Unmarshal(body, &a) == nil && a.Do == streams.DoActivateTrust {
			x.trusts = append(x.trusts, trustSeen{leaf.Index, a.Digest})
		}
	case streams.TypeResolution:
		var r streams.ResolutionEntry
		if streams.Unmarshal(body, &r) != nil {
			return
		}
		if len(x.notes) >= maxNotes {
			x.dropped++
			return
		}
		x.notes[leaf.Seq] = noteSeen{leaf.Index, r.Note}
	default:
		var b struct {
			Resolved *streams.Resolved `json:"resolved"`
			Again    bool              `json:"again"`
		}
		if streams.Unmarshal(body, &b) == nil && b.Resolved != nil && !b.Again {
			x.outcomes = append(x.outcomes, outcomeSeen{leaf.Index, leaf.Project, b.Resolved})
		}
	}
}

// check verifies the signature of each decision that the arbiter accepted, by key files and by
// passkeys, and that the counters of passkeys increased. checked is the number of verified decisions.
// open is the number of decisions whose note or trust file is missing, for example because it was
// erased.
func (x *approvalsSeen) check() (checked, open int, bad []outcomeProblem) {
	slices.SortFunc(x.trusts, func(a, b trustSeen) int { return int(a.index - b.index) })
	slices.SortFunc(x.outcomes, func(a, b outcomeSeen) int { return int(a.index - b.index) })
	files := make(map[string]*keys.Trust)
	counters := make(map[string]uint32)
	done := make(map[uint64]bool)
	for _, o := range x.outcomes {
		if done[o.Entry] {
			continue
		}
		done[o.Entry] = true
		note, ok := x.notes[o.Entry]
		trust := x.inForce(note.index, o.Key, files)
		if !ok || trust == nil {
			open++
			continue
		}
		if err := verifyDecision(note.text, trust, o, counters); err != nil {
			bad = append(bad, outcomeProblem{o.index, fmt.Sprintf("leaf %d says that hold %s was %s by %s: %v", o.index,
				o.Hold, o.State, o.By, err)})
			continue
		}
		checked++
	}
	return checked, open, bad
}

type outcomeProblem struct {
	index int64
	text  string
}

// inForce returns the trust file by which a decision at a leaf was judged, or nil if it cannot be
// determined. Each partition records an activation separately, and a leaf does not name its partition.
// Until all partitions have recorded the latest file, the previous one is still in force in some. Of
// the two, inForce prefers one that pins the key.
func (x *approvalsSeen) inForce(index int64, key string, files map[string]*keys.Trust) *keys.Trust {
	var latest *keys.Trust
	digest, recorded := "", 0
	for _, t := range slices.Backward(x.trusts) {
		if t.index >= index {
			continue
		}
		if t.digest == digest {
			recorded++
			continue
		}
		if recorded >= streams.Partitions {
			break
		}
		trust := x.file(t.digest, files)
		if trust == nil || slices.ContainsFunc(trust.Pins(), func(p keys.Pin) bool { return p.Key == key }) {
			return trust
		}
		if latest == nil {
			latest = trust
		} else {
			break // all partitions have recorded an activation before the next but one
		}
		digest, recorded = t.digest, 1
	}
	return latest
}

// file returns a trust file by its digest, or nil if the log lacks a part of it or it
// cannot be read.
func (x *approvalsSeen) file(digest string, files map[string]*keys.Trust) *keys.Trust {
	if trust, known := files[digest]; known {
		return trust
	}
	var text []byte
	for i := range len(x.parts[digest]) {
		text = append(text, x.parts[digest][i]...)
	}
	var trust *keys.Trust
	if streams.Digest(text) == digest {
		trust, _ = keys.ParseTrust("trust", text) // stages refuse a file that cannot be parsed
	}
	files[digest] = trust
	return trust
}

// verifyDecision returns why a note does not prove an outcome, or nil.
func verifyDecision(note string, trust *keys.Trust, o outcomeSeen, counters map[string]uint32) error {
	s, err := approval.Open([]byte(note), trust)
	if err != nil {
		return err
	}
	state := map[approval.Decision]string{approval.Approve: streams.HoldApproved,
		approval.Reject: streams.HoldRejected}[s.Decision]
	if s.Pin.Key != o.Key || s.Project != o.project || s.Hold != o.Hold || s.Revision != o.Revision || state != o.State {
		return fmt.Errorf("what %s signed is to %s hold %s of project %s", s.Signer, s.Decision, s.Hold, s.Project)
	}
	k := o.project + " " + o.Key
	if before := counters[k]; s.Passkey && (s.Counter > 0 || before > 0) && s.Counter <= before {
		return fmt.Errorf("the passkey counts %d signatures, and %d were counted before", s.Counter, before)
	}
	counters[k] = s.Counter
	if x, y := o.Source, s.Source; (x == nil) != (y == nil) || x != nil && (x.Digest != y.Digest || x.Session != y.Session ||
		x.Actions != y.Actions || !x.Expires.Equal(y.Expires)) {
		return fmt.Errorf("the source that %s approved is not the recorded one", s.Signer)
	}
	return nil
}
