package inquiry

import (
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"lazaret/pkg/beliefs"
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
	w.seq += 3 // the auditor never saw them
	w.add(streams.StageRetention, streams.TypeTrimmed, 0, &streams.Retention{ID: "r", UpTo: 2, Trimmed: 2})
	// A decision whose note and whose keys are not in the log.
	w.memory("m1", beliefs.OriginUser, "", "approved", nil, &streams.Resolved{State: streams.HoldApproved, By: "alice", Key: "alice+00000000+AQ==", Hold: "h1"})

	l := w.open(false)
	ev, err := l.Evidence(t.Context(), EvidenceOptions{Of: "s", Signer: signer, Now: w.at})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nof: session s\n", "\napprovals: 0\napprovals not shown: 1\n", "\nforgotten in the project: 1\n", "\ngaps in the log: 1, 3 ledger entries missing\n",
		"\nledger trimmed up to: 2\n", "\nwithheld: none\n", "\nnot covered yet: 0\n"} {
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
