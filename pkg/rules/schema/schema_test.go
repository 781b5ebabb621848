package schema

import (
	"bytes"
	"encoding/json"
	"flag"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/jsonschema-go/jsonschema"

	"lazaret/pkg/internal/cleanrules"
	shipped "lazaret/rules"
)

var update = flag.Bool("update", false, "write generated files anew")

func TestSchemasAreCurrent(t *testing.T) {
	dir := "../../../rules/schema"
	for name, want := range Schemas() {
		file := filepath.Join(dir, name+".json")
		if *update {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not current (%v): run make generate", file, err)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != len(Schemas()) {
		t.Errorf("%d files in %s, %d schemas: %v", len(files), dir, len(Schemas()), err)
	}
}

func resolved(t *testing.T) map[string]*jsonschema.Resolved {
	t.Helper()
	out := make(map[string]*jsonschema.Resolved)
	for name, b := range Schemas() {
		s := new(jsonschema.Schema)
		if err := json.Unmarshal(b, s); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !strings.Contains(s.Schema, "2020-12") || s.Title == "" {
			t.Errorf("%s is a schema %q, %q", name, s.Schema, s.Title)
		}
		r, err := s.Resolve(nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[name] = r
	}
	return out
}

// parsed parses a YAML file to the values on which a schema validator works.
func parsed(t *testing.T, text string) any {
	t.Helper()
	var doc, v any
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestTheShippedFilesAreValidByTheirSchemas(t *testing.T) {
	schemas, seen := resolved(t), make(map[string]bool)
	valid := func(name, text string) {
		seen[NameFor(name)] = true
		if err := schemas[NameFor(name)].Validate(parsed(t, text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := fs.WalkDir(shipped.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".yaml" {
			return err
		}
		b, err := fs.ReadFile(shipped.FS(), name)
		valid(name, string(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range cleanrules.Files {
		valid(name, text)
	}
	valid("p/forms.test.yaml", `tests:
  - name: forms
    given:
      - recall: {query: q, items: [{id: b1, truth: supported, text: t, score: 0.5}]}
      - phase: end
    fires: {r1: 2, r2: {severity: low, count: 1}, r3: [{effect: hold}, {message: m}]}
    verdict: [allow, hold]
`)
	for name := range schemas {
		if !seen[name] {
			t.Errorf("no file was tried with the schema %s", name)
		}
	}
}

// At every place where a file has fields, the schema must refuse a field that does not exist.
func TestSchemasRefuseUnknownKeys(t *testing.T) {
	schemas := resolved(t)
	tried := 0
	for _, name := range slices.Sorted(maps.Keys(cleanrules.Files)) {
		doc, r := parsed(t, cleanrules.Files[name]), schemas[NameFor(name)]
		var walk func(v any)
		walk = func(v any) {
			switch v := v.(type) {
			case map[string]any:
				v["zzz"] = map[string]any{"a": 1.0}
				if r.Validate(doc) == nil {
					t.Errorf("%s: an unknown key beside %v is valid", name, slices.Sorted(maps.Keys(v)))
				}
				tried++
				delete(v, "zzz")
				for k, e := range v {
					if k != "args" {
						walk(e)
					}
				}
			case []any:
				for _, e := range v {
					walk(e)
				}
			}
		}
		walk(doc)
	}
	if tried < 15 {
		t.Errorf("only %d places were tried", tried)
	}
}

func TestSchemasRefuseWhatHasNotTheForm(t *testing.T) {
	schemas := resolved(t)
	for _, c := range [][3]string{
		{"p/r.yaml", "severity: low", "severity: lwo"},
		{"p/r.yaml", "    title: One\n", ""},
		{"p/r.yaml", "    on_error: hold\n", ""},
		{"p/r.yaml", "on: [action]", "on: []"},
		{"p/r.yaml", "on: [action]", "on: [acton]"},
		{"p/r.yaml", "id: r1", "id: r 1"},
		{"p/r.yaml", "owasp.asi06", "asi06"},
		{"p/pack.yaml", "words:", "Words:"},
		{"p/pack.yaml", "window: 1m", "window: 1 minute"},
		{"p/pack.yaml", "window: 1m", "max: 4000\n      window: 1m"},
		{"p/pack.yaml", "    count:",
			"    distinct: {on: [action], key: event.agent, window: 1m, value: event.tool}\n    count:"},
		{"exceptions.yaml", "    owner: dana\n", ""},
		{"exceptions.yaml", "2027-01-01", "never"},
		{"p/r.test.yaml", "- action: {tool: alpha, level: 1}", "- {session: s}"},
		{"p/r.test.yaml", "level: 1", "level: 9"},
		{"p/r.test.yaml", "{r1: 1}", "{r1: -1}"},
		{"p/r.test.yaml", "{r1: 1}", "{r1: {effcet: hold}}"},
		{"p/r.test.yaml", "silent:", "verdict: maybe\n    silent:"},
		{"common.yaml", "lists:", "name: x\nlists:"},
	} {
		text := strings.Replace(cleanrules.Files[c[0]], c[1], c[2], 1)
		if text == cleanrules.Files[c[0]] {
			t.Fatalf("%q is not in %s", c[1], c[0])
		}
		if schemas[NameFor(c[0])].Validate(parsed(t, text)) == nil {
			t.Errorf("%s with %q is valid", c[0], c[2])
		}
	}
}
