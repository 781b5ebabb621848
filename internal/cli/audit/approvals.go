package audit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/arbiter"
	"lazaret/internal/statement"
	"lazaret/pkg/approval"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// maxNotes is the maximum number of resolutions (people's signed decisions on holds) that a verification keeps in
// memory. Further resolutions are counted in dropped and not checked.
const maxNotes = 100_000

// approvalsSeen is a log's record of people's decisions: the signed statements, the arbiter's entries
// about them, the actions that an approval of a source covers, and the trust files in force. Entries
// may be added in any order.
type approvalsSeen struct {
	mu        sync.Mutex
	parts     map[string]map[int][]byte // parts of trust files, by digest
	trusts    []trustSeen
	notes     map[uint64][]noteSeen // by ledger position; several, because a recreated ledger uses the positions again
	noted     int                   // number of notes
	outcomes  []outcomeSeen
	uses      []useSeen
	withdrawn map[string][]int64    // approvals of sources: leaf indexes of the withdrawals, by project and hold
	dropped   int                   // number of resolutions beyond maxNotes, which are not checked
	erased    map[uint64][]noteSeen // resolutions whose payloads were erased, by ledger position
	thinned   map[string]bool       // projects some of whose payloads were erased
}

// trustSeen is the activation of a trust file in a partition.
type trustSeen struct {
	index  int64
	digest string
	note   string      // the operator's command
	trust  *keys.Trust // nil if the log lacks a part of the file
}

// noteSeen is a resolution: the entry with a person's signed decision on a hold.
type noteSeen struct {
	index   int64
	project string
	text    string
}

type outcomeSeen struct {
	index   int64
	project string
	*streams.Resolved
}

// useSeen is an action that was allowed because a person had approved its source.
type useSeen struct {
	index                       int64
	project, agent, session, id string
	time                        time.Time
	*streams.SourceUse
}

func newApprovals() *approvalsSeen {
	return &approvalsSeen{parts: make(map[string]map[int][]byte), notes: make(map[uint64][]noteSeen),
		withdrawn: make(map[string][]int64), erased: make(map[uint64][]noteSeen), thinned: make(map[string]bool)}
}

// miss records that the payload of a leaf was erased.
func (x *approvalsSeen) miss(leaf *chain.Leaf) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.thinned[leaf.Project] = true
	if leaf.Type == string(streams.TypeResolution) {
		x.erased[leaf.Seq] = append(x.erased[leaf.Seq], noteSeen{index: leaf.Index, project: leaf.Project})
	}
}

func (x *approvalsSeen) see(leaf *chain.Leaf, payload []byte) {
	switch streams.Type(leaf.Type) {
	case streams.TypeChunk, streams.TypeActivation, streams.TypeResolution, streams.TypeVerdict, streams.TypeHoldState,
		streams.TypeAlerts:
	default:
		return
	}
	by, body := statement.Split(payload)
	has := func(word string) bool { return bytes.Contains(body, []byte(`"`+word+`"`)) }
	// Like the stages, ignore an entry that is not from the stage that writes entries of its type. Ignore trust files
	// outside the system project too.
	writer := streams.StageIngest
	switch streams.Type(leaf.Type) {
	case streams.TypeVerdict, streams.TypeHoldState, streams.TypeAlerts:
		writer = streams.StageArbiter
	}
	switch t := streams.Type(leaf.Type); {
	case by != writer,
		(t == streams.TypeChunk || t == streams.TypeActivation) && leaf.Project != streams.SystemProject,
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
			x.trusts = append(x.trusts, trustSeen{index: leaf.Index, digest: a.Digest, note: a.Note})
		}
	case streams.TypeResolution:
		var r streams.ResolutionEntry
		if streams.Unmarshal(body, &r) != nil {
			return
		}
		if x.noted >= maxNotes {
			x.dropped++
			return
		}
		x.noted++
		x.notes[leaf.Seq] = append(x.notes[leaf.Seq], noteSeen{leaf.Index, leaf.Project, r.Note})
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
		// The entries of a verdict and of a hold's state both have these members. Other members, such as
		// hold, have different types in the two.
		var v struct {
			streams.EntryHead
			Again    bool               `json:"again"`
			Resolved *streams.Resolved  `json:"resolved"`
			Covered  *streams.SourceUse `json:"covered"`
		}
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
	checked int // number of decisions whose signatures verify
	open    int // number of decisions whose note or trust file is missing because the log lacks payloads
	covered int // number of actions that a verified approval of a source covers
	bad     []outcomeProblem
}

