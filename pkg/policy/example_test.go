package policy

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"lazaret/streams"
)

// The test uses the example in docs/policy.md as a policy file, and checks that the page names
// every key that a policy may have.
func TestThePageAboutPoliciesIsTrue(t *testing.T) {
	page, err := os.ReadFile(filepath.FromSlash("../../docs/policy.md"))
	if err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile("testdata/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```yaml\n"+string(src)+"```\n") {
		t.Error("the page's example is not testdata/example.yaml")
	}
	var keys func(typ reflect.Type, seen map[string]bool)
	keys = func(typ reflect.Type, seen map[string]bool) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct {
			return
		}
		for f := range typ.Fields() {
			if name, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); name != "" {
				seen[name] = true
			}
			keys(f.Type, seen)
		}
	}
	named := make(map[string]bool)
	keys(reflect.TypeFor[document](), named)
	for k := range named {
		if !strings.Contains(string(page), "`"+k+"`") {
			t.Errorf("the page does not name the key %s", k)
		}
	}
	for _, e := range Effects {
		if !strings.Contains(string(page), "`"+e+"`") {
			t.Errorf("the page does not name the effect %s", e)
		}
	}

	p := compile(t, string(src))
	for _, c := range []struct {
		tool, args, agent string
		want              streams.Verdict
	}{
		{"crm.get_customer", `{"id":7}`, "desk", streams.Allow},
		{"crm.get_file", `{"path":"/home/x/.ssh/id"}`, "desk", streams.Deny},
		{"tickets.reply", `{"to":"a@shop.corp.example"}`, "desk", streams.Hold},
		{"refunds.create", `{"amount":20,"currency":"EUR"}`, "desk", streams.Allow},
		{"refunds.create", `{"amount":20,"currency":"EUR"}`, "bot-1", streams.Deny},
		{"refunds.create", `{"amount":200,"currency":"EUR"}`, "desk", streams.Hold},
		{"refunds.create", `{"amount":"a lot"}`, "desk", streams.Hold},
		{"fetch_page", `{"url":"https://x.corp.example/"}`, "desk", streams.Hold},
		{"fetch_page", `{"url":"http://10.20.0.7/"}`, "desk", streams.Hold},
		{"fetch_page", `{"url":"http://10.21.0.7/"}`, "desk", streams.Deny},
	} {
		got := p.Guard(p.Classify(c.tool, []byte(c.args), "support", c.agent), []byte(c.args))
		if got.Floor != c.want {
			t.Errorf("%s %s by %s: %s, want %s: %v", c.tool, c.args, c.agent, got.Floor, c.want, got.Reasons)
		}
	}
}
