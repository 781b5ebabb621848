package statement

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/pkg/chain"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// entered is how long after its issue a statement may get into the ledger: the time for which ingest accepts it, and a
// day in the intake.
const entered = streams.CustodyValid + 24*time.Hour

// Judge decides which statements in a log count. It must be given the statements in the order of the log.
type Judge struct {
	*Keys
	used map[string]int             // ids of the statements so far → number of entries
	held map[string]map[string]bool // project → data subjects under legal hold; "" stands for the whole project
}

// NewJudge returns a judge at the beginning of a log. operators are the keys that the reader has
// pinned.
func NewJudge(operators note.Verifiers) *Judge {
	return &Judge{NewKeys(operators), make(map[string]int), make(map[string]map[string]bool)}
}

// Types returns the types of statements: forgotten, erased, legalhold and expired.
func Types() []string {
	return []string{string(streams.TypeForgotten), string(streams.TypeErased), string(streams.TypeLegalHold),
		string(streams.TypeExpired)}
}

// Held returns the projects with a legal hold, on the project or on a data subject in it, at the
// judge's position.
func (j *Judge) Held() map[string]bool {
	out := make(map[string]bool, len(j.held))
	for project := range j.held {
		out[project] = true
	}
	return out
}

// hold applies a legal hold or its release.
func (j *Judge) hold(c *streams.Custody) {
	switch c.Do {
	case streams.DoHold:
		if j.held[c.Project] == nil {
			j.held[c.Project] = make(map[string]bool)
		}
		j.held[c.Project][c.DataSubject] = true
	case streams.DoRelease:
		if delete(j.held[c.Project], c.DataSubject); len(j.held[c.Project]) == 0 {
			delete(j.held, c.Project)
		}
	}
}

// Order judges the entry of a statement, given its type, project, ledger time and body. It returns the
// order, or an error if the statement does not count.
func (j *Judge) Order(typ streams.Type, project string, at time.Time, body []byte) (*streams.Custody, error) {
	b := new(streams.CustodyEntry)
	if err := streams.Unmarshal(body, b); err != nil {
		return nil, fmt.Errorf("its body cannot be read: %w", err)
	}
	c, err := j.Open([]byte(b.Note))
	if err != nil {
		return nil, err
	}
	want, times := streams.TypeLegalHold, 1
	if c.Do == streams.DoExpire {
		want, times = streams.TypeExpired, streams.Partitions
	} else if c.Do == streams.DoForget && c.DataSubject == "" {
		want = streams.TypeForgotten
	} else if c.Do == streams.DoForget {
		want = streams.TypeErased
	}
	switch {
	case c.Project != project:
		return nil, fmt.Errorf("the signed order is about project %s", c.Project)
	case want != typ:
		return nil, fmt.Errorf("the signed order is to %s, which requires an entry of type %s", c.Do, want)
	case j.used[c.ID] >= times:
		return nil, fmt.Errorf("order %s was already carried out: an order is valid once per partition", c.ID)
	case at.Sub(c.Issued) > entered || c.Issued.Sub(at) > streams.CustodyValid:
		return nil, fmt.Errorf("order %s was issued at %s, and the entry is of %s", c.ID, c.Issued.Format(time.RFC3339),
			at.Format(time.RFC3339))
	}
	j.used[c.ID]++
	j.hold(&c)
	return &c, nil
}

// Split splits a leaf's payload (see auditor.Payload) into the name of the writing stage and the
// entry's body.
func Split(payload []byte) (stage string, body []byte) {
	head, body, _ := bytes.Cut(payload, []byte{'\n'})
	name, _, _ := bytes.Cut(head, []byte{' '})
	return string(name), body
}

// LateFor is a time after an order to erase a project. Entries that other stages derive from the project's entries and
// write within this time may be erased too. It is longer than a policy gives any group for its answer.
const LateFor = 10 * time.Minute

// LateSubject returns the data subject of entries that other stages derive from erased entries and write after the
// order. No project's name contains a tilde, so no project has this name.
func LateSubject(project string) string { return project + "~" }

// Lawful returns the rules that decide which payloads of the pipeline's log may be erased. These are the
// payloads of a project before its entry of the type `forgotten`, the payloads that an entry of the type
// `erased` lists, and those that an entry of the type `expired` covers. An operator must have signed each
// such entry. Statements and the pipeline's own entries must never be erased.
//
// An order to erase a project contains the ledger sequence up to which it covers the project's entries.
// Entries that sentinels and the arbiter derived from these, at most LateFor after the order was issued,
// may be erased too. An order of an earlier version has no such sequence and covers all entries before it.
// The verification reports such an order.
//
// A statement that no operator signed is a finding. Without operators' keys, signatures are not checked
// and the verification is incomplete.
func Lawful(operators note.Verifiers) *chain.Lawful {
	return &chain.Lawful{Statements: Types(), Grounds: Grounds(),
		Judge: func(all iter.Seq[*chain.Statement]) chain.Ruling {
			r := &ruling{whole: make(map[string][]order), listed: make(map[string][]order)}
			var j *Judge
			if operators != nil {
				j = NewJudge(operators)
			} else {
				r.skipped = append(r.skipped, "who signed the erasure statements: no operators' keys were given")
			}
			for s := range all {
				r.take(j, s)
			}
			return chain.Ruling{May: r.may, Bad: r.bad, Skipped: r.skipped}
		}}
}

// order is a statement signed by an operator.
type order struct {
	index   int64            // of the statement's leaf
	first   int64            // index of the first leaf of the same ledger
	at      time.Time        // time of the leaf
	seqs    map[uint64]bool  // the entries that the order lists
	custody *streams.Custody // nil if unknown
	held    map[string]bool  // for an expiry order: projects that it excludes
}

