package auditor_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/auditor"
	"lazaret/internal/fuzztest"
	"lazaret/internal/natstest"
	"lazaret/internal/statement"
	"lazaret/internal/wire"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

func trustIn(t *testing.T, role keys.Role, as ...fuzztest.Pair) *keys.Trust {
	t.Helper()
	trust := new(keys.Trust)
	for _, a := range as {
		if err := trust.Add(keys.Pin{Key: a.Public, Roles: []keys.Role{role}}); err != nil {
			t.Fatal(err)
		}
	}
	return trust
}

// forger has the auditor's disk, signing key and master key, and can write any log.
type forger struct {
	t        *testing.T
	dir      string
	opts     chain.Options
	log      *chain.Log
	vs       note.Verifiers // for checkpoints
	operator fuzztest.Pair
	trust    *keys.Trust // with the operator's key
	seq      uint64
	now      time.Time
}

const secretNote = "the account number is 4711"

// newForger starts with an honest log: the operator's trust file is in force, and 32 entries of
// project acme follow.
func newForger(t *testing.T) *forger {
	t.Helper()
	k := fuzztest.NewPair(t, "auditor")
	f := &forger{t: t, dir: filepath.Join(t.TempDir(), "audit"), vs: note.VerifierList(k.Verifier),
		operator: fuzztest.NewPair(t, "operator"),
		now:      time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC), opts: chain.Options{Signer: k.Signer,
			MasterKey: make([]byte, 32)}}
	f.trust = trustIn(t, keys.RoleOperator, f.operator)
	var err error
	if f.log, err = chain.Open(f.dir, f.opts); err != nil {
		t.Fatal(err)
	}
	f.activate(f.operator, f.trust)
	for i := range 32 {
		f.say(streams.TypeMemory, "acme", "acme", fmt.Appendf(nil, `{"id":"m%d","content":%q}`, i, secretNote))
	}
	return f
}

// say writes an entry of ingest, with its payload under a data subject's key, and returns its
// sequence.
func (f *forger) say(typ streams.Type, project, subject string, body []byte) uint64 {
	return f.sayAs(streams.StageIngest, typ, project, subject, body)
}

func (f *forger) sayAs(stage string, typ streams.Type, project, subject string, body []byte) uint64 {
	f.t.Helper()
	f.seq++
	f.now = f.now.Add(time.Second)
	e := streams.Entry{Seq: f.seq, Time: f.now, Stage: stage, Type: typ, Project: project, Src: f.seq,
		Salt: streams.NewSalt(), Body: body}
	if err := f.log.Append([]chain.Entry{{Seq: e.Seq, Time: e.Time, Type: string(typ), Project: project,
		Subject: subject, Salt: e.Salt, Payload: auditor.Payload(&e)}}); err != nil {
		f.t.Fatal(err)
	}
	return f.seq
}

func (f *forger) json(v any) []byte {
	f.t.Helper()
	b, err := streams.Marshal(v)
	if err != nil {
		f.t.Fatal(err)
	}
	return b
}

// activate puts a trust file in force in every partition.
func (f *forger) activate(by fuzztest.Pair, trust *keys.Trust) {
	f.t.Helper()
	bundle, err := trust.Marshal()
	if err != nil {
		f.t.Fatal(err)
	}
	c := streams.Command{Do: streams.DoActivateTrust, Digest: streams.Digest(bundle), Engine: 1,
		ID: fmt.Sprintf("trust-%d", f.seq), Issued: f.now}
	signed, err := c.Sign(by.Signer)
	if err != nil {
		f.t.Fatal(err)
	}
	for range streams.Partitions {
		f.say(streams.TypeChunk, streams.SystemProject, "",
			f.json(&streams.ChunkEntry{Digest: c.Digest, Count: 1, Chunk: bundle}))
		f.say(streams.TypeActivation, streams.SystemProject, "",
			f.json(&streams.ActivationEntry{Do: c.Do, Digest: c.Digest, Engine: 1, Signer: by.Signer.Name(),
				Note: string(signed)}))
	}
}

