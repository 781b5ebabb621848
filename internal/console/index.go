package console

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"lazaret/internal/arbiter"
	"lazaret/internal/ceiling"
	"lazaret/internal/stage"
	"lazaret/internal/statement"
	"lazaret/internal/wire"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// Limits of the index. Beyond a limit, the oldest items are dropped. The ledger still has them.
const (
	maxEvents    = 100_000 // events with a known position
	maxAlerts    = 100_000
	maxClosed    = 5_000 // settled holds; all open holds are kept
	maxSessions  = 10_000
	maxPositions = 4_000 // entries of one session
	batchSize    = 4096
)

// event is the part of an entry of ingest that the index has.
type event struct {
	project, agent, session, id, tool string
	typ                               streams.Type
}

// alertRow is an alert with its position.
type alertRow struct {
	streams.Alert
	At   uint64 // position of its entry
	Tool string // tool of the action or observation that the alert is about
}

// holdRow is the state of a hold, as the entries in the ledger give it (verdicts and hold states).
type holdRow struct {
	arbiter.Hold
	At     uint64    // position of the entry that opened the hold
	Closed time.Time // zero while the hold is open
	By     string    // who resolved the hold
	alone  string    // if the hold has only one reason, the rule that gave it; otherwise empty
}

// incidentRow is the state of an incident after the last entry about it.
type incidentRow struct {
	beliefs.Incident
	Project string
	At      uint64
}

// sessionRow is a session and the positions of its entries.
type sessionRow struct {
	Project, Name             string
	Agents                    []string
	First, Last               time.Time
	Read, Proposed, Held, Bad int // Bad: denied or rejected
	Alerts                    int
	positions                 []uint64
	dropped                   int // number of positions that were dropped because there were more than maxPositions
}

// index follows the ledger and has in memory the items that the pages list. Its size is limited. It is built anew from
// the ledger at each start.
type index struct {
	mu       sync.RWMutex // guards all fields below
	next     uint64
	ready    bool
	changed  chan struct{} // closed at the next change
	version  uint64        // number of changes
	labels   ceiling.Labels
	erased   statement.Erased
	events   map[uint64]event
	byEvent  map[[3]string]uint64 // project, agent, id
	ring     []uint64
	alerts   []alertRow
	holds    map[[2]string]*holdRow // project, id
	held     map[uint64]*holdRow    // open holds, by the proposal's position
	closed   []*holdRow
	sessions map[[2]string]*sessionRow
	projects map[string]bool
	verdicts [3]uint64 // by verdict
	incident map[[2]string]incidentRow

	rules    map[[2]string]*ruleCount // project, rule
	silences map[[2]string]silenceRow // project, id

	catalogues map[[3]string]*catalogueRow // project, agent, server
	asks       map[uint64]ask              // requests to accept a list of tools that nobody has decided, by position
}

func newIndex() *index {
	return &index{changed: make(chan struct{}), events: make(map[uint64]event), byEvent: make(map[[3]string]uint64),
		holds: make(map[[2]string]*holdRow), held: make(map[uint64]*holdRow), sessions: make(map[[2]string]*sessionRow),
		projects: make(map[string]bool), incident: make(map[[2]string]incidentRow),
		catalogues: make(map[[3]string]*catalogueRow), asks: make(map[uint64]ask), rules: make(map[[2]string]*ruleCount),
		silences: make(map[[2]string]silenceRow)}
}

// follow adds the entries of the ledger to the index until ctx ends.
func (x *index) follow(ctx context.Context, nc *nats.Conn, log *slog.Logger) error {
	js := wire.JetStream(nc)
	st, err := js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		return err
	}
	x.mu.Lock()
	x.next = max(x.next, st.CachedInfo().State.FirstSeq, 1)
	x.mu.Unlock()
	return stage.Follow(ctx, nc, nil, x, batchSize, log, nil, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.ready = true
		x.wake()
	})
}

// wake tells waiting goroutines that the index has changed. The caller holds mu.
func (x *index) wake() {
	x.version++
	close(x.changed)
	x.changed = make(chan struct{})
}

// Next implements stage.Follower.
func (x *index) Next() uint64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.next
}

