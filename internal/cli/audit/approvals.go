package audit

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"lazaret/internal/arbiter"
	"lazaret/pkg/approval"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

// maxNotes is the limit of resolutions that a verification stores.
const maxNotes = 100_000

// approvalsSeen is a log's record of people's decisions: the signed statements, the arbiter's entries
// about them, the actions that an approval of a source covers, and the trust files in force. Entries
// may be added in any order.
type approvalsSeen struct {
	mu        sync.Mutex
	parts     map[string]map[int][]byte // of trust files, by digest
	trusts    []trustSeen
	notes     map[uint64]noteSeen // by ledger position
	outcomes  []outcomeSeen
	uses      []useSeen
	withdrawn map[string][]int64 // approvals of sources: leaf indexes of the withdrawals, by project and hold
	dropped   int                // resolutions beyond maxNotes
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

// useSeen is an action that the approval of a source covers.
type useSeen struct {
	index                       int64
	project, agent, session, id string
	time                        time.Time
	*streams.SourceUse
}

func newApprovals() *approvalsSeen {
	return &approvalsSeen{parts: make(map[string]map[int][]byte), notes: make(map[uint64]noteSeen),
		withdrawn: make(map[string][]int64)}
}

func (x *approvalsSeen) see(leaf *chain.Leaf, payload []byte) {
	switch streams.Type(leaf.Type) {
	case streams.TypeChunk, streams.TypeActivation, streams.TypeResolution, streams.TypeVerdict, streams.TypeHoldState,
		streams.TypeAlerts:
	default:
		return
	}
	_, body, ok := bytes.Cut(payload, []byte("\n"))
	has := func(word string) bool { return bytes.Contains(body, []byte(`"`+word+`"`)) }
	switch t := streams.Type(leaf.Type); {
	case !ok,
		t == streams.TypeVerdict && !has("resolved") && !has("covered"),
		t == streams.TypeHoldState && !has("resolved"),
		t == streams.TypeAlerts && !has(arbiter.WithdrawnRule):
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
	case streams.TypeAlerts:
		var a streams.AlertsEntry
		if streams.Unmarshal(body, &a) != nil || a.Group != streams.StageArbiter {
			return
		}
		for _, alert := range a.Alerts {
			if alert.Rule == arbiter.WithdrawnRule {
				k := leaf.Project + " " + alert.Subject.ID
				x.withdrawn[k] = append(x.withdrawn[k], leaf.Index)
			}
		}
	default:
		// A state of a hold has the members of a verdict that are read here.
		var v streams.VerdictEntry
		if streams.Unmarshal(body, &v) != nil || v.Again {
			return
		}
		if v.Resolved != nil {
			x.outcomes = append(x.outcomes, outcomeSeen{leaf.Index, leaf.Project, v.Resolved})
		}
		if v.Covered != nil {
			x.uses = append(x.uses, useSeen{leaf.Index, leaf.Project, v.Agent, v.Session, v.ID, v.Time, v.Covered})
		}
	}
}

// decisionsChecked is what the check of people's decisions found.
type decisionsChecked struct {
	checked int // decisions whose signatures verify
	open    int // decisions whose note or trust file is missing, for example because it was erased
	covered int // actions that a verified approval of a source covers
	bad     []outcomeProblem
}

// check verifies the signature of each decision that the arbiter accepted, by key files and by
// passkeys, and that the counters of passkeys increased. Then it checks each action that the approval
// of a source covers. lost means that the log lacks entries or payloads, such as erased ones.
func (x *approvalsSeen) check(lost bool) (r decisionsChecked) {
	slices.SortFunc(x.trusts, func(a, b trustSeen) int { return cmp.Compare(a.index, b.index) })
	slices.SortFunc(x.outcomes, func(a, b outcomeSeen) int { return cmp.Compare(a.index, b.index) })
	files := make(map[string]*keys.Trust)
	counters := make(map[string]uint32)
	done := make(map[uint64]bool)
	verified := make(map[uint64]*outcomeSeen)
	for i, o := range x.outcomes {
		if done[o.Entry] {
			continue
		}
		done[o.Entry] = true
		note, ok := x.notes[o.Entry]
		trust := x.inForce(note.index, o.Key, files)
		if !ok || trust == nil {
			r.open++
			verified[o.Entry] = nil
			continue
		}
		if err := verifyDecision(note.text, trust, o, counters); err != nil {
			r.bad = append(r.bad, outcomeProblem{o.index, fmt.Sprintf("leaf %d says that hold %s was %s by %s: %v", o.index,
				o.Hold, o.State, o.By, err)})
			continue
		}
		r.checked++
		verified[o.Entry] = &x.outcomes[i]
	}
	x.checkUses(&r, verified, lost || x.dropped > 0)
	return r
}

// checkUses checks that each covered action rests on a verified approval of a source, in its session
// and time, and that no approval covers more actions than it says. An approval in verified is nil if
// its note or keys are missing. Then its actions cannot be checked, and neither can those of an
// approval that is not in the log, if something is lost.
func (x *approvalsSeen) checkUses(r *decisionsChecked, verified map[uint64]*outcomeSeen, lost bool) {
	slices.SortFunc(x.uses, func(a, b useSeen) int { return cmp.Compare(a.index, b.index) })
	used := make(map[uint64]int)
	for _, u := range x.uses {
		o, known := verified[u.Entry]
		if o == nil && (known || lost) {
			r.open++
			continue
		}
		number := used[u.Entry] + 1
		if lost {
			number = max(number, u.Number) // those between them may be lost
		}
		used[u.Entry] = number
		if why := x.uncovered(&u, o, number); why != "" {
			r.bad = append(r.bad, outcomeProblem{u.index, fmt.Sprintf("leaf %d says that the approval of a source with hold %s "+
				"covers action %s: %s", u.index, u.Hold, u.id, why)})
			continue
		}
		r.covered++
	}
}

// uncovered returns why an approval does not cover the number-th action that names it, or "".
func (x *approvalsSeen) uncovered(u *useSeen, o *outcomeSeen, number int) string {
	between := func(at int64) bool { return o.index < at && at < u.index }
	switch {
	case o == nil || o.index > u.index || o.Source == nil || o.State != streams.HoldApproved:
		return fmt.Sprintf("entry %d is no earlier approval of a source", u.Entry)
	case o.project != u.project || o.Hold != u.Hold || o.Key != u.Key || o.Source.Digest != u.Digest ||
		o.Source.Session != u.session || o.Source.Actions != u.Actions:
		return fmt.Sprintf("entry %d approves another source, session or number of actions", u.Entry)
	case u.Number != number || number > o.Source.Actions:
		return fmt.Sprintf("it is number %d of its actions and is recorded as number %d of at most %d", number, u.Number,
			o.Source.Actions)
	case !u.time.Before(o.Source.Expires):
		return fmt.Sprintf("the approval ended at %s, before %s", o.Source.Expires.Format(time.RFC3339),
			u.time.Format(time.RFC3339))
	case slices.ContainsFunc(x.withdrawn[u.project+" "+u.Hold], between):
		return "the approval was withdrawn before"
	}
	return ""
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
	if x, y := o.Source, s.Source; (x == nil) != (y == nil) || x != nil && (x.Digest != y.Digest ||
		x.Session != y.Session || x.Actions != y.Actions || !x.Expires.Equal(y.Expires)) {
		return fmt.Errorf("the source that %s approved is not the recorded one", s.Signer)
	}
	return nil
}