// expire writes an order to expire in every partition, and erases what an order covers.
func (f *forger) expire(signed string, erase streams.Custody) {
	f.t.Helper()
	for range streams.Partitions {
		f.forget(streams.TypeExpired, streams.SystemProject, signed)
	}
	n, err := f.log.EraseUpTo(context.Background(), erase.UpTo, func(leaf *chain.Leaf) bool {
		return !statement.Expires(&erase, leaf, false, nil)
	})
	if n == 0 || err != nil {
		f.t.Fatal(n, err)
	}
}

// byEarlierVersion is the reason of an order that names no entries.
const byEarlierVersion = "an earlier version"

// order returns a signed statement. A statement on a project covers the present entries of the log.
func (f *forger) order(c streams.Custody, by ...note.Signer) string {
	f.t.Helper()
	if c.ID == "" {
		c.ID = fmt.Sprintf("s%d", f.seq)
	}
	if c.Issued.IsZero() {
		c.Issued = f.now
	}
	if c.Do == streams.DoForget && c.DataSubject == "" && c.Reason != byEarlierVersion {
		c.UpTo = f.seq
	}
	b, err := c.Sign(by...)
	if err != nil {
		f.t.Fatal(err)
	}
	return string(b)
}

// forget writes the statement's entry.
func (f *forger) forget(typ streams.Type, project, signed string) uint64 {
	return f.say(typ, project, streams.SystemProject,
		f.json(&streams.CustodyEntry{EntryHead: streams.EntryHead{ID: "x", Time: f.now}, Do: streams.DoForget,
			Signer: "operator", Note: signed}))
}

func (f *forger) destroy(subject string) {
	f.t.Helper()
	if n, err := f.log.DestroyKeys(subject); n == 0 || err != nil {
		f.t.Fatal(n, err)
	}
}

func (f *forger) checkpoint() []byte {
	f.t.Helper()
	cp, err := f.log.Checkpoint()
	if err != nil {
		f.t.Fatal(err)
	}
	return cp
}

func (f *forger) verify(against ...[]byte) chain.Report {
	f.t.Helper()
	f.checkpoint()
	if err := f.log.Close(); err != nil {
		f.t.Fatal(err)
	}
	rep, err := chain.VerifyDir(context.Background(), f.dir, chain.Options{MasterKey: f.opts.MasterKey},
		chain.VerifyOptions{Verifiers: f.vs, Against: against, Lawful: lawfulBy(f.trust)})
	if err != nil {
		f.t.Fatal(err)
	}
	return rep
}

// expireAll returns an order to expire all entries of the log.
func expireAll(f *forger) streams.Custody {
	return streams.Custody{Do: streams.DoExpire, Project: streams.SystemProject, Reason: "r", UpTo: f.seq, Issued: f.now.Add(time.Second),
		Before: f.now.Add(time.Second)}
}