// Take implements stage.Follower.
func (x *index) Take(entries []streams.Entry, _ bool) error {
	if len(entries) == 0 {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range entries {
		x.take(&entries[i])
		x.next = entries[i].Seq + 1
	}
	x.prune()
	x.wake()
	return nil
}

// head has the fields that are in the bodies of all kinds of entries in the index.
type head struct {
	ID      string `json:"id"`
	Agent   string `json:"agent"`
	Session string `json:"session"`
	Tool    string `json:"tool"`
}

// take adds one entry to the index. It skips an entry that it cannot parse. It also skips an entry whose type is not
// one that its stage writes, because a third-party sentinel group may write anything.
func (x *index) take(e *streams.Entry) {
	if e.Project == streams.SystemProject {
		return
	}
	at := e.Position()
	x.labels.Scan(labelled(e))
	x.erase(e)
	if x.erased.CoversEntry(e) {
		return
	}
	switch {
	case e.Stage == streams.StageIngest && e.Type == streams.TypeSilence:
		x.takeSilence(e)
	case e.Stage == streams.StageIngest:
		x.takeEvent(e, at)
	case e.Type == streams.TypeVerdict && e.Stage == streams.StageArbiter:
		if v, err := streams.Read[streams.VerdictEntry](e); err == nil {
			x.takeVerdict(e, at, v)
		}
	case e.Type == streams.TypeHoldState && e.Stage == streams.StageArbiter:
		if s, err := streams.Read[streams.HoldStateEntry](e); err == nil {
			by := ""
			if s.Resolved != nil {
				by = s.Resolved.By
			}
			x.close(x.holds[[2]string{e.Project, s.Hold}], s.State, by, s.Time)
			x.add(e, x.events[s.Proposal].session, "", at)
		}
	case e.Type == streams.TypeAlerts, e.Type == streams.TypeAssessment:
		// an assessment has the fields of an alerts entry too
		if a, err := streams.Read[streams.AlertsEntry](e); err == nil && (e.Type == streams.TypeAlerts || len(a.Alerts) > 0) {
			x.takeAlerts(e, at, a.Alerts)
		}
	}
}

func labelled(e *streams.Entry) ceiling.Entry {
	return ceiling.Entry{Project: e.Project, Seq: e.Position(), Src: e.Src, Ingest: e.Stage == streams.StageIngest,
		Body: e.Body}
}

func (x *index) takeEvent(e *streams.Entry, at uint64) {
	if e.Type == streams.TypeIncident {
		if i, err := streams.Read[streams.IncidentEntry](e); err == nil {
			x.incident[[2]string{e.Project, i.Incident.ID}] = incidentRow{i.Incident, e.Project, at}
		}
		return
	}
	var h head
	if streams.Unmarshal(e.Body, &h) != nil {
		return
	}
	x.projects[e.Project] = true
	if h.ID != "" && e.Type != streams.TypeRepeat { // a repeat must not replace the position of the original event
		x.events[at] = event{project: e.Project, agent: h.Agent, session: h.Session, id: h.ID, tool: h.Tool, typ: e.Type}
		x.byEvent[[3]string{e.Project, h.Agent, h.ID}] = at
		x.ring = append(x.ring, at)
	}
	switch {
	case e.Type == streams.TypeTools:
		x.takeTools(e, at)
	case e.Type == streams.TypeAction && h.Tool == streams.ApproveTools:
		x.takeAsk(e, at)
	}
	s := x.add(e, h.Session, h.Agent, at)
	if s == nil {
		return
	}
	switch e.Type {
	case streams.TypeObservation:
		s.Read++
	case streams.TypeAction, streams.TypeMemory:
		s.Proposed++
	case streams.TypeRejected:
		s.Bad++
	}
}

// add adds an entry to the session of this name. It returns nil if name is empty.
func (x *index) add(e *streams.Entry, name, agent string, at uint64) *sessionRow {
	if name == "" {
		return nil
	}
	k := [2]string{e.Project, name}
	s := x.sessions[k]
	if s == nil {
		s = &sessionRow{Project: e.Project, Name: name, First: e.Time}
		x.sessions[k] = s
	}
	s.Last = e.Time
	if agent != "" && !slices.Contains(s.Agents, agent) && len(s.Agents) < 16 {
		s.Agents = append(s.Agents, agent)
	}
	if len(s.positions) >= maxPositions {
		s.positions, s.dropped = slices.Delete(s.positions, 0, maxPositions/4), s.dropped+maxPositions/4
	}
	s.positions = append(s.positions, at)
	return s
}

func (x *index) takeAlerts(e *streams.Entry, at uint64, list []streams.Alert) {
	about := x.events[e.Src]
	if about.project != e.Project {
		about = event{}
	}
	s := x.add(e, cmp.Or(about.session, firstSession(list)), "", at)
	for _, a := range list {
		// the time of the entry, because an alert about a replayed session (a synthetic project) has the time of the
		// recording
		a.Detail, a.Events, a.Time = nil, nil, e.Time
		a.Message, a.Project = streams.Clip(a.Message, 500), e.Project
		a.Session = cmp.Or(a.Session, about.session)
		x.alerts = append(x.alerts, alertRow{Alert: a, At: at, Tool: about.tool})
		x.countAlert(e.Project, &a)
		if s != nil {
			s.Alerts++
		}
	}
}

func firstSession(list []streams.Alert) string {
	for _, a := range list {
		if a.Session != "" {
			return a.Session
		}
	}
	return ""
}

func (x *index) takeVerdict(e *streams.Entry, at uint64, v *streams.VerdictEntry) {
	s := x.add(e, v.Session, v.Agent, at)
	if v.Again {
		return
	}
	if int(v.Verdict) < len(x.verdicts) {
		x.verdicts[v.Verdict]++
	}
	if s != nil {
		switch v.Verdict {
		case streams.Hold:
			s.Held++
		case streams.Deny:
			s.Bad++
		}
	}
	x.takeAnswer(v)
	open := x.held[v.Proposal]
	switch {
	case v.Resolved != nil:
		if h := x.holds[[2]string{e.Project, v.Resolved.Hold}]; h != nil {
			h.Verdict = *v
			x.close(h, v.Resolved.State, v.Resolved.By, v.Time)
		}
	case v.Hold == nil:
		switch {
		case v.Verdict != streams.Deny:
		case open != nil:
			x.countAgain(open, v)
			x.close(open, streams.HoldDenied, "", v.Time)
		default:
			if alone := x.countVerdict(e.Project, v); alone != "" {
				x.counted(e.Project, alone).Denied++
			}
		}
	case open != nil && open.ID == v.Hold.ID:
		x.countAgain(open, v)
		open.Verdict, open.Revision = *v, v.Hold.Revision
	default:
		h := &holdRow{At: at, Hold: arbiter.Hold{ID: v.Hold.ID, Revision: v.Hold.Revision, Project: e.Project,
			Agent: v.Agent, State: streams.HoldOpen,
			Opened: e.Time, Expires: v.Hold.Expires, Verdict: *v}}
		if h.alone = x.countVerdict(e.Project, v); h.alone != "" {
			x.counted(e.Project, h.alone).Others++
		}
		x.holds[[2]string{e.Project, h.ID}], x.held[v.Proposal] = h, h
	}
}

func (x *index) close(h *holdRow, state, by string, at time.Time) {
	if h == nil || h.State != streams.HoldOpen {
		return
	}
	h.State, h.By, h.Closed = state, by, at
	x.countSettled(h)
	delete(x.held, h.Verdict.Proposal)
	delete(x.asks, h.Verdict.Proposal)
	x.closed = append(x.closed, h)
}

// prune drops the oldest items beyond the limits. The caller holds mu.
func (x *index) prune() {
	x.pruneTools()
	if n := len(x.ring) - maxEvents; n > maxEvents/10 {
		for _, at := range x.ring[:n] {
			if ev, k := x.events[at], x.events[at].key(); x.byEvent[k] == at {
				delete(x.byEvent, ev.key())
			}
			delete(x.events, at)
		}
		x.ring = slices.Clone(x.ring[n:])
	}
	if n := len(x.alerts) - maxAlerts; n > maxAlerts/10 {
		x.alerts = slices.Clone(x.alerts[n:])
	}
	if n := len(x.closed) - maxClosed; n > 0 {
		for _, h := range x.closed[:n] {
			delete(x.holds, [2]string{h.Project, h.ID})
		}
		x.closed = slices.Clone(x.closed[n:])
	}
	if n := len(x.sessions) - maxSessions; n > maxSessions/10 {
		rows := make([]*sessionRow, 0, len(x.sessions))
		for _, s := range x.sessions {
			rows = append(rows, s)
		}
		slices.SortFunc(rows, func(a, b *sessionRow) int { return a.Last.Compare(b.Last) })
		for _, s := range rows[:n] {
			delete(x.sessions, [2]string{s.Project, s.Name})
		}
	}
}

func (e event) key() [3]string { return [3]string{e.project, e.agent, e.id} }

// selected calls of for each value of a map of the index. It returns the items that of returned, sorted by compare,
// without those for which of returned false.
func selected[K comparable, V, T any](x *index, m map[K]V, of func(V) (T, bool),
	compare func(a, b T) int) []T {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var out []T
	for _, v := range m {
		if item, ok := of(v); ok {
			out = append(out, item)
		}
	}
	slices.SortFunc(out, compare)
	return out
}

// openHolds returns the open holds of the projects for which may returns true. The hold that expires first comes first.
func (x *index) openHolds(may func(project string) bool) []arbiter.Hold {
	return selected(x, x.held, func(h *holdRow) (arbiter.Hold, bool) { return h.Hold, may(h.Project) },
		func(a, b arbiter.Hold) int { return cmp.Or(a.Expires.Compare(b.Expires), strings.Compare(a.ID, b.ID)) })
}

// closedHolds returns the settled holds of the projects for which may returns true, latest first.
func (x *index) closedHolds(may func(project string) bool) []arbiter.Hold {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var out []arbiter.Hold
	for _, h := range slices.Backward(x.closed) {
		if may(h.Project) {
			out = append(out, h.Hold)
		}
	}
	return out
}

// eachAlert calls f for each alert of the projects for which may returns true, latest first. It stops when f returns
// false.
func (x *index) eachAlert(may func(project string) bool, f func(a *alertRow) bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for i := range slices.Backward(x.alerts) {
		if a := &x.alerts[i]; may(a.Project) && !f(a) {
			return
		}
	}
}

// listSessions returns the sessions of the projects for which may returns true, latest first.
func (x *index) listSessions(may func(project string) bool) []sessionRow {
	return selected(x, x.sessions, func(s *sessionRow) (row sessionRow, ok bool) {
		row = *s
		row.Agents, row.positions = slices.Clone(s.Agents), nil
		return row, may(s.Project)
	}, func(a, b sessionRow) int {
		return cmp.Or(b.Last.Compare(a.Last), strings.Compare(a.Project+a.Name, b.Project+b.Name))
	})
}

// session returns one session with its positions.
func (x *index) session(project, name string) (s sessionRow, ok bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	row := x.sessions[[2]string{project, name}]
	if row == nil {
		return s, false
	}
	s = *row
	s.Agents, s.positions = slices.Clone(row.Agents), slices.Clone(row.positions)
	return s, true
}

// find returns the position of an event's entry. It returns 0 if the index does not have the event.
func (x *index) find(project, agent, id string) uint64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.byEvent[[3]string{project, agent, id}]
}