// check verifies the signature of each decision that the arbiter accepted, by a key file or a passkey. It also
// checks that the counters of passkeys increased. Then it checks each action that the approval of a source
// covers. gaps says that the log lacks entries. A note may be missing only if the log lacks entries or the
// note's own payload was erased. Trust files are never erased. operators are the pinned keys of operators. If
// it is nil, check does not verify who activated a trust file.
func (x *approvalsSeen) check(gaps bool, operators note.Verifiers) (r decisionsChecked) {
	lost := gaps || x.dropped > 0
	x.activate(gaps, operators)
	slices.SortFunc(x.outcomes, func(a, b outcomeSeen) int { return cmp.Compare(a.index, b.index) })
	counters := make(map[string]uint32)
	open := make(map[uint64]bool)
	verified := make(map[int64]*outcomeSeen) // by the leaf index of the note
	unread := make(map[int64]*outcomeSeen)   // by the leaf index of the erased note
	for i, o := range x.outcomes {
		signed, ok := noteAt(x.notes, o.Entry, o.index)
		first := verified[signed.index]
		if ok && first != nil && first.project == o.project && reflect.DeepEqual(first.Resolved, o.Resolved) {
			continue // a repeat: the entries of the verdict and of the hold's state both record the decision
		}
		gone, erased := noteAt(x.erased, o.Entry, o.index)
		erased = erased && !ok && gone.project == o.project
		trust := x.inForce(signed.index, o.Key)
		var err error
		switch {
		case erased && unread[gone.index] == nil:
			unread[gone.index] = &x.outcomes[i]
			r.open++
			continue
		case erased && reflect.DeepEqual(unread[gone.index].Resolved, o.Resolved):
			continue
		case erased:
			err = fmt.Errorf("the signed decision that the leaf names, the erased entry %s, already proves a different "+
				"outcome in leaf %d",
				position.Text(o.Entry), unread[gone.index].index)
		case lost && !ok, gaps && trust == nil:
			if !open[o.Entry] {
				r.open++
			}
			open[o.Entry] = true
			continue
		case !ok:
			err = fmt.Errorf("entry %s, which the leaf names, is not an earlier signed decision", position.Text(o.Entry))
		case first != nil:
			err = fmt.Errorf("the signed decision that the leaf names, entry %s, already proves a different outcome in "+
				"leaf %d",
				position.Text(o.Entry), first.index)
		case trust == nil:
			err = errors.New("before this leaf, no trust file with a signature by a pinned operator's key was active: if the " +
				"operator had another key then, pin that key too")
		default:
			err = verifyDecision(signed.text, trust, o, counters)
		}
		if err != nil {
			r.bad = append(r.bad, outcomeProblem{o.index, fmt.Sprintf("leaf %d says that hold %s was %s by %s, but: %v", o.index,
				o.Hold, o.State, o.By, err)})
			continue
		}
		r.checked++
		verified[signed.index] = &x.outcomes[i]
	}
	x.checkUses(&r, verified, lost)
	return r
}

// noteAt returns, of the resolutions at a ledger position, the last one before a leaf of the log.
func noteAt(notes map[uint64][]noteSeen, at uint64, before int64) (last noteSeen, ok bool) {
	last.index = -1
	for _, n := range notes[at] {
		if last.index < n.index && n.index < before {
			last, ok = n, true
		}
	}
	return last, ok
}

