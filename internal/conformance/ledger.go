package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/wire"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// record is a received ledger message.
type record struct {
	streams.Entry
	header nats.Header
	bad    error // why it is not a valid entry
}

// ledger has all entries of the ledger so far.
type ledger struct {
	mu   sync.Mutex
	recs []record // guarded by mu; index is the ledger sequence minus 1
}

// follow fills a ledger from the stream until stop is called.
func follow(ctx context.Context, js jetstream.JetStream) (l *ledger, stop func(), err error) {
	l = new(ledger)
	cons, err := js.OrderedConsumer(ctx, streams.LedgerStream, jetstream.OrderedConsumerConfig{MaxResetAttempts: -1})
	if err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", streams.LedgerStream, err)
	}
	cc, err := cons.Consume(func(m jetstream.Msg) {
		entries, bad := wire.Entries(m)
		l.mu.Lock()
		for _, e := range entries {
			l.recs = append(l.recs, record{Entry: e, header: m.Headers(), bad: bad})
		}
		l.mu.Unlock()
	})
	if err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", streams.LedgerStream, err)
	}
	return l, cc.Stop, nil
}

// all returns the current records. The caller must not modify them.
func (l *ledger) all() []record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clip(l.recs)
}

// find returns the index of the record at a position, or -1.
func find(recs []record, at uint64) int {
	i, ok := slices.BinarySearchFunc(recs, at, func(r record, at uint64) int { return position.Compare(r.Position(), at) })
	if !ok {
		return -1
	}
	return i
}

// head has the fields that all bodies of ingest share.
type head struct {
	ID     string `json:"id"`
	Intake uint64 `json:"intake"`
}

// name returns a description by which a person can find the entry.
func (r *record) name() string {
	s := fmt.Sprintf("entry %d", r.Seq)
	if r.Stage != streams.StageIngest {
		return s
	}
	var h head
	if streams.Unmarshal(r.Body, &h) == nil && h.ID != "" {
		s += fmt.Sprintf(" (%s %s of %s, partition %d)", r.Type, h.ID, r.Project, r.Partition)
	}
	return s
}

// maxFaults is the maximum number of faults of one kind that are described.
const maxFaults = 3

// faults counts faults and describes the first ones.
type faults struct {
	list []string
	n    int
}

func (f *faults) add(format string, args ...any) {
	if f.n++; f.n <= maxFaults {
		f.list = append(f.list, fmt.Sprintf(format, args...))
	}
}

// told returns one error for all kinds of faults, or nil.
func told(kinds ...*faults) error {
	var all []string
	for _, f := range kinds {
		if all = append(all, f.list...); f.n > maxFaults {
			all = append(all, fmt.Sprintf("and %d more of this kind", f.n-maxFaults))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return errors.New(strings.Join(all, "; "))
}

// order checks that a group answered every proposal after the position from exactly once, and that its entries are in
// the order of their source entries.
func order(recs []record, stage string, from uint64) (proposals int, err error) {
	var gaps, doubles, disorder faults
	var last [streams.Partitions]*record
	answers := make(map[uint64][]uint64) // by proposal
	for i := range recs {
		r := &recs[i]
		if r.bad != nil || r.Stage != stage {
			continue
		}
		if p := last[r.Partition]; p != nil && position.Compare(r.Src, p.Src) <= 0 && r.Seq > from {
			disorder.add("entry %d was made from entry %d, after entry %d from entry %d: an answer must prove that all "+
				"earlier entries were judged, so Lz-Src must only grow", r.Seq, r.Src, p.Seq, p.Src)
		}
		last[r.Partition] = r
		if r.Type == streams.TypeAssessment {
			answers[r.Src] = append(answers[r.Src], r.Seq)
		}
	}
	for i := range recs {
		r := &recs[i]
		if !isProposal(r) || r.Seq <= from {
			continue
		}
		proposals++
		switch a := answers[r.Seq]; {
		case len(a) == 0:
			gaps.add("%s has no assessment", r.name())
		case len(a) > 1:
			doubles.add("%s has %d assessments: entries %s", r.name(), len(a), join(a))
		}
	}
	return proposals, told(&gaps, &doubles, &disorder)
}

// unanswered returns the number of proposals after from without an assessment.
func unanswered(recs []record, stage string, from uint64) int {
	answered := make(map[uint64]bool)
	n := 0
	for i := len(recs) - 1; i >= 0; i-- {
		switch r := &recs[i]; {
		case r.Seq <= from:
			return n
		case r.bad != nil:
		case r.Stage == stage && r.Type == streams.TypeAssessment:
			answered[r.Src] = true
		case isProposal(r) && !answered[r.Seq]:
			n++
		}
	}
	return n
}

func isProposal(r *record) bool {
	return r.bad == nil && r.Stage == streams.StageIngest && r.Type.Proposal()
}

func join(seqs []uint64) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(seqs), " ", ", "), "[]")
}

