package ruletest_test

import (
	"maps"
	"testing"

	"lazaret/pkg/rules"
)

// source makes a Source of files. If groups.yaml or pack.yaml is not among the files, it adds one.
func source(t testing.TB, files map[string]string) *rules.Source {
	t.Helper()
	all := map[string]string{
		"groups.yaml": "groups:\n  core: [p]\n",
		"p/pack.yaml": "name: p\ntitle: Test\nlists:\n  words: [alpha, beta]\n",
	}
	maps.Copy(all, files)
	b, err := rules.PackFiles(all)
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
