package retain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/inquiry"
	"lazaret/internal/stage"
	"lazaret/internal/wire"
	"lazaret/pkg/chain"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// Place is a location of a project's data and the result of the erasure there.
type Place struct {
	Where string `json:"where"`
	What  string `json:"what"`
	Count int    `json:"count"`
	// Left tells what was not removed and why.
	Left string `json:"left,omitzero"`
}

// Record lists what was erased, by place.
type Record struct {
	Project string `json:"project"`
	// DataSubject is the erased data subject; empty if the whole project was erased.
	DataSubject string  `json:"data_subject,omitzero"`
	Statement   string  `json:"statement,omitzero"`
	Entry       uint64  `json:"entry,omitzero"` // ledger sequence of the last statement's entry
	Places      []Place `json:"places"`
	LegalHold   string  `json:"legal_hold,omitzero"` // id of the statement that set the legal hold
	// Statements are the ids of all statements of this erasure. The last one is Statement.
	Statements []string `json:"statements,omitzero"`
	// Again is set if this run completed an interrupted attempt.
	Again bool `json:"again,omitzero"`
	// Also lists entries that were erased although they do not concern the data subject alone.
	Also []AlsoForgotten `json:"also,omitzero"`
	// File is the path of the signed record.
	File string `json:"file,omitzero"`

	upTo uint64 // the order covers the project up to this ledger sequence
}

// put adds a place. left tells what was not removed and why.
func (r *Record) put(where, what string, count int, left string) {
	r.Places = append(r.Places, Place{where, what, count, left})
}

// Whole reports whether everything was removed in every place.
func (r *Record) Whole() bool {
	return !slices.ContainsFunc(r.Places, func(p Place) bool { return p.Left != "" })
}

// Found reports whether a place other than the state of a stage has data.
func (r *Record) Found() bool {
	return slices.ContainsFunc(r.Places, func(p Place) bool { return p.Count > 0 && !strings.HasPrefix(p.Where, stateOf) })
}

// stateOf is the prefix of Place.Where for the state of a stage.
const stateOf = "state of "

// RecordHeader is the first line of a signed record.
const RecordHeader = "lazaret/forgotten/v1"

func (r *Record) text(now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nproject: %s\n", RecordHeader, r.Project)
	if r.DataSubject != "" {
		fmt.Fprintf(&b, "data subject: %s\n", r.DataSubject)
	}
	fmt.Fprintf(&b, "statement: %s\nledger entry: %s\ntime: %s\n", cmp.Or(strings.Join(r.Statements, ","), r.Statement),
		position.Text(r.Entry), now.UTC().Format(time.RFC3339))
	for _, p := range r.Places {
		fmt.Fprintf(&b, "%s: %s: %d\n", p.Where, p.What, p.Count)
		if p.Left != "" {
			fmt.Fprintf(&b, "  left: %s\n", p.Left)
		}
	}
	for _, a := range r.Also {
		fmt.Fprintf(&b, "also: entry %s, %s of %s: %s\n", position.Text(a.Seq), a.Type, a.Stage, a.Why)
	}
	return b.String()
}

// ErrLegalHold means that the data must not be erased, because of a legal hold.
var ErrLegalHold = errors.New("the data, or a data subject whom the data concerns, is under legal hold")

// stagesIn returns the stages that wrote the entries of a ledger message: those of a joint frame, in which several
// stages wrote their entries together, or the one stage of any other message. It returns none if the message is gone.
func stagesIn(ctx context.Context, st jetstream.Stream, h header) ([]string, error) {
	if h.stage != streams.StageJoint {
		return []string{h.stage}, nil
	}
	m, err := st.GetMsg(ctx, h.seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading ledger message %d: %w", h.seq, err)
	}
	entries, err := wire.RawEntries(m)
	if err != nil { // not a valid entry: it is deleted too
		return []string{h.stage}, nil
	}
	out := make([]string, len(entries))
	for i := range entries {
		out[i] = entries[i].Stage
	}
	return out, nil
}

