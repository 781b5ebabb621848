package statement_test

import (
	"slices"
	"testing"
	"time"

	"lazaret/internal/statement"
	"lazaret/pkg/chain"
	"lazaret/streams"
)

func TestWhatAStatementLetsBeForgotten(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	leaf := func(index int64, typ streams.Type, project string, after time.Duration) chain.Leaf {
		return chain.Leaf{Kind: chain.KindEntry, Index: index, Type: string(typ), Project: project, Time: at.Add(after)}
	}
	said := &chain.Statement{Leaf: leaf(100, streams.TypeForgotten, "acme", 0), Payload: []byte("ingest 1 0\n{}")}
	ruling := statement.Lawful(nil).Judge(slices.Values([]*chain.Statement{said}))
	if len(ruling.Skipped) != 1 {
		t.Errorf("without operators' keys: %q", ruling.Skipped)
	}
	for _, c := range []struct {
		what    string
		subject string
		leaf    chain.Leaf
		want    bool
	}{
		{"before it", "acme", leaf(99, streams.TypeMemory, "acme", 0), true},
		{"behind it", "acme", leaf(101, streams.TypeMemory, "acme", 0), false},
		{"another project", "other", leaf(50, streams.TypeMemory, "other", 0), false},
		{"another project's record under this one's key", "acme", leaf(50, streams.TypeMemory, "other", 0), false},
		{"the pipeline's own", "_", leaf(50, streams.TypeActivation, "_", 0), false},
		{"a statement", "acme", leaf(50, streams.TypeLegalHold, "acme", 0), false},
		{"derived, soon after", "acme~", leaf(151, streams.TypeVerdict, "acme", 9*time.Minute), true},
		{"derived, long after", "acme~", leaf(151, streams.TypeVerdict, "acme", time.Hour), false},
		{"of ingest, which derives nothing from before", "acme~", leaf(101, streams.TypeAction, "acme", 0), false},
		{"derived, under the project's new key", "acme", leaf(101, streams.TypeVerdict, "acme", 0), false},
	} {
		if got := ruling.May(c.subject, false, &c.leaf); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}
