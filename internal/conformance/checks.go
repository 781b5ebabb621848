package conformance

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/natsserver"
	"lazaret/internal/wire"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

func harmless(id string) *streams.Action {
	return &streams.Action{Head: streams.Head{ID: id, Session: "calm"}, Tool: "conformance.read",
		Args: []byte(`{"path":"notes.txt"}`)}
}

// starts makes a proposal, starts the program and makes a second proposal. The first answer may take longer than
// the deadline, but it must come: a group must also answer proposals that were made before it started.
func (r *runner) starts(ctx context.Context) (string, error) {
	var err error
	if r.cmd, err = r.launch("1"); err != nil {
		return "", err
	}
	if _, _, err := r.ask(ctx, projects[0], streams.KindAct, "", harmless(r.id("a"))); err != nil {
		return "", err
	}
	if err := wait(ctx, r.cfg.Patience, func() bool {
		return r.cmd.ended() || unanswered(r.ledger.all(), r.stage, 0) == 0
	}); err != nil {
		_, oerr := order(r.ledger.all(), r.stage, 0)
		return "", fmt.Errorf("%w: %w%s", err, oerr, r.cmd.last())
	}
	began := time.Now()
	v, _, err := r.ask(ctx, projects[0], streams.KindAct, "", harmless(r.id("a")))
	if err != nil {
		return "", err
	}
	took := time.Since(began).Round(time.Millisecond)
	if err := r.silent(v); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, deadline %v; a harmless action is %s", took, r.cfg.Deadline, v.Verdict), nil
}

func (r *runner) load(ctx context.Context) (string, error) {
	from, err := r.mark(ctx)
	if err != nil {
		return "", err
	}
	if err := r.proposals(ctx, r.cfg.Proposals); err != nil {
		return "", err
	}
	n, err := r.answered(ctx, from, r.running)
	return fmt.Sprintf("%d proposals in %d projects", n, len(projects)), err
}

// killed kills the program at random times under load.
func (r *runner) killed(ctx context.Context) (string, error) {
	from, err := r.mark(ctx)
	if err != nil {
		return "", err
	}
	for range kills {
		failed := make(chan error, 1)
		go func() { failed <- r.proposals(ctx, r.cfg.Proposals) }()
		time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond)
		// Kill it only when it is working: wait for its next entry.
		was := len(own(r.ledger.all(), r.stage))
		_ = wait(ctx, 5*time.Second, func() bool { return len(own(r.ledger.all(), r.stage)) > was })
		r.cmd.kill()
		if err := <-failed; err != nil {
			return "", err
		}
		if r.cmd, err = r.launch("1"); err != nil {
			return "", err
		}
	}
	n, err := r.answered(ctx, from, r.running)
	return fmt.Sprintf("%d kills over %d proposals", kills, n), err
}

func own(recs []record, stage string) (out []uint64) {
	for i := range recs {
		if recs[i].Stage == stage {
			out = append(out, recs[i].Seq)
		}
	}
	return out
}

// rivals runs two processes of the program at the same time. A process whose fenced publish is refused may become idle,
// read the ledger again or end. rivals restarts a process that ends, as a supervisor would.
func (r *runner) rivals(ctx context.Context) (string, error) {
	from, err := r.mark(ctx)
	if err != nil {
		return "", err
	}
	alone, err := r.readers(ctx)
	if err != nil {
		return "", err
	}
	second, err := r.launch("2")
	if err != nil {
		return "", err
	}
	defer func() { second.kill() }()
	// Begin when the second process reads the ledger. A program that shares a consumer with the first adds none,
	// so the wait has an end.
	_ = wait(ctx, 5*time.Second, func() bool {
		n, err := r.readers(ctx)
		return err != nil || n > alone
	})
	restarts := 0
	revive := func() error {
		for _, x := range []struct {
			c        **command
			instance string
		}{{&r.cmd, "1"}, {&second, "2"}} {
			if !(*x.c).ended() {
				continue
			}
			if restarts++; restarts > 50 {
				return fmt.Errorf("the command exited %d times while two processes ran%s", restarts, (*x.c).last())
			}
			c, err := r.launch(x.instance)
			if err != nil {
				return err
			}
			*x.c = c
		}
		return nil
	}
	for range 3 {
		if err := r.proposals(ctx, r.cfg.Proposals/2+1); err != nil {
			return "", err
		}
		if err := revive(); err != nil {
			return "", err
		}
		time.Sleep(200 * time.Millisecond)
	}
	n, err := r.answered(ctx, from, revive)
	if err == nil {
		err = revive()
	}
	return fmt.Sprintf("%d proposals, %d restarts", n, restarts), err
}