func TestPromiseB13ForgettingThatNoOperatorInForceSignedFailsVerification(t *testing.T) {
	forgetAcme := streams.Custody{Do: streams.DoForget, Project: "acme", Reason: "request 17"}
	for _, c := range []struct {
		name string
		do   func(f *forger)
		want []string // empty: the log verifies
	}{
		{"an operator signed it", func(f *forger) {
			f.forget(streams.TypeForgotten, "acme", f.order(forgetAcme, f.operator.Signer))
			f.destroy("acme")
		}, nil},
		{"nobody signed it", func(f *forger) {
			f.forget(streams.TypeForgotten, "acme", "")
			f.destroy("acme")
		}, []string{"leaf 64", "signed"}},
		{"the auditor signed it", func(f *forger) {
			f.forget(streams.TypeForgotten, "acme", f.order(forgetAcme, f.opts.Signer))
			f.destroy("acme")
		}, []string{"leaf 64"}},
		{"nothing is gone yet", func(f *forger) {
			f.forget(streams.TypeForgotten, "acme", f.order(forgetAcme, f.opts.Signer))
		}, []string{"leaf 64"}},
		{"it is for another project", func(f *forger) {
			f.forget(streams.TypeForgotten, "acme", f.order(streams.Custody{Do: streams.DoForget, Project: "other",
				Reason: "r"}, f.operator.Signer))
			f.destroy("acme")
		}, []string{"leaf 64", "other"}},
		{"it is one about a data subject", func(f *forger) {
			f.forget(streams.TypeForgotten, "acme", f.order(streams.Custody{Do: streams.DoForget, Project: "acme",
				DataSubject: "p-1", Entries: []uint64{40}, Reason: "r"}, f.operator.Signer))
			f.destroy("acme")
		}, []string{"leaf 64"}},
		{"it is a release of a legal hold", func(f *forger) {
			f.forget(streams.TypeForgotten, "acme", f.order(streams.Custody{Do: streams.DoRelease, Project: "acme",
				Reason: "r"}, f.operator.Signer))
			f.destroy("acme")
		}, []string{"leaf 64"}},
		{"it was obeyed before", func(f *forger) {
			signed := f.order(forgetAcme, f.operator.Signer)
			f.forget(streams.TypeForgotten, "acme", signed)
			f.say(streams.TypeMemory, "acme", "acme", []byte(`{"id":"later"}`))
			f.forget(streams.TypeForgotten, "acme", signed)
			f.destroy("acme")
		}, []string{"leaf 66", "already carried out"}},
		{"it is an old one that was never used", func(f *forger) {
			signed := f.order(forgetAcme, f.operator.Signer)
			f.now = f.now.Add(40 * 24 * time.Hour)
			f.forget(streams.TypeForgotten, "acme", signed)
			f.destroy("acme")
		}, []string{"leaf 64", "issued"}},
		{"a key of the forger's own that it put in force itself", func(f *forger) {
			mine := fuzztest.NewPair(f.t, "operator")
			f.activate(mine, trustIn(f.t, keys.RoleOperator, mine))
			f.forget(streams.TypeForgotten, "acme", f.order(forgetAcme, mine.Signer))
			f.destroy("acme")
		}, []string{"leaf 96"}},
		{"a key that is out of force", func(f *forger) {
			next := fuzztest.NewPair(f.t, "operator")
			f.activate(f.operator, trustIn(f.t, keys.RoleOperator, next))
			f.forget(streams.TypeForgotten, "acme", f.order(forgetAcme, f.operator.Signer))
			f.destroy("acme")
		}, []string{"leaf 96", "not active"}},
		{"the key that came after it", func(f *forger) {
			next := fuzztest.NewPair(f.t, "operator")
			f.activate(f.operator, trustIn(f.t, keys.RoleOperator, next))
			f.forget(streams.TypeForgotten, "acme", f.order(forgetAcme, next.Signer))
			f.destroy("acme")
		}, nil},
		{"it is stretched to what came after it was signed", func(f *forger) {
			signed := f.order(forgetAcme, f.operator.Signer)
			f.say(streams.TypeMemory, "acme", "acme", []byte(`{"id":"later"}`))
			f.now = f.now.Add(time.Hour)
			f.sayAs(streams.StageArbiter, streams.TypeVerdict, "acme", "acme", []byte(`{"verdict":"allow"}`))
			f.forget(streams.TypeForgotten, "acme", signed)
			f.destroy("acme")
		}, []string{"leaf 64", "leaf 65"}},
		{"verdicts that came while it was sent", func(f *forger) {
			signed := f.order(forgetAcme, f.operator.Signer)
			f.sayAs(streams.StageArbiter, streams.TypeVerdict, "acme", "acme", []byte(`{"verdict":"allow"}`))
			f.forget(streams.TypeForgotten, "acme", signed)
			f.destroy("acme")
		}, nil},
		{"an approver's key", func(f *forger) {
			approver := fuzztest.NewPair(f.t, "approver")
			trust := trustIn(f.t, keys.RoleOperator, f.operator)
			if err := trust.Add(keys.Pin{Key: approver.Public, Roles: []keys.Role{keys.RoleApprover}}); err != nil {
				f.t.Fatal(err)
			}
			f.activate(f.operator, trust)
			f.forget(streams.TypeForgotten, "acme", f.order(forgetAcme, approver.Signer))
			f.destroy("acme")
		}, []string{"leaf 96"}},
		{"a stage that is not ingest", func(f *forger) {
			f.sayAs(streams.StageArbiter, streams.TypeForgotten, "acme", streams.SystemProject,
				f.json(&streams.CustodyEntry{Do: streams.DoForget, Note: f.order(forgetAcme, f.operator.Signer)}))
			f.destroy("acme")
		}, []string{"leaf 64"}},
		{"a list that an operator signed", func(f *forger) {
			f.erase(40, f.order(streams.Custody{Do: streams.DoForget, Project: "acme", DataSubject: "p-1",
				Entries: []uint64{40}, Reason: "r"}, f.operator.Signer))
		}, nil},
		{"a list that nobody signed", func(f *forger) {
			c := streams.Custody{Do: streams.DoForget, Project: "acme", DataSubject: "p-1", Entries: []uint64{40}, Reason: "r",
				ID: "i", Issued: f.now}
			f.erase(40, c.Text()+"\n")
		}, []string{"leaf 64", "leaf 39"}},
		{"a list that leaves out what is gone", func(f *forger) {
			f.erase(40, f.order(streams.Custody{Do: streams.DoForget, Project: "acme", DataSubject: "p-1",
				Entries: []uint64{41}, Reason: "r"}, f.operator.Signer))
		}, []string{"leaf 39"}},
		{"an order to expire that an operator signed", func(f *forger) {
			c := expireAll(f)
			f.expire(f.order(c, f.operator.Signer), c)
		}, nil},
		{"an order to expire that the auditor signed", func(f *forger) {
			c := expireAll(f)
			f.expire(f.order(c, f.opts.Signer), c)
		}, []string{"leaf 64", "leaf 32"}},
		{"more expired than the order's sequence covers", func(f *forger) {
			c := expireAll(f)
			signed := c
			signed.UpTo = 50
			f.expire(f.order(signed, f.operator.Signer), c)
		}, []string{"leaf 50", "leaf 63"}},
		{"more expired than the order's time covers", func(f *forger) {
			c := expireAll(f)
			signed := c
			signed.Before = f.now.Add(-10 * time.Second)
			f.expire(f.order(signed, f.operator.Signer), c)
		}, []string{"leaf 63"}},
		{"what came behind the order expired", func(f *forger) {
			c := expireAll(f)
			signed := f.order(c, f.operator.Signer)
			f.say(streams.TypeMemory, "acme", "acme", []byte(`{"id":"later"}`))
			c.UpTo, c.Before = f.seq, f.now.Add(time.Second)
			f.expire(signed, c)
		}, []string{"leaf 64"}},
		{"a project under legal hold expired", func(f *forger) {
			f.forget(streams.TypeLegalHold, "acme", f.order(streams.Custody{Do: streams.DoHold, Project: "acme", Reason: "r"},
				f.operator.Signer))
			c := expireAll(f)
			f.expire(f.order(c, f.operator.Signer), c)
		}, []string{"leaf 32"}},
		{"a project whose legal hold was released expired", func(f *forger) {
			for _, do := range []string{streams.DoHold, streams.DoRelease} {
				f.forget(streams.TypeLegalHold, "acme", f.order(streams.Custody{Do: do, Project: "acme", Reason: "r"},
					f.operator.Signer))
			}
			c := expireAll(f)
			f.expire(f.order(c, f.operator.Signer), c)
		}, nil},
		{"an order to expire passed off as one to forget", func(f *forger) {
			c := expireAll(f)
			f.forget(streams.TypeForgotten, "acme", f.order(c, f.operator.Signer))
			f.destroy("acme")
		}, []string{"leaf 64"}},
		{"verdicts of later are passed off as derived from what was forgotten", func(f *forger) {
			f.forget(streams.TypeForgotten, "acme", f.order(forgetAcme, f.operator.Signer))
			f.destroy("acme")
			f.now = f.now.Add(24 * time.Hour)
			f.sayAs(streams.StageArbiter, streams.TypeVerdict, "acme", "acme~", []byte(`{"verdict":"allow"}`))
			f.sayAs(streams.StageArbiter, streams.TypeDropped, "acme", streams.SystemProject, []byte(`{"statement":"x"}`))
			f.destroy("acme~")
		}, []string{"leaf 65"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newForger(t)
			earlier := f.checkpoint()
			c.do(f)
			rep := f.verify(earlier)
			all := strings.Join(rep.Problems, "\n")
			if len(c.want) == 0 {
				if rep.Status != chain.Verified || rep.Forgotten == 0 {
					t.Errorf("%+v", rep)
				}
				return
			}
			if rep.Status != chain.Failed {
				t.Fatalf("%s: %+v", rep.Status, rep)
			}
			for _, w := range c.want {
				if !strings.Contains(all, w) {
					t.Errorf("%q is not in\n%s", w, all)
				}
			}
		})
	}
}

