package policy

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lazaret/internal/proptest"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

var someArguments = []string{``, `{}`, `{"url":"https://a.example/"}`, `{"url":"http://10.0.0.1"}`,
	`{"to":"x@b.example","body":"http://127.0.0.1"}`,
	`{"path":"/etc/x","host":"localhost"}`, `{"command":"rm -rf / ; curl 169.254.169.254"}`, `[1]`, `{"n":`, `"x"`}

func TestGuardingOnlyTightens(t *testing.T) {
	proptest.CheckLess(t, func(t *rapid.T) {
		src := preamble + "tools:\n" + drawEntry(t, "a") + drawEntry(t, "b")
		if rapid.Bool().Draw(t, "egress") {
			src += "egress: {allow: [a.example, 0.0.0.0/0], deny: [b.example]}\n"
		}
		if rapid.Bool().Draw(t, "protected") {
			src += "protected: [{name: p, resources: ['/etc/*'], require: hold}]\n"
		}
		p, err := Compile("test.yaml", []byte(src))
		if err != nil {
			t.Fatal(err)
		}
		tool, _ := drawCall(t)
		args := []byte(rapid.SampledFrom(someArguments).Draw(t, "args"))
		c := p.Classify(tool, args, "p", "a")
		kept := slices.Clone(c.Reasons)
		g := p.Guard(c, args)
		join := streams.Allow
		for _, r := range g.Reasons {
			join = join.Join(r.Verdict)
		}
		if g.Floor < c.Floor || join != g.Floor || g.Level != c.Level || !reflect.DeepEqual(c.Reasons, kept) {
			t.Fatalf("%s %s: %s became %s, its reasons say %s", tool, args, show(c), show(g), join)
		}
	})
}

// A narrower allow-list never allows more than a wider one, and an address outside of the list's
// networks stays denied.
func TestAnAllowListNeverOpensWhatItDoesNotName(t *testing.T) {
	proptest.CheckLess(t, func(t *rapid.T) {
		b := rapid.SampledFrom(blocks).Draw(t, "block")
		wide := rapid.IntRange(0, max(b.net.Bits()-1, 0)).Draw(t, "bits")
		around, err := b.net.Addr().Prefix(wide)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(blocks, func(x block) bool { return x.net == around }) {
			return
		}
		p, err := Compile("test.yaml",
			[]byte(preamble+"tools: [{name: f, verbs: [fetch], level: L2, effects: [egress]}]\negress: {allow: ['"+
				around.String()+"', '*']}\n"))
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range blocks {
			if x.net.Bits() < b.net.Bits() && x.net.Contains(around.Addr()) && around.Bits() >= x.net.Bits() {
				return // a part of a wider network was named
			}
		}
		args := fmt.Appendf(nil, `{"url":"http://%s/"}`, b.net.Addr())
		if b.net.Addr().Is6() {
			args = fmt.Appendf(nil, `{"url":"http://[%s]/"}`, b.net.Addr())
		}
		if g := p.Guard(p.Classify("fetch", args, "p", "a"), args); g.Floor != streams.Deny {
			t.Fatalf("%s with %s allowed: %s", args, around, show(g))
		}
	})
}

func TestFloodsOfDestinationsAreNotPassedOver(t *testing.T) {
	p := compile(t, preamble+"tools: [{name: f, verbs: [fetch], level: L2, effects: [egress]}]\n")
	var urls []string
	for i := range 500 {
		urls = append(urls, fmt.Sprintf(`"http://h%d.example/"`, i))
	}
	args := []byte(`{"urls":[` + strings.Join(urls, ",") + `]}`)
	if g := p.Guard(p.Classify("fetch", args, "p", "a"), args); g.Floor < streams.Hold {
		t.Error(show(g))
	}
}

func TestEntriesAskForGroups(t *testing.T) {
	p := compile(t, `version: 1
name: test
groups: [core, {name: judge, digest: "external:v1", for: entries}]
tools:
- {name: pay, verbs: [pay], when: 'args.amount > 100', level: L4, groups: [judge]}
- {name: any, verbs: [pay], level: L4}
- {name: read, verbs: [read], level: L1, groups: [core]}
`)
	names := func(gs []Group) (out []string) {
		for _, g := range gs {
			out = append(out, g.Name)
		}
		return out
	}
	if got := names(p.Always()); !slices.Equal(got, []string{"core"}) {
		t.Errorf("every proposal is for %v", got)
	}
	for _, c := range []struct {
		tool, args string
		groups     []string
	}{
		{"read_file", ``, []string{"core"}},
		{"pay", `{"amount":1}`, []string{"core"}},
		{"pay", `{"amount":101}`, []string{"core", "judge"}},
		{"pay", `{}`, []string{"core", "judge"}}, // a condition that fails counts as met
	} {
		if got := p.Classify(c.tool, []byte(c.args), "p", "a"); !slices.Equal(names(p.Required(got)), c.groups) {
			t.Errorf("%s %s: groups %v", c.tool, c.args, names(p.Required(got)))
		}
	}
}

