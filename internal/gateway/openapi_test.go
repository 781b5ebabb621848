package gateway

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// TestTheOpenAPIDocumentIsValid validates the document against the schema that the OpenAPI Initiative
// publishes for version 3.1.
func TestTheOpenAPIDocumentIsValid(t *testing.T) {
	b, err := os.ReadFile("testdata/oas31-schema.json")
	if err != nil {
		t.Fatal(err)
	}
	s := new(jsonschema.Schema)
	if err := json.Unmarshal(b, s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	read := func() map[string]any {
		var doc map[string]any
		if err := json.Unmarshal(madeOpenAPI(t), &doc); err != nil {
			t.Fatal(err)
		}
		return doc
	}
	if err := r.Validate(read()); err != nil {
		t.Error(err)
	}
	// The schema detects faults.
	for name, spoil := range map[string]func(doc map[string]any){
		"no info":          func(doc map[string]any) { delete(doc, "info") },
		"a wrong location": func(doc map[string]any) { parameterOf(doc)["in"] = "trunk" },
		"an unknown field": func(doc map[string]any) { doc["colour"] = "red" },
	} {
		doc := read()
		spoil(doc)
		if r.Validate(doc) == nil {
			t.Errorf("%s passes", name)
		}
	}
}

func madeOpenAPI(t *testing.T) []byte {
	t.Helper()
	b, err := openAPI()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func parameterOf(doc map[string]any) map[string]any {
	op := doc["paths"].(map[string]any)["/v1/decide"].(map[string]any)["post"].(map[string]any)
	return op["parameters"].([]any)[0].(map[string]any)
}

// described validates an answer against the document's description of a path.
func described(t *testing.T, method, path string, status int, body []byte) {
	t.Helper()
	var doc struct {
		Components struct {
			Schemas map[string]*jsonschema.Schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(madeOpenAPI(t), &doc); err != nil {
		t.Fatal(err)
	}
	name := "Problem"
	if status == 200 {
		for _, e := range endpoints {
			if e.Method == method && (e.Path == path || e.stop != nil && strings.HasPrefix(path, "/v1/hooks/")) {
				name = e.Reply.Name()
			}
		}
	}
	r, err := doc.Components.Schemas[name].Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%s %s: %d %s: %v", method, path, status, body, err)
	}
	if err := r.Validate(v); err != nil {
		t.Errorf("%s %s: the answer %s is no %s: %v", method, path, body, name, err)
	}
}
