package retain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"lazaret/internal/inquiry"
	"lazaret/internal/stage"
	"lazaret/internal/wire"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// Trimming is the plan or result of removing old entries from the ledger.
type Trimming struct {
	// Before is the horizon: only older entries are removed.
	Before time.Time `json:"before"`
	// UpTo is the ledger sequence of the last entry that may be removed; 0 if there is none.
	UpTo uint64 `json:"up_to"`
	// Already is the ledger sequence up to which entries may have been removed before.
	Already uint64 `json:"already"`
	// Because names the limit of UpTo: the horizon or an auditor.
	Because string `json:"because"`
	// Auditor is the auditor that limits UpTo, or empty.
	Auditor string `json:"auditor,omitzero"`
	// Auditors maps each auditor to the ledger sequence up to which it has signed.
	Auditors map[string]uint64 `json:"auditors"`
	// Stages are the stages that must first store their state on disk, in every partition.
	Stages []string `json:"stages"`
	// Messages and Bytes are what was removed from the ledger. The last entry of each subject stays.
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
}

// PlanTrim returns what Trim would remove, and changes nothing.
func (c *Config) PlanTrim(ctx context.Context, before time.Time) (*Trimming, error) {
	js, err := jetstream.New(c.Conn)
	if err != nil {
		return nil, err
	}
	t := &Trimming{Before: before.UTC(), Because: "the horizon"}
	if t.Already, err = stage.Trimmed(ctx, js); err != nil {
		return nil, err
	}
	if t.UpTo, err = lastBefore(ctx, js, before); err != nil {
		return nil, err
	}
	if t.Auditors, err = c.chained(ctx, js); err != nil {
		return nil, err
	}
	if len(t.Auditors) == 0 {
		return nil, errors.New("the trust file pins no auditor's key, so no auditor is known to have chained the " +
			"entries to be removed: pin the key of a running auditor with the role auditor")
	}
	for name, at := range t.Auditors {
		if at < t.UpTo {
			t.UpTo, t.Because, t.Auditor = at, "auditor "+name, name
		}
	}
	t.Stages, err = c.foldingStages(ctx, js)
	return t, err
}

