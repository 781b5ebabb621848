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

// stagesIn returns the stage of each entry of a joint frame, or the one stage of any other ledger
// message. It returns none if the message is gone.
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
	r.Places = append(r.Places, Place{Where: streams.LiveStream, What: "live copies", Count: live},
		Place{Where: streams.IntakeStream, What: "events that wait", Count: in})
	writers, err := c.writers(ctx, js)
	if err != nil {
		return nil, err
	}
	for _, s := range writers {
		r.Places = append(r.Places,
			Place{Where: stateOf + s,
				What:  "derived data (beliefs, signals, proposals, holds and the like), written anew without this data",
				Count: 1})
	}
	err = c.Log(ctx, func(l *inquiry.Log) error {
		n, held, err := l.Holding(ctx, project, 0)
		if err != nil {
			return err
		}
		r.LegalHold = held
		r.Places = append(r.Places, Place{Where: "the log", What: "payloads, erased by destroying their " +
			"keys", Count: n})
		files, err := l.ShardsOf(ctx, shards, project)
		for _, f := range files {
			r.Places = append(r.Places, Place{Where: f, What: "a sealed shard that holds payloads, made anew without them",
				Count: 1})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	files, err := c.folders(Subject{Project: project}, false)
	r.Places = append(r.Places, files...)
	return r, err
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
	if err := c.deleteWhere(ctx, js, r, writers, covered); err != nil {
		return nil, err
	}
	if err := c.deleteLive(ctx, js, r); err != nil {
		return nil, err
	}
	if err := c.awaitIntake(ctx, js, r); err != nil {
		return nil, err
	}
	if err := c.eraseFiles(ctx, r); err != nil {
		return nil, err
	}
	for _, s := range writers {
		if acks[s] > 0 {
			r.Places = append(r.Places, Place{Where: stateOf + s, What: "derived data; its files were " +
				"rewritten", Count: 1})
		} else {
			r.Places = append(r.Places, Place{Where: stateOf + s, What: "derived data",
				Left: "the stage has not reported that it removed the data"})
		}
	}
	if err := c.checkLog(ctx, r, shards, trust); err != nil {
		return nil, err
	}
	files, err := c.folders(Subject{Project: project}, true)
	if err != nil {
		return nil, err
	}
	r.Places = append(r.Places, files...)
	return r, c.sign(r, signer, records)
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
// stage is its fence and stays.
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

// deleteFrom deletes ledger entries, except the last one of each stage, which is its fence.
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
		r.Places = append(r.Places, Place{Where: streams.LedgerStream, What: "entries of " + s + ", deleted", Count: n[s],
			Left: left[s]})
		delete(left, s)
	}
	for s, why := range left {
		r.Places = append(r.Places, Place{Where: streams.LedgerStream, What: "entries of " + s, Left: why})
	}
	return nil
}

// deleteLive deletes the project's messages from the live stream.
func (c *Config) deleteLive(ctx context.Context, js jetstream.JetStream, r *Record) error {
	st, err := js.Stream(ctx, streams.LiveStream)
	if err != nil {
		return err
	}
	n := 0
	err = stage.Each(ctx, js, stage.Span{Stream: streams.LiveStream, Filters: []string{"lz.live." + r.Project + ".>"},
		Headers: true}, func(m jetstream.Msg, seq uint64, _ time.Time) error {
		// Keep the copies of entries that came after the statement.
		at, _ := strconv.ParseUint(m.Headers().Get(streams.HeaderSeq), 10, 64)
		if position.Sequence(at) > r.Entry {
			return nil
		}
		n++
		if err := st.SecureDeleteMsg(ctx, seq); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return fmt.Errorf("deleting live copy %d: %w", seq, err)
		}
		return nil
	})
	r.Places = append(r.Places, Place{Where: streams.LiveStream, What: "live copies, deleted", Count: n})
	return err
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
			r.Places = append(r.Places, Place{Where: streams.IntakeStream, What: "events, purged by ingest"})
			return nil
		}
		select {
		case <-wait.Done():
			r.Places = append(r.Places, Place{Where: streams.IntakeStream, What: "events",
				Left: fmt.Sprintf("ingest has not purged the intake up to message %d: its first message is still %d", src,
					s.FirstSeq)})
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// checkLog verifies that the project's payloads in the log are unreadable. It rewrites sealed shards
// without them.
func (c *Config) checkLog(ctx context.Context, r *Record, shards string, trust []byte) error {
	return c.Log(ctx, func(l *inquiry.Log) error {
		n, _, err := l.Holding(ctx, r.Project, r.upTo+1)
		if err != nil {
			return err
		}
		gone, err := l.Gone(ctx, r.Project)
		if err != nil {
			return err
		}
		place := Place{Where: "the log", What: "payloads, their keys destroyed", Count: gone}
		if n > 0 {
			place.Left = fmt.Sprintf("%d payloads can still be read", n)
		}
		r.Places = append(r.Places, place)
		auditors, err := c.auditorPlaces(ctx, "has signed the log including the statement, so the auditor has "+
			"destroyed the keys", []string{r.Statement}, r.Entry)
		if err != nil {
			return err
		}
		r.Places = append(r.Places, auditors...)
		files, err := l.ShardsOf(ctx, shards, r.Project)
		if err != nil {
			return err
		}
		return remake(ctx, l, r, files, trust)
	})
}

// remake rewrites sealed shards from the readable part of the log.
func remake(ctx context.Context, l *inquiry.Log, r *Record, files []string, trust []byte) error {
	for _, f := range files {
		p := Place{Where: f, What: "a sealed shard, made anew without the payloads", Count: 1}
		if err := l.Remake(ctx, f, trust); errors.Is(err, chain.ErrRange) {
			p.Left = err.Error()
		} else if err != nil {
			return err
		}
		r.Places = append(r.Places, p)
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
