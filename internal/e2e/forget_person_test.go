package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/client"
	"lazaret/internal/datafolder"
	"lazaret/internal/retain"
	"lazaret/internal/statement"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

// One agent serves two people of one project, and one of them is erased. Then no file may contain a word of this
// person. Beliefs about the other person must be served as before. The log must record how many payloads were removed
// and who ordered it.
func TestAPersonIsForgottenWithinAProjectAndTheOtherIsServedAsBefore(t *testing.T) {
	long(t)
	t.Parallel()
	data, addr := t.TempDir(), freePort(t)
	up := start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", addr)
	second := filepath.Join(data, "audit2")
	must(t, data, "key", "gen", "second.example", filepath.Join(data, "second.key"), "--pin", "auditor")
	aud := start(t, "ready", "auditor", "--data", data, "--dir", second, "--key", filepath.Join(data, "second.key"))
	h := newHost(t, data)

	const secret, kept, both = "Mellifluous-7781-quokka", "Perspicacious-4410-wombat", "Tintinnabulate-2208-dugong"
	for i, word := range []string{secret, kept} {
		person := fmt.Sprint("p-", 17+i)
		personSays(t, h, h.c, person, word)
		if _, err := h.c.Decide(h.ctx(), &streams.Action{Head: streams.Head{ID: "x" + person, Session: "s" + person,
			DataSubject: person}, Args: jsontext.Value(fmt.Sprintf(`{"body":%q}`, word))}); err == nil {
			t.Fatal("an action without a tool is taken")
		}
	}
	// An entry that is about both people is erased with either of them.
	if _, err := h.c.Recall(h.ctx(), &streams.Recall{Head: streams.Head{ID: "rboth", Session: "s"},
		Query: "the word of this person"}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.c.Remember(h.ctx(), "agent", &streams.Memory{Head: streams.Head{ID: "mboth", Session: "s",
		DataSubject: "p-18"}, DerivedFrom: []string{"op-17"}, Content: "Noted: " + both + " and " + secret}); err != nil {
		t.Fatal(err)
	}
	awaitLog(t, data, `type == "verdict" && body.id == "mboth"`)
	if err := os.MkdirAll(filepath.Join(data, "shards"), 0o700); err != nil {
		t.Fatal(err)
	}
	shard := filepath.Join(data, "shards", "all.zip")
	must(t, data, "audit", "bundle", "-o", shard)

	recalled := func(when string) string {
		t.Helper()
		rep, err := h.c.Recall(h.ctx(), &streams.Recall{Head: streams.Head{ID: client.NewID(), Session: "s2"},
			Key: "word-p-18"})
		if err != nil || rep.Recall == nil || len(rep.Recall.Admitted) != 1 ||
			!strings.Contains(rep.Recall.Admitted[0].Content, kept) {
			t.Fatalf("%s: the other's memory is not served: %+v, %v", when, rep, err)
		}
		return rep.Recall.Admitted[0].ID
	}
	belief := recalled("before")
	of := func(person string) string {
		return must(t, data, "beliefs", "ls", "--json", "--where", `session == "s`+person+`"`)
	}
	other, holds := of("p-18"), must(t, data, "holds", "ls", "--json", "--where", `verdict.id == "ap-18"`)
	if !strings.Contains(other, belief) || !strings.Contains(of("p-17"), secret) || len(holds) < 10 {
		t.Fatalf("before: %s\n%s\n%s", other, of("p-17"), holds)
	}

	// An erasure must be refused under each of three legal holds: on the person, on another person whom the same
	// entries are about, and on the whole project.
	for _, who := range []string{"demo/p-17", "demo/p-18", "demo"} {
		must(t, data, "audit", "legal-hold", "set", "--subject", who, "--reason", "case 3")
		if out, code := command(t, data, "audit", "forget", "--subject", "demo/p-17", "--reason", "r"); code != 2 ||
			!strings.Contains(out, "legal hold") {
			t.Errorf("with %s under legal hold: exit %d, %s", who, code, out)
		}
		if out, code := command(t, data, "audit", "forget", "--subject", "demo", "--reason", "r"); code != 2 ||
			!strings.Contains(out, "legal hold") {
			t.Errorf("the project, with %s under legal hold: exit %d, %s", who, code, out)
		}
		must(t, data, "audit", "legal-hold", "release", "--subject", who, "--reason", "case 3 is closed")
	}
	if out, code := command(t, data, "audit", "forget", "--subject", "demo/p-99", "--reason", "r"); code != 1 ||
		!strings.Contains(out, "no entry of project demo concerns data subject") {
		t.Errorf("nobody: exit %d, %s", code, out)
	}

	for _, who := range []string{"demo/p-99", "dmeo"} {
		if out, code := command(t, data, "audit", "forget", "--subject", who, "--dry-run"); code != 2 ||
			!strings.Contains(out, "nothing of "+who+" is recorded") || strings.Contains(out, "would be forgotten") {
			t.Errorf("of nobody: exit %d, %s", code, out)
		}
	}
	out := must(t, data, "audit", "forget", "--subject", "demo/p-17", "--dry-run")
	if !strings.Contains(out, "data subject p-17 of project demo would be forgotten") {
		t.Error(out)
	}
	for _, want := range []string{"entries of ingest", shard, "memory mboth of ingest, about p-18",
		"recall rboth of ingest, about p-18"} {
		if !strings.Contains(out, want) {
			t.Errorf("the dry run does not tell of %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "mp-18") {
		t.Errorf("the other's memory would go too:\n%s", out)
	}
	if f := filesWith(t, data, secret); len(f) == 0 {
		t.Error("a dry run forgets")
	}
	var rec retain.Record
	if err := streams.Unmarshal([]byte(lastJSON(must(t, data, "audit", "forget", "--subject", "demo/p-17", "--reason",
		"request 18", "--json"))), &rec); err != nil {
		t.Fatal(err)
	}
	if !rec.Whole() || rec.Entry == 0 || rec.DataSubject != "p-17" || len(rec.Also) < 2 {
		t.Errorf("%+v", rec)
	}
	forgotten := int64(0)
	verified := func(when string, rep chain.Report) {
		t.Helper()
		if forgotten == 0 {
			forgotten = rep.Forgotten
		}
		if rep.Status != chain.Verified || rep.Forgotten != forgotten || rep.Forgotten < 12 || rep.Payloads < 10 ||
			rep.Gaps != 0 {
			t.Errorf("%s: %+v", when, rep)
		}
	}
	// verifySecond verifies the log of the second auditor, which must not run meanwhile.
	verifySecond := func(when string) {
		t.Helper()
		trust, err := keys.LoadTrust(datafolder.TrustFile(data))
		if err != nil {
			t.Fatal(err)
		}
		master, err := datafolder.MasterKey(data)
		if err != nil {
			t.Fatal(err)
		}
		rep, err := chain.VerifyDir(h.ctx(), second, chain.Options{MasterKey: master},
			chain.VerifyOptions{Verifiers: trust.Verifiers(keys.RoleAuditor),
				Lawful: statement.Lawful(trust.Verifiers(keys.RoleOperator))})
		if err != nil {
			t.Fatal(err)
		}
		verified(when+", the second auditor", rep)
	}
	check := func(when string) {
		t.Helper()
		var rep chain.Report
		if err := streams.Unmarshal([]byte(lastJSON(must(t, data, "audit", "verify", "--json"))), &rep); err != nil {
			t.Fatal(err)
		}
		verified(when, rep)
		if got := of("p-18"); got != other {
			t.Errorf("%s: the other's beliefs have changed:\n%s\nwere\n%s", when, got, other)
		}
		if got := must(t, data, "holds", "ls", "--json", "--where", `verdict.id == "ap-18"`); got != holds {
			t.Errorf("%s: the other's holds have changed:\n%s\nwere\n%s", when, got, holds)
		}
		if got := of("p-17"); strings.Contains(got, "quokka") {
			t.Errorf("%s: it is still believed: %s", when, got)
		}
		if id := recalled(when); id != belief {
			t.Errorf("%s: %s is served in the place of %s", when, id, belief)
		}
		for _, gone := range []string{secret, both} {
			if f := filesWith(t, data, gone); len(f) != 0 {
				t.Errorf("%s: %s is in %v", when, gone, f)
			}
		}
	}
	check("while it runs")
	if out, code := command(t, data, "audit", "verify", "--bundle", shard); code != 3 ||
		strings.Count(out, "not checked:") != 1 || !strings.Contains(out, "no checkpoint from outside") ||
		strings.Contains(out, " 0 forgotten") {
		t.Errorf("the shard that was made anew: %s", out)
	}
	if out := must(t, data, "audit", "ls", "--last", "0", "--where", `project == "demo" && !forgotten`,
		"--json"); strings.Contains(out, secret) || !strings.Contains(out, kept) || strings.Count(out, `"erased"`) == 0 {
		t.Errorf("what of the project can be read: %s", out)
	}
	if signed, err := os.ReadFile(rec.File); err != nil || !strings.Contains(string(signed), "data subject: p-17") ||
		!strings.Contains(string(signed), "— lazaret-operator ") {
		t.Errorf("%s: %v", signed, err)
	}
	// A repetition has nothing left to do.
	if out := must(t, data, "audit", "forget", "--subject", "demo/p-17", "--reason",
		"request 18 again"); strings.Contains(out, "NOT ERASED") {
		t.Error(out)
	}

	up.kill()
	up = start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", addr)
	check("after a kill")
	aud.interrupt()
	up.interrupt()
	verifySecond("after a kill")
	if out := must(t, data, "audit", "compare", filepath.Join(data, "audit"), second); !strings.Contains(out, "EQUAL") {
		t.Error(out)
	}
	for _, s := range []string{"ingest", "arbiter", "sentinel-core"} {
		if err := os.RemoveAll(filepath.Join(data, "state", s)); err != nil {
			t.Fatal(err)
		}
	}
	up = start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", addr)
	aud = start(t, "ready", "auditor", "--data", data, "--dir", second, "--key", filepath.Join(data, "second.key"))
	check("folded anew")
	// Entries about the person that come after the erasure are readable. They need another erasure.
	const fresh = "Halcyon-9092-numbat"
	personSays(t, h, h.c, "p-17", fresh)
	if out := must(t, data, "audit", "forget", "--subject", "demo/p-17", "--reason", "request 19"); strings.Contains(out,
		"NOT ERASED") {
		t.Error(out)
	}
	if f := filesWith(t, data, fresh); len(f) != 0 {
		t.Errorf("forgotten again, it is in %v", f)
	}
	aud.interrupt()
	up.interrupt()
	forgotten = 0
	verifySecond("forgotten again")
	if out := must(t, data, "audit", "verify"); !strings.Contains(out, "VERIFIED") {
		t.Error(out)
	}
}
