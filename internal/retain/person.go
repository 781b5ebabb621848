package retain

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/inquiry"
	"lazaret/internal/stage"
	"lazaret/streams"
)

// Subject names a project, or one data subject of a project as PROJECT/DATA-SUBJECT.
type Subject struct {
	Project string
	Person  string // pseudonym; empty: the whole project
}

// ParseSubject parses the form that String returns: PROJECT or PROJECT/DATA-SUBJECT.
func ParseSubject(s string) (Subject, error) {
	project, person, within := strings.Cut(s, "/")
	if err := streams.CheckID("project", project); err != nil {
		return Subject{}, err
	}
	if within {
		if err := streams.CheckID("data subject", person); err != nil {
			return Subject{}, err
		}
		if project == streams.SystemProject {
			return Subject{}, errors.New("the pipeline's own project concerns no data subject")
		}
	}
	return Subject{project, person}, nil
}

func (s Subject) String() string {
	if s.Person == "" {
		return s.Project
	}
	return s.Project + "/" + s.Person
}

// AlsoForgotten is an erased entry that concerns others besides the data subject.
type AlsoForgotten struct {
	Seq   uint64 `json:"ledger_seq"`
	Stage string `json:"stage"`
	Type  string `json:"type"`
	ID    string `json:"id,omitzero"`
	// Persons are the other data subjects that the entry concerns, as far as entries name them.
	Persons []string `json:"persons,omitzero"`
	Why     string   `json:"why"`
	// Person is the person whom the entry concerns: the data subject that it names, or the user if it names no data
	// subject. If it names neither, and a stage other than ingest made it, Person is the person whom the stage's input
	// concerns. Person is empty if that is the erased person.
	Person string `json:"-"`
}

// Decision reports whether the entry is a person's decision or a finding. Its effect ends with the
// erasure.
func (a *AlsoForgotten) Decision() bool {
	switch streams.Type(a.Type) {
	case streams.TypeConfirmation, streams.TypeIncident, streams.TypeOrder, streams.TypeRestore,
		streams.TypeDisclosure, streams.TypePoint, streams.TypeResolution,
		streams.TypeSilence:
		return true
	}
	return false
}

// An entry concerns a data subject if it names the pseudonym as data_subject or user, or if it was made from such an
// entry (src, except for timers, whose src only gives the time). It also concerns the data subject if it refers to
// something that such an entry introduced: its id, its position in the ledger, or the beliefs, findings and holds in
// it. A proposal and its verdicts are erased together. The rules apply transitively, so that no remaining entry refers
// to a removed one. They may select too much: an id counts wherever it occurs.

// computedAgain is Place.What for the state of a stage when one data subject is erased.
const computedAgain = "derived data: the state of the project's partition, computed again from the other entries"

// canFoldAnew returns the reason why a single data subject cannot be erased, or nil.
func canFoldAnew(ctx context.Context, js jetstream.JetStream, s Subject) error {
	trimmed, err := stage.Hole(ctx, js, 1)
	if err != nil {
		return err
	}
	if trimmed > 0 {
		return fmt.Errorf("%s: the ledger was trimmed up to %d, so no stage can compute the state of project %s again "+
			"without %s: erase the whole project (--subject %s), for which nothing is computed again", streams.CodeTrimmed,
			trimmed, s.Project, s.Person, s.Project)
	}
	return nil
}

// SurveyPerson returns what the erasure of one data subject would remove, and changes nothing.
func (c *Config) SurveyPerson(ctx context.Context, s Subject, shards string) (*Record, error) {
	c.awaited = "the search of the ledger"
	js, err := jetstream.New(c.Conn)
	if err != nil {
		return nil, err
	}
	if err := canFoldAnew(ctx, js, s); err != nil {
		return nil, err
	}
	t := newTrace(s)
	if err := t.follow(ctx, js); err != nil {
		return nil, err
	}
	return c.surveyPerson(ctx, js, t, shards)
}

func (c *Config) surveyPerson(ctx context.Context, js jetstream.JetStream, t *trace, shards string) (*Record, error) {
	r := &Record{Project: t.subject.Project, DataSubject: t.subject.Person, Also: t.alsoForgotten()}
	var err error
	if r.Places, err = ledgerPlaces(ctx, js, r.Project, func(h header) bool { return t.listed[h.seq] }); err != nil {
		return nil, err
	}
	live := 0
	listed := func(seq uint64) bool { return t.listed[seq] }
	if err := liveCopies(ctx, js, r.Project, listed, func(uint64) error { live++; return nil }); err != nil {
		return nil, err
	}
	r.put(streams.LiveStream, "live copies", live, "")
	_, others := t.statement(nil)
	return r, c.survey(ctx, js, r, computedAgain, func(l *inquiry.Log) ([]string, error) {
		_, n, err := l.HoldingListed(ctx, r.Project, t.listed)
		if err != nil {
			return nil, err
		}
		r.put("the log", "payloads, one by one", n, "")
		if r.LegalHold, err = l.HeldFrom(ctx, r.Project, r.DataSubject, others); err != nil {
			return nil, err
		}
		return l.ShardsListed(ctx, shards, r.Project, t.listed)
	})
}