// readers returns the number of consumers of the ledger.
func (r *runner) readers(ctx context.Context) (int, error) {
	st, err := r.js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		return 0, fmt.Errorf("counting the consumers of %s: %w", streams.LedgerStream, err)
	}
	return st.CachedInfo().State.Consumers, nil
}

// junk writes entries to the ledger that no version of the pipeline writes, and entries that a later
// version may write.
func (r *runner) junk(ctx context.Context) (string, error) {
	from, err := r.mark(ctx)
	if err != nil {
		return "", err
	}
	nc, err := r.connect(natsserver.SentinelRole("stranger"))
	if err != nil {
		return "", err
	}
	stranger := wire.JetStream(nc)
	put := func(js jetstream.JetStream, stage string, partition int, h nats.Header, body string) (uint64, error) {
		ack, err := js.PublishMsg(ctx, &nats.Msg{Subject: streams.LedgerSubject(partition, stage), Header: h,
			Data: []byte(body)})
		if err != nil {
			return 0, fmt.Errorf("writing invalid entries to the ledger: %w", err)
		}
		return ack.Sequence, nil
	}
	head := func(typ, src string) nats.Header {
		s := streams.NewSalt()
		return nats.Header{streams.HeaderType: {typ}, streams.HeaderProject: {projects[0]}, streams.HeaderSrc: {src},
			streams.HeaderSalt: {hex.EncodeToString(s[:])}}
	}
	n := 0
	for _, project := range projects {
		p := streams.PartitionOf(project)
		for _, x := range []struct {
			h    nats.Header
			body string
		}{
			{nil, ""},
			{nil, "\x00\xff no JSON"},
			{head("", "1"), "{}"},
			{head("weather", "1"), `{"sun":true}`},
			{head("assessment", "minus one"), "{}"},
			{head("assessment", "18446744073709551615"), "[[[["},
			{head("action", "1"), `{"id":"forged","tool":"conformance.read"}`}, // only ingest writes proposals
		} {
			if _, err := put(stranger, streams.SentinelStage("stranger"), p, x.h, x.body); err != nil {
				return "", err
			}
			n++
		}
		if err := r.fromTheFuture(ctx, put, p); err != nil {
			return "", err
		}
		n++
	}
	if err := r.proposals(ctx, 2*len(projects)); err != nil {
		return "", err
	}
	if _, err := r.answered(ctx, from, r.running); err != nil {
		return "", err
	}
	if err := r.restart(); err != nil { // the restarted program reads all entries again
		return "", err
	}
	if err := r.proposals(ctx, len(projects)); err != nil {
		return "", err
	}
	k, err := r.answered(ctx, from, r.running)
	return fmt.Sprintf("%d such messages, %d proposals after them", n, k), err
}

// fromTheFuture writes an entry of an unknown type on ingest's subject. Ingest takes it for an entry of
// another ingest process and continues after it.
func (r *runner) fromTheFuture(ctx context.Context, put func(jetstream.JetStream, string, int, nats.Header,
	string) (uint64, error), p int) error {
	nc, err := r.p.Server.Connect(natsserver.RoleIngest)
	if err != nil {
		return err
	}
	defer nc.Close()
	js := wire.JetStream(nc)
	var last record
	for _, x := range r.ledger.all() {
		if x.bad == nil && x.Stage == streams.StageIngest && x.Partition == p {
			last = x
		}
	}
	e := last.Entry
	e.Type, e.Salt, e.Body = "forecast", streams.NewSalt(), []byte(`{"id":"f1","agent":"agent","rain":[1,2,3]}`)
	m := wire.Msg(&e)
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(last.Seq, 10))
	_, err = put(js, e.Stage, p, m.Header, string(m.Data))
	return err
}

