package auditor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"lazaret/internal/statement"
	"lazaret/pkg/chain"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// A project's payloads are encrypted with the project's key. Statements about a project's data, and
// each stage's answer that it dropped the data, are encrypted with the pipeline's own key. They
// stay readable when the project's key is gone.
//
// Before an entry of type forgotten, an order to forget a project, is chained, all keys of the project are destroyed.
// So a checkpoint that covers the order also states that they are destroyed. After the order, other stages may still
// add entries that they derive from forgotten entries. These get a key of their own, which is destroyed at once. New
// entries of the project get a new key.
//
// A statement about one data subject lists entries. Their payloads are erased one by one before the statement is
// chained. They have no key of their own, because one entry may concern several people.

// subject returns the name of the key that encrypts an entry's payload.
func (a *Auditor) subject(e *streams.Entry) string {
	if e.Type.Statement() {
		return streams.SystemProject
	}
	f := a.forgotten[e.Project]
	if f.seq > 0 && e.Stage != streams.StageIngest && position.Sequence(e.Src) < f.seq &&
		!e.Time.After(f.at.Add(statement.LateFor)) {
		return statement.LateSubject(e.Project)
	}
	return e.Project
}

// forgetting is the latest order to forget a project.
type forgetting struct {
	seq uint64 // entries that other stages derive from entries before this sequence are forgotten too
	at  time.Time
}

// forgettingOf returns the forgetting that an order causes. seq and at are the sequence and time of its ledger entry.
// c is the order, or nil if it cannot be read.
func forgettingOf(seq uint64, at time.Time, c *streams.Custody) forgetting {
	if c != nil && c.UpTo > 0 && c.UpTo < seq {
		seq = c.UpTo + 1
	}
	return forgetting{seq, at}
}

// entry converts a ledger entry to an entry of the log.
func (a *Auditor) entry(e *streams.Entry) chain.Entry {
	at := len(a.payloads)
	a.payloads = appendPayload(a.payloads, e)
	return chain.Entry{Seq: e.Position(), Time: e.Time, Type: string(e.Type), Project: e.Project, Subject: a.subject(e),
		Salt: e.Salt, Payload: a.payloads[at:len(a.payloads):len(a.payloads)]}
}

// append chains entries and executes the statements among them. The entries are on disk when
// a.synced, if it is set, has returned.
func (a *Auditor) append(entries []streams.Entry) error {
	es := make([]chain.Entry, 0, len(entries))
	late := make(map[string]bool)
	flush := func() error {
		err := a.settle()
		if err == nil {
			err = a.log.Append(es)
		}
		es = es[:0]
		for p := range late {
			if err == nil {
				_, err = a.log.DestroyKeys(p)
			}
			delete(late, p)
		}
		return err
	}
	for i := range entries {
		e := &entries[i]
		if slices.Contains(statement.Types(), string(e.Type)) && e.Seq > a.log.Head().LastSeq {
			if err := flush(); err != nil {
				return err
			}
			if err := a.execute(e); err != nil {
				return fmt.Errorf("forgetting in project %s: %w", e.Project, err)
			}
		}
		c := a.entry(e)
		if c.Subject == statement.LateSubject(e.Project) {
			late[c.Subject] = true
		}
		es = append(es, c)
	}
	if len(late) > 0 {
		return flush()
	}
	var err error
	a.synced, err = a.log.AppendNoWait(es)
	return err
}

// execute carries out a statement that an operator signed with a key in force in the log. A statement
// without such a signature is chained and not executed; the verification of the log reports it.
func (a *Auditor) execute(e *streams.Entry) error {
	c, held, err := a.order(e)
	if err != nil {
		a.cfg.Log.Error("a statement was refused: nothing was forgotten", "seq", e.Seq, "type", e.Type, "project",
			e.Project, "why", err)
		a.publishRefusal(e, err)
		return nil
	}
	switch {
	case e.Type == streams.TypeForgotten && e.Project != streams.SystemProject:
		if err := a.forget(e.Project, c); err != nil {
			return err
		}
		a.forgotten[e.Project] = forgettingOf(e.Seq, e.Time, c)
	case e.Type == streams.TypeErased:
		return a.eraseListed(e, c)
	case e.Type == streams.TypeExpired:
		return a.expire(c, held)
	}
	return nil
}

// publishRefusal publishes that this auditor did not carry out a statement. The signed record of the erasure lists the
// auditors that refused.
func (a *Auditor) publishRefusal(e *streams.Entry, why error) {
	r := statement.Refusal{Kind: statement.RefusalKind, Entry: e.Seq, Index: e.Index, Type: e.Type, Project: e.Project,
		Reason: why.Error()}
	if a.cfg.Signer != nil {
		r.Auditor = chain.KeyID(a.cfg.Signer.Name(), a.cfg.Signer.KeyHash())
	}
	if c := streams.Ordered(e.Body); c != nil {
		r.Order = c.ID
	}
	body, err := streams.Marshal(r)
	if err != nil {
		a.cfg.Log.Error("a refusal was not published", "err", err)
		return
	}
	a.publish("incident", body)
}

