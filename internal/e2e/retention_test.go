package e2e

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/client"
	"lazaret/internal/natstest"
	"lazaret/pkg/chain"
	"lazaret/streams"
)

// With --retention, lazaret up removes older entries from the ledger without a command. The log must keep them, and the
// pipeline must go on.
func TestUpWithARetentionTrimsByItself(t *testing.T) {
	long(t)
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	if out, code := command(t, data, "up", "--retention", "10ms"); code != 1 || !strings.Contains(out, "1s at least") {
		t.Fatalf("a retention of 10 ms: exit %d: %s", code, out)
	}
	args := []string{"up", "--data", data, "--listen", freePort(t), "--retention", "2s", "--expire", "0", "--no-sync"}
	up := start(t, "lazaret is up", "lazaret", args...)
	h := newHost(t, data)
	action := &streams.Action{Head: streams.Head{ID: "a1", Session: "s"}, Tool: "read_file"}
	given := h.decide(action)
	js, err := jetstream.New(connect(t, data, "operator"))
	if err != nil {
		t.Fatal(err)
	}
	st, err := js.Stream(t.Context(), streams.LedgerStream)
	if err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, 2*time.Minute, "the proposal is removed from the ledger", func() bool {
		_, err := st.GetMsg(t.Context(), given.Proposal)
		return errors.Is(err, jetstream.ErrMsgNotFound)
	})
	if again := h.decide(action); again.Proposal != given.Proposal || again.Verdict != given.Verdict {
		t.Errorf("asked again: %+v, was %+v", again, given)
	}
	if out := must(t, data, "audit", "show", "a1"); !strings.Contains(out, "read_file") {
		t.Errorf("the log says: %s", out)
	}
	if out, code := command(t, data, "audit", "show", "nosuch"); code != 2 || !strings.Contains(out, `has no entry "nosuch"`) ||
		!strings.Contains(out, "lazaret audit ls") {
		t.Errorf("exit %d, the log says of an entry that it does not have: %s", code, out)
	}
	up.kill()
	// A kill may leave entries in the log that no checkpoint covers yet.
	if out, code := command(t, data, "audit", "verify", "--offline"); code != 0 &&
		(code != 3 || !strings.Contains(out, "INCOMPLETE: no fault was found")) {
		t.Errorf("exit %d: %s", code, out)
	}
}

// With a retention, payloads of old observations expire in the log, and their content expires in the state. Memories,
// verdicts and projects under legal hold must stay, and the log must verify.
func TestWhatIsOlderThanTheRetentionExpiresInTheLogAndInTheState(t *testing.T) {
	long(t)
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	args := []string{"up", "--data", data, "--listen", freePort(t), "--retention", "4s", "--no-sync", "-v"}
	up := start(t, "lazaret is up", "lazaret", args...)
	const secret, kept = "Mellifluous-7781-quokka", "Perspicacious-4410-wombat"
	must(t, data, "agent", "add", "other", "bot", "--origins", "user,web")
	must(t, data, "audit", "legal-hold", "set", "--subject", "other", "--reason", "case 3")
	h := newHost(t, data)
	other, err := client.New(connect(t, data, "other.bot"), "other", "bot")
	if err != nil {
		t.Fatal(err)
	}
	bot := &host{t, other}
	h.reads("s", "o1", "The warehouse code is "+secret+" and nobody else has it.")
	bot.reads("s", "o1", "The warehouse code is "+kept+" and nobody else has it.")
	action := &streams.Action{Head: streams.Head{ID: "a1", Session: "s2"}, Tool: "read_file"}
	given := h.decide(action)
	if _, err := h.c.Remember(h.ctx(), "user", &streams.Memory{Head: streams.Head{ID: "m1", Session: "s2"}, Key: "budget",
		Content: "The budget is 100 crowns."}); err != nil {
		t.Fatal(err)
	}
	if out := must(t, data, "beliefs", "ls", "--json"); !strings.Contains(out, secret) {
		t.Fatalf("it was not read: %s", out)
	}
	natstest.Eventually(t, 2*time.Minute, "what was read is gone from the state", func() bool {
		return !strings.Contains(must(t, data, "beliefs", "ls", "--json"), secret)
	})
	if out := must(t, data, "beliefs", "ls", "--json"); !strings.Contains(out, "100 crowns") {
		t.Errorf("the memory is gone: %s", out)
	}
	if out := must(t, data, "beliefs", "ls", "--project", "other", "--json"); !strings.Contains(out, kept) {
		t.Errorf("what is under legal hold is gone: %s", out)
	}
	if again := h.decide(action); again.Proposal != given.Proposal || again.Verdict != given.Verdict {
		t.Errorf("asked again: %+v, was %+v", again, given)
	}
	verify := func() (rep chain.Report) {
		t.Helper()
		if err := streams.Unmarshal([]byte(must(t, data, "audit", "verify", "--json")), &rep); err != nil ||
			rep.Status != chain.Verified || rep.Gaps != 0 {
			t.Fatalf("%+v, %v", rep, err)
		}
		return rep
	}
	// The auditor may be some entries behind ingest.
	natstest.Eventually(t, time.Minute, "payloads expired in the log", func() bool { return verify().Forgotten > 0 })
	if out := must(t, data, "audit", "ls", "--last", "0", "--json"); strings.Contains(out, secret) ||
		!strings.Contains(out, kept) {
		t.Errorf("the log has %v and %v", strings.Contains(out, secret), strings.Contains(out, kept))
	}
	// If entries that a question is about have expired, the answer must be INCOMPLETE, not NONE.
	if out, code := command(t, data, "audit", "laundering"); code != 3 || !strings.HasPrefix(out, "INCOMPLETE: ") {
		t.Errorf("laundering after the expiry: exit %d, %s", code, out)
	}
	// After a kill and a restart, the stages fold the entries that are left in the ledger. The state must be the same.
	up.kill()
	up = start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", freePort(t), "--no-sync")
	verify()
	if out := must(t, data, "beliefs", "ls", "--json"); strings.Contains(out, secret) || !strings.Contains(out,
		"100 crowns") {
		t.Errorf("after a kill: %s", out)
	}
	up.interrupt()
}
