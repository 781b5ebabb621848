package audit

import (
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/arbiter"
	"lazaret/pkg/approval"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

// pinning returns a trust file that pins a key as an approver's.
func pinning(t *testing.T, key string) []byte {
	t.Helper()
	trust := new(keys.Trust)
	if err := trust.Add(keys.Pin{Key: key, Roles: []keys.Role{keys.RoleApprover}}); err != nil {
		t.Fatal(err)
	}
	b, err := trust.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// logOf returns a function that adds an entry to x. The entry gets the stage and the project that entries of its type
// have in a ledger.
func logOf(t *testing.T, x *approvalsSeen) func(index int64, seq uint64, typ streams.Type, body any) {
	return func(index int64, seq uint64, typ streams.Type, body any) {
		t.Helper()
		b, err := streams.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		stage, project := streams.StageIngest, "acme"
		switch typ {
		case streams.TypeChunk, streams.TypeActivation:
			project = streams.SystemProject
		case streams.TypeVerdict, streams.TypeHoldState, streams.TypeAlerts:
			stage = streams.StageArbiter
		}
		x.see(&chain.Leaf{Index: index, Seq: seq, Type: string(typ), Project: project},
			append([]byte(stage+" 0 0\n"), b...))
	}
}

// approvalOfH1 returns a signed approval of hold h1, and the public key that signed it.
func approvalOfH1(t *testing.T) (signed []byte, public string) {
	t.Helper()
	private, public, err := keys.Generate("alice")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	s := approval.Statement{Version: approval.Version, Project: "acme", Hold: "h1", Revision: "r1",
		Action: "sha256:" + strings.Repeat("ab", 32), Decision: approval.Approve,
		Expires: time.Now().UTC().Truncate(time.Second), Nonce: approval.NewNonce()}
	signed, err = s.Sign(signer)
	if err != nil {
		t.Fatal(err)
	}
	return signed, public
}

// If the arbiter recorded an approval that no signed statement in the log proves, the verification must report it.
func TestVerificationFindsADecisionThatNobodySigned(t *testing.T) {
	signed, public := approvalOfH1(t)
	file := pinning(t, public)
	for name, c := range map[string]struct {
		note string
		said streams.Resolved
		want [3]int // verified, not shown, wrong
	}{
		"as it was signed": {string(signed), streams.Resolved{Hold: "h1", Revision: "r1", State: streams.HoldApproved,
			Key: public, Entry: 7}, [3]int{1, 0, 0}},
		"another hold": {string(signed), streams.Resolved{Hold: "h2", Revision: "r1", State: streams.HoldApproved,
			Key: public, Entry: 7}, [3]int{0, 0, 1}},
		"another decision": {string(signed), streams.Resolved{Hold: "h1", Revision: "r1", State: streams.HoldRejected,
			Key: public, Entry: 7}, [3]int{0, 0, 1}},
		"a forged note": {strings.Replace(string(signed), "h1", "h2", 1), streams.Resolved{Hold: "h2", Revision: "r1",
			State: streams.HoldApproved, Key: public, Entry: 7}, [3]int{0, 0, 1}},
		"no note": {string(signed), streams.Resolved{Hold: "h1", Revision: "r1", State: streams.HoldApproved,
			Key: public, Entry: 8}, [3]int{0, 0, 1}},
	} {
		x := newApprovals()
		see := logOf(t, x)
		// Payloads may come in any order.
		see(9, 9, streams.TypeVerdict, &streams.VerdictEntry{Resolved: &c.said})
		see(7, 7, streams.TypeResolution, &streams.ResolutionEntry{Hold: "h1", Note: c.note})
		see(2, 2, streams.TypeActivation, &streams.ActivationEntry{Do: streams.DoActivateTrust, Digest: streams.Digest(file)})
		see(1, 1, streams.TypeChunk, &streams.ChunkEntry{Digest: streams.Digest(file), Count: 1, Chunk: file})
		r := x.check(false, nil)
		if got := [3]int{r.checked, r.open, len(r.bad)}; got != c.want {
			t.Errorf("%s: %v, want %v: %v", name, got, c.want, r.bad)
		}
	}
}

// A key that is not in the active trust file is not accepted, even if an earlier file pinned it.
func TestVerificationFindsADecisionByAKeyThatWasUnpinned(t *testing.T) {
	signed, public := approvalOfH1(t)
	_, other, err := keys.Generate("bob")
	if err != nil {
		t.Fatal(err)
	}
	before, after := pinning(t, public), pinning(t, other)
	for recorded, want := range map[int][3]int{
		0:                      {1, 0, 0},
		1:                      {1, 0, 0}, // the earlier file may still be in force in the decision's partition
		streams.Partitions - 1: {1, 0, 0},
		streams.Partitions:     {0, 0, 1},
	} {
		x, index := newApprovals(), int64(0)
		see := func(typ streams.Type, body any) {
			index++
			logOf(t, x)(index, uint64(index), typ, body)
		}
		see(streams.TypeChunk, &streams.ChunkEntry{Digest: streams.Digest(before), Count: 1, Chunk: before})
		see(streams.TypeChunk, &streams.ChunkEntry{Digest: streams.Digest(after), Count: 1, Chunk: after})
		for range streams.Partitions {
			see(streams.TypeActivation, &streams.ActivationEntry{Do: streams.DoActivateTrust, Digest: streams.Digest(before)})
		}
		for range recorded {
			see(streams.TypeActivation, &streams.ActivationEntry{Do: streams.DoActivateTrust, Digest: streams.Digest(after)})
		}
		see(streams.TypeResolution, &streams.ResolutionEntry{Hold: "h1", Note: string(signed)})
		see(streams.TypeVerdict, &streams.VerdictEntry{Resolved: &streams.Resolved{Hold: "h1", Revision: "r1",
			State: streams.HoldApproved, Key: public, Entry: uint64(index)}})
		r := x.check(false, nil)
		if got := [3]int{r.checked, r.open, len(r.bad)}; got != want {
			t.Errorf("%d partitions recorded the later file: %v, want %v: %v", recorded, got, want, r.bad)
		}
	}
}

// The arbiter recorded that the approval of a source covers an action. If no signed approval of the source proves that,
// the verification must report it.
func TestVerificationFindsACoveredActionWithoutAnApproval(t *testing.T) {
	private, public, err := keys.Generate("alice")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	ends := time.Now().UTC().Truncate(time.Second).Add(time.Hour)
	digest := "sha256:" + strings.Repeat("cd", 32)
	s := approval.Statement{Version: approval.Version, Project: "acme", Hold: "h1", Revision: "r1",
		Action: "sha256:" + strings.Repeat("ab", 32), Decision: approval.Approve, Expires: ends, Nonce: approval.NewNonce(),
		Source: &approval.Source{Digest: digest, Session: "s1", Actions: 2, Expires: ends}}
	signed, err := s.Sign(signer)
	if err != nil {
		t.Fatal(err)
	}
	file := pinning(t, public)
	said := streams.Resolved{Hold: "h1", Revision: "r1", State: streams.HoldApproved, Key: public, Entry: 3,
		Source: &streams.ApprovedSource{Digest: digest, Session: "s1", Actions: 2, Expires: ends}}
	plain := said
	plain.Source = nil
	use := func(number int, change ...func(*streams.VerdictEntry)) any {
		v := &streams.VerdictEntry{ID: "a", Session: "s1", Verdict: streams.Allow, Time: ends.Add(-time.Minute),
			Covered: &streams.SourceUse{Hold: "h1", Digest: digest, Key: public, Entry: 3, Number: number, Actions: 2}}
		for _, c := range change {
			c(v)
		}
		return v
	}
	withdrawal := &streams.AlertsEntry{Group: streams.StageArbiter, Alerts: []streams.Alert{{Rule: arbiter.WithdrawnRule,
		Subject: streams.AlertSubject{Kind: "approval", ID: "h1"}}}}
	late := func(v *streams.VerdictEntry) { v.Time = ends }
	again := func(v *streams.VerdictEntry) { v.Again = true }
	forged := strings.Replace(string(signed), "s1", "s2", 1)
	for name, c := range map[string]struct {
		note string
		said *streams.Resolved
		lost bool
		then []any
		want [3]int // covered, not shown, wrong
	}{
		"two of two":         {string(signed), &said, false, []any{use(1), use(2)}, [3]int{2, 0, 0}},
		"a third":            {string(signed), &said, false, []any{use(1), use(2), use(3)}, [3]int{2, 0, 1}},
		"a number twice":     {string(signed), &said, false, []any{use(1), use(1)}, [3]int{1, 0, 1}},
		"a number left out":  {string(signed), &said, false, []any{use(2)}, [3]int{0, 0, 1}},
		"one that is erased": {string(signed), &said, true, []any{use(2)}, [3]int{1, 0, 0}},
		"another session": {string(signed), &said, false, []any{use(1, func(v *streams.VerdictEntry) { v.Session = "s2" })},
			[3]int{0, 0, 1}},
		"another source": {string(signed), &said, false, []any{use(1, func(v *streams.VerdictEntry) {
			v.Covered.Digest = "sha256:" + strings.Repeat("ee", 32)
		})}, [3]int{0, 0, 1}},
		"more actions": {string(signed), &said, false, []any{use(1, func(v *streams.VerdictEntry) { v.Covered.Actions = 9 })},
			[3]int{0, 0, 1}},
		"after its end":         {string(signed), &said, false, []any{use(1, late)}, [3]int{0, 0, 1}},
		"after a withdrawal":    {string(signed), &said, false, []any{use(1), withdrawal, use(2)}, [3]int{1, 0, 1}},
		"a repeat":              {string(signed), &said, false, []any{use(1), use(1, again)}, [3]int{1, 0, 0}},
		"no such approval":      {string(signed), nil, false, []any{use(1)}, [3]int{0, 0, 1}},
		"it may be erased":      {string(signed), nil, true, []any{use(1)}, [3]int{0, 1, 0}},
		"an approval of a hold": {string(signed), &plain, false, []any{use(1)}, [3]int{0, 0, 2}},
		"a forged approval":     {forged, &said, false, []any{use(1)}, [3]int{0, 0, 2}},
	} {
		x := newApprovals()
		see := func(index int64, typ streams.Type, body any) {
			logOf(t, x)(index, uint64(index), typ, body)
		}
		for i, body := range slices.Backward(c.then) {
			typ := streams.TypeVerdict
			if body == any(withdrawal) {
				typ = streams.TypeAlerts
			}
			see(int64(5+i), typ, body)
		}
		if c.said != nil {
			see(4, streams.TypeVerdict, &streams.VerdictEntry{Resolved: c.said})
		}
		see(3, streams.TypeResolution, &streams.ResolutionEntry{Hold: "h1", Note: c.note})
		see(2, streams.TypeActivation, &streams.ActivationEntry{Do: streams.DoActivateTrust, Digest: streams.Digest(file)})
		see(1, streams.TypeChunk, &streams.ChunkEntry{Digest: streams.Digest(file), Count: 1, Chunk: file})
		if c.lost {
			x.miss(&chain.Leaf{Index: 50, Seq: 50, Type: string(streams.TypeVerdict), Project: "acme"})
		}
		r := x.check(false, nil)
		if got := [3]int{r.covered, r.open, len(r.bad)}; got != c.want {
			t.Errorf("%s: %v, want %v: %v", name, got, c.want, r.bad)
		}
	}
}

// A decision is proved only by the note at the position that it names, and only if the note is about the same hold,
// revision and project. Another note does not prove it. If the log does not have the note because of a gap or an
// erasure, the decision counts as open.
func TestVerificationFindsADecisionThatRestsOnAnotherNote(t *testing.T) {
	signed, public := approvalOfH1(t)
	file := pinning(t, public)
	said := streams.Resolved{Hold: "h1", Revision: "r1", State: streams.HoldApproved, Key: public, Entry: 7}
	other := said
	other.Hold = "h2"
	never := other
	never.Entry = 99999
	type says = []*streams.Resolved
	noteOf := func(project string) *chain.Leaf {
		return &chain.Leaf{Index: 6, Seq: 6, Type: string(streams.TypeResolution), Project: project}
	}
	memory := noteOf("acme")
	memory.Type = string(streams.TypeMemory)
	gone := other
	gone.Entry = 6
	forged := gone
	forged.Hold = "h3"
	for name, c := range map[string]struct {
		then   says
		gaps   bool
		erased *chain.Leaf
		want   [3]int // verified, not shown, wrong
	}{
		"the state of the hold":             {says{&said}, false, nil, [3]int{1, 0, 0}},
		"another hold":                      {says{&other}, false, nil, [3]int{1, 0, 1}},
		"another hold, something erased":    {says{&other}, false, noteOf("acme"), [3]int{1, 0, 1}},
		"no note":                           {says{&never}, false, nil, [3]int{1, 0, 1}},
		"a note that may be in a gap":       {says{&never}, true, nil, [3]int{1, 1, 0}},
		"no note, another one was erased":   {says{&never}, false, noteOf("acme"), [3]int{1, 0, 1}},
		"a note that was erased":            {says{&gone, &gone}, false, noteOf("acme"), [3]int{1, 1, 0}},
		"two decisions on an erased note":   {says{&gone, &forged}, false, noteOf("acme"), [3]int{1, 1, 1}},
		"an erased entry that is no note":   {says{&gone}, false, memory, [3]int{1, 0, 1}},
		"an erased note of another project": {says{&gone}, false, noteOf("other"), [3]int{1, 0, 1}},
	} {
		x := newApprovals()
		see := logOf(t, x)
		see(1, 1, streams.TypeChunk, &streams.ChunkEntry{Digest: streams.Digest(file), Count: 1, Chunk: file})
		see(2, 2, streams.TypeActivation, &streams.ActivationEntry{Do: streams.DoActivateTrust, Digest: streams.Digest(file)})
		see(7, 7, streams.TypeResolution, &streams.ResolutionEntry{Hold: "h1", Note: string(signed)})
		see(8, 8, streams.TypeVerdict, &streams.VerdictEntry{Resolved: &said})
		for i, then := range c.then {
			see(int64(9+i), uint64(9+i), streams.TypeHoldState, &streams.HoldStateEntry{Resolved: then})
		}
		if c.erased != nil {
			x.miss(c.erased)
		}
		// The ledger was recreated and has another note at position 7. That note comes after the decisions, so it must
		// not count for them.
		see(20, 7, streams.TypeResolution, &streams.ResolutionEntry{Hold: "h1", Note: "none"})
		r := x.check(c.gaps, nil)
		if got := [3]int{r.checked, r.open, len(r.bad)}; got != c.want {
			t.Errorf("%s: %v, want %v: %v", name, got, c.want, r.bad)
		}
	}
}

// The verification must ignore entries that no stage obeys: those of another stage or project, activations that no
// operator signed, and decisions that no approver signed.
func TestVerificationIgnoresEntriesThatNoStageObeys(t *testing.T) {
	signed, public := approvalOfH1(t)
	private, operator, err := keys.Generate("op")
	if err != nil {
		t.Fatal(err)
	}
	op, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	pinned := new(keys.Trust)
	if err := pinned.Add(keys.Pin{Key: operator, Roles: []keys.Role{keys.RoleOperator}}); err != nil {
		t.Fatal(err)
	}
	probe := new(keys.Trust)
	if err := probe.Add(keys.Pin{Key: public, Roles: []keys.Role{keys.RoleProbe}}); err != nil {
		t.Fatal(err)
	}
	narrow, err := probe.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	file := pinning(t, public)
	for name, c := range map[string]struct {
		file                     []byte
		trustStage, trustProject string
		noteStage                string
		unsigned                 bool
		bad                      int
	}{
		"as the stages read them":     {file, streams.StageIngest, streams.SystemProject, streams.StageIngest, false, 0},
		"a trust file of the arbiter": {file, streams.StageArbiter, streams.SystemProject, streams.StageIngest, false, 1},
		"a trust file of a project":   {file, streams.StageIngest, "acme", streams.StageIngest, false, 1},
		"a note of the arbiter":       {file, streams.StageIngest, streams.SystemProject, streams.StageArbiter, false, 1},
		"no operator activated it":    {file, streams.StageIngest, streams.SystemProject, streams.StageIngest, true, 1},
		"a key of another role":       {narrow, streams.StageIngest, streams.SystemProject, streams.StageIngest, false, 1},
	} {
		x := newApprovals()
		see := func(index int64, stage, project string, typ streams.Type, body any) {
			b, err := streams.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			x.see(&chain.Leaf{Index: index, Seq: uint64(index), Type: string(typ), Project: project},
				append([]byte(stage+" 0 0\n"), b...))
		}
		digest := streams.Digest(c.file)
		command, err := streams.Command{Do: streams.DoActivateTrust, Digest: digest, Engine: 1, ID: "c1",
			Issued: time.Now().UTC().Truncate(time.Second)}.Sign(op)
		if err != nil {
			t.Fatal(err)
		}
		if c.unsigned {
			command = signed
		}
		see(1, c.trustStage, c.trustProject, streams.TypeChunk, &streams.ChunkEntry{Digest: digest, Count: 1, Chunk: c.file})
		see(2, c.trustStage, c.trustProject, streams.TypeActivation, &streams.ActivationEntry{Do: streams.DoActivateTrust,
			Digest: digest, Note: string(command)})
		see(3, c.noteStage, "acme", streams.TypeResolution, &streams.ResolutionEntry{Hold: "h1", Note: string(signed)})
		see(4, streams.StageArbiter, "acme", streams.TypeVerdict, &streams.VerdictEntry{Resolved: &streams.Resolved{Hold: "h1",
			Revision: "r1", State: streams.HoldApproved, Key: public, Entry: 3}})
		if r := x.check(false, pinned.Verifiers(keys.RoleOperator)); len(r.bad) != c.bad || r.checked != 1-c.bad {
			t.Errorf("%s: %d verified, wrong: %v", name, r.checked, r.bad)
		}
	}
}

// Nothing of an empty log was checked, so it is not verified.
func TestVerificationOfAnEmptyLogIsIncomplete(t *testing.T) {
	for _, anchored := range []bool{false, true} {
		r := &verifyReport{Report: chain.Report{Status: chain.Verified}}
		if r.complete(anchored); r.Status != chain.Incomplete || len(r.Skipped) != 1 {
			t.Errorf("anchored %v: %s, not checked: %q", anchored, r.Status, r.Skipped)
		}
	}
}

// If the note of a decision was erased, the verification must be incomplete, so that a script can tell it from a
// complete one by the exit code.
func TestAnUnexplainedDecisionLeavesTheVerificationIncomplete(t *testing.T) {
	x := newApprovals()
	logOf(t, x)(9, 9, streams.TypeVerdict, &streams.VerdictEntry{Resolved: &streams.Resolved{Hold: "h1", Entry: 7,
		State: streams.HoldApproved}})
	x.miss(&chain.Leaf{Index: 7, Seq: 7, Type: string(streams.TypeResolution), Project: "acme"})
	r := &verifyReport{Report: chain.Report{Status: chain.Verified, Size: 10}}
	r.decided(x, true, nil)
	r.complete(true)
	if r.Status != chain.Incomplete || r.DecisionsOpen != 1 ||
		!strings.Contains(strings.Join(r.Skipped, ""), "unexplained") {
		t.Errorf("%s, %d open, not checked: %q", r.Status, r.DecisionsOpen, r.Skipped)
	}
}