// order checks a statement against the part of the log before it, and returns the order in it. It also returns the
// projects under legal hold. Statements are rare, so order reads that part of the log each time. The ledger repeats an
// order to expire in each partition, and order checks only the first of these.
func (a *Auditor) order(e *streams.Entry) (*streams.Custody, map[string]bool, error) {
	if e.Stage != streams.StageIngest {
		return nil, nil, fmt.Errorf("stage %s wrote it, but only ingest may", e.Stage)
	}
	if a.cfg.Operators == nil {
		return nil, nil, errors.New("this auditor was started without operators' keys")
	}
	if c := streams.Ordered(e.Body); e.Type == streams.TypeExpired && c != nil && c.ID == a.expired {
		return c, nil, nil
	}
	j, err := a.judge(func(int64, *chain.Leaf, *streams.Custody, error) {})
	if err != nil {
		return nil, nil, fmt.Errorf("reading which keys are in force: %w", err)
	}
	c, err := j.Order(e.Type, e.Project, e.Time, e.Body)
	return c, j.Held(), err
}

// judge checks all statements in the log in order. It calls each with the leaf of a statement and the order in it, or
// with the reason why the statement does not count. The reason is chain.ErrNotHeld if the log does not have the
// statement's body.
func (a *Auditor) judge(each func(i int64, leaf *chain.Leaf, c *streams.Custody, why error)) (
	*statement.Judge, error) {
	j := statement.NewJudge(a.cfg.Operators)
	types := append(statement.Types(), statement.Grounds()...)
	err := a.log.Range(0, a.log.Head().Size, func(i int64, leaf chain.Leaf) error {
		if leaf.Kind != chain.KindEntry || !slices.Contains(types, leaf.Type) {
			return nil
		}
		p, err := a.log.Payload(i)
		if err != nil && !errors.Is(err, chain.ErrNotHeld) {
			return err
		}
		stage, body := statement.Split(p)
		switch isStatement := slices.Contains(statement.Types(), leaf.Type); {
		case isStatement && err != nil:
			each(i, &leaf, nil, err)
		case isStatement && stage != streams.StageIngest:
			each(i, &leaf, nil, fmt.Errorf("stage %s wrote it, but only ingest may", stage))
		case isStatement:
			c, why := j.Order(streams.Type(leaf.Type), leaf.Project, leaf.Time, body) // marks its id as used
			each(i, &leaf, c, why)
		case err == nil && stage == streams.StageIngest && leaf.Project == streams.SystemProject:
			j.Take(streams.Type(leaf.Type), body)
		}
		return nil
	})
	return j, err
}

// forget destroys a project's keys and every copy of them, including snapshots. Payloads that the
// order does not cover are encrypted again with another key.
func (a *Auditor) forget(project string, c *streams.Custody) error {
	stay, err := a.notCovered(project, c)
	if err != nil {
		return err
	}
	n, err := a.log.DestroyKeys(project, stay...)
	if err != nil {
		return err
	}
	if err := a.dropSnapshots(); err != nil {
		return err
	}
	if err := a.log.Erase(context.Background()); err != nil {
		return err
	}
	a.cfg.Log.Info("keys destroyed", "project", project, "keys", n)
	return nil
}

// notCovered returns the leaves of a project's entries that an order does not cover.
func (a *Auditor) notCovered(project string, c *streams.Custody) (stay []int64, err error) {
	h := a.log.Head()
	if c.UpTo == 0 || c.UpTo >= h.LastSeq {
		return nil, nil
	}
	from, err := a.log.FindSeq(c.UpTo + 1)
	if err != nil {
		return nil, err
	}
	err = a.log.Range(from, h.Size, func(i int64, leaf chain.Leaf) error {
		typ := streams.Type(leaf.Type)
		if leaf.Kind != chain.KindEntry || leaf.Project != project || typ.Statement() {
			return nil
		}
		p, err := a.log.Payload(i)
		if errors.Is(err, chain.ErrForgotten) || errors.Is(err, chain.ErrNotHeld) {
			return nil
		}
		if err != nil {
			return err
		}
		derived := statement.Derived(typ) && source(p) <= c.UpTo
		if !statement.Covers(c, leaf.Seq, leaf.Time, derived) {
			stay = append(stay, i)
		}
		return nil
	})
	return stay, err
}