// erase writes a statement about one data subject, and erases the payload of the entry seq.
func (f *forger) erase(seq uint64, signed string) {
	f.t.Helper()
	f.forget(streams.TypeErased, "acme", signed)
	if n, err := f.log.EraseEntries(context.Background(), []uint64{seq}, "acme", nil); n != 1 || err != nil {
		f.t.Fatal(n, err)
	}
}

func lawfulBy(trust *keys.Trust) *chain.Lawful {
	return statement.Lawful(trust.Verifiers(keys.RoleOperator))
}

// An attacker with the auditor's disk and keys adds a leaf to the log whose entry the ledger does not have. The auditor
// must stop with a MismatchError when it starts, and report an incident.
func TestPromiseB13AnAuditorWhoseLastLeafIsNotInTheLedgerRefusesToGoOn(t *testing.T) {
	for _, c := range []struct {
		name  string
		later int // number of real entries that arrive after the forged leaf
		want  string
	}{{"the ledger goes on otherwise", 3, "leaf 20"}, {"the ledger ends before it", 0, "the ledger ends at 20"}} {
		t.Run(c.name, func(t *testing.T) {
			srv := natstest.Start(t)
			w := newLedger(t, srv)
			incidents := make(chan string, 10)
			if _, err := srv.Connect().Subscribe("lz.live.*.incident", func(m *nats.Msg) {
				incidents <- string(m.Data)
			}); err != nil {
				t.Fatal(err)
			}
			cfg := config(t, fuzztest.NewPair(t, "a"), 1)
			a := start(t, srv, cfg)
			w.write(20)
			a.await("it has chained 20", reached(20))
			a.halt()
			l, err := chain.Open(cfg.Dir, chain.Options{Signer: cfg.Signer, MasterKey: cfg.MasterKey})
			if err != nil {
				t.Fatal(err)
			}
			e := chain.Entry{Seq: 21, Time: time.Now(), Type: string(streams.TypeForgotten), Project: "acme", Subject: "_",
				Payload: []byte("ingest 1 0\n{}")}
			if err := l.Append([]chain.Entry{e}); err != nil {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			w.write(c.later)
			a = start(t, srv, cfg)
			defer a.Close()
			time.AfterFunc(20*time.Second, a.stop) // stops an auditor that does not end by itself
			var mismatch *auditor.MismatchError
			if err := <-a.done; !errors.As(err, &mismatch) || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), "evidence") {
				t.Fatalf("the auditor ended with %v", err)
			}
			if got := <-incidents; !strings.Contains(got, "ledger-mismatch") {
				t.Error(got)
			}
		})
	}
}