// The valid values in an alert.
var (
	severities = []string{"info", "low", "medium", "high", "critical"}
	effects    = append([]string{"alert", "hold", "deny", "restrict", "quarantine"}, streams.TextEffects()...)
	modes      = []string{"enforce", "shadow"}
)

// finding is the body of both types of entries that a group writes.
type finding struct {
	Group   string           `json:"group"`
	Digest  string           `json:"digest"`
	Verdict *streams.Verdict `json:"verdict"`
	Alerts  []streams.Alert  `json:"alerts"`
}

// form checks the headers and bodies of a group's entries. digest is the digest that its answers must
// have; an empty digest is not compared.
func form(recs []record, group, digest string) (entries int, err error) {
	var f faults
	stage := streams.SentinelStage(group)
	salts := make(map[[streams.SaltSize]byte]uint64)
	for i := range recs {
		r := &recs[i]
		if r.Stage != stage {
			continue
		}
		entries++
		if r.bad != nil {
			f.add("%v", r.bad)
			continue
		}
		at := func(format string, args ...any) { f.add("entry %d: %s", r.Seq, fmt.Sprintf(format, args...)) }
		if was, ok := salts[r.Salt]; ok {
			at("it has the %s of entry %d: draw 16 random bytes for each", streams.HeaderSalt, was)
		}
		salts[r.Salt] = r.Seq
		// The commit message of an atomic batch has no fence; the batch's first message has it.
		if r.header.Get(jetstream.ExpectedLastSubjSeqHeader) == "" && r.header.Get("Nats-Batch-Id") == "" {
			at("it was published without %s: a second process would double it", jetstream.ExpectedLastSubjSeqHeader)
		}
		i := find(recs, r.Src)
		if i < 0 || position.Compare(r.Src, r.Position()) >= 0 {
			at("%s is %d, want the ledger position of an entry before it", streams.HeaderSrc, r.Src)
			continue
		}
		src := &recs[i]
		if src.bad != nil || src.Stage != streams.StageIngest || src.Partition != r.Partition {
			at("%s names %s, which is not an entry of %s", streams.HeaderSrc, src.name(), streams.LedgerSubject(r.Partition,
				streams.StageIngest))
			continue
		}
		if src.Project != r.Project {
			at("%s is %q, but its source is of %q", streams.HeaderProject, r.Project, src.Project)
		}
		var b finding
		if err := streams.Unmarshal(r.Body, &b); err != nil {
			at("the body is no %s: %v", r.Type, err)
			continue
		}
		if b.Group != group {
			at("group is %q, want %q", b.Group, group)
		}
		if digest != "" && b.Digest != digest {
			at("digest is %q, the policy pins %q: the group counts as silent", b.Digest, digest)
		}
		switch {
		case r.Type == streams.TypeAssessment && !isProposal(src):
			at("it assesses %s, which is not a proposal", src.name())
		case r.Type == streams.TypeAssessment && b.Verdict == nil:
			at("the assessment has no verdict: write allow, hold or deny")
		case r.Type == streams.TypeAlerts && isProposal(src):
			at("alerts on a proposal belong into its assessment")
		case r.Type != streams.TypeAssessment && r.Type != streams.TypeAlerts:
			at("%s is %q, a group writes assessment and alerts", streams.HeaderType, r.Type)
		}
		for _, a := range b.Alerts {
			oneOf := func(what, got string, want []string) {
				if !slices.Contains(want, got) {
					at("alert %q: %s is %q, use one of %s", a.ID, what, got, strings.Join(want, ", "))
				}
			}
			oneOf("severity", a.Severity, severities)
			oneOf("effect", a.Effect, effects)
			oneOf("mode", a.Mode, modes)
			for what, id := range map[string]string{"alert id": a.ID, "rule": a.Rule} {
				if err := streams.CheckID(what, id); err != nil {
					at("%v", err)
				}
			}
			if a.Group != group || a.Project != r.Project {
				at("alert %q: group %q and project %q, want %q and %q", a.ID, a.Group, a.Project, group, r.Project)
			}
		}
	}
	return entries, told(&f)
}