// source returns the ledger sequence of the input that a payload names.
func source(payload []byte) (src uint64) {
	if f := bytes.Fields(payload[:min(len(payload), 200)]); len(f) > 1 {
		src, _ = strconv.ParseUint(string(f[1]), 10, 64)
	}
	return position.Sequence(src)
}

// eraseListed erases the payloads that a statement lists, and the log's snapshots. Other payloads
// under the same key stay.
func (a *Auditor) eraseListed(e *streams.Entry, c *streams.Custody) error {
	if err := a.dropSnapshots(); err != nil {
		return err
	}
	n, err := a.log.EraseEntries(context.Background(), c.Entries, e.Project,
		append(statement.Types(), string(streams.TypeDropped)))
	if err != nil {
		return err
	}
	a.cfg.Log.Info("payloads erased", "project", e.Project, "payloads", n, "listed", len(c.Entries))
	return nil
}

// expire erases the payloads that an order to expire covers, in all partitions. The ledger repeats
// the order in each partition; expire ignores the repeats.
func (a *Auditor) expire(c *streams.Custody, held map[string]bool) error {
	if c.ID == a.expired {
		return nil
	}
	if err := a.dropSnapshots(); err != nil {
		return err
	}
	h := a.log.Head()
	first, err := a.log.Present(h.Size)
	if err != nil {
		return err
	}
	n, err := a.log.EraseUpTo(context.Background(), c.UpTo, func(leaf *chain.Leaf) bool {
		return !statement.Expires(c, leaf, leaf.Index < first, held)
	})
	if err != nil {
		return err
	}
	a.expired = c.ID
	a.cfg.Log.Info("old payloads erased", "payloads", n, "before", c.Before, "up to", c.UpTo)
	return nil
}

// dropSnapshots removes the log's snapshots, because they also contain the keys.
func (a *Auditor) dropSnapshots() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.dropOlder(0)
}

// dropOlder removes the log's snapshots of at least this age. It renames a snapshot's folder before it removes the
// files. So a reader that misses a file finds that the folder is gone, and does not report that the log lacks the file.
// The caller must hold a.mu.
func (a *Auditor) dropOlder(age time.Duration) error {
	dir := filepath.Join(a.cfg.Dir, "..", "snapshots")
	es, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range es {
		name := filepath.Join(dir, e.Name())
		if !strings.HasPrefix(e.Name(), filepath.Base(a.cfg.Dir)+"-") {
			continue
		}
		if fi, err := e.Info(); age > 0 && (err != nil || time.Since(fi.ModTime()) < age) {
			continue
		}
		if !strings.HasSuffix(name, removed) {
			if e := os.Rename(name, name+removed); errors.Is(e, os.ErrNotExist) {
				continue // the process that used the snapshot has removed it
			} else if e != nil {
				err = errors.Join(err, e)
				continue
			}
			name += removed
		}
		err = errors.Join(err, os.RemoveAll(name))
	}
	return err
}

// removed ends the name of a snapshot that is being removed.
const removed = ".removed"

// lookBack is how many of the last leaves are searched for statements when an auditor starts. That suffices: other
// stages add entries that they derive from forgotten entries only shortly after the statement.
const lookBack = 100_000

// loadForgotten finds recently forgotten projects, so that late entries about them lose their keys too.
// A statement counts only if an operator signed it with a key in force. A statement whose body is not
// in this log, because the log was imported, cannot be judged, and counts.
func (a *Auditor) loadForgotten() error {
	a.forgotten = make(map[string]forgetting)
	size := a.log.Head().Size
	first := size // first recent statement
	err := a.log.Range(max(0, size-lookBack), size, func(i int64, l chain.Leaf) error {
		switch {
		case l.Kind == chain.KindReset:
			first = size
		case l.Kind == chain.KindEntry && l.Type == string(streams.TypeForgotten):
			first = min(first, i)
		}
		return nil
	})
	if err != nil || first == size {
		return err
	}
	_, err = a.judge(func(i int64, l *chain.Leaf, c *streams.Custody, why error) {
		held := !errors.Is(why, chain.ErrNotHeld)
		if i < first || l.Type != string(streams.TypeForgotten) || l.Project == streams.SystemProject ||
			held && (why != nil || a.cfg.Operators == nil) {
			return
		}
		a.forgotten[l.Project] = forgettingOf(position.Sequence(l.Seq), l.Time, c)
	})
	if errors.Is(err, chain.ErrForgotten) { // order refuses every statement after it, too
		a.cfg.Log.Error("a statement or an operator's key was erased from the log, so no earlier statement on forgetting "+
			"is applied", "err", err)
		return nil
	}
	for p := range a.forgotten {
		if err == nil {
			_, err = a.log.DestroyKeys(statement.LateSubject(p))
		}
	}
	return err
}
