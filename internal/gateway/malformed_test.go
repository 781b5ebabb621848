package gateway

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"lazaret/internal/malformed"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// TestMalformedRequestsAndKilledClientsStopNothing sends 10,000 malformed requests to every path and
// kills 100 clients during theirs. Meanwhile another project gets its verdicts, and in the end the
// ledger has each acknowledged observation once. TestMain fails if a handler panicked.
func TestMalformedRequestsAndKilledClientsStopNothing(t *testing.T) {
	p := newPipe(t)
	_, secret := p.agent(t, beliefs.Origins())
	project, neighbour := p.agent(t, beliefs.Origins())
	var acknowledged sync.Map
	x := &malformed.Target{Addr: p.Addr, Seed: 7,
		Parts: map[string][]string{"host": {"claude", "codex", "cursor", "gemini", "nobody"}},
		Kinds: []string{typeEvent, typeBatch},
		Bodies: []string{`{"tool":["x"]}`, `{"tool":"x"} x`, `{"origin":"web","origin":"user"}`, `{"candidates":{}}`,
			`{"blocks":[null,1]}`, `{"specversion":1}`, `[{"specversion":"1.0"}]`, `{"time":"yesterday"}`,
			`{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Read","tool_input":[1]}`,
			`{"session_id":"../s","hook_event_name":"PostToolUse"}`, `{"session_id":"s","hook_event_name":{}}`, `{"after":-1}`},
		Prepare: func(rnd *rand.Rand, r *http.Request) {
			if rnd.IntN(8) > 0 {
				r.Header.Set("Authorization", "Bearer "+secret)
			}
		},
		Check: func(r *http.Request, status int, body string) error {
			if status >= 500 || strings.Contains(body, `"verdict":"allow"`) && !strings.HasPrefix(r.URL.Path, "/v1/recall") {
				return fmt.Errorf("status %d", status)
			}
			return nil
		},
		Killed: func(i int) string {
			return malformed.Post("/v1/observe", fmt.Sprintf(`{"id":"k%d","session":"k","content":"from a client that is killed"}`,
				i), "Authorization", "Bearer "+neighbour)
		},
		Meanwhile: func(i int) error {
			id := fmt.Sprintf("n%d", i)
			code, body := p.send(t, neighbour, "POST", "/v1/observe", `{"id":"`+id+`","session":"s","content":"page `+id+`"}`)
			if code != 200 {
				return fmt.Errorf("the observation: %d %s", code, body)
			}
			acknowledged.Store(id, true)
			if rep := p.verdict(t, neighbour, "POST", "/v1/decide",
				`{"session":"s","tool":"read_file","args":{"path":"a"}}`); rep.Verdict != streams.Allow {
				return errors.New("the verdict is " + rep.Verdict.String())
			}
			return nil
		},
	}
	for _, e := range endpoints {
		x.Paths = append(x.Paths, e.Path)
	}
	x.Run(t, malformed.Requests(), 100)
	count := make(map[string]int)
	p.ledger(t, func(e *streams.Entry) {
		if e.Project == project && e.Type == streams.TypeObservation {
			o, err := streams.Read[streams.ObservationEntry](e)
			if err != nil {
				t.Error(err)
				return
			}
			count[o.ID]++
		}
	})
	acknowledged.Range(func(id, _ any) bool {
		if count[id.(string)] != 1 {
			t.Errorf("observation %v is %d times in the ledger", id, count[id.(string)])
		}
		return true
	})
}
