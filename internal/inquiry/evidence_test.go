package inquiry

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

func TestPromiseB16TheStatementSaysWhatIsMissing(t *testing.T) {
	w := newWriter(t)
	private, _, err := keys.Generate("test-log")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	w.subject = "p/x"
	w.observation("o1", beliefs.OriginWeb, "forgotten", beliefs.Unverified)
	if n, err := w.log.DestroyKeys("p/x"); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	w.subject = ""
	w.observation("o2", beliefs.OriginWeb, "kept", beliefs.Unverified)
	w.seq += 3 // the auditor never received these
	w.add(streams.StageRetention, streams.TypeTrimmed, 0, &streams.Retention{ID: "r", UpTo: 2, Trimmed: 2})
	// A person's decision whose signed statement and trust file are not in the log.
	w.memory("m1", beliefs.OriginUser, "", "approved", nil, &streams.Resolved{State: streams.HoldApproved, By: "alice",
		Key: "alice+00000000+AQ==", Hold: "h1"})

	l := w.open(false)
	ev, err := l.Evidence(t.Context(), EvidenceOptions{Of: "s", Signer: signer, Now: w.at})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nof: session s\n", "\napprovals: 0\napprovals not shown: 1\n",
		"\nforgotten in the project: 1\n", "\ngaps in the log: 1, 3 ledger entries missing\n",
		"\nledger trimmed up to: 2\n", "\nwithheld: none\n", "\nnot covered yet: 0\n",
		"\nfirst: " + ev.Leaves[0].Time.UTC().Format(time.RFC3339Nano) + "\n",
		"\nlast: " + ev.Leaves[len(ev.Leaves)-1].Time.UTC().Format(time.RFC3339Nano) + "\n"} {
		if !strings.Contains(ev.Statement, want) {
			t.Errorf("%q is not in the statement\n%s", want, ev.Statement)
		}
	}
	for _, x := range ev.Leaves {
		if x.Index == 0 || x.Payload == nil {
			t.Errorf("leaf %d: %+v", x.Index, x)
		}
	}
	if _, err := l.Evidence(t.Context(), EvidenceOptions{Of: "m9", Signer: signer, Now: w.at}); err == nil {
		t.Error("evidence of a proposal that there is not")
	}
}

// handover signs a handover to a new key.
func (w *writer) handover() (signer note.Signer, public string) {
	w.t.Helper()
	if _, err := w.log.Checkpoint(); err != nil {
		w.t.Fatal(err)
	}
	private, public, err := keys.Generate("test-log")
	if err != nil {
		w.t.Fatal(err)
	}
	if signer, err = note.NewSigner(private); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.log.Handover(signer, public); err != nil {
		w.t.Fatal(err)
	}
	return signer, public
}

