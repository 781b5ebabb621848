package ingest

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/position"
	"lazaret/streams"
)

func init() {
	writesIn(streams.TypePoint, (*Fold).applyPoint)
}

// A restore point marks a time in a project's history to which its beliefs can be rolled back. Taking a point copies
// no beliefs. Instead, the state of a belief is saved just before the belief changes for the first time after the
// point. Points are taken by a signed order, and automatically before a session starts, before a compaction summary,
// and before a run of external writes.
//
// An automatic point is taken only if a belief was admitted or changed since the last point. Refused content changes no
// belief, so a flood of it causes no points that would displace others.

// Limits on the points of a project.
const (
	maxNamed = 32 // maximum number of named points; further orders are refused
	maxAuto  = 24 // automatic points; when there are more, the one that leaves the smallest gap is deleted, see thinPoints
	keptAuto = 8  // the latest automatic points, which thinPoints never deletes
)

// Values of Point.Why.
const (
	pointNamed      = "named"
	pointSession    = "session"
	pointCompaction = "compaction"
	pointBatch      = "batch"
	pointRestore    = "restore"
)

// Point is a restore point.
type Point struct {
	Name string    `json:"name"`
	Why  string    `json:"why"`         // named, session, compaction, batch, restore
	By   string    `json:"by,omitzero"` // name of the key that signed the order
	At   time.Time `json:"at"`          // event time
	// Intake is the place in the intake of the last event before the point.
	Intake uint64 `json:"intake"`
	Number uint64 `json:"number"` // later points have higher numbers
}

func numbered(key []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(key, n) }

func pointPrefix(project string) []byte { return stage.Key(keyPoint, project, "") }

// points returns the points of a project, the oldest first.
func (f *Fold) points(st *stage.State, project string) (out []Point, err error) {
	err = st.Scan(pointPrefix(project), func(_, v []byte) (bool, error) {
		var p Point
		err := streams.Unmarshal(v, &p)
		out = append(out, p)
		return true, err
	})
	return out, err
}

// latestPoint returns the number of the latest point, and its Intake. ok is false if the project has no point.
func (f *Fold) latestPoint(st *stage.State, project string) (number, intake uint64, ok bool, err error) {
	v, ok, err := st.Get(stage.Key(keyLatest, project))
	if err != nil || !ok || len(v) != 16 {
		return 0, 0, false, err
	}
	return binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[8:]), true, nil
}

// autoPoint returns the name of the point to take before an event at a place in the intake, or "" if no belief changed
// since the last point.
func (f *Fold) autoPoint(st *stage.State, project, why string, intake uint64) (string, error) {
	_, moved, err := st.Get(stage.Key(keyMoved, project))
	if err != nil || !moved {
		return "", err
	}
	return autoName(why, intake), nil
}

func autoName(why string, intake uint64) string {
	return "before-" + why + "-" + placeName(intake)
}

// placeName returns a place in the intake as a part of an id: its sequence, and its index unless that is 0, as in 98
// and 98-256.
func placeName(place uint64) string { return strings.ReplaceAll(position.Text(place), ".", "-") }

// placeBefore returns the last possible place in the intake before another one. After a message come the places of
// offered proposals (see stage.Offer).
func placeBefore(place uint64) uint64 {
	if i := position.Index(place); i > 0 {
		return position.At(position.Sequence(place), i-1)
	}
	return position.At(place-1, stage.OffersEnd-1)
}

// takeAuto takes an automatic point before an event. It does nothing if name is "".
func (f *Fold) takeAuto(st *stage.State, project, name string, h *streams.EntryHead) error {
	if name == "" {
		return nil
	}
	why, _, _ := strings.Cut(strings.TrimPrefix(name, "before-"), "-")
	return f.takePoint(st, project, &Point{Name: name, Why: why, At: h.Time, Intake: placeBefore(h.Intake)})
}

func (f *Fold) takePoint(st *stage.State, project string, p *Point) error {
	n, _, _, err := f.latestPoint(st, project)
	if err != nil {
		return err
	}
	p.Number = n + 1
	if err := st.Put(numbered(pointPrefix(project), p.Number), p); err != nil {
		return err
	}
	if err := st.Set(stage.Key(keyLatest, project), binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil,
		p.Number), p.Intake)); err != nil {
		return err
	}
	if err := st.Delete(stage.Key(keyMoved, project)); err != nil {
		return err
	}
	return f.thinPoints(st, project)
}

