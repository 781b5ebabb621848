package auditor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"lazaret/pkg/chain"
	"lazaret/streams"
)

// A statement about one data subject of a project lists entries, and their payloads
// are erased one by one before it is chained: what says something of several people
// has one record, and no key of theirs alone.
//
// Payloads are kept under the key of their project. Statements about a project's
// data, and the word of each stage that it has dropped it, are kept under the
// pipeline's own key: they stay readable when the project's is gone.
//
// At a forgotten entry all keys of the project are destroyed before the entry is
// chained, so that a checkpoint which covers it also says that they are. What
// other stages still write because of earlier entries is kept under a key of its
// own, which is destroyed at once; what is new gets a new key.

// lateSubject is the data subject of what is derived from forgotten entries and
// comes after them. No project's name holds a tilde.
func lateSubject(project string) string { return project + "~" }

// subject is the data subject of an entry's payload.
func (a *Auditor) subject(e *streams.Entry) string {
	if e.Type.Statement() {
		return streams.SystemProject
	}
	if at := a.forgotten[e.Project]; at > 0 && e.Stage != streams.StageIngest && e.Src < at {
		return lateSubject(e.Project)
	}
	return e.Project
}

// entry is a ledger entry as the log takes it.
func (a *Auditor) entry(e *streams.Entry) chain.Entry {
	return chain.Entry{Seq: e.Seq, Time: e.Time, Type: string(e.Type), Project: e.Project, Subject: a.subject(e), Salt: e.Salt, Payload: Payload(e)}
}

// append chains entries, and destroys keys at those that say so. What is
// chained is on disk once a.synced, if it is set, has returned.
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
		if e.Type == streams.TypeForgotten && e.Stage == streams.StageIngest && e.Project != streams.SystemProject && e.Seq > a.log.Head().LastSeq {
			if err := flush(); err != nil {
				return err
			}
			if err := a.forget(e.Project); err != nil {
				return fmt.Errorf("forgetting project %s: %w", e.Project, err)
			}
			a.forgotten[e.Project] = e.Seq
		}
		if e.Type == streams.TypeErased && e.Stage == streams.StageIngest && e.Seq > a.log.Head().LastSeq {
			if err := flush(); err != nil {
				return err
			}
			if err := a.eraseListed(e); err != nil {
				return fmt.Errorf("forgetting a data subject of project %s: %w", e.Project, err)
			}
		}
		c := a.entry(e)
		if c.Subject == lateSubject(e.Project) {
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

// forget destroys a project's keys and whatever may hold a copy of them.
func (a *Auditor) forget(project string) error {
	n, err := a.log.DestroyKeys(project)
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

// eraseListed erases the payloads that a statement lists, and whatever may hold a
// copy of them. Others' payloads are under the same key, and stay.
func (a *Auditor) eraseListed(e *streams.Entry) error {
	c := streams.Erasure(e.Body)
	if c == nil {
		return nil
	}
	if err := a.dropSnapshots(); err != nil {
		return err
	}
	n, err := a.log.EraseEntries(context.Background(), c.Entries, e.Project, statementTypes())
	if err != nil {
		return err
	}
	a.cfg.Log.Info("payloads erased", "project", e.Project, "payloads", n, "listed", len(c.Entries))
	return nil
}

// dropSnapshots removes the copies that were made for other processes: they
// hold the keys too.
func (a *Auditor) dropSnapshots() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	dir := filepath.Join(a.cfg.Dir, "..", "snapshots")
	es, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range es {
		if strings.HasPrefix(e.Name(), filepath.Base(a.cfg.Dir)+"-") {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// lookBack is how many leaves are looked at for statements when an auditor
// starts: what is still written because of forgotten entries comes soon after.
const lookBack = 100_000

// loadForgotten finds what was forgotten lately.
func (a *Auditor) loadForgotten() error {
	a.forgotten = make(map[string]uint64)
	size := a.log.Head().Size
	err := a.log.Range(max(0, size-lookBack), size, func(_ int64, l chain.Leaf) error {
		switch {
		case l.Kind == chain.KindReset:
			clear(a.forgotten)
		case l.Kind == chain.KindEntry && l.Type == string(streams.TypeForgotten):
			a.forgotten[l.Project] = l.Seq
		}
		return nil
	})
	for p := range a.forgotten {
		if err == nil {
			_, err = a.log.DestroyKeys(lateSubject(p))
		}
	}
	return err
}