// Evidence of a session from before two changes of the log's key is verified with only the first key,
// by a program that imports none of our packages.
func TestPromiseB16AKeyFromBeforeAHandoverVerifiesTheEvidence(t *testing.T) {
	dir := t.TempDir()
	verifier := filepath.Join(dir, "verifier")
	if out, err := exec.Command("go", "build", "-o", verifier, "../../examples/verifier").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w := newWriter(t)
	w.observation("o1", beliefs.OriginWeb, "kept", beliefs.Unverified)
	middle, middlePublic := w.handover()
	w.observation("o2", beliefs.OriginWeb, "kept, too", beliefs.Unverified)
	last, lastPublic := w.handover()
	w.observation("o3", beliefs.OriginWeb, "and this", beliefs.Unverified)

	l := w.open(false)
	if s := l.Integrity(); s.Status == chain.Failed {
		t.Fatal(s.Problems)
	}
	signedBy := func(s note.Signer) Evidence {
		t.Helper()
		ev, err := l.Evidence(t.Context(), EvidenceOptions{Of: "s", Signer: s, Now: w.at})
		if err != nil {
			t.Fatal(err)
		}
		return *ev
	}
	honest := signedBy(last)
	if len(honest.Handovers) != 2 {
		t.Fatalf("%d handovers", len(honest.Handovers))
	}
	with := func(hs ...string) Evidence {
		ev := honest
		ev.Handovers = hs
		return ev
	}
	first, second := honest.Handovers[0], honest.Handovers[1]
	other := newWriter(t)
	other.observation("o1", beliefs.OriginWeb, "x", beliefs.Unverified)
	other.handover()
	foreign, err := other.log.Handovers()
	if err != nil {
		t.Fatal(err)
	}
	resigned := func(text string, by ...note.Signer) string {
		t.Helper()
		b, err := note.Sign(&note.Note{Text: text}, by...)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	text, _, _ := strings.Cut(second, "\n\n")
	for _, c := range []struct {
		name string
		ev   Evidence
		keys []string
		code int
	}{
		{"the first key", honest, []string{w.public}, 0},
		{"the middle key", honest, []string{middlePublic}, 0},
		{"the last key", honest, []string{lastPublic}, 0},
		{"all of them", honest, []string{w.public, middlePublic, lastPublic}, 0},
		{"another log's key", honest, []string{other.public}, 2},
		{"without the handovers", with(), []string{w.public}, 2},
		{"without the first handover", with(second), []string{w.public}, 2},
		{"without the second handover", with(first), []string{w.public}, 2},
		{"in another order", with(second, first), []string{w.public}, 2},
		{"another log's handover before", with(string(foreign[0]), first, second), []string{w.public}, 0},
		{"a statement by a replaced key", signedBy(middle), []string{w.public}, 2},
		{"a handover that the new key did not sign", with(first, resigned(text+"\n", middle)), []string{w.public}, 2},
		{"a handover that the old key did not sign", with(first, resigned(text+"\n", last)), []string{w.public}, 2},
		{"a second handover by a replaced key", with(first, second, resigned(text+"\n", middle, last)), []string{w.public},
			2},
		{"a changed size", with(first, strings.Replace(second, "\n2\n", "\n1\n", 1)), []string{w.public}, 2},
	} {
		file := filepath.Join(dir, "ev.json")
		f, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(c.ev.Write(f), f.Close()); err != nil {
			t.Fatal(err)
		}
		var args []string
		for _, k := range c.keys {
			args = append(args, "-log", k)
		}
		out, err := exec.Command(verifier, append(args, file)...).CombinedOutput()
		var exit *exec.ExitError
		code := 0
		if errors.As(err, &exit) {
			code = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if code != c.code {
			t.Errorf("%s: exit %d, want %d: %s", c.name, code, c.code, out)
		}
	}
	_, stranger, err := keys.Generate("stranger.example")
	if err != nil {
		t.Fatal(err)
	}
	honestFile := filepath.Join(dir, "honest.json")
	var honestText bytes.Buffer
	if err := errors.Join(honest.Write(&honestText), os.WriteFile(honestFile, honestText.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(verifier, "-log", w.public, "-witness", stranger, honestFile).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "INCOMPLETE") ||
		!strings.Contains(string(out), "no cosignature by stranger.example+") {
		t.Errorf("a witness that did not cosign: %v: %s", err, out)
	}
	if out, err := exec.Command(verifier, "-log", w.public).CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "usage: verifier") {
		t.Errorf("without a file: %v: %s", err, out)
	}
	// The older package encoding/json takes a member name with a long s (U+017F) for the name with s. The verifier must
	// not.
	file := filepath.Join(dir, "ev.json")
	var b bytes.Buffer
	if err := honest.Write(&b); err != nil {
		t.Fatal(err)
	}
	text, ok := strings.CutPrefix(b.String(), "{")
	if err := os.WriteFile(file, []byte(`{"leaveſ":null,`+text), 0o600); err != nil || !ok {
		t.Fatal(err)
	}
	if out, err := exec.Command(verifier, "-log", w.public, file).CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "leave") {
		t.Errorf("a name of two members: %v: %s", err, out)
	}
}

// Evidence names the trust file that an operator activated, and not a later one that nobody signed.
func TestPromiseB16EvidenceNamesATrustFileThatAnOperatorActivated(t *testing.T) {
	w := newWriter(t)
	signerOf := func(name string) (note.Signer, string) {
		t.Helper()
		private, public, err := keys.Generate(name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := note.NewSigner(private)
		if err != nil {
			t.Fatal(err)
		}
		return s, public
	}
	operator, operatorPublic := signerOf("operator")
	alice, alicePublic := signerOf("alice")
	trust := new(keys.Trust)
	for public, role := range map[string]keys.Role{operatorPublic: keys.RoleOperator, alicePublic: keys.RoleApprover} {
		if err := trust.Add(keys.Pin{Key: public, Roles: []keys.Role{role}}); err != nil {
			t.Fatal(err)
		}
	}
	file, err := trust.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	activate := func(project string, by note.Signer) {
		t.Helper()
		c := streams.Command{Do: streams.DoActivateTrust, Digest: streams.Digest(file), Engine: streams.EngineVersion,
			ID: "c", Issued: w.at}
		signed, err := c.Sign(by)
		if err != nil {
			t.Fatal(err)
		}
		w.project = project
		w.add(streams.StageIngest, streams.TypeChunk, 0, &streams.ChunkEntry{Digest: c.Digest, Count: 1, Chunk: file})
		w.add(streams.StageIngest, streams.TypeActivation, 0, &streams.ActivationEntry{Do: c.Do, Digest: c.Digest,
			Engine: c.Engine, Note: string(signed)})
		w.project = "p"
	}
	activate(streams.SystemProject, operator)
	activate(streams.SystemProject, alice) // who is not an operator
	activate("p", operator)
	act := w.add(streams.StageIngest, streams.TypeMemory, 0, &streams.MemoryEntry{EntryHead: w.head("m1"),
		Origin: beliefs.OriginUser, Content: "text"})
	w.add(streams.StageArbiter, streams.TypeVerdict, act, &streams.VerdictEntry{Proposal: act, Type: streams.TypeMemory,
		ID: "m1", Agent: "a", Session: "s", Verdict: streams.Hold, Hold: &streams.HoldRef{ID: "h1"}})
	resolution := w.add(streams.StageIngest, streams.TypeResolution, 0, &streams.ResolutionEntry{EntryHead: w.head("r1"),
		Hold: "h1", Note: "n"})
	w.add(streams.StageArbiter, streams.TypeHoldState, resolution, &streams.HoldStateEntry{Hold: "h1",
		Resolved: &streams.Resolved{State: streams.HoldApproved, By: "alice", Key: alicePublic, Hold: "h1", Entry: resolution}})
	signer, _ := signerOf("test-log")
	ev, err := w.open(false).Evidence(t.Context(), EvidenceOptions{Of: "s", Signer: signer, Now: w.at,
		Ceiling: beliefs.Secret, Operators: trust.Verifiers(keys.RoleOperator)})
	if err != nil {
		t.Fatal(err)
	}
	if len(ev.Approvals) != 1 || ev.Approvals[0].Activation != 1 || ev.Approvals[0].Chunks[0] != 0 {
		t.Errorf("approvals %+v\n%s", ev.Approvals, ev.Statement)
	}
}