// checkUses checks that each covered action names a verified approval of a source, is in the approval's session and
// time, and that no approval covers more actions than it says. If lost is set, the log lacks entries. An action whose
// approval was not verified is then counted as open, not as bad.
func (x *approvalsSeen) checkUses(r *decisionsChecked, verified map[int64]*outcomeSeen, lost bool) {
	slices.SortFunc(x.uses, func(a, b useSeen) int { return cmp.Compare(a.index, b.index) })
	used := make(map[int64]int)
	for _, u := range x.uses {
		signed, shown := noteAt(x.notes, u.Entry, u.index)
		_, erased := noteAt(x.erased, u.Entry, u.index)
		o := verified[signed.index]
		if o == nil && (lost || erased || shown && x.thinned[u.project]) {
			r.open++
			continue
		}
		number := used[signed.index] + 1
		if lost || x.thinned[u.project] {
			number = max(number, u.Number) // the uses in between may be lost
		}
		used[signed.index] = number
		if why := x.uncovered(&u, o, number); why != "" {
			r.bad = append(r.bad, outcomeProblem{u.index, fmt.Sprintf("leaf %d says that the approval of a source with hold %s "+
				"covers action %s, but: %s", u.index, u.Hold, u.id, why)})
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
		return fmt.Sprintf("entry %s, which the leaf names, is not an earlier approval of a source", position.Text(u.Entry))
	case o.project != u.project || o.Hold != u.Hold || o.Key != u.Key || o.Source.Digest != u.Digest ||
		o.Source.Session != u.session || o.Source.Actions != u.Actions:
		return fmt.Sprintf("the approval in entry %s is for another source, session or number of actions",
			position.Text(u.Entry))
	case u.Number != number || number > o.Source.Actions:
		return fmt.Sprintf("it is action number %d under this approval, but the leaf records it as number %d of at most %d",
			number, u.Number, o.Source.Actions)
	case !u.time.Before(o.Source.Expires):
		return fmt.Sprintf("the approval ended at %s, before the action at %s", o.Source.Expires.Format(time.RFC3339),
			u.time.Format(time.RFC3339))
	case slices.ContainsFunc(x.withdrawn[u.project+" "+u.Hold], between):
		return "the approval was withdrawn before the action"
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
func (x *approvalsSeen) inForce(index int64, key string) *keys.Trust {
	var latest, last *keys.Trust
	recorded := 0
	for _, t := range slices.Backward(x.trusts) {
		if t.index >= index {
			continue
		}
		if t.trust != nil && t.trust == last {
			recorded++
			continue
		}
		if recorded >= streams.Partitions {
			break
		}
		if t.trust == nil || slices.ContainsFunc(t.trust.Pins(), func(p keys.Pin) bool { return p.Key == key }) {
			return t.trust
		}
		if latest == nil {
			latest = t.trust
		} else {
			break // only the latest file and the one before it can be active
		}
		last, recorded = t.trust, 1
	}
	return latest
}

// activate sorts the activations, and removes those that the stages refuse.
func (x *approvalsSeen) activate(gaps bool, operators note.Verifiers) {
	slices.SortFunc(x.trusts, func(a, b trustSeen) int { return cmp.Compare(a.index, b.index) })
	active := statement.NewKeys(operators)
	read := make(map[string]*keys.Trust)
	kept := x.trusts[:0]
	for _, t := range x.trusts {
		var text []byte
		for i := range len(x.parts[t.digest]) {
			text = append(text, x.parts[t.digest][i]...)
		}
		if streams.Digest(text) != t.digest {
			kept = append(kept, t)
			continue
		}
		if operators != nil {
			t.trust = active.Activate(t.note, text)
		} else if t.trust = read[t.digest]; t.trust == nil {
			t.trust, _ = keys.ParseTrust("trust", text) // stages refuse a file that cannot be parsed
			read[t.digest] = t.trust
		}
		if t.trust != nil || gaps { // in a log with gaps, the activation of the signer's key may be lost
			kept = append(kept, t)
		}
	}
	x.trusts = kept
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
		return fmt.Errorf("the signed note is for another decision: %s signed to %s hold %s of project %s", s.Signer,
			s.Decision, s.Hold, s.Project)
	}
	if !slices.ContainsFunc(s.Pin.Roles, keys.Role.Approver) {
		return fmt.Errorf("the key of %s is not pinned as an approver's", s.Signer)
	}
	k := o.project + " " + o.Key
	if before := counters[k]; s.Passkey && (s.Counter > 0 || before > 0) && s.Counter <= before {
		return fmt.Errorf("the passkey's counter is %d, but it was already %d in an earlier signature: the passkey may have "+
			"been copied", s.Counter, before)
	}
	if x, y := o.Source, s.Source; (x == nil) != (y == nil) || x != nil && (x.Digest != y.Digest ||
		x.Session != y.Session || x.Actions != y.Actions || !x.Expires.Equal(y.Expires)) {
		return fmt.Errorf("the source that %s approved by signature is not the one in the leaf", s.Signer)
	}
	counters[k] = s.Counter
	return nil
}
