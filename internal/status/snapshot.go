package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/stage"
	"lazaret/internal/wire"
	"lazaret/streams"
)

// Snapshot is the state of a pipeline at one time, as reported by NATS and the stages.
type Snapshot struct {
	Time   time.Time `json:"time"`
	Intake Fill      `json:"intake"`
	Ledger Fill      `json:"ledger"`
	// Fullest is the intake subject with the most waiting messages. PerSubject is the limit of messages
	// per subject.
	Fullest    string `json:"fullest_subject,omitzero"`
	FullestHas uint64 `json:"fullest_subject_messages"`
	// Trimmed is the ledger sequence up to which entries may have been removed.
	Trimmed    uint64 `json:"ledger_trimmed,omitzero"`
	PerSubject int64  `json:"max_per_subject"`

	Partitions []Partition `json:"partitions"`
	Processes  []*Process  `json:"processes"`
	Silent     []Silent    `json:"silent,omitzero"`

	// Counts are the sums over all processes, each since its start.
	Counts map[string]uint64 `json:"counts"`
	Rates  *Rates            `json:"rates,omitzero"`
}

// Fill is the fill level of a stream.
type Fill struct {
	Messages uint64 `json:"messages"`
	First    uint64 `json:"first_seq"`
	Last     uint64 `json:"last_seq"`
	Bytes    uint64 `json:"bytes"`
	MaxBytes int64  `json:"max_bytes"` // 0: limited only by the disk
}

// Share returns Bytes/MaxBytes, or 0 without a limit.
func (f Fill) Share() float64 {
	if f.MaxBytes <= 0 {
		return 0
	}
	return float64(f.Bytes) / float64(f.MaxBytes)
}

// Partition has the number of waiting messages of a partition and the end of its part of the ledger.
type Partition struct {
	Partition int    `json:"partition"`
	Waiting   uint64 `json:"intake_messages"` // includes decided messages that are not purged yet
	Last      uint64 `json:"last_seq"`        // ledger sequence of the partition's last message; 0: none yet
}

// Silent is a stage of which no process answers, although it has written to the ledger. It does not run, or it is a
// third-party sentinel group.
type Silent struct {
	Stage string `json:"stage"`
	Last  uint64 `json:"last_seq"` // sequence of the stage's last entry
	Since uint64 `json:"entries_since"`
}

// Rates are per second, between two snapshots.
type Rates struct {
	Seconds   float64            `json:"seconds"`
	Intake    float64            `json:"intake_per_s"`
	Ledger    float64            `json:"ledger_per_s"`
	Verdicts  float64            `json:"verdicts_per_s"`
	Rejected  float64            `json:"rejected_per_s"`
	Processes map[string]float64 `json:"entries_per_s"` // processed entries, by process
}

// Collect queries the server and all stages.
func Collect(ctx context.Context, nc *nats.Conn) (_ *Snapshot, err error) {
	js := wire.JetStream(nc)
	s := &Snapshot{Time: time.Now().UTC(), Counts: make(map[string]uint64)}
	// Query the stages before the ledger. Otherwise a stage could appear to be ahead of the ledger.
	if s.Processes, err = processes(ctx, nc); err != nil {
		return nil, err
	}
	s.Partitions = make([]Partition, streams.Partitions)
	for p := range s.Partitions {
		s.Partitions[p].Partition = p
	}
	if err := s.intake(ctx, js); err != nil {
		return nil, err
	}
	wrote, err := s.ledger(ctx, js)
	if err != nil {
		return nil, err
	}
	for _, p := range s.Processes {
		for _, n := range p.Partitions {
			if n >= 0 && n < len(s.Partitions) && s.Partitions[n].Last > p.Folded {
				p.Behind = append(p.Behind, n)
			}
		}
		if len(p.Behind) > 0 {
			p.Lag = s.Ledger.Last - min(s.Ledger.Last, p.Folded)
		}
		for k, n := range p.Counts {
			s.Counts[k] += n
		}
	}
	return s, s.silent(ctx, js, wrote)
}

func fill(i *jetstream.StreamInfo) Fill {
	return Fill{Messages: i.State.Msgs, First: i.State.FirstSeq, Last: i.State.LastSeq, Bytes: i.State.Bytes,
		MaxBytes: max(i.Config.MaxBytes, 0)}
}

