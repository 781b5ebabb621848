package rules_test

import (
	"io/fs"
	"testing"

	"cel.dev/cel-go/cel"
	"github.com/goccy/go-yaml"

	"lazaret/pkg/signals"
	shipped "lazaret/rules"
)

// Ingest judges by signals.Commands whether a text commands its reader, and rules by the macro commands. The two agree
// on each combination of markers.
func TestTheMacroCommandsAndItsFunctionAgree(t *testing.T) {
	b, err := fs.ReadFile(shipped.FS(), "common.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var common struct{ Macros map[string]string }
	if err := yaml.Unmarshal(b, &common); err != nil {
		t.Fatal(err)
	}
	env, err := cel.NewEnv(cel.Variable("content", cel.MapType(cel.StringType, cel.ListType(cel.StringType))))
	if err != nil {
		t.Fatal(err)
	}
	ast, iss := env.Compile(common.Macros["commands"])
	if iss.Err() != nil {
		t.Fatal(iss.Err())
	}
	prg, err := env.Program(ast)
	if err != nil {
		t.Fatal(err)
	}
	all := signals.Markers()
	for set := range 1 << len(all) {
		markers := []string{}
		for i, m := range all {
			if set>>i&1 == 1 {
				markers = append(markers, m)
			}
		}
		out, _, err := prg.Eval(map[string]any{"content": map[string][]string{"markers": markers}})
		if err != nil {
			t.Fatal(err)
		}
		if got := signals.Commands(markers); out.Value() != got {
			t.Errorf("%q: the macro says %v, the function %t", markers, out.Value(), got)
		}
	}
}