// An attacker who can publish on ingest's subject writes orders to forget that no operator signed. The auditor must not
// destroy keys because of them.
func TestPromiseB13AnAuditorRefusesForgettingThatNoOperatorSigned(t *testing.T) {
	srv := natstest.Start(t)
	w := newLedger(t, srv)
	operator, forger := fuzztest.NewPair(t, "operator"), fuzztest.NewPair(t, "operator")
	incidents := make(chan string, 10)
	if _, err := srv.Connect().Subscribe("lz.live.*.incident", func(m *nats.Msg) {
		incidents <- string(m.Data)
	}); err != nil {
		t.Fatal(err)
	}
	k := fuzztest.NewPair(t, "a")
	cfg := config(t, k, 1)
	trust := trustIn(t, keys.RoleOperator, operator)
	cfg.Operators = trust.Verifiers(keys.RoleOperator)
	a := start(t, srv, cfg)
	w.write(30)
	forget := func(id string, by fuzztest.Pair) {
		t.Helper()
		signed, err := streams.Custody{Do: streams.DoForget, Project: "p1", ID: id, UpTo: 31,
			Issued: time.Now().UTC().Truncate(time.Second), Reason: "r"}.Sign(by.Signer)
		if err != nil {
			t.Fatal(err)
		}
		body, err := streams.Marshal(&streams.CustodyEntry{EntryHead: streams.EntryHead{ID: id}, Do: streams.DoForget,
			Note: string(signed)})
		if err != nil {
			t.Fatal(err)
		}
		e := streams.Entry{Partition: 3, Stage: streams.StageIngest, Type: streams.TypeForgotten, Project: "p1", Src: 99,
			Salt: streams.NewSalt(), Body: body}
		if _, err := w.js.PublishMsg(context.Background(), wire.Msg(&e)); err != nil {
			t.Fatal(err)
		}
	}
	forget("a", forger)
	a.await("it has chained the forgery", reached(31))
	if got := <-incidents; !strings.Contains(got, "forgetting-refused") || !strings.Contains(got, `"entry":31`) {
		t.Error(got)
	}
	gone := func() (n int) {
		t.Helper()
		a.halt()
		l, err := chain.Open(cfg.Dir, chain.Options{MasterKey: cfg.MasterKey, ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		for i := range l.Head().Size {
			if _, err := l.Payload(i); errors.Is(err, chain.ErrForgotten) {
				n++
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := gone(); n != 0 {
		t.Errorf("%d payloads are gone", n)
	}
	a = start(t, srv, cfg)
	forget("b", operator)
	a.await("it has chained the order", reached(32))
	if n := gone(); n != 10 {
		t.Errorf("%d payloads are gone by an operator's order, want 10", n)
	}
	rep, err := chain.VerifyDir(context.Background(), cfg.Dir, chain.Options{MasterKey: cfg.MasterKey},
		chain.VerifyOptions{Verifiers: note.VerifierList(k.Verifier), Lawful: statement.Lawful(cfg.Operators)})
	if err != nil || rep.Status != chain.Failed || rep.FirstBad != 30 || rep.Forgotten != 10 {
		t.Errorf("the log that holds a forgery: %+v, %v", rep, err)
	}
}

// After a restart, the auditor ignores an order that it refused. It keeps the entries that follow.
func TestPromiseB13ARestartedAuditorIgnoresForgettingThatItRefused(t *testing.T) {
	srv := natstest.Start(t)
	w := newLedger(t, srv)
	operator, forger := fuzztest.NewPair(t, "operator"), fuzztest.NewPair(t, "operator")
	cfg := config(t, fuzztest.NewPair(t, "a"), 1)
	cfg.Operators = trustIn(t, keys.RoleOperator, operator).Verifiers(keys.RoleOperator)
	a := start(t, srv, cfg)
	publish := func(e streams.Entry) {
		t.Helper()
		e.Partition, e.Project, e.Salt = 3, "p1", streams.NewSalt()
		if _, err := w.js.PublishMsg(context.Background(), wire.Msg(&e)); err != nil {
			t.Fatal(err)
		}
	}
	w.write(30)
	signed, err := streams.Custody{Do: streams.DoForget, Project: "p1", ID: "a", UpTo: 30,
		Issued: time.Now().UTC().Truncate(time.Second), Reason: "r"}.Sign(forger.Signer)
	if err != nil {
		t.Fatal(err)
	}
	body, err := streams.Marshal(&streams.CustodyEntry{EntryHead: streams.EntryHead{ID: "a"}, Do: streams.DoForget,
		Note: string(signed)})
	if err != nil {
		t.Fatal(err)
	}
	publish(streams.Entry{Stage: streams.StageIngest, Type: streams.TypeForgotten, Src: 99, Body: body})
	a.await("it has chained the forgery", reached(31))
	a.halt()
	a = start(t, srv, cfg)
	publish(streams.Entry{Stage: streams.StageArbiter, Type: streams.TypeVerdict, Src: 28, Body: []byte(`{}`)})
	a.await("it has chained the verdict", reached(32))
	if _, err := a.end().Payload(31); err != nil {
		t.Errorf("a verdict after a refused order: %v", err)
	}
}

func TestPromiseB13AnOrderThatNamesNoEntriesIsReported(t *testing.T) {
	f := newForger(t)
	f.forget(streams.TypeForgotten, "acme", f.order(streams.Custody{Do: streams.DoForget, Project: "acme",
		Reason: byEarlierVersion}, f.operator.Signer))
	f.destroy("acme")
	rep := f.verify(f.checkpoint())
	if rep.Status != chain.Incomplete || rep.Forgotten == 0 || !strings.Contains(strings.Join(rep.Skipped, "\n"),
		"leaf 64 (forgotten, project acme)") &&
		!strings.Contains(strings.Join(rep.Skipped, "\n"), "names no ledger entries") {
		t.Errorf("%+v", rep)
	}
}

// Entries that arrive between the signing of an order and the order's entry stay.
func TestPromiseB13AnAuditorForgetsWhatAnOrderNamesAndNothingThatCameLater(t *testing.T) {
	srv := natstest.Start(t)
	w := newLedger(t, srv)
	operator := fuzztest.NewPair(t, "operator")
	k := fuzztest.NewPair(t, "a")
	cfg := config(t, k, 1)
	cfg.Operators = trustIn(t, keys.RoleOperator, operator).Verifiers(keys.RoleOperator)
	a := start(t, srv, cfg)
	publish := func(e streams.Entry) {
		t.Helper()
		if _, err := w.js.PublishMsg(context.Background(), wire.Msg(&e)); err != nil {
			t.Fatal(err)
		}
	}
	w.write(30)
	signed, err := streams.Custody{Do: streams.DoForget, Project: "p1", ID: "a", UpTo: 30,
		Ranges: []streams.SeqRange{{From: 1, To: 28}},
		Issued: time.Now().UTC().Truncate(time.Second), Reason: "r"}.Sign(operator.Signer)
	if err != nil {
		t.Fatal(err)
	}
	w.write(6) // two of them are p1's
	derived := func(src uint64) streams.Entry {
		return streams.Entry{Partition: 3, Stage: streams.StageArbiter, Type: streams.TypeVerdict, Project: "p1", Src: src,
			Salt: streams.NewSalt(), Body: []byte(`{}`)}
	}
	publish(derived(28)) // derived from forgotten entries
	publish(derived(34)) // derived from entries that stay
	body, err := streams.Marshal(&streams.CustodyEntry{EntryHead: streams.EntryHead{ID: "a"}, Do: streams.DoForget,
		Note: string(signed)})
	if err != nil {
		t.Fatal(err)
	}
	publish(streams.Entry{Partition: 3, Stage: streams.StageIngest, Type: streams.TypeForgotten, Project: "p1", Src: 99,
		Salt: streams.NewSalt(), Body: body})
	publish(derived(31)) // derived from entries that stay
	publish(derived(1))  // derived from forgotten entries
	a.await("it has chained the order", reached(41))
	check := func() {
		t.Helper()
		a.halt()
		l, err := chain.Open(cfg.Dir, chain.Options{MasterKey: cfg.MasterKey, ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		for i := range l.Head().Size {
			leaf, err := l.Leaf(i)
			if err != nil {
				t.Fatal(err)
			}
			want := leaf.Project == "p1" && leaf.Seq <= 30 || leaf.Seq == 37 || leaf.Seq == 41
			if _, err := l.Payload(i); errors.Is(err, chain.ErrForgotten) != want {
				t.Errorf("leaf %d, a %s of %s: %v", i, leaf.Type, leaf.Project, err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		rep, err := chain.VerifyDir(context.Background(), cfg.Dir, chain.Options{MasterKey: cfg.MasterKey},
			chain.VerifyOptions{Verifiers: note.VerifierList(k.Verifier), Lawful: statement.Lawful(cfg.Operators)})
		if err != nil || rep.Status != chain.Verified || rep.Forgotten != 12 {
			t.Errorf("%+v, %v", rep, err)
		}
	}
	check()
	a = start(t, srv, cfg)
	publish(derived(4)) // the order is still known after a restart
	publish(derived(34))
	a.await("it has chained what came later", reached(43))
	a.halt()
	l, err := chain.Open(cfg.Dir, chain.Options{MasterKey: cfg.MasterKey, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i, gone := range map[int64]bool{41: true, 42: false} {
		if _, err := l.Payload(i); errors.Is(err, chain.ErrForgotten) != gone {
			t.Errorf("leaf %d: %v", i, err)
		}
	}
}