// Trim removes ledger entries older than before that every registered auditor has chained and every
// stage and required group has folded. It first makes the stages confirm again that their state is on
// disk. The last entry of each subject stays. The rest of an interrupted trim is removed first.
//
// After the confirmations, entries are removed in steps. The entries of a step are verified to be in
// the log, announced in the ledger and removed, so that an interruption leaves at most one step
// incomplete.
func (c *Config) Trim(ctx context.Context, before time.Time) (*Trimming, error) {
	t, err := c.PlanTrim(ctx, before)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(c.Conn)
	if err != nil {
		return nil, err
	}
	st, err := stage.Stream(ctx, js, streams.LedgerStream)
	if err != nil {
		return nil, err
	}
	was := st.CachedInfo().State
	if was.LastSeq < t.Already {
		return nil, fmt.Errorf("%s ends at %d, but was trimmed up to %d: the stream was replaced",
			streams.LedgerStream, was.LastSeq, t.Already)
	}
	if t.Already > 0 {
		if err := purge(ctx, st, t.Already); err != nil {
			return nil, err
		}
	}
	if t.UpTo > t.Already {
		if err := c.trim(ctx, js, st, t); err != nil {
			return nil, err
		}
	} else {
		t.UpTo = 0
	}
	var now *jetstream.StreamInfo
	err = patiently(ctx, func(ctx context.Context) (err error) {
		now, err = st.Info(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	// Entries that were added meanwhile can only lower these counts.
	t.Messages = was.Msgs + (now.State.LastSeq - was.LastSeq) - now.State.Msgs
	if was.Bytes > now.State.Bytes {
		t.Bytes = was.Bytes - now.State.Bytes
	}
	return t, nil
}

// trimStep is the number of sequences that are verified, announced and removed in one step.
const trimStep = 25_000

// trim carries out a plan.
func (c *Config) trim(ctx context.Context, js jetstream.JetStream, st jetstream.Stream, t *Trimming) error {
	r := streams.Retention{ID: t.Before.Format("20060102T150405Z") + "-" + nuid.Next()[14:], UpTo: t.UpTo,
		Trimmed: t.Already, Before: t.Before}
	step := cmp.Or(c.step, trimStep)
	told := time.Now()
	return c.Log(ctx, func(l *inquiry.Log) error {
		for from := t.Already; from < t.UpTo; {
			to := min(from+step, t.UpTo)
			if err := checkInLog(ctx, l, from, to); err != nil {
				return fmt.Errorf("nothing was removed after entry %d: %w", from, err)
			}
			if from == t.Already {
				if err := c.secure(ctx, js, t, &r); err != nil {
					return errors.Join(err, c.withdraw(ctx, js, r))
				}
			}
			gone := r
			gone.UpTo, gone.Trimmed = to, to
			if _, err := c.announce(ctx, js, 0, streams.TypeTrimmed, &gone); err != nil {
				return err
			}
			if err := purge(ctx, st, to); err != nil {
				return fmt.Errorf("%w: run the command again; it continues from entry %d", err, from)
			}
			if from = to; time.Since(told) > tellEvery && from < t.UpTo {
				told = time.Now()
				c.tell("trimmed up to %d of %d", from, t.UpTo)
			}
		}
		return nil
	})
}

// tellEvery is the interval of progress messages.
const tellEvery = 10 * time.Second

// checkInLog verifies that the log has the entries to be removed, because no other copy will remain.
func checkInLog(ctx context.Context, l *inquiry.Log, from, to uint64) error {
	n, err := l.Missing(ctx, from, to)
	if err != nil {
		return fmt.Errorf("reading the log's entries up to %d: %w", to, err)
	}
	if n > 0 {
		return fmt.Errorf("this log lacks the payloads of %d of the entries to be removed; run the command at the "+
			"auditor that has them", n)
	}
	return nil
}

// secure makes every stage confirm that its state is on disk, in every partition.
func (c *Config) secure(ctx context.Context, js jetstream.JetStream, t *Trimming, r *streams.Retention) error {
	var fences [streams.Partitions]uint64
	for p := range streams.Partitions {
		seq, err := c.announce(ctx, js, p, streams.TypeTrim, r)
		if err != nil {
			return err
		}
		fences[p] = seq
	}
	return c.awaitSecured(ctx, js, r, t.Stages, &fences)
}

// withdraw takes back the announcement of the first trim, so that ingest accepts erasures of single data
// subjects again. It writes nothing in a partition that the announcement did not reach.
func (c *Config) withdraw(ctx context.Context, js jetstream.JetStream, r streams.Retention) error {
	if r.Trimmed > 0 {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	r.UpTo = 0
	for p := range streams.Partitions {
		m, err := stage.LastOn(ctx, js, streams.LedgerStream, streams.LedgerSubject(p, streams.StageRetention))
		if err != nil {
			return fmt.Errorf("withdrawing the announcement of the trim: %w", err)
		}
		if m == nil {
			continue
		}
		e, err := wire.RawEntry(m)
		if err != nil {
			continue
		}
		if b, err := streams.ReadRetention(&e); err != nil || b.ID != r.ID {
			continue
		}
		if _, err := c.announce(ctx, js, p, streams.TypeTrim, &r); err != nil {
			return fmt.Errorf("withdrawing the announcement of the trim: %w", err)
		}
	}
	return nil
}

// announce writes an entry of the retention stage after its previous one. If two processes trim at the same
// time, one write fails.
func (c *Config) announce(ctx context.Context, js jetstream.JetStream, partition int, typ streams.Type,
	r *streams.Retention) (uint64, error) {
	subject := streams.LedgerSubject(partition, streams.StageRetention)
	last := uint64(0)
	if m, err := stage.LastOn(ctx, js, streams.LedgerStream, subject); err != nil {
		return 0, err
	} else if m != nil {
		last = m.Sequence
		// Another process may have trimmed further since the plan was made.
		var b *streams.Retention
		e, err := wire.RawEntry(m)
		if err == nil {
			b, err = streams.ReadRetention(&e)
		}
		switch {
		case err != nil:
			c.tell("the last announcement of a trim cannot be read and was ignored: %v", err)
		case typ == streams.TypeTrim && partition == 0 && b.Trimmed != r.Trimmed || typ == streams.TypeTrimmed &&
			b.ID != r.ID:
			return 0, errors.New("another process is trimming the ledger: try again when it has finished")
		}
	}
	body, err := streams.Marshal(r)
	if err != nil {
		return 0, err
	}
	e := streams.Entry{Partition: partition, Stage: streams.StageRetention, Type: typ, Project: streams.SystemProject,
		Salt: streams.NewSalt(), Body: body}
	m := wire.Msg(&e)
	m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(last, 10)}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	ack, err := js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0))
	if err != nil {
		return 0, fmt.Errorf("writing to %s: %w", subject, err)
	}
	return ack.Sequence, nil
}

// awaitSecured waits until every stage has confirmed in every partition.
func (c *Config) awaitSecured(ctx context.Context, js jetstream.JetStream, r *streams.Retention, stages []string,
	from *[streams.Partitions]uint64) error {
	told, quiet := false, time.Now()
	missing := make(map[string][]int)
	next := slices.Min(from[:]) + 1
	for _, s := range stages {
		for p := range streams.Partitions {
			missing[s] = append(missing[s], p)
		}
	}
	for {
		err := stage.Each(ctx, js, stage.Span{Stream: streams.LedgerStream,
			Filters: []string{streams.LedgerStageFilter("*")}, From: next},
			func(m jetstream.Msg, seq uint64, at time.Time) error {
				next = seq + 1
				if m.Headers().Get(streams.HeaderType) != string(streams.TypeSecured) {
					return nil
				}
				e, err := streams.ParseEntry(m.Subject(), m.Headers(), m.Data(), seq, at)
				if err != nil {
					return nil
				}
				b := new(streams.SecuredEntry)
				if streams.Unmarshal(e.Body, b) == nil && b.ID == r.ID && b.Folded >= r.UpTo {
					missing[e.Stage] = slices.DeleteFunc(missing[e.Stage], func(p int) bool { return p == e.Partition })
					quiet = time.Now()
				}
				return nil
			})
		if err != nil && ctx.Err() == nil { // name the missing stages also if the timeout occurred during a read
			return err
		}
		var who []string
		for s, ps := range missing {
			if len(ps) > 0 && slices.Contains(stages, s) {
				who = append(who, fmt.Sprintf("%s in %d of %d partitions", s, len(ps), streams.Partitions))
			}
		}
		if len(who) == 0 {
			return nil
		}
		sort.Strings(who)
		if !told {
			c.tell("waiting for stages to confirm that their state is on disk: %s", strings.Join(who, ", "))
			told = true
		}
		late := func(err error) error {
			return fmt.Errorf("nothing was removed: these stages have not confirmed that their state is on disk: %s; "+
				"if they run, repeat the trim; start those that do not, or name stages that no longer exist with --without: %w",
				strings.Join(who, ", "), err)
		}
		if wait := cmp.Or(c.Wait, stagesWait); time.Since(quiet) > wait {
			return late(fmt.Errorf("there was no answer for %s", wait))
		}
		select {
		case <-ctx.Done():
			return late(ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// foldingStages returns the stages that must have folded entries before these entries are removed. These are ingest,
// the arbiter, each stage that ever wrote to the ledger, and the groups that the current policy requires, even if a
// group has not written yet. The stages in Without are left out.
func (c *Config) foldingStages(ctx context.Context, js jetstream.JetStream) ([]string, error) {
	out, err := c.writers(ctx, js)
	if err != nil {
		return nil, err
	}
	out = append(out, streams.StageIngest, streams.StageArbiter)
	err = c.Log(ctx, func(l *inquiry.Log) error {
		text, err := l.Policy(ctx)
		if err != nil || text == nil {
			return err
		}
		p, err := policy.Compile("the policy in force", text)
		if err != nil {
			return err
		}
		for _, g := range p.Groups {
			out = append(out, streams.SentinelStage(g.Name))
		}
		return nil
	})
	out = slices.DeleteFunc(out, func(s string) bool { return slices.Contains(c.Without, s) })
	sort.Strings(out)
	return slices.Compact(out), err
}

// lastBefore returns the sequence of the last entry that is older than before.
func lastBefore(ctx context.Context, js jetstream.JetStream, before time.Time) (uint64, error) {
	st, err := js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		return 0, fmt.Errorf("looking up stream %s: %w", streams.LedgerStream, err)
	}
	s := st.CachedInfo().State
	if s.Msgs == 0 || s.LastTime.Before(before) {
		return s.LastSeq, nil
	}
	c, err := st.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartTimePolicy,
		OptStartTime: &before, HeadersOnly: true})
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", streams.LedgerStream, err)
	}
	m, err := c.Next(jetstream.FetchMaxWait(10 * time.Second))
	if err != nil {
		return 0, fmt.Errorf("looking for the first entry from %s on: %w", before.Format(time.RFC3339), err)
	}
	md, err := m.Metadata()
	if err != nil {
		return 0, err
	}
	return md.Sequence.Stream - 1, nil
}

// purgeStep is the number of sequences that are purged with one request per subject. The stream takes
// no messages during such a request.
const purgeStep = 50_000

// purge removes the entries up to a sequence, except the last entry of each subject, which is its writer's fence (see
// deleteWhere). Every running stage has just written to all of its subjects, so usually a single cheap request removes
// everything. Entries after the fence of a stage that no longer exists are purged per subject.
func purge(ctx context.Context, st jetstream.Stream, upTo uint64) error {
	info, fences, all, err := fencesOf(ctx, st, upTo)
	if err != nil {
		return err
	}
	if all > info.State.FirstSeq {
		err := patiently(ctx, func(ctx context.Context) error { return st.Purge(ctx, jetstream.WithPurgeSequence(all)) })
		if err != nil {
			return fmt.Errorf("trimming up to %d: %w", all-1, err)
		}
	}
	for all <= upTo {
		all = min(all+purgeStep, upTo+1)
		for subject, last := range fences {
			err := patiently(ctx, func(ctx context.Context) error {
				return st.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(min(all, last)))
			})
			if err != nil {
				return fmt.Errorf("trimming %s up to %d: %w", subject, all-1, err)
			}
		}
	}
	return nil
}

