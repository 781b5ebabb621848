package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lazaret/client"
	"lazaret/internal/embedded/embeddedtest"
	"lazaret/streams"
)

var update = flag.Bool("update", false, "write what the contracts expect")

var pipeline embeddedtest.Pipeline // shared by the tests of this package

func TestMain(m *testing.M) { embeddedtest.Main(m, &pipeline) }

// agent returns the configuration of a hook in a new project, and its client.
func agent(t *testing.T) (Config, *client.Client) {
	t.Helper()
	c, project, _ := pipeline.Agent(t)
	return Config{Project: project, Agent: "bot", State: t.TempDir(), Read: os.ReadFile}, c
}

// contract is one event of a host with its effects.
type contract struct {
	From    string          `json:"from"`
	Event   json.RawMessage `json:"event"`
	Records []string        `json:"records"` // published events, in order
	Answer  json.RawMessage `json:"answer"`  // null: none
	Down    json.RawMessage `json:"down"`    // the answer over HTTP if nothing can be recorded or judged
}

var ids = regexp.MustCompile(`\bh[0-9a-f]{16}\b`)

// answered runs one event like Ask, and returns the events that it publishes.
func answered(t *testing.T, cfg Config, c *client.Client, host *Host, event []byte) (e *Event, a *Answer,
	records []string,
	err error) {
	t.Helper()
	e, err = host.Decode(event)
	if err != nil {
		t.Fatal(err)
	}
	h, err := newHandler(cfg, c, host, e)
	if err != nil {
		t.Fatal(err)
	}
	h.send = func(ctx context.Context, subject string, body []byte) error {
		if c == nil {
			return errors.New("there is no connection")
		}
		kind := strings.SplitN(subject, ".", 5)[4]
		var said struct {
			Phase, Action, Status, Tool, Source string
			Blocks                              []streams.Block
		}
		if err := json.Unmarshal(body, &said); err != nil {
			t.Error(err)
		}
		words := []string{kind, said.Phase, said.Tool, said.Source, said.Status}
		if said.Status != "" && e.Call != "" {
			words = append(words, said.Action)
		}
		for _, b := range said.Blocks {
			words = append(words, fmt.Sprintf("%q", b.Text))
		}
		records = append(records, strings.Join(nonEmpty(words), " "))
		return h.record(ctx, subject, body)
	}
	a, err = h.answerTo(t.Context())
	return e, a, records, errors.Join(err, h.rejected)
}

func encoded(t *testing.T, host *Host, e *Event, a *Answer) json.RawMessage {
	t.Helper()
	b, err := host.Encode(e, a)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) == 0 {
		return json.RawMessage("null")
	}
	return ids.ReplaceAll(b, []byte("HOLD"))
}

func TestEachHostsEventsAreRecordedAndAnsweredAsTheContractsSay(t *testing.T) {
	for _, host := range Hosts {
		t.Run(host.Name, func(t *testing.T) {
			files, err := filepath.Glob("testdata/contracts/" + host.Name + "/*.json")
			if err != nil || len(files) < 9 {
				t.Fatalf("%d contracts, %v", len(files), err)
			}
			cfg, c := agent(t)
			seen := map[string]bool{}
			for _, file := range files {
				b, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				var want contract
				if err := json.Unmarshal(b, &want); err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				got := contract{From: want.From, Event: want.Event}
				e, a, records, err := answered(t, cfg, c, host, want.Event)
				if err != nil {
					t.Errorf("%s: %v", file, err)
				}
				seen[e.Name], seen[e.native] = true, true
				got.Records, got.Answer = records, encoded(t, host, e, a)
				down := cfg
				down.State = t.TempDir()
				got.Down = encoded(t, host, e, Refusal(e, errors.New("there is no connection")))
				out := new(bytes.Buffer)
				enc := json.NewEncoder(out)
				enc.SetEscapeHTML(false)
				enc.SetIndent("", "  ")
				if err := enc.Encode(got); err != nil {
					t.Fatal(err)
				}
				switch {
				case *update:
					if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
						t.Fatal(err)
					}
				case !bytes.Equal(b, out.Bytes()):
					t.Errorf("%s is now\n%s", file, out)
				}
			}
			for _, name := range host.Events {
				if files := name == InstructionsLoaded || name == FileChanged || name == ConfigChange; !seen[name] && !files {
					t.Errorf("no contract has the event %s", name)
				}
			}
		})
	}
}
