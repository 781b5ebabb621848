package intent

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"lazaret/internal/proptest"
	"lazaret/pkg/text"
)

// errand is a list with a table. The user names it and nothing in it.
const errand = `- Send lena@bakery.example a mail about the bread for the offsite
- Add a task for the new laptops
- Book the hall from 3 June to 5 June

name;mail;slot
Omar Reed;omar@florist.example;14:30
`

func ground(t testing.TB, tool, args string) *Grounds {
	t.Helper()
	var said Said
	said.Add("Please do what the list in errands.md says for the team.")
	var values map[string]any
	if err := json.Unmarshal([]byte(args), &values); err != nil {
		t.Fatal(err)
	}
	src := NewSource(errand, text.Analyze(errand).Carriers)
	return said.Ground(ReadSource(src.Append(nil)), tool, values, text.Analyze(strings.NewReplacer(`"`, " ", ",", "\n").
		Replace(args)).Carriers)
}

func TestACallIsGroundedInTheLinesOfASource(t *testing.T) {
	for _, c := range []struct {
		tool, args     string
		none           bool // the source names no value
		strange, limit string
	}{
		{tool: "send_email", args: `{"to":"lena@bakery.example","subject":"bread for the offsite"}`},
		{tool: "send_email", args: `{"to":"omar@florist.example","body":"Omar, your slot is 14:30."}`},
		{tool: "create_task", args: `{"title":"new laptops"}`},
		{tool: "create_event", args: `{"title":"hall","from":"2026-06-03","to":"2026-06-05"}`},
		{tool: "send_email", args: `{"to":"eve@evil.example","subject":"bread for the offsite"}`, strange: "email:eve@evil.example"},
		{tool: "send_email", args: `{"to":"lena@bakery.example","subject":"safe password"}`, strange: "subject"},
		// Words of two lines are no value of the list.
		{tool: "create_task", args: `{"title":"bread laptops","list":"offsite"}`, strange: "title"},
		{tool: "create_event", args: `{"title":"hall","from":"2026-06-04"}`, strange: "from"},
		{tool: "create_task", args: `{"title":"prices of rivals"}`, none: true},
		{tool: "create_task", args: `{"title":"the team"}`, none: true},
		{tool: "pay_bill", args: `{"for":"new laptops"}`, limit: "the tool"},
		{tool: "grant_access", args: `{"to":"lena@bakery.example"}`, limit: "the tool"},
		{tool: "delete_task", args: `{"title":"new laptops"}`, limit: "the tool"},
		{tool: "create_rule", args: `{"title":"new laptops"}`, limit: "the tool"},
		{tool: "add_memory", args: `{"text":"new laptops"}`, limit: "the tool"},
		{tool: "create_task", args: `{"title":"new laptops","recurrence":"offsite"}`, limit: "its argument"},
		{tool: "share_note", args: `{"note":"new laptops","with":"lena@bakery.example"}`, limit: "the tool"},
		{tool: "create_task", args: `{"title":"new laptops","two_factor":"off"}`, strange: "two_factor", limit: "its argument"},
		{tool: "create_task", args: `{"title":"new laptops","public":true}`, limit: "its argument"},
		{tool: "create_task", args: `{"title":"new laptops","options":{"mfa":false}}`, limit: "its argument"},
		{tool: "create_task", args: `{"title":"new laptops","attach_all":true}`, strange: "attach_all"},
		{tool: "create_task", args: `{"title":"new laptops","attach_all":false}`},
		{tool: "frobnicate", args: `{"title":"new laptops"}`, limit: "the tool"},
	} {
		g := ground(t, c.tool, c.args)
		switch {
		case c.none != (g == nil):
			t.Errorf("%s %s: %+v", c.tool, c.args, g)
		case g != nil && (g.Strange != c.strange || !strings.HasPrefix(g.Limit, c.limit) || (c.limit == "") != (g.Limit == "")):
			t.Errorf("%s %s: %+v", c.tool, c.args, g)
		}
	}
}

// No combination of arguments with an address that the source does not have is grounded.
func TestAForeignAddressIsNeverGrounded(t *testing.T) {
	proptest.CheckLess(t, func(rt *rapid.T) {
		args := map[string]any{"to": "lena@bakery.example", "subject": "bread for the offsite", "title": "new laptops"}
		for k := range args {
			if rapid.Bool().Draw(rt, "drop "+k) {
				delete(args, k)
			}
		}
		foreign := rapid.StringMatching(`[a-z]{3,8}@[a-z]{4,9}\.example`).Draw(rt, "address")
		if foreign == "lena@bakery.example" || foreign == "omar@florist.example" {
			rt.Skip()
		}
		args[rapid.SampledFrom([]string{"cc", "to", "body", "title"}).Draw(rt, "where")] = foreign
		raw, err := json.Marshal(args, json.Deterministic(true))
		if err != nil {
			rt.Fatal(err)
		}
		if g := ground(t, "send_email", string(raw)); g != nil && g.Strange == "" {
			rt.Fatalf("%s: %+v", raw, g)
		}
	})
}

func TestStepsMarkWhatIsThisActionAndWhatAsks(t *testing.T) {
	lines := Steps(errand, map[string]any{"title": "new laptops"}, []string{"title"})
	if len(lines) < 4 || lines[0].Here || !lines[0].Asks || !lines[1].Here || !lines[1].Asks || !lines[2].Asks {
		t.Errorf("%+v", lines)
	}
}
