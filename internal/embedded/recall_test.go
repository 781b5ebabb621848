package embedded_test

import (
	"fmt"
	"strings"
	"testing"

	"lazaret/client"
	"lazaret/internal/embedded"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// The memories together are larger than a message may be. A recall of all of them must return as many as fit. Another
// project must still get verdicts. After a restart, both must work too.
func TestPromiseC20ARecallOfMoreThanFitsIntoAMessageStopsNobody(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make ci runs it")
	}
	const memories, size = 90, 98_000
	data := t.TempDir()
	run := func(start int) {
		p, err := embedded.Start(t.Context(), embedded.Config{Data: data, Listen: "127.0.0.1:0", NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}()
		c, others := agent(t, p, data, "demo"), agent(t, p, data, "other")
		writers := []*client.Client{c, agentNamed(t, p, "demo", "second")} // an agent may write 50 a minute
		for i := 0; start == 0 && i < memories; i++ {
			text := fmt.Sprintf("zebra %d ", i) + strings.Repeat("stone ", size/6)
			rep, err := writers[i%2].Remember(t.Context(), beliefs.OriginUser,
				&streams.Memory{Head: streams.Head{Session: "s"}, Key: fmt.Sprint("k", i), Content: text})
			if err != nil || rep.Verdict != streams.Allow {
				t.Fatalf("memory %d: %s %+v, %v", i, rep.Verdict, rep.Entry.Reasons, err)
			}
		}
		rep, err := c.Recall(t.Context(), &streams.Recall{Head: streams.Head{Session: "s"}, Query: "zebra", Limit: 100})
		if err != nil || rep.Recall == nil || len(rep.Recall.Admitted) == 0 || !rep.Recall.More ||
			!rep.Recall.Admitted[0].Partial {
			t.Errorf("start %d: the recall is answered with %+v, %v", start, rep, err)
		} else if b, err := streams.Marshal(rep.Recall); err != nil || len(b) > 100<<10 {
			t.Errorf("start %d: its entry has %d bytes, %v", start, len(b), err)
		}
		act := &streams.Action{Head: streams.Head{ID: fmt.Sprint("a", start), Session: "s"}, Tool: "read_file",
			Args: []byte(`{"path":"notes.txt"}`)}
		if rep, err := others.Decide(t.Context(), act); err != nil || rep.Verdict != streams.Allow {
			t.Errorf("start %d: another project hears %+v, %v", start, rep, err)
		}
	}
	run(0)
	run(1)
}
