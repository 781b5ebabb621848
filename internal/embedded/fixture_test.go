package embedded_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"lazaret/internal/arbiter"
	"lazaret/internal/ingest"
	"lazaret/internal/sentinel"
	"lazaret/internal/stage"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

// There is a fixture for each ledger format that was released. It has one partition of a ledger, and was made by a
// version with that format (go test ./internal/embedded -run MakeALedger -args -make-ledger FILE). This version must
// fold each fixture to the verdicts that it contains.
func TestLedgersOfEachFormatAreFoldedToTheirVerdicts(t *testing.T) {
	files, err := filepath.Glob("testdata/ledger-*.jsonl.gz")
	if err != nil || len(files) != streams.LedgerFormat {
		t.Fatalf("%d fixtures, %v, want one of each of %d formats", len(files), err, streams.LedgerFormat)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			entries, trust := readFixture(t, file)
			pinned := trust.Verifiers(keys.RoleOperator)
			log := slog.New(slog.DiscardHandler)
			p := entries[0].Partition
			in, core, arb := ingest.New(ingest.Config{Pinned: pinned}), sentinel.New("core", pinned,
				log), arbiter.NewFold(pinned, log)
			ins, cores, arbs := stage.NewMemState(p), stage.NewMemState(p), stage.NewMemState(p)
			in.Reset()
			core.Reset()
			arb.Reset()
			var foreign []*streams.Entry
			said := make(map[uint64]streams.Verdict) // of the fold, by src
			had := make(map[uint64]streams.Verdict)
			for i := range entries {
				e := &entries[i]
				if e.Stage != streams.StageIngest {
					if in.Relevant(e) {
						foreign = append(foreign, e)
					}
				} else {
					for ; len(foreign) > 0 && foreign[0].Seq <= e.At; foreign = foreign[1:] {
						if err := in.Apply(ins, foreign[0], nil); err != nil {
							t.Fatal(err)
						}
					}
					if err := in.Apply(ins, e, nil); err != nil {
						t.Fatalf("ingest, entry %d: %v", e.Seq, err)
					}
				}
				if _, err := core.Step(cores, e); err != nil {
					t.Fatalf("sentinel, entry %d: %v", e.Seq, err)
				}
				out, err := arb.Step(arbs, e)
				if err != nil {
					t.Fatalf("arbiter, entry %d: %v", e.Seq, err)
				}
				if out != nil && out.Type == streams.TypeVerdict {
					said[e.Position()] = verdictOf(t, out.Body)
				}
				if e.Type == streams.TypeVerdict {
					had[e.Src] = verdictOf(t, e.Body)
				}
			}
			if len(had) < 4 {
				t.Fatalf("the fixture has %d verdicts", len(had))
			}
			for src, v := range had {
				if said[src] != v {
					t.Errorf("of entry %d the verdict is %q, and was %q", src, said[src], v)
				}
			}
			if len(said) != len(had) {
				t.Errorf("%d verdicts, were %d: %v %v", len(said), len(had), said, had)
			}
		})
	}
}

func verdictOf(t *testing.T, body []byte) streams.Verdict {
	t.Helper()
	v := new(streams.VerdictEntry)
	if err := streams.Unmarshal(body, v); err != nil {
		t.Fatal(err)
	}
	return v.Verdict
}

func readFixture(t *testing.T, file string) (all []streams.Entry, trust *keys.Trust) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(z)
	for {
		var m stored
		err := d.Decode(&m)
		if errors.Is(err, io.EOF) {
			return all, trust
		}
		if err != nil {
			t.Fatal(err)
		}
		if m.Seq == 0 {
			file := filepath.Join(t.TempDir(), keys.TrustFile)
			if err := os.WriteFile(file, m.Data, 0o600); err != nil {
				t.Fatal(err)
			}
			if trust, err = keys.LoadTrust(file); err != nil {
				t.Fatal(err)
			}
			continue
		}
		es, err := streams.ParseEntries(m.Subject, m.Header, m.Data, m.Seq, m.Time)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, es...)
	}
}
