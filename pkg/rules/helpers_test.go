package rules_test

import (
	"fmt"
	"testing"
	"testing/fstest"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/rules"
	"lazaret/streams"
)

// source makes a Source of files. If groups.yaml or pack.yaml is not among the files, it adds one.
func source(t testing.TB, files map[string]string) *rules.Source {
	t.Helper()
	fsys := fstest.MapFS{
		"groups.yaml": {Data: []byte("groups:\n  core: [p]\n")},
		"p/pack.yaml": {Data: []byte("name: p\ntitle: Test\nlists:\n  words: [alpha, beta]\n")},
	}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	b, err := rules.Pack(fsys)
	if err != nil {
		t.Fatal(err)
	}
	src, err := rules.Open(b)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

const head = "rules:\n  - id: r1\n    title: T\n    severity: low\n    subject: action\n    message: \"'m'\"\n"

func evaluator(t testing.TB, files map[string]string) *rules.Evaluator {
	t.Helper()
	set, err := rules.Compile(source(t, files))
	if err != nil {
		t.Fatal(err)
	}
	return set.Group("core")
}

func entry(t testing.TB, seq uint64, typ streams.Type, body any) *streams.Entry {
	t.Helper()
	b, err := streams.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return &streams.Entry{Seq: seq, Type: typ, Stage: streams.StageIngest, Project: "p", Body: b}
}

func action(t testing.TB, seq uint64, tool string) *streams.Entry {
	return entry(t, seq, streams.TypeAction,
		&streams.ActionEntry{EntryHead: streams.EntryHead{ID: fmt.Sprintf("e%d", seq), Agent: "a", Session: "s",
			Time: time.Unix(int64(seq), 0).UTC()}, Action: beliefs.Action{Tool: tool,
			Contract: beliefs.Contract{Level: beliefs.L3}}, Args: []byte(`{"l":[1,2,3,4,5,6,7,8,9,10]}`)})
}
