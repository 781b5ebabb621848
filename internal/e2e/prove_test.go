package e2e

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/client"
	"lazaret/internal/datafolder"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

func TestAnAgentHasItsEntriesProvenAndNobodyElses(t *testing.T) {
	long(t)
	t.Parallel()
	data := t.TempDir()
	start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", "127.0.0.1:0", "--no-sync")
	must(t, data, "agent", "add", "other", "bot", "--origins", "user,web")
	must(t, data, "agent", "add", "demo", "colleague", "--origins", "user")
	h := newHost(t, data)
	as := func(role, project, agent string) *client.Client {
		t.Helper()
		c, err := client.New(connect(t, data, role), project, agent)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	bot, colleague := as("other.bot", "other", "bot"), as("demo.colleague", "demo", "colleague")
	trust, err := keys.LoadTrust(datafolder.TrustFile(data))
	if err != nil {
		t.Fatal(err)
	}
	vs := trust.Verifiers(keys.RoleAuditor)

	// Two agents use the same event id. Each must get a proof of its own event.
	v, err := h.c.Decide(h.ctx(), &streams.Action{Head: streams.Head{ID: "a1", Session: "s"}, Tool: "read_file",
		Args: jsontext.Value(`{"path":"mine"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := colleague.Decide(h.ctx(), &streams.Action{Head: streams.Head{ID: "a1", Session: "s"}, Tool: "read_file",
		Args: jsontext.Value(`{"path":"hers"}`)}); err != nil {
		t.Fatal(err)
	}
	prove := func(c *client.Client, r *streams.ProveRequest) (*chain.Proof, error) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			rep, err := c.Prove(h.ctx(), r)
			var e *client.Error
			if errors.As(err, &e) && (e.Code == streams.CodeUncovered || e.Code == streams.CodeNoEntry) &&
				time.Now().Before(end) && r.Agent != "nobody" {
				continue
			}
			if err != nil {
				return nil, err
			}
			p, err := chain.CheckProof([]byte(rep.Proof), vs, nil)
			if err != nil {
				t.Fatal(err)
			}
			if p.Leaf.Index != rep.Index || p.Leaf.Seq != rep.Seq {
				t.Errorf("it is said to be leaf %d of ledger entry %d, and proves %d of %d", rep.Index, rep.Seq, p.Leaf.Index,
					p.Leaf.Seq)
			}
			return p, nil
		}
	}
	mine, err := prove(h.c, &streams.ProveRequest{ID: "a1", Payload: true})
	if err != nil || mine.Leaf.Type != "action" || mine.Leaf.Project != "demo" || !bytes.Contains(mine.Payload,
		[]byte("mine")) {
		t.Errorf("%+v, %v", mine, err)
	}
	hers, err := prove(h.c, &streams.ProveRequest{ID: "a1", Agent: "colleague"})
	if err != nil || hers.Payload != nil || hers.Leaf.Seq == mine.Leaf.Seq {
		t.Errorf("%+v, %v", hers, err)
	}
	verdict, err := prove(h.c, &streams.ProveRequest{Seq: v.Seq, Payload: true})
	if err != nil || verdict.Leaf.Type != "verdict" || !bytes.Contains(verdict.Payload, []byte(`"a1"`)) {
		t.Errorf("%+v, %v", verdict, err)
	}

	code := func(c *client.Client, r *streams.ProveRequest, want streams.Code) {
		t.Helper()
		_, err := c.Prove(h.ctx(), r)
		var e *client.Error
		if !errors.As(err, &e) || e.Code != want || !errors.Is(err, client.ErrHold) {
			t.Errorf("%+v: %v, want %s", r, err, want)
		}
	}
	code(bot, &streams.ProveRequest{ID: "a1"}, streams.CodeNoEntry)
	code(bot, &streams.ProveRequest{ID: "a1", Agent: "agent"}, streams.CodeNoEntry)
	code(bot, &streams.ProveRequest{Seq: mine.Leaf.Seq}, streams.CodeNoEntry)
	code(bot, &streams.ProveRequest{Seq: 1}, streams.CodeNoEntry) // an entry of the pipeline
	code(h.c, &streams.ProveRequest{Seq: 1 << 40}, streams.CodeNoEntry)
	code(h.c, &streams.ProveRequest{ID: "unknown"}, streams.CodeNoEntry)
	code(h.c, &streams.ProveRequest{ID: "a1", Agent: "colleague", Payload: true}, streams.CodeNoEntry)
	code(h.c, &streams.ProveRequest{}, streams.CodeInvalid)
	code(h.c, &streams.ProveRequest{ID: "no id"}, streams.CodeInvalid)

	// A credential may ask for proofs only in the name of its own agent. A malformed request must be answered with an
	// error.
	nc := connect(t, data, "other.bot")
	if m, err := nc.Request("lz.svc.prove.demo.agent", []byte(`{"id":"a1"}`), 500*time.Millisecond); err == nil {
		t.Errorf("it may ask as somebody else: %s", m.Data)
	}
	for _, body := range []string{"", "null", "[]", `{"id":7}`, `{"id":"a","ledger_seq":1}`, `{"ledger_seq":-1}`} {
		m, err := nc.Request("lz.svc.prove.other.bot", []byte(body), 10*time.Second)
		if err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		var rep streams.ProveReply
		if err := streams.Unmarshal(m.Data, &rep); err != nil || rep.Error == nil || rep.Proof != "" {
			t.Errorf("%q: %s", body, m.Data)
		}
	}

	// A proof must be verifiable with the auditor's public key alone.
	rep, err := h.c.Prove(h.ctx(), &streams.ProveRequest{ID: "a1", Payload: true})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "a1.tlog-proof")
	if err := os.WriteFile(file, []byte(rep.Proof), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, data, "audit", "prove", "--check", file)

	// Erased entries are proven without their payload.
	must(t, data, "audit", "forget", "--subject", "demo", "--reason", "test")
	code(h.c, &streams.ProveRequest{Seq: mine.Leaf.Seq, Payload: true}, streams.CodeGone)
	if p, err := prove(h.c, &streams.ProveRequest{Seq: mine.Leaf.Seq}); err != nil ||
		p.Leaf.Commitment != mine.Leaf.Commitment {
		t.Errorf("%+v, %v", p, err)
	}
}
