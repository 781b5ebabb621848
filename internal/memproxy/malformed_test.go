package memproxy

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"lazaret/internal/malformed"
	"lazaret/internal/memgate"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// TestMalformedRequestsAndKilledClientsStopNothing sends 10,000 malformed requests to the paths of every kind of store,
// and kills 100 clients. Meanwhile another agent must be able to write memories. The store must get each acknowledged
// memory exactly once.
func TestMalformedRequestsAndKilledClientsStopNothing(t *testing.T) {
	for _, kind := range Kinds() {
		t.Run(kind, func(t *testing.T) { malformedTo(t, kind, malformed.Requests()) })
	}
}

func malformedTo(t *testing.T, kind string, requests int) {
	log := new(malformed.Log)
	var mu sync.Mutex
	var bodies []string // received by the store; guarded by mu
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		bodies = append(bodies, string(b))
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"results":[]}`)
	}))
	defer up.Close()
	u, err := url.Parse(up.URL)
	if err != nil {
		t.Fatal(err)
	}
	front := func(kind string, origin beliefs.Origin) *httptest.Server {
		h, err := New(Config{Kind: kind, Upstream: u, Judge: agent(t), Origin: origin,
			Held: memgate.Held(t.TempDir())})
		if err != nil {
			t.Fatal(err)
		}
		s := httptest.NewUnstartedServer(h)
		s.Config.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(log, nil), slog.LevelError)
		s.Start()
		t.Cleanup(s.Close)
		return s
	}
	attacked, other, neighbour := front(kind, beliefs.OriginDocument), front("langgraph", beliefs.OriginUser), agent(t)
	x := &malformed.Target{Addr: strings.TrimPrefix(attacked.URL, "http://"), Seed: 11, Paths: []string{"/", "/{id}"},
		Bodies: []string{`{"messages":[null]}`, `{"messages":{"content":1}}`, `{"messages":[{"role":"user","content":[[]]}]}`,
			`{"value":null,"namespace":"x","key":1}`, `{"query":{}}`, `{"messages":[{"content":"\u0000"}],"infer":"yes"}`,
			`{"text":"a","data":"b","memory":"c"}`, `{"uuid":1,"messages":[{"content":"x","role":[]}]}`},
		Prepare: func(rnd *rand.Rand, r *http.Request) {
			if rnd.IntN(3) == 0 {
				r.Header.Set(HeaderOrigin, []string{"user", "tool", "nobody", ""}[rnd.IntN(4)])
			}
			if rnd.IntN(3) == 0 {
				r.Header.Set(HeaderSession, []string{"s", "../s", strings.Repeat("s", 300)}[rnd.IntN(3)])
			}
		},
		Check: func(_ *http.Request, status int, _ string) error {
			if status >= 500 && status != http.StatusBadGateway { // 502 means that the store's answer cannot be read
				return fmt.Errorf("status %d", status)
			}
			return nil
		},
		Killed: func(i int) string {
			return malformed.Post("/memories", fmt.Sprintf(`{"messages":[{"role":"user","content":"killed %d"}]}`, i))
		},
	}
	for _, r := range kinds[kind] {
		_, path, _ := strings.Cut(r.pattern, " ")
		x.Paths = append(x.Paths, path)
	}
	wrote := make(map[string]int)
	write := func(i int) error {
		body := fmt.Sprintf(`{"namespace":["n"],"key":"k%d","value":{"text":"I like cup %d of the tea."}}`, i, i)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, other.URL+"/store/items", strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			return err
		}
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("the write: %d %s", res.StatusCode, b)
		}
		wrote[fmt.Sprintf("I like cup %d of", i)] = 0
		return nil
	}
	x.Meanwhile = func(i int) error {
		if i < 40 { // more writes within a minute are held
			if err := write(i); err != nil {
				return err
			}
		}
		rep, err := neighbour.Decide(t.Context(), &streams.Action{Head: streams.Head{Session: "s"}, Tool: "read_file"})
		if err != nil || rep.Verdict != streams.Allow {
			return fmt.Errorf("the verdict: %+v, %w", rep, err)
		}
		return nil
	}
	x.Run(t, requests, 100)
	mu.Lock()
	defer mu.Unlock()
	for _, b := range bodies {
		for text := range wrote {
			if strings.Contains(b, text) {
				wrote[text]++
			}
		}
	}
	for text, n := range wrote {
		if n != 1 {
			t.Errorf("the store got %q %d times", text, n)
		}
	}
	log.NoPanic(t)
}