// ForgetPerson erases one data subject of a project. Its statement lists the erased entries, unlike the
// statement of Forget. Entries that are written while the statement is being signed are found afterwards
// and need another statement.
func (c *Config) ForgetPerson(ctx context.Context, signer note.Signer, s Subject, reason, shards, records string,
	trust []byte) (*Record, error) {
	c.awaited = "the search of the ledger"
	js, err := jetstream.New(c.Conn)
	if err != nil {
		return nil, err
	}
	if err := canFoldAnew(ctx, js, s); err != nil {
		return nil, err
	}
	if _, err := erasableLedger(ctx, js); err != nil {
		return nil, err
	}
	writers, err := c.writers(ctx, js)
	if err != nil {
		return nil, err
	}
	r := &Record{Project: s.Project, DataSubject: s.Person}
	t := newTrace(s)
	// The stages have dropped the entries that an interrupted attempt listed, so references to these
	// entries can no longer be traced. The listed entries are removed with those that this attempt finds.
	done, earlier, entry, err := statedBefore(ctx, js, s)
	if err != nil {
		return nil, err
	}
	acks := make(map[string]uint64)
	for round := 0; ; round++ {
		c.awaited = "the search of the ledger"
		if err := t.follow(ctx, js); err != nil {
			return nil, err
		}
		parts, others := t.statement(done)
		if len(parts) == 0 {
			break
		}
		if round == maxRounds {
			return nil, fmt.Errorf("after %d rounds of erasure there are still new entries that concern %s: stop the "+
				"programs that write these entries, and repeat the command", round, s)
		}
		if round == 0 {
			before, err := c.surveyPerson(ctx, js, t, shards)
			if err != nil {
				return nil, err
			}
			if before.LegalHold != "" {
				return before, fmt.Errorf("%w: statement %s", ErrLegalHold, before.LegalHold)
			}
		}
		if err := c.awaitAuditors(ctx, js, t.end); err != nil {
			return nil, err
		}
		for _, part := range parts {
			if r.Statement, r.Entry, err = c.state(ctx, signer, streams.Custody{Do: streams.DoForget, Project: s.Project,
				DataSubject: s.Person, Others: others, Entries: part, Reason: reason}); err != nil {
				return nil, err
			}
			if t.before == 0 {
				t.before = r.Entry // entries that name the data subject later are not part of this erasure
			}
			r.Statements = append(r.Statements, r.Statement)
			for _, seq := range part {
				done[seq] = true
			}
			if acks, err = c.awaitAll(ctx, js, r, writers); err != nil {
				return nil, err
			}
		}
	}
	if len(r.Statements) == 0 {
		if entry == 0 {
			return nil, fmt.Errorf("no entry of project %s concerns data subject %s: check both names", s.Project, s.Person)
		}
		r.Again, r.Statement, r.Entry = true, earlier[len(earlier)-1], entry
		if acks, err = c.awaitAll(ctx, js, r, writers); err != nil {
			return nil, err
		}
	}
	r.Also = t.alsoForgotten()
	if err := c.carryOut(ctx, js, r, &erasure{writers: writers, acks: acks,
		ledger:  func(h header) bool { return done[h.seq] },
		live:    func(seq uint64) bool { return done[seq] },
		dropped: computedAgain, waiting: computedAgain,
		payloads: "payloads, erased one by one", destroyed: "erased the listed entries",
		statements: append(earlier, r.Statements...),
		log: func(l *inquiry.Log) (gone, left int, err error) {
			all, left, err := l.HoldingListed(ctx, s.Project, done)
			return all - left, left, err
		},
		shards: func(l *inquiry.Log) ([]string, error) { return l.ShardsListed(ctx, shards, s.Project, done) }, trust: trust,
	}); err != nil {
		return nil, err
	}
	return r, c.sign(r, signer, records)
}

// awaitAll waits until the stages have reported that they dropped what the record's statement lists, and until the
// auditors have chained these reports. It returns the entry of each stage's report.
func (c *Config) awaitAll(ctx context.Context, js jetstream.JetStream, r *Record, writers []string) (map[string]uint64,
	error) {
	acks, last, err := c.awaitDropped(ctx, js, r.Project, r, writers)
	if err != nil {
		return nil, err
	}
	return acks, c.awaitAuditors(ctx, js, last)
}

// maxRounds is the maximum number of searches for entries that were added while an erasure runs. A few rounds suffice:
// after the first statement, only a stage that has not yet folded the last entries before the statement adds an entry
// about listed entries.
const maxRounds = 8

// statedBefore returns the sequences that earlier statements about a data subject list, the ids of these statements,
// and the entry of the last one.
func statedBefore(ctx context.Context, js jetstream.JetStream, s Subject) (listed map[uint64]bool, ids []string,
	entry uint64, err error) {
	listed = make(map[uint64]bool)
	var at []uint64
	err = scan(ctx, js, streams.LedgerSubject(streams.PartitionOf(s.Project), streams.StageIngest), 1,
		func(h header) error {
			if h.typ == streams.TypeErased && h.project == s.Project {
				at = append(at, h.seq)
			}
			return nil
		})
	if err != nil || len(at) == 0 {
		return listed, nil, 0, err
	}
	st, err := js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		return nil, nil, 0, err
	}
	for _, seq := range at {
		m, err := st.GetMsg(ctx, seq)
		if err != nil {
			return nil, nil, 0, fmt.Errorf("reading ledger entry %d: %w", seq, err)
		}
		if c := streams.Erasure(m.Data); c != nil && c.DataSubject == s.Person {
			ids, entry = append(ids, c.ID), seq
			for _, q := range c.Entries {
				listed[q] = true
			}
		}
	}
	return listed, ids, entry, nil
}