// listProjects returns the projects for which may returns true, sorted.
func (x *index) listProjects(may func(project string) bool) []string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var out []string
	for p := range x.projects {
		if may(p) {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

// openIncidents returns the open incidents of the projects for which may returns true, latest first.
func (x *index) openIncidents(may func(project string) bool) []incidentRow {
	return selected(x, x.incident,
		func(i incidentRow) (incidentRow, bool) { return i, may(i.Project) && i.Closed.IsZero() },
		func(a, b incidentRow) int { return cmp.Or(b.Opened.Compare(a.Opened), strings.Compare(a.ID, b.ID)) })
}

// state returns whether the index has read the whole ledger, the version of the index, and a channel that is closed at
// the next change of the index.
func (x *index) state() (ready bool, version uint64, changed <-chan struct{}) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.ready, x.version, x.changed
}

// awaitEntry waits for up to a second until the index has read the entry at a position.
func (x *index) awaitEntry(ctx context.Context, at uint64) {
	x.await(ctx, time.Second, func() bool { return position.Sequence(at) < x.next })
}

// await waits until done returns true, which is called with mu held. most is the maximum time that it waits.
func (x *index) await(ctx context.Context, most time.Duration, done func() bool) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for ctx.Err() == nil {
		x.mu.RLock()
		ok, changed := done(), x.changed
		x.mu.RUnlock()
		if ok {
			return
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
}

// shown returns an alert in the form in which a user may see it. ceiling is the highest sensitivity that the user may
// read. The caller holds mu.
func (x *index) shown(a *alertRow, ceiling beliefs.Sensitivity) *alertRow {
	as := x.labels.Text(a.Project, a.Message+"\n"+a.Error, a.At)
	if as.Within(ceiling) {
		return a
	}
	b := *a
	b.Message, b.Error = redacted(as), ""
	return &b
}

// sensitivity returns the sensitivity of a text of a project. at are the positions of the entries from which the text
// comes. The result depends on the labels that the index has read up to now. Until the index has read all these
// entries, the result is Secret.
func (x *index) sensitivity(project, s string, at ...uint64) beliefs.Sensitivity {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, pos := range at {
		if position.Sequence(pos) >= x.next {
			return beliefs.Secret
		}
	}
	return x.labels.Text(project, s, at...)
}

// sensitivityOf returns the sensitivity of an entry.
func (x *index) sensitivityOf(e *streams.Entry) beliefs.Sensitivity {
	x.mu.Lock() // not RLock: labels use a scratch buffer
	defer x.mu.Unlock()
	return x.labels.Of(labelled(e))
}