func (s *Snapshot) intake(ctx context.Context, js jetstream.JetStream) error {
	st, err := js.Stream(ctx, streams.IntakeStream)
	if err != nil {
		return fmt.Errorf("looking up stream %s: %w", streams.IntakeStream, err)
	}
	info, err := st.Info(ctx, jetstream.WithSubjectFilter(">"))
	if err != nil {
		return fmt.Errorf("looking into stream %s: %w", streams.IntakeStream, err)
	}
	s.Intake, s.PerSubject = fill(info), info.Config.MaxMsgsPerSubject
	for subject, n := range info.State.Subjects {
		a, _ := streams.ParseIntake(subject) // the server assigns the partition
		s.Partitions[a.Partition].Waiting += n
		if n > s.FullestHas || n == s.FullestHas && subject < s.Fullest {
			s.Fullest, s.FullestHas = subject, n
		}
	}
	return nil
}

// ledger sets the ledger's state and returns the stages that wrote to it.
func (s *Snapshot) ledger(ctx context.Context, js jetstream.JetStream) (wrote []string, err error) {
	st, err := js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		return nil, fmt.Errorf("looking up stream %s: %w", streams.LedgerStream, err)
	}
	info, err := st.Info(ctx, jetstream.WithSubjectFilter(">"))
	if err != nil {
		return nil, fmt.Errorf("looking into stream %s: %w", streams.LedgerStream, err)
	}
	s.Ledger = fill(info)
	has := make(map[int]bool)
	for subject := range info.State.Subjects {
		p, writer, err := streams.ParseLedger(subject)
		if err != nil {
			continue
		}
		has[p] = true
		writers := []string{writer}
		if writer == streams.StageJoint { // each joint frame has entries of ingest and the arbiter
			writers = []string{streams.StageIngest, streams.StageArbiter}
		}
		for _, w := range writers {
			if w != streams.StageRetention && !slices.Contains(wrote, w) {
				wrote = append(wrote, w)
			}
		}
	}
	for p := range has {
		m, err := st.GetLastMsgForSubject(ctx, streams.LedgerFilter(p))
		if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil, fmt.Errorf("the last entry of partition %d: %w", p, err)
		}
		if err == nil {
			s.Partitions[p].Last = m.Sequence
			s.Ledger.Last = max(s.Ledger.Last, m.Sequence)
		}
	}
	slices.Sort(wrote)
	s.Trimmed, err = stage.Trimmed(ctx, js)
	return wrote, err
}

// silent finds the stages of which no process answered.
func (s *Snapshot) silent(ctx context.Context, js jetstream.JetStream, wrote []string) error {
	for _, name := range append(wrote, StageAuditor) {
		if slices.ContainsFunc(s.Processes, func(p *Process) bool { return p.Stage == name }) {
			continue
		}
		x := Silent{Stage: name}
		if name != StageAuditor {
			wrote := false
			// Ingest and the arbiter may have entries in joint frames only, so read the joint frames for them too. A
			// joint frame need not have an entry of a sentinel group.
			filters := []string{streams.LedgerStageFilter(name)}
			if name == streams.StageIngest || name == streams.StageArbiter {
				filters = streams.StageFilters(name)
			}
			for _, filter := range filters {
				entries, err := stage.LastEntries(ctx, js, filter)
				if err != nil {
					return fmt.Errorf("the last entry of %s: %w", name, err)
				}
				for i := range entries {
					wrote, x.Last = true, max(x.Last, entries[i].Seq)
				}
			}
			if !wrote { // only messages that no stage wrote are on the stage's subject
				continue
			}
			x.Since = s.Ledger.Last - min(s.Ledger.Last, x.Last)
		}
		s.Silent = append(s.Silent, x)
	}
	return nil
}

// Since sets the rates since an earlier snapshot. A process that was started after that snapshot has no rate.
func (s *Snapshot) Since(before *Snapshot) {
	d := s.Time.Sub(before.Time).Seconds()
	if d <= 0 {
		return
	}
	per := func(now, then uint64) float64 { return float64(now-min(now, then)) / d }
	verdicts := func(c map[string]uint64) (n uint64) {
		for k, v := range c {
			switch strings.TrimPrefix(k, string(streams.TypeVerdict)+".") {
			case streams.Allow.String(), streams.Hold.String(), streams.Deny.String():
				n += v
			}
		}
		return n
	}
	r := &Rates{Seconds: d, Processes: make(map[string]float64), Intake: per(s.Intake.Last, before.Intake.Last),
		Ledger:   per(s.Ledger.Last, before.Ledger.Last),
		Verdicts: per(verdicts(s.Counts), verdicts(before.Counts)), Rejected: per(s.Counts[string(streams.TypeRejected)],
			before.Counts[string(streams.TypeRejected)])}
	for _, p := range s.Processes {
		for _, q := range before.Processes {
			if p.Process == q.Process && p.Stage == q.Stage && p.Entries >= q.Entries {
				r.Processes[p.Stage+" "+p.Process] = per(p.Entries, q.Entries)
			}
		}
	}
	s.Rates = r
}