// fencesOf returns the last entry of each subject, which stays, and the sequence below which there is no
// such entry.
func fencesOf(ctx context.Context, st jetstream.Stream, upTo uint64) (info *jetstream.StreamInfo,
	fences map[string]uint64, all uint64, err error) {
	err = patiently(ctx, func(ctx context.Context) (err error) {
		info, err = st.Info(ctx, jetstream.WithSubjectFilter("lz.ledger.*.*"))
		return err
	})
	if err != nil {
		return nil, nil, 0, err
	}
	fences = make(map[string]uint64)
	all = upTo + 1 // everything below it is removed
	for subject := range info.State.Subjects {
		if _, stage, err := streams.ParseLedger(subject); err == nil && stage == streams.StageJoint {
			fences[subject] = math.MaxUint64 // not a fence: no stage publishes on condition of this subject's last message
			continue
		}
		var last *jetstream.RawStreamMsg
		err := patiently(ctx, func(ctx context.Context) (err error) {
			last, err = st.GetLastMsgForSubject(ctx, subject)
			return err
		})
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return nil, nil, 0, fmt.Errorf("the last entry on %s: %w", subject, err)
		}
		fences[subject] = last.Sequence
		all = min(all, last.Sequence)
	}
	return info, fences, all, nil
}

// requestTimeout is the limit for one request, and requestTries the number of attempts. The server
// continues a purge even if its reply is late.
const (
	requestTimeout = time.Minute
	requestTries   = 5
)

// patiently makes a request that the server may answer late and that may be repeated.
func patiently(ctx context.Context, ask func(ctx context.Context) error) (err error) {
	for range requestTries {
		short, cancel := context.WithTimeout(ctx, requestTimeout)
		err = ask(short)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
	}
	return err
}