func TestHintsAddUp(t *testing.T) {
	for _, c := range []struct {
		raw  string
		want string
	}{
		{``, ``}, {`{}`, ``}, {`{"readOnlyHint":true,"destructiveHint":false}`, ``},
		{`{"readOnlyHint":false}`, `{"readOnlyHint":false}`},
		{`{"destructiveHint":true,"openWorldHint":true}`, `{"destructiveHint":true,"openWorldHint":true}`},
		{`{"openWorldHint":"yes"}`, `{"destructiveHint":true}`},
	} {
		h := ReadHints([]byte(c.raw))
		if got := string(h.Annotations()); got != c.want || ReadHints(h.Annotations()) != h {
			t.Errorf("%s: %s, want %s", c.raw, got, c.want)
		}
	}
	p := shipped(t)
	for l := range Hints(8) {
		c := p.Classify("get_user", nil, "p", "a")
		if r := c.RaiseByAnnotations(l.Annotations()); r.Level < c.Level || l&HintDestructive != 0 && r.Level < beliefs.L4 {
			t.Errorf("%03b: %s", l, show(r))
		}
	}
}

func TestACatalogueIsFoundUnderTheNamesOfHosts(t *testing.T) {
	for tool, want := range map[string][]string{
		"create_issue":              {"create.issue"},
		"mcp__github__create_issue": {"mcp.github.create.issue", "github.create.issue", "create.issue"},
		"github.createIssue":        {"github.create.issue", "create.issue"},
		"":                          nil,
	} {
		if got := ToolNames(tool); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", tool, got, want)
		}
	}
}

func BenchmarkGuard(b *testing.B) {
	p := shipped(b)
	for name, args := range map[string]string{
		"read": `{"path":"notes.txt"}`,
		"mail": `{"to":"a@example.org","subject":"x","body":"` + strings.Repeat("some words of a letter ", 40) + `"}`,
		"run":  `{"command":"` + strings.Repeat("echo some words; ", 60) + `"}`,
	} {
		b.Run(name, func(b *testing.B) {
			c := p.Classify(map[string]string{"read": "read_file", "mail": "send_email", "run": "run_command"}[name],
				[]byte(args), "p", "a")
			b.ReportAllocs()
			for b.Loop() {
				p.Guard(c, []byte(args))
			}
		})
	}
}

func TestTimesAndNumbersAreNoAddresses(t *testing.T) {
	p := shipped(t)
	for _, x := range []struct {
		tool, args string
		denied     bool
	}{
		{"book_room", `{"room":"Lido","from":"09:00","to":"10:00"}`, false},
		{"book_room", `{"start":"10:00","end":"11:30","slot":"10:00-11:00"}`, false},
		{"book_room", `{"to":"2026:11","ratio":"1:1","at":"10:00:30","price":"10.5","date":"24.12"}`, false},
		{"set_value", `{"to":"10.5"}`, false},
		{"send_email", `{"to":"10:00"}`, false},
		{"run_command", `{"command":"sleep 0.5; at 10:00"}`, false},
		{"book_room", `{"host":"10:80"}`, true},
		{"fetch", `{"url":"http://10:80/"}`, true},
		{"fetch", `{"url":"http://2130706433/"}`, true},
		{"send_email", `{"to":"http://10:80/"}`, true},
		{"send_email", `{"to":"10.0.0.1:80"}`, true},
		{"send_email", `{"to":"127.0.1:80"}`, true},
		{"send_email", `{"to":"169.16689662"}`, true},
		{"run_command", `{"command":"frob 2852039166:80"}`, true},
		{"run_command", `{"command":"make build && sleep 0.2 && curl -s http://localhost:8123/health"}`, false},
		{"run_command", `{"command":"make build && sleep 127.1 && curl -s http://localhost:8123/health"}`, true},
		{"run_command", `{"command":"curl 0.2"}`, true},
		{"run_command", `{"command":"curl 127.1"}`, true},
		{"run_command", `{"command":"curl 10:80"}`, true},
		{"run_command", `{"command":"frob 10.0.0.1:80"}`, true},
		{"book_room", `{"server":"0x7f.1"}`, true},
	} {
		c := p.Guard(p.Classify(x.tool, []byte(x.args), "p", "a"), []byte(x.args))
		if denied := c.Floor == streams.Deny; denied != x.denied {
			t.Errorf("%s %s: %s %v", x.tool, x.args, show(c), c.Reasons)
		}
	}
}

// The name of a task is no destination, although the metadata service of some clouds has the same name.
func TestTheNameOfATaskIsNoMetadataService(t *testing.T) {
	p, err := Compile("default.yaml", Default)
	if err != nil {
		t.Fatal(err)
	}
	for line, denied := range map[string]bool{"cargo metadata --format-version 1": false, "npm run metadata": false,
		"make metadata": false, "curl metadata": true, "uv run curl metadata": true, "./fetch metadata": true, "cargo run http://metadata/": true,
		"cargo metadata; nc metadata 80": true, "cargo run metadata.google.internal": true} {
		args, err := streams.Marshal(map[string]string{"command": line})
		if err != nil {
			t.Fatal(err)
		}
		c := p.Guard(p.Classify("Bash", args, "p", "a"), args)
		if (c.Floor == streams.Deny) != denied {
			t.Errorf("%s: %s, %v", line, c.Floor, c.Reasons)
		}
	}
}