// Derived reports whether other stages write entries of this type as a consequence of a project's
// entries.
func Derived(t streams.Type) bool {
	switch t {
	case streams.TypeAlerts, streams.TypeAssessment, streams.TypeVerdict, streams.TypeDue,
		streams.TypeHoldState, streams.TypeCalibration:
		return true
	}
	return false // written by ingest
}

// Covers reports whether an order to erase a project covers an earlier entry of the project in the
// current ledger. derived means that another stage wrote the entry as a consequence of covered entries.
func Covers(c *streams.Custody, seq uint64, at time.Time, derived bool) bool {
	return c == nil || c.UpTo == 0 || position.Sequence(seq) <= c.UpTo || derived && !at.After(c.Issued.Add(LateFor))
}

// Expires reports whether an expiry order covers a payload. earlier means that the payload belongs to a
// ledger before the current one. held are the projects that the order excludes.
func Expires(c *streams.Custody, leaf *chain.Leaf, earlier bool, held map[string]bool) bool {
	return leaf.Kind == chain.KindEntry && leaf.Project != streams.SystemProject &&
		!streams.Type(leaf.Type).Statement() && !held[leaf.Project] && leaf.Time.Before(c.Before) &&
		(earlier || position.Sequence(leaf.Seq) <= c.UpTo)
}

// ruling has the valid statements that the log has so far.
type ruling struct {
	whole   map[string][]order // by project: orders to erase the whole project
	listed  map[string][]order // by project: orders to erase the entries that they list
	expired []order            // expiry orders
	bad     []chain.Finding
	skipped []string
}

func (r *ruling) take(j *Judge, s *chain.Statement) {
	typ := streams.Type(s.Type)
	stage, body := Split(s.Payload)
	ground := typ == streams.TypeChunk || typ == streams.TypeActivation
	if ground {
		if s.Err == nil && stage == streams.StageIngest && s.Project == streams.SystemProject && j != nil {
			j.Take(typ, body)
		}
		return
	}
	c, err := r.order(j, s, typ, stage, body)
	if err != nil {
		r.bad = append(r.bad, chain.Finding{Index: s.Index,
			Text: fmt.Sprintf("leaf %d (%s of ledger entry %s, project %s) is not a valid statement of an "+
				"operator: %v", s.Index, s.Type,
				position.Text(s.Seq), s.Project, err)})
		return
	}
	o := order{index: s.Index, first: s.First, at: s.Time, custody: c}
	switch {
	case typ == streams.TypeForgotten && s.Project != streams.SystemProject:
		if c != nil && c.UpTo == 0 {
			r.skipped = append(r.skipped, fmt.Sprintf("leaf %d (%s, project %s): the signed order is of an earlier version "+
				"of lazaret and names no ledger entries: whether it was meant for all entries before it is unknown",
				s.Index, s.Type, s.Project))
		}
		r.whole[s.Project] = append(r.whole[s.Project], o)
	case typ == streams.TypeExpired && c != nil:
		if n := len(r.expired); n > 0 && r.expired[n-1].custody.ID == c.ID {
			return // the same order in another partition
		}
		if j != nil {
			o.held = j.Held()
		}
		r.expired = append(r.expired, o)
	case typ == streams.TypeErased && c != nil:
		o.seqs = make(map[uint64]bool, len(c.Entries))
		for _, seq := range c.Entries {
			o.seqs[seq] = true
		}
		r.listed[s.Project] = append(r.listed[s.Project], o)
	}
}

// order returns the order in the leaf of a statement, or nil if the log does not have it. It returns an error if the
// statement does not count.
func (r *ruling) order(j *Judge, s *chain.Statement, typ streams.Type, stage string, body []byte) (*streams.Custody,
	error) {
	switch {
	case errors.Is(s.Err, chain.ErrNotHeld):
		r.skipped = append(r.skipped,
			fmt.Sprintf("leaf %d (%s, project %s): this log does not have the statement, so its signer is "+
				"unknown", s.Index,
				s.Type, s.Project))
		return nil, nil
	case s.Err != nil:
		return nil, s.Err
	case stage != streams.StageIngest:
		return nil, fmt.Errorf("stage %s wrote it", stage)
	case j == nil:
		return streams.Ordered(body), nil
	}
	return j.Order(typ, s.Project, s.Time, body)
}

// may reports whether the payload of a leaf may be erased.
func (r *ruling) may(subject string, erased bool, leaf *chain.Leaf) bool {
	if leaf.Project == streams.SystemProject || streams.Type(leaf.Type).Statement() {
		return false
	}
	if erased {
		for _, o := range r.listed[leaf.Project] {
			if leaf.Index >= o.first && leaf.Index < o.index && o.seqs[position.Sequence(leaf.Seq)] {
				return true
			}
		}
		for _, o := range r.expired {
			if leaf.Index < o.index && Expires(o.custody, leaf, leaf.Index < o.first, o.held) {
				return true
			}
		}
		return false
	}
	late := subject == LateSubject(leaf.Project)
	if subject != leaf.Project && !late {
		return false
	}
	derived := Derived(streams.Type(leaf.Type))
	for _, o := range r.whole[leaf.Project] {
		switch {
		case o.index > leaf.Index:
			if leaf.Index < o.first || Covers(o.custody, leaf.Seq, leaf.Time, derived) {
				return true
			}
		case late && derived && leaf.Index > o.index && !leaf.Time.After(o.at.Add(LateFor)):
			return true
		}
	}
	return false
}
