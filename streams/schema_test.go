package streams_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lazaret/streams"
)

var update = flag.Bool("update", false, "write generated files anew")

func TestGeneratedFilesAreFresh(t *testing.T) {
	files := map[string][]byte{"../docs/errors.md": errorDocs()}
	for _, k := range streams.Kinds {
		s, err := streams.Schema(k)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.MarshalIndent(s, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Join("schemas", string(k)+".json")] = append(b, '\n')
	}
	for name, want := range files {
		if *update {
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(name)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not fresh (%v): run make generate", name, err)
		}
	}
}

func errorDocs() []byte {
	var b bytes.Buffer
	fmt.Fprint(&b, "# Error codes\n\nGenerated from streams/errors.go by `make generate`.\n\n"+
		"1xx: the event itself. 2xx: the pipeline could not answer; treat as hold. 3xx: the\nreasons of a verdict. 4xx: "+
		"operator commands. 5xx: proofs. 6xx: HTTP.\n\n"+
		"| code | what | meaning | what to do |\n|---|---|---|---|\n")
	for _, c := range streams.Codes {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", c.Code, c.Title, strings.ReplaceAll(c.Meaning, "|", "\\|"), c.Action)
	}
	return b.Bytes()
}

func TestSchemasAgreeWithTheParser(t *testing.T) {
	for _, c := range []struct {
		kind streams.Kind
		body string
		ok   bool
	}{
		{streams.KindObs, `{"id":"a","session":"s","tool":"t","content":"x","novelty":[1]}`, true},
		{streams.KindObs, `{"id":"a","blocks":[{"type":"text","text":"x"}]}`, true},
		{streams.KindObs, `{"id":"a b","content":"x"}`, false},
		{streams.KindObs, `{"id":"a","content":7}`, false},
		{streams.KindMem, `{"id":"a","content":"x","sensitivity":"secret"}`, true},
		{streams.KindMem, `{"id":"a","content":"x","sensitivity":"top"}`, false},
		{streams.KindMem, `{"id":"a"}`, false},
		{streams.KindAct, `{"id":"a","tool":"t","args":{"x":1},"level":"L3","reversibility":"irreversible"}`, true},
		{streams.KindAct, `{"id":"a","tool":"t","level":"L9"}`, false},
		{streams.KindAct, `{"id":"a"}`, false},
		{streams.KindRecall, `{"id":"a","query":"x","limit":5}`, true},
		{streams.KindTools, `{"id":"a","tools":[{"name":"t","inputSchema":{}}]}`, true},
		{streams.KindSession, `{"id":"a","session":"s","phase":"start"}`, true},
		{streams.KindDec, `{"id":"a","beliefs":["b1"]}`, true},
		{streams.KindOut, `{"id":"a","action":"x","status":"ok"}`, true},
	} {
		s, err := streams.Schema(c.kind)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal([]byte(c.body), &v); err != nil {
			t.Fatal(err)
		}
		_, perr := streams.ParseEvent(streams.Address{Kind: c.kind}, "", []byte(c.body), 0)
		verr := r.Validate(v)
		if (verr == nil) != c.ok || (perr == nil) != c.ok {
			t.Errorf("%s %s: the schema says %v, the parser %v, want ok=%v", c.kind, c.body, verr, perr, c.ok)
		}
	}
}
