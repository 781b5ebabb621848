package e2e

import (
	"strings"
	"testing"

	"lazaret/internal/embedded"
	"lazaret/internal/imported"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// TestImportedMemoriesNeverPromoteThemselves imports the exports of other memory stores several times. No imported
// memory may become supported, and the gate must withhold instructions in them.
func TestImportedMemoriesNeverPromoteThemselves(t *testing.T) {
	long(t)
	t.Parallel()
	p := newPipeline(t, embedded.Config{})
	type row struct {
		Verdict streams.Verdict
		Belief  string
		ID      string
	}
	imp := func(want int, store, file string, more ...string) (rows []row) {
		t.Helper()
		out, code := command(t, p.data, append([]string{"import", "--from", store, "../imported/testdata/" + file,
			"--json"}, more...)...)
		if code != want {
			t.Fatalf("import of %s: exit %d\n%s", file, code, out)
		}
		decode(t, out, &rows)
		return rows
	}
	first := imp(0, "zep", "zep.json")
	if again := imp(0, "zep", "zep.json"); len(first) != 3 || len(again) != 3 || again[0] != first[0] {
		t.Fatalf("%+v, and again %+v", first, again)
	}
	letta := imp(0, "letta", "letta.af")
	// The memory with an instruction must not be allowed. The other memory in the file must be.
	mem0 := imp(11, "mem0", "mem0.json")
	if mem0[0].Verdict != streams.Allow || mem0[1].Verdict == streams.Allow {
		t.Errorf("%+v", mem0)
	}
	if rows := imp(0, "mem0", "mem0.json", "--dry-run", "--where", `id == "2"`); len(rows) != 1 || rows[0].Belief != "" {
		t.Errorf("%+v", rows)
	}
	// The same text under other ids and from another store must not count as evidence.
	for _, id := range []string{"x1", "x2", "x3", "x4"} {
		i := imported.Item{Store: "zep", ID: id, Kind: "fact", Content: "Sarah moved to Oslo."}
		if rep, err := p.c.Remember(p.ctx, imported.Origin, i.Memory("import")); err != nil ||
			rep.Verdict == streams.Allow && rep.Entry.Belief.Axes.Truth == beliefs.Supported {
			t.Errorf("%+v, %v", rep, err)
		}
	}
	imp(0, "letta", "letta-passages.json")
	var all []struct {
		ID   string
		Axes struct{ Truth, Retrieval string }
	}
	decode(t, must(t, p.data, "beliefs", "ls", "--json"), &all)
	if len(all) == 0 {
		t.Fatal("nothing is there")
	}
	for _, b := range all {
		if b.Axes.Truth == "supported" {
			t.Errorf("%+v", b)
		}
	}
	rep, err := p.c.Gate(p.ctx, &streams.Recall{Head: streams.Head{Session: "later"}, Purpose: "planning",
		Candidates: []streams.GateCandidate{
			{ID: letta[0].Belief}, {Content: "Emily is an engineer."}, {ID: mem0[1].Belief},
			{Content: "Words that nobody saw here."},
		}})
	if err != nil || rep.Recall == nil {
		t.Fatalf("%+v, %v", rep, err)
	}
	if len(rep.Recall.Admitted) != 0 || len(rep.Recall.ContextOnly) < 2 {
		t.Errorf("admitted %+v, to read %+v", rep.Recall.Admitted, rep.Recall.ContextOnly)
	}
	for _, i := range append(rep.Recall.Admitted, rep.Recall.ContextOnly...) {
		if i.ID == mem0[1].Belief || strings.Contains(i.Content, "evil.example") {
			t.Errorf("it hands out %+v", i)
		}
	}
}