// tightens shows the agent a poisoned text and proposes what the text asks for, before and after a
// kill.
func (r *runner) tightens(ctx context.Context) (string, error) {
	p := projects[1]
	if _, err := r.publish(ctx, p, streams.KindObs, beliefs.OriginWeb,
		&streams.Observation{Head: streams.Head{ID: r.id("o"), Session: "poisoned"},
			Tool: "conformance.read", Source: "https://evil.example", Content: r.cfg.Poison}); err != nil {
		return "", err
	}
	act := func(text string) (streams.Verdict, error, error) {
		args, err := streams.Marshal(map[string]string{"text": text})
		if err != nil {
			return 0, nil, err
		}
		v, said, err := r.ask(ctx, p, streams.KindAct, "",
			&streams.Action{Head: streams.Head{ID: r.id("a"), Session: "poisoned"}, Tool: "conformance.change", Args: args})
		if err != nil {
			return 0, nil, err
		}
		return v.Verdict, r.tightened(v, said), nil
	}
	mem, said, err := r.ask(ctx, p, streams.KindMem, beliefs.OriginWeb,
		&streams.Memory{Head: streams.Head{ID: r.id("m"), Session: "poisoned"}, Content: r.cfg.Poison})
	if err != nil {
		return "", err
	}
	memory := r.tightened(mem, said)
	whole, action, err := act(r.cfg.Poison)
	if err != nil {
		return "", err
	}
	if action != nil && memory != nil {
		return "", fmt.Errorf("%w; %w: if the group need not object to %q, give a text to which it must object "+
			"with --poison", action, memory, quote(r.cfg.Poison))
	}
	note := fmt.Sprintf("a memory write of the poison is %s, an action that repeats it %s", mem.Verdict, whole)
	// Propose an action to an address that only the poisoned text contains. The group objects to it only if it
	// remembers the text.
	target := address.FindString(r.cfg.Poison)
	if target == "" {
		return note + "; the poison names no address, so memory was not tried", nil
	}
	before, objection, err := act(target)
	if err != nil {
		return "", err
	}
	if objection != nil {
		return note + "; the address alone is " + before.String() + ", so memory was not tried", nil
	}
	if err := r.restart(); err != nil {
		return "", err
	}
	after, objection, err := act(target)
	if err != nil {
		return "", err
	}
	if objection != nil {
		return "", fmt.Errorf("before the group was killed, an action to %s was %s; after its restart, %w: at a "+
			"start, rebuild the state from the entries before the cursor too", target, before, objection)
	}
	return fmt.Sprintf("%s, one to its address %s, and %s after a kill", note, before, after), nil
}

var address = regexp.MustCompile(`[\w.+-]+@[\w-]+(\.[\w-]+)+`)

// tightened returns an error unless the verdict is stricter than allow because the group objected.
func (r *runner) tightened(v *streams.VerdictEntry, said *finding) error {
	where := fmt.Sprintf("entry %d (%s %s)", v.Proposal, v.Type, v.ID)
	if err := r.silent(v); err != nil {
		return err
	}
	if v.Verdict > streams.Allow && slices.ContainsFunc(v.Reasons, func(x streams.Reason) bool {
		return x.Group == r.cfg.Group && x.Verdict > streams.Allow
	}) {
		return nil
	}
	if said == nil || said.Verdict == nil {
		return fmt.Errorf("%s has the verdict %s without an assessment", where, v.Verdict)
	}
	return fmt.Errorf("%s: the group answered %s, and the verdict is %s", where, *said.Verdict, v.Verdict)
}

// loosens proposes actions that the policy holds or denies, and checks that no answer of the group changes that.
func (r *runner) loosens(ctx context.Context) (string, error) {
	var errs []error
	note := ""
	for _, x := range []struct {
		tool  string
		least streams.Verdict
	}{{"conformance.send", streams.Hold}, {"conformance.never", streams.Deny}, {"unheard-of", streams.Deny}} {
		a := harmless(r.id("a"))
		a.Tool = x.tool
		v, said, err := r.ask(ctx, projects[2], streams.KindAct, "", a)
		if err != nil {
			return "", err
		}
		if err := r.silent(v); err != nil {
			errs = append(errs, err)
		}
		if v.Verdict < x.least {
			errs = append(errs, fmt.Errorf("entry %d (%s %s): the policy gives %s, but the verdict is %s", v.Proposal,
				v.Type, v.ID, x.least, v.Verdict))
		}
		says := "nothing"
		if said != nil && said.Verdict != nil {
			says = said.Verdict.String()
		}
		if note != "" {
			note += ", "
		}
		note += fmt.Sprintf("policy %s and group %s give %s", x.least, says, v.Verdict)
	}
	return note, errors.Join(errs...)
}

func (r *runner) wellFormed(context.Context) (string, error) {
	digest := r.cfg.Digest
	if digest == OfRules {
		digest = ""
	}
	n, err := form(r.ledger.all(), r.cfg.Group, digest)
	return fmt.Sprintf("%d entries", n), err
}