// thinPoints deletes one automatic point if a project has too many. It never deletes the oldest and the latest ones. Of
// the others, it deletes the one whose deletion leaves the smallest gap in proportion to the gap's age. So a burst of
// points displaces points of the same burst and no earlier ones.
func (f *Fold) thinPoints(st *stage.State, project string) error {
	all, err := f.points(st, project)
	if err != nil {
		return err
	}
	auto := slices.DeleteFunc(all, func(p Point) bool { return p.Why == pointNamed })
	if len(auto) <= maxAuto {
		return nil
	}
	at := func(i int) uint64 { return position.Sequence(auto[i].Intake) }
	now := at(len(auto) - 1)
	thin, least := 1, 0.0
	for i := 1; i < len(auto)-keptAuto; i++ {
		// Gaps are measured in intake sequences, because several events may have the same time.
		before, hole := at(i-1), 0.0
		if after := at(i + 1); after > before { // otherwise both points are of writes offered after one message
			hole = float64(after-before+1) / float64(now-before+1)
		}
		if i == 1 || hole < least {
			thin, least = i, hole
		}
	}
	return st.Delete(numbered(pointPrefix(project), auto[thin].Number))
}

// session admits the start or end of a session. Before a start, a point is taken.
func (f *Fold) session(st *stage.State, m *stage.Message, head streams.EntryHead,
	ev *streams.Session) (*stage.Admission, error) {
	a := m.Address
	differs, err := promptDiffers(st, a.Project, ev.Prompt, ev.PromptDigest)
	if err != nil {
		return nil, err
	}
	e := &streams.SessionEntry{EntryHead: head, Phase: ev.Phase, Prompt: ev.Prompt, PromptDigest: ev.PromptDigest,
		PromptDiffers: differs}
	if ev.Phase == "start" {
		if e.Point, err = f.autoPoint(st, a.Project, pointSession, head.Intake); err != nil {
			return nil, err
		}
	}
	return admission(streams.TypeSession, a.Project, e)
}

// batchOf names the run of external writes that a memory write belongs to: its agent and session. It returns "" for
// other writes.
func batchOf(e *streams.MemoryEntry) string {
	if e.Channel == streams.ChannelImport || e.Origin.External() {
		return e.Agent + "/" + e.Session
	}
	return ""
}

// pointBeforeWrite returns the name of the point to take before a memory write, or "".
func (f *Fold) pointBeforeWrite(st *stage.State, project string, e *streams.MemoryEntry) (string, error) {
	if e.Channel == streams.ChannelCompaction {
		return f.autoPoint(st, project, pointCompaction, e.Intake)
	}
	batch := batchOf(e)
	if batch == "" {
		return "", nil
	}
	last, ok, err := st.Get(stage.Key(keyBatch, project))
	if err != nil || ok && string(last) == batch {
		return "", err
	}
	return f.autoPoint(st, project, pointBatch, e.Intake)
}

// noteBatch stores the run of external writes that the latest memory write belongs to.
func (f *Fold) noteBatch(st *stage.State, project string, e *streams.MemoryEntry) error {
	batch := batchOf(e)
	if batch == "" {
		return nil
	}
	return st.Set(stage.Key(keyBatch, project), []byte(batch))
}

// asItWas is the state of a belief at a point.
type asItWas struct {
	Axes beliefs.Axes `json:"axes"`
	beliefs.AsItWas
	Successor string `json:"successor,omitzero"`
}

func (r *record) asItWas() *asItWas {
	return &asItWas{r.Ref.Axes, beliefs.AsItWas{Evidence: r.Evidence, Scope: r.Ref.Scope, Conflicts: r.Conflicts,
		Staged: r.Ref.Staged, StagedFor: r.StagedFor, Signed: r.Signed, Flag: r.Flag}, r.Successor}
}

// restore sets all fields that a point saves of a belief, except its axes.
func (r *record) restore(was *beliefs.AsItWas) {
	r.Evidence, r.Ref.Scope, r.Conflicts = was.Evidence, was.Scope, was.Conflicts
	r.Ref.Staged, r.StagedFor, r.Signed, r.Flag = was.Staged, was.StagedFor, was.Signed, was.Flag
	s := r.standing()
	r.Ref.Quality, r.Ref.Confidence = s.Quality(), s.Confidence()
}

func beforePrefix(project, belief string) []byte { return stage.Key(keyBefore, project, belief, "") }

