package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"lazaret/internal/embedded"
	"lazaret/internal/ingest"
	"lazaret/streams"
)

// TestAProjectGoesBackToARestorePointAndNothingIsRemoved overwrites a memory with the user's own credential. Then it
// rolls the project back to a restore point with the commands. The earlier memory must be in force again, and no entry
// may be removed.
func TestAProjectGoesBackToARestorePointAndNothingIsRemoved(t *testing.T) {
	long(t)
	t.Parallel()
	p := newPipeline(t, embedded.Config{})
	run := p.commands()
	key := filepath.Join(t.TempDir(), "alice.key")
	run(0, "key", "gen", "alice", key, "--pin", "approver")
	run(0, "key", "activate")
	run(0, "remember", "--origin", "user", "--key", "size", "--session", "s1", "--id", "m1", "My shoe size is 43")
	run(0, "beliefs", "point", "good", "--key", key)
	run(0, "remember", "--origin", "user", "--key", "size", "--session", "s1", "--id", "m2", "My shoe size is 12")
	if out := run(0, "recall", "shoe size", "--session", "s2"); !strings.Contains(out, "size is 12") {
		t.Fatalf("%s", out)
	}
	var points []ingest.Point
	if err := streams.Unmarshal([]byte(run(0, "beliefs", "points", "--json", "--where", `why == "named"`)),
		&points); err != nil || len(points) != 1 || points[0].By != "alice" {
		t.Errorf("%+v, %v", points, err)
	}
	const want = "1 repeated as new beliefs, 0 left in a stricter state"
	known := run(0, "beliefs", "ls", "--json")
	dry := run(0, "beliefs", "restore", "--to", "good", "--dry-run")
	if !strings.Contains(dry, want) || !strings.Contains(dry, "would be stated again as a new belief") {
		t.Errorf("%s", dry)
	}
	// The id of a new belief depends on the signed order. A dry run has no order, so it names only beliefs that exist
	// already.
	for line := range strings.Lines(dry) {
		if id, _, found := strings.Cut(line, "  "); found && !strings.Contains(known, `"`+id+`"`) {
			t.Errorf("the dry run names the belief %q, which nobody has:\n%s\n%s", id, dry, known)
		}
	}
	before := len(p.entries(streams.TypeRevision))
	if out := run(0, "beliefs", "restore", "--to", "good", "--key", key, "--reason",
		"somebody else was at the keyboard"); !strings.Contains(out, want) {
		t.Errorf("%s", out)
	}
	if out := run(0, "recall", "shoe size", "--session", "s3"); !strings.Contains(out, "admitted") ||
		!strings.Contains(out, "size is 43") || strings.Contains(out, "size is 12") {
		t.Errorf("%s", out)
	}
	if n := len(p.entries(streams.TypeRevision)); n <= before {
		t.Error("the ledger has no revisions of the rollback")
	}
	if n := len(p.entries(streams.TypeMemory)); n != 2 {
		t.Errorf("%d writes are left in the ledger of 2", n)
	}
	run(2, "beliefs", "restore", "--to", "nowhere", "--key", key)

	// A privileged recall returns hidden beliefs. The ledger must record which ones.
	if out := run(0, "audit", "recall", "shoe size", "--key", key, "--reason", "case 7"); !strings.Contains(out,
		"size is 12") || !strings.Contains(out, "hidden") || !strings.Contains(out, "case 7") {
		t.Errorf("%s", out)
	}
	if all := p.entries(streams.TypeDisclosure); len(all) != 1 || !strings.Contains(string(all[0].Body), "size is 12") {
		t.Errorf("%d disclosures", len(all))
	}
	run(1, "audit", "recall", "shoe size", "--key", key) // without a reason
}
