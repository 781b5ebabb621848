package inquiry

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

func TestPromiseB13ABundleWhoseForgettingNoOperatorSignedFails(t *testing.T) {
	for _, c := range []struct {
		name string
		by   string // signer; empty: unsigned
		to   int64  // end of the range; 0: the log's
		want chain.Status
	}{
		{"an operator signed it", "operator", 0, chain.Verified},
		{"an operator signed it, behind the range", "operator", 10, chain.Verified},
		{"nobody signed it", "", 0, chain.Failed},
		{"nobody signed it, behind the range", "", 10, chain.Failed},
		{"the auditor signed it", "auditor", 0, chain.Failed},
		{"the auditor signed it, behind the range", "auditor", 10, chain.Failed},
		{"there is no statement", "none", 10, chain.Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWriter(t)
			signers := make(map[string]note.Signer)
			for _, who := range []string{"operator", "auditor"} {
				private, public, err := keys.Generate(who)
				if err != nil {
					t.Fatal(err)
				}
				if signers[who], err = note.NewSigner(private); err != nil {
					t.Fatal(err)
				}
				if err := w.trust.Add(keys.Pin{Key: public, Roles: []keys.Role{keys.Role(who)}}); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 10 {
				w.observation(fmt.Sprintf("o%d", i), beliefs.OriginWeb, "a secret", beliefs.Unverified)
			}
			if _, err := w.log.Checkpoint(); err != nil {
				t.Fatal(err)
			}
			if c.by != "none" {
				signed := ""
				if s := signers[c.by]; s != nil {
					b, err := streams.Custody{Do: streams.DoForget, Project: "p", ID: "s1", Issued: w.at, Reason: "r",
						UpTo: 10, Ranges: []streams.SeqRange{{From: 1, To: 10}}}.Sign(s)
					if err != nil {
						t.Fatal(err)
					}
					signed = string(b)
				}
				w.subject = streams.SystemProject
				w.add(streams.StageIngest, streams.TypeForgotten, 0, &streams.CustodyEntry{EntryHead: w.head("s1"),
					Do: streams.DoForget, Note: signed})
			}
			if n, err := w.log.DestroyKeys("p"); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			l := w.open(false)
			trust, err := w.trust.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			rep := verified(t, bundleOf(t, l, BundleOptions{To: c.to, Trust: trust}), w.trust)
			if rep.Status != c.want || rep.Forgotten != 10 {
				t.Fatalf("%+v, want %s", rep, c.want)
			}
			if c.want == chain.Failed && !strings.Contains(strings.Join(rep.Problems, "\n"), "leaf 0") {
				t.Errorf("%q names no leaf", rep.Problems)
			}
		})
	}
}