// noteBefore saves the state of a belief before the change to next, if the belief existed at the latest point. It also
// records that a belief changed since that point.
func (f *Fold) noteBefore(st *stage.State, project string, next *record) error {
	number, intake, ok, err := f.latestPoint(st, project)
	if err != nil {
		return err
	}
	moved := next.Ref.Axes.Security < beliefs.Quarantined && (next.Ref.Axes.Retrieval == beliefs.Normal ||
		next.Ref.Axes.Retrieval == beliefs.Restricted)
	if ok && position.Compare(next.Intake, intake) <= 0 {
		old, err := f.belief(st, project, next.Ref.ID)
		if err != nil || old == nil {
			return err
		}
		if old.revision() == next.revision() && old.Ref.Scope == next.Ref.Scope {
			return nil
		}
		moved = true
		if err := f.addBefore(st, project, old, number); err != nil {
			return err
		}
	}
	if !moved {
		return nil
	}
	return st.Set(stage.Key(keyMoved, project), nil)
}

// addBefore saves the state of a belief for a point, unless it is saved already. It deletes saved states that no
// remaining point needs. A saved state is valid for its point, and for all earlier points after the belief's previous
// saved state.
func (f *Fold) addBefore(st *stage.State, project string, old *record, number uint64) error {
	prefix := beforePrefix(project, old.Ref.ID)
	var have []uint64
	if err := st.Scan(prefix, func(k, _ []byte) (bool, error) {
		if len(k) == len(prefix)+8 {
			have = append(have, binary.BigEndian.Uint64(k[len(prefix):]))
		}
		return true, nil
	}); err != nil {
		return err
	}
	if len(have) > 0 && have[len(have)-1] == number {
		return nil
	}
	if len(have) > 0 {
		points, err := f.points(st, project)
		if err != nil {
			return err
		}
		low := uint64(0)
		for _, h := range have {
			needed := slices.ContainsFunc(points, func(p Point) bool { return p.Number > low && p.Number <= h })
			if !needed {
				if err := st.Delete(numbered(bytes.Clone(prefix), h)); err != nil {
					return err
				}
			}
			low = h
		}
	}
	return st.Put(numbered(prefix, number), old.asItWas())
}

// before returns the state of a belief at a point, or nil if the belief has not changed since.
func (f *Fold) before(st *stage.State, project, belief string, number uint64) (was *asItWas, err error) {
	prefix := beforePrefix(project, belief)
	err = st.ScanFrom(prefix, numbered(bytes.Clone(prefix), number), func(_, v []byte) (bool, error) {
		was = new(asItWas)
		return false, streams.Unmarshal(v, was)
	})
	return was, err
}

// orderPoint takes a named point, by a signed order.
func (f *Fold) orderPoint(st *stage.State, project string, head streams.EntryHead, s *approval.SignedOrder,
	signed *streams.Signature) (*stage.Admission, error) {
	all, err := f.points(st, project)
	if err != nil {
		return nil, err
	}
	named := 0
	for _, p := range all {
		if p.Name == s.Point {
			return nil, orderError("point %s exists, taken at %s: choose another name", p.Name, p.At.Format(time.RFC3339))
		}
		if p.Why == pointNamed {
			named++
		}
	}
	if named >= maxNamed || strings.HasPrefix(s.Point, "before-") {
		return nil, orderError("a project has at most %d named points, and no name may begin with before-; this one has %d",
			maxNamed, named)
	}
	return admission(streams.TypePoint, project, &streams.PointEntry{EntryHead: head, Point: s.Point, Text: s.Reason,
		Signed: signed})
}

func (f *Fold) applyPoint(st *stage.State, project string, e *streams.PointEntry) error {
	if err := f.useNonce(st, project, e.Signed.Nonce, e.Signed.Until, e.Time); err != nil {
		return err
	}
	return f.takePoint(st, project, &Point{Name: e.Point, Why: pointNamed, By: e.Signed.Signer, At: e.Time,
		Intake: e.Intake})
}

// AskPoints is the query for a project's restore points.
const AskPoints = "points"

// PointsRequest asks for the restore points of one project.
type PointsRequest struct {
	Project string `json:"project"`
}

// PointsAnswer has the points of a project, the oldest first.
type PointsAnswer struct {
	Points []Point `json:"points"`
	// Rollback is the latest rollback, running or finished; nil if there was none.
	Rollback *streams.Rollback `json:"rollback,omitzero"`
}

func listPoints(st *stage.State, req []byte) (any, error) {
	var q PointsRequest
	if err := streams.Unmarshal(req, &q); err != nil {
		return nil, err
	}
	if err := streams.CheckID("project", q.Project); err != nil {
		return nil, err
	}
	f := New(Config{})
	all, err := f.points(st, q.Project)
	if err != nil {
		return nil, err
	}
	ans := &PointsAnswer{Points: append([]Point{}, all...)}
	run, err := f.running(st, q.Project)
	if run != nil {
		ans.Rollback = &run.Rollback
	}
	return ans, err
}