// ledgerPlaces counts the ledger entries for which goes returns true, by the stage that wrote them.
func ledgerPlaces(ctx context.Context, js jetstream.JetStream, project string, goes func(h header) bool) ([]Place,
	error) {
	st, err := js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		return nil, err
	}
	byStage := make(map[string]int)
	err = scan(ctx, js, streams.LedgerFilter(streams.PartitionOf(project)), 1, func(h header) error {
		if !goes(h) {
			return nil
		}
		stages, err := stagesIn(ctx, st, h)
		for _, s := range stages {
			byStage[s]++
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var out []Place
	for _, s := range slices.Sorted(maps.Keys(byStage)) {
		out = append(out, Place{Where: streams.LedgerStream, What: "entries of " + s, Count: byStage[s]})
	}
	return out, nil
}

// Survey returns the places of a project's data, and changes nothing.
func (c *Config) Survey(ctx context.Context, project, shards string) (*Record, error) {
	if err := streams.CheckID("project", project); err != nil {
		return nil, err
	}
	c.awaited = "the search of the streams and of the log"
	js, err := jetstream.New(c.Conn)
	if err != nil {
		return nil, err
	}
	r := &Record{Project: project}
	if r.Places, err = ledgerPlaces(ctx, js, project, func(h header) bool {
		return h.project == project && !kept(h.typ)
	}); err != nil {
		return nil, err
	}
	live, err := count(ctx, js, streams.LiveStream, "lz.live."+project+".>")
	if err != nil {
		return nil, err
	}
	in, err := count(ctx, js, streams.IntakeStream, fmt.Sprintf("lz.in.%d.%s.>", streams.PartitionOf(project), project))
	if err != nil {
		return nil, err
	}
	r.put(streams.LiveStream, "live copies", live, "")
	r.put(streams.IntakeStream, "events that wait", in, "")
	return r, c.survey(ctx, js, r,
		"derived data (beliefs, signals, proposals, holds and the like), written anew without this data",
		func(l *inquiry.Log) ([]string, error) {
			n, held, err := l.Holding(ctx, project, 0)
			if err != nil {
				return nil, err
			}
			r.LegalHold = held
			r.put("the log", "payloads, erased by destroying their keys", n, "")
			return l.ShardsOf(ctx, shards, project)
		})
}

// survey adds the places outside of the streams to a record. derived is Place.What for the state of a stage. log adds
// the log, and returns its sealed shards that contain payloads.
func (c *Config) survey(ctx context.Context, js jetstream.JetStream, r *Record, derived string,
	log func(l *inquiry.Log) (shards []string, err error)) error {
	writers, err := c.writers(ctx, js)
	if err != nil {
		return err
	}
	for _, s := range writers {
		r.put(stateOf+s, derived, 1, "")
	}
	err = c.Log(ctx, func(l *inquiry.Log) error {
		shards, err := log(l)
		for _, f := range shards {
			r.put(f, "a sealed shard that has payloads, made anew without them", 1, "")
		}
		return err
	})
	if err != nil {
		return err
	}
	files, err := c.folders(Subject{r.Project, r.DataSubject}, false)
	r.Places = append(r.Places, files...)
	return err
}

// kept reports whether entries of this type stay when a project is erased. Statements, and the stages' answers to them,
// contain no content of data subjects.
func kept(t streams.Type) bool {
	return t.Statement()
}

// count returns the number of a stream's messages on the subjects of filter.
func count(ctx context.Context, js jetstream.JetStream, stream, filter string) (int, error) {
	st, err := js.Stream(ctx, stream)
	if err != nil {
		return 0, err
	}
	info, err := st.Info(ctx, jetstream.WithSubjectFilter(filter))
	if err != nil {
		return 0, err
	}
	n := uint64(0)
	for _, k := range info.State.Subjects {
		n += k
	}
	return int(n), nil
}

// Forget erases a project. It waits until every registered auditor has chained all existing entries,
// and enters the statement into the ledger. It waits until every stage has dropped its derived data and
// every auditor has destroyed its keys. It then deletes the entries from the streams and signs a record
// of each place. shards is the folder of sealed shards, records the folder of the record.
func (c *Config) Forget(ctx context.Context, signer note.Signer, project, reason, shards, records string,
	trust []byte) (*Record, error) {
	before, err := c.Survey(ctx, project, shards)
	if err != nil {
		return nil, err
	}
	if before.LegalHold != "" {
		return before, fmt.Errorf("%w: statement %s", ErrLegalHold, before.LegalHold)
	}
	js, err := jetstream.New(c.Conn)
	if err != nil {
		return nil, err
	}
	if !before.Found() {
		// Continue an earlier attempt that was interrupted.
		stated := false
		if err := scan(ctx, js, streams.LedgerSubject(streams.PartitionOf(project), streams.StageIngest), 1,
			func(h header) error {
				stated = stated || h.typ == streams.TypeForgotten && h.project == project
				return nil
			}); err != nil {
			return nil, err
		}
		if !stated {
			return nil, fmt.Errorf("nothing of a project %s is in the streams or in the log: check the name", project)
		}
	}
	end, err := erasableLedger(ctx, js)
	if err != nil {
		return nil, err
	}
	if err := c.awaitAuditors(ctx, js, end); err != nil {
		return nil, err
	}
	writers, err := c.writers(ctx, js)
	if err != nil {
		return nil, err
	}
	r := &Record{Project: project}
	order, err := orderOn(ctx, js, project)
	if err != nil {
		return nil, err
	}
	order.Reason, r.upTo = reason, order.UpTo
	if r.Statement, r.Entry, err = c.state(ctx, signer, order); err != nil {
		return nil, err
	}
	acks, last, err := c.awaitDropped(ctx, js, project, r, writers)
	if err != nil {
		return nil, err
	}
	if err := c.awaitAuditors(ctx, js, last); err != nil {
		return nil, err
	}
	// Delete the entries that the order covers. Also delete the entries that other stages derived
	// from them before those stages dropped their derived data.
	covered := func(h header) bool {
		return h.seq <= r.upTo || h.stage != streams.StageIngest && position.Sequence(h.src) <= r.upTo &&
			(acks[h.stage] == 0 || h.seq < acks[h.stage])
	}
	if err := c.carryOut(ctx, js, r, &erasure{writers: writers, acks: acks, ledger: covered,
		// Keep the copies of entries that came after the statement.
		live:    func(seq uint64) bool { return seq <= r.Entry },
		dropped: "derived data; its files were rewritten", waiting: "derived data",
		payloads: "payloads, their keys destroyed", destroyed: "destroyed the keys", statements: []string{r.Statement},
		log: func(l *inquiry.Log) (gone, left int, err error) {
			if left, _, err = l.Holding(ctx, project, r.upTo+1); err == nil {
				gone, err = l.Gone(ctx, project)
			}
			return gone, left, err
		},
		shards: func(l *inquiry.Log) ([]string, error) { return l.ShardsOf(ctx, shards, project) }, trust: trust,
	}); err != nil {
		return nil, err
	}
	return r, c.sign(r, signer, records)
}

// An erasure is an order that all auditors and all stages that are not late have carried out.
type erasure struct {
	writers []string
	acks    map[string]uint64     // the reports of the stages, see awaitDropped
	ledger  func(h header) bool   // reports whether a ledger entry is deleted
	live    func(seq uint64) bool // reports whether the live copy of a ledger message is deleted
	dropped string                // Place.What for the state of a stage that has reported
	waiting string                // Place.What for the state of a stage that has not reported
	// payloads is Place.What for the log. destroyed says what auditors did with the payloads.
	payloads, destroyed string
	statements          []string
	log                 func(l *inquiry.Log) (gone, left int, err error) // counts the payloads
	shards              func(l *inquiry.Log) ([]string, error)           // the sealed shards that contain payloads
	trust               []byte
}

// carryOut deletes from the streams what the stages and auditors have dropped, and has the server overwrite it in its
// files. It verifies that the payloads in the log are unreadable, rewrites sealed shards without them, and erases
// folders. It adds all places to the record.
func (c *Config) carryOut(ctx context.Context, js jetstream.JetStream, r *Record, e *erasure) error {
	if err := c.deleteWhere(ctx, js, r, e.writers, e.ledger); err != nil {
		return err
	}
	if err := deleteLive(ctx, js, r, e.live); err != nil {
		return err
	}
	if err := c.awaitIntake(ctx, js, r); err != nil {
		return err
	}
	if err := c.eraseFiles(ctx, r); err != nil {
		return err
	}
	for _, s := range e.writers {
		if e.acks[s] > 0 {
			r.put(stateOf+s, e.dropped, 1, "")
		} else {
			r.put(stateOf+s, e.waiting, 0, "the stage has not reported that it removed the data")
		}
	}
	c.awaited = "the check of the log"
	err := c.Log(ctx, func(l *inquiry.Log) error {
		gone, left, err := e.log(l)
		if err != nil {
			return err
		}
		why := ""
		if left > 0 {
			why = fmt.Sprintf("%d payloads can still be read", left)
		}
		r.put("the log", e.payloads, gone, why)
		auditors, err := c.auditorPlaces(ctx, "has signed the log including the statement, so the auditor has "+
			e.destroyed, e.statements, r.Entry)
		if err != nil {
			return err
		}
		r.Places = append(r.Places, auditors...)
		shards, err := e.shards(l)
		if err != nil {
			return err
		}
		return remake(ctx, l, r, shards, e.trust)
	})
	if err != nil {
		return err
	}
	files, err := c.folders(Subject{r.Project, r.DataSubject}, true)
	r.Places = append(r.Places, files...)
	return err
}

// maxRanges is the limit of an order's list of ranges, in bytes. Above it, neighboring ranges are
// joined and include the sequences between them.
const maxRanges = 64 << 10

// orderOn returns an order to erase the entries that the ledger holds of a project now.
func orderOn(ctx context.Context, js jetstream.JetStream, project string) (c streams.Custody, err error) {
	c = streams.Custody{Do: streams.DoForget, Project: project}
	var seqs []uint64
	for range 2 { // reading takes long; the second pass reads only new entries
		st, err := js.Stream(ctx, streams.LedgerStream)
		if err != nil {
			return c, err
		}
		from := c.UpTo + 1
		c.UpTo = st.CachedInfo().State.LastSeq
		if err := scan(ctx, js, streams.LedgerFilter(streams.PartitionOf(project)), from, func(h header) error {
			if h.project == project && !kept(h.typ) && h.seq <= c.UpTo {
				seqs = append(seqs, h.seq)
			}
			return nil
		}); err != nil {
			return c, err
		}
	}
	c.Ranges = streams.Widen(streams.Ranges(seqs), maxRanges)
	return c, nil
}

// sign signs the record and writes it to a file.
func (c *Config) sign(r *Record, signer note.Signer, records string) error {
	now := time.Now()
	signed, err := note.Sign(&note.Note{Text: r.text(now)}, signer)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(records, 0o700); err != nil {
		return err
	}
	r.File = filepath.Join(records, r.Statement+".note")
	return os.WriteFile(r.File, signed, 0o600)
}

// awaitDropped waits until every stage has reported that it dropped its derived data. It returns the
// ledger sequence of each report. It adds stages that do not report in time to the record.
func (c *Config) awaitDropped(ctx context.Context, js jetstream.JetStream, project string, r *Record,
	writers []string) (map[string]uint64, uint64, error) {
	filter := streams.LedgerFilter(streams.PartitionOf(project))
	told := false
	c.awaited = "the stages to drop what they derived"
	wait, cancel := context.WithTimeout(ctx, dropTimeout)
	defer cancel()
	for {
		acks, last := make(map[string]uint64), r.Entry
		err := stage.Each(ctx, js, stage.Span{Stream: streams.LedgerStream, Filters: []string{filter}, From: r.Entry},
			func(m jetstream.Msg, seq uint64, at time.Time) error {
				e, err := streams.ParseEntry(m.Subject(), m.Headers(), m.Data(), seq, at)
				if err != nil || e.Type != streams.TypeDropped || e.Project != project {
					return nil
				}
				b := new(streams.DroppedEntry)
				if streams.Unmarshal(e.Body, b) == nil && b.Statement == r.Statement && acks[e.Stage] == 0 {
					acks[e.Stage], last = seq, max(last, seq)
				}
				return nil
			})
		if err != nil {
			return nil, 0, err
		}
		missing := slices.DeleteFunc(slices.Clone(writers), func(s string) bool { return acks[s] > 0 })
		if len(missing) == 0 {
			return acks, last, nil
		}
		if !told {
			c.tell("waiting at most %s for stages to drop derived data: %s; name stages that no longer exist "+
				"with --without", dropTimeout, strings.Join(missing, ", "))
			told = true
		}
		select {
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		case <-wait.Done():
			return acks, last, nil
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// dropTimeout is how long a stage may take to drop its derived data.
const dropTimeout = 2 * time.Minute

// deleteWhere deletes those of the project's ledger entries for which deletes returns true. The last entry of each
// stage stays. It is the stage's fence: the server accepts the stage's next entry only if the fence is still the last
// message on its subject.
func (c *Config) deleteWhere(ctx context.Context, js jetstream.JetStream, r *Record, writers []string,
	deletes func(header) bool) error {
	c.awaited = "the deletion of the entries"
	st, err := js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		return err
	}
	p := streams.PartitionOf(r.Project)
	fences := make(map[string]uint64)
	var gone []header
	err = scan(ctx, js, streams.LedgerFilter(p), 1, func(h header) error {
		if h.stage != streams.StageJoint { // not a fence: no stage publishes on condition of this subject's last message
			fences[h.stage] = h.seq
		}
		if h.project == r.Project && !kept(h.typ) && deletes(h) {
			gone = append(gone, h)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.deleteFrom(ctx, st, r, gone, fences, writers)
}

// deleteFrom deletes ledger entries, except the last one of each stage, which is its fence (see deleteWhere).
func (c *Config) deleteFrom(ctx context.Context, st jetstream.Stream, r *Record, gone []header,
	fences map[string]uint64, writers []string) error {
	p := streams.PartitionOf(r.Project)
	n := make(map[string]int)
	left := make(map[string]string)
	for _, h := range gone {
		if fences[h.stage] == h.seq {
			left[h.stage] = fmt.Sprintf(
				"entry %d is the last one of %s in partition %d, which the stage still needs: repeat the command when the stage "+
					"has written another entry there", h.seq, h.stage, p)
			continue
		}
		stages, err := stagesIn(ctx, st, h)
		if err != nil {
			return err
		}
		if err := st.SecureDeleteMsg(ctx, h.seq); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return fmt.Errorf("deleting ledger entry %d: %w", h.seq, err)
		}
		for _, s := range stages {
			n[s]++
		}
	}
	for _, s := range writers {
		r.put(streams.LedgerStream, "entries of "+s+", deleted", n[s], left[s])
		delete(left, s)
	}
	for s, why := range left {
		r.put(streams.LedgerStream, "entries of "+s, 0, why)
	}
	return nil
}

// deleteLive deletes the live copies of the project's ledger messages for which of returns true.
func deleteLive(ctx context.Context, js jetstream.JetStream, r *Record, of func(seq uint64) bool) error {
	st, err := js.Stream(ctx, streams.LiveStream)
	if err != nil {
		return err
	}
	n := 0
	err = liveCopies(ctx, js, r.Project, of, func(seq uint64) error {
		n++
		if err := st.SecureDeleteMsg(ctx, seq); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return fmt.Errorf("deleting live copy %d: %w", seq, err)
		}
		return nil
	})
	r.put(streams.LiveStream, "live copies, deleted", n, "")
	return err
}

// liveCopies calls fn for the project's messages in the live stream that are copies of ledger messages for which of
// returns true.
func liveCopies(ctx context.Context, js jetstream.JetStream, project string, of func(seq uint64) bool,
	fn func(seq uint64) error) error {
	return stage.Each(ctx, js, stage.Span{Stream: streams.LiveStream, Filters: []string{"lz.live." + project + ".>"},
		Headers: true}, func(m jetstream.Msg, seq uint64, _ time.Time) error {
		at, _ := strconv.ParseUint(m.Headers().Get(streams.HeaderSeq), 10, 64)
		if !of(position.Sequence(at)) {
			return nil
		}
		return fn(seq)
	})
}

// awaitIntake waits until ingest has purged the intake messages that it decided on before the
// statement.
func (c *Config) awaitIntake(ctx context.Context, js jetstream.JetStream, r *Record) error {
	src := uint64(0)
	err := scan(ctx, js, streams.LedgerSubject(streams.PartitionOf(r.Project), streams.StageIngest), r.Entry,
		func(h header) error {
			if h.seq == r.Entry {
				src = position.Sequence(h.src)
			}
			return nil
		})
	if err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, dropTimeout)
	defer cancel()
	for {
		st, err := js.Stream(ctx, streams.IntakeStream)
		if err != nil {
			return err
		}
		s := st.CachedInfo().State
		if s.Msgs == 0 || s.FirstSeq > src {
			r.put(streams.IntakeStream, "events, purged by ingest", 0, "")
			return nil
		}
		select {
		case <-wait.Done():
			r.put(streams.IntakeStream, "events", 0, fmt.Sprintf("ingest has not purged the intake up to message %d: its "+
				"first message is still %d", src, s.FirstSeq))
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// remake rewrites sealed shards from the readable part of the log.
func remake(ctx context.Context, l *inquiry.Log, r *Record, files []string, trust []byte) error {
	for _, f := range files {
		left := ""
		if err := l.Remake(ctx, f, trust); errors.Is(err, chain.ErrRange) {
			left = err.Error()
		} else if err != nil {
			return err
		}
		r.put(f, "a sealed shard, made anew without the payloads", 1, left)
	}
	return nil
}

// erasableLedger returns the sequence of the ledger's last entry, or an error if entries cannot be erased.
func erasableLedger(ctx context.Context, js jetstream.JetStream) (end uint64, err error) {
	st, err := js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		return 0, err
	}
	if st.CachedInfo().Config.DenyDelete {
		return 0, fmt.Errorf("stream %s was created by an old version with deletion disabled, which cannot "+
			"be changed: its entries cannot be erased", streams.LedgerStream)
	}
	return st.CachedInfo().State.LastSeq, nil
}
