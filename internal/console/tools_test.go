package console

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/go-json-experiment/json/jsontext"

	"lazaret/internal/natsserver"
	"lazaret/internal/replay"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// offerTools publishes a list of tools and proposes to accept it, as a host does. It returns the project and the hold.
func offerTools(t *testing.T, name, id, server string, tools ...streams.Tool) (project, hold string) {
	t.Helper()
	nc, err := shared.p.Server.Connect(natsserver.RoleReplay)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	args := &streams.ApproveToolsArgs{Server: server, Digest: streams.CatalogueDigest(server, "", tools)}
	for _, x := range tools {
		args.Tools = append(args.Tools, streams.ApprovedTool{Name: x.Name, Description: x.Description, Digest: x.Digest()})
	}
	b, err := streams.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	project = streams.SyntheticPrefix + name
	head := func(part string) streams.Head {
		return streams.Head{ID: id + part, Session: "s-" + id, Time: replay.Epoch}
	}
	err = replay.Play(t.Context(), nc, []replay.Script{{Name: name, Project: project, Steps: []replay.Step{
		{Kind: streams.KindTools, Event: &streams.Tools{Head: head("-list"), Server: server, Tools: tools}},
		{Kind: streams.KindAct, Event: &streams.Action{Head: head("-ask"), Tool: streams.ApproveTools, Args: b}},
	}}}, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	shared.c.watch()
	await(t, "the hold on the list of tools", func() bool {
		for _, h := range shared.c.index.openHolds(func(p string) bool { return p == project }) {
			if h.Verdict.ID == id+"-ask" {
				hold = h.ID
			}
		}
		return hold != ""
	})
	return project, hold
}

func tool(name, says string) streams.Tool {
	return streams.Tool{Name: name, Description: says, InputSchema: jsontext.Value(
		`{"type":"object","properties":{"note":{"type":"string","title":"` + name + ` takes it"}}}`)}
}

// sign presses a button of the form for signing. It returns the result that the page shows.
func (b *browser) sign(t *testing.T, decision string) string {
	t.Helper()
	b.run(t, chromedp.WaitReady(chromedp.CSS("#sign button[value="+decision+"]:not([disabled])")))
	eval[bool](t, b, `document.querySelector("#sign button[value=`+decision+`]").click(), true`)
	b.run(t, chromedp.WaitReady(chromedp.CSS("#signing[data-state], #signing.bad")))
	return eval[string](t, b,
		`document.querySelector("#signing").dataset.state || document.querySelector("#signing").textContent`)
}

func TestAListOfToolsIsAcceptedWithOnePasskeyAndItsChangesAreShown(t *testing.T) {
	long(t)
	b := newBrowser(t)
	authenticator(t, b)
	b.open(t, link(t, User{Name: "tess", Role: RoleApprover, Ceiling: beliefs.Secret}))
	registerPasskey(t, b, "tess")

	project, hold := offerTools(t, "tools", "one", `notes "x"`, tool("read_note", "Reads a note."),
		tool("delete_note", "Deletes a note."))
	b.open(t, "/tools?project="+project)
	if bad := b.axe(t); bad != "" {
		t.Error(bad)
	}
	eval[bool](t, b, `document.querySelector('a[href="/holds/`+project+`/`+hold+`"]').click(), true`)
	b.run(t, chromedp.WaitReady(chromedp.CSS(`select[data-tool="delete_note"]`)))
	for name, want := range map[string]string{"read_note": "L1", "delete_note": "L4"} {
		if l := eval[string](t, b, `document.querySelector('select[data-tool="`+name+`"]').value`); l != want {
			t.Errorf("%s is proposed at %s, not at %s", name, l, want)
		}
	}
	eval[bool](t, b, `document.querySelector('select[data-tool="delete_note"]').value = "L3", true`)
	if state := b.sign(t, "approve"); state != streams.HoldApproved {
		t.Fatalf("the page says %q", state)
	}
	accepted := func() (row catalogueRow) {
		row, _ = shared.c.index.findCatalogue(project, streams.ReplayAgent, `notes "x"`)
		return row
	}
	await(t, "the accepted list", func() bool { row := accepted(); return row.State() == "accepted" })
	if row := accepted(); row.AcceptedBy != "tess" || row.Accepted.Tools != 2 {
		t.Errorf("accepted is %+v", row)
	}
	done := shared.c.index.closedHolds(func(p string) bool { return p == project })
	levels := fmt.Sprint(done[0].Verdict.Resolved.Accepted.Levels)
	if levels != "map[delete_note:L3 read_note:L1]" {
		t.Errorf("signed are the levels %s", levels)
	}

	_, again := offerTools(t, "tools", "two", `notes "x"`, tool("read_note", "Reads a note and <b>sends</b> it."),
		tool("share_note", "Shares a note."))
	row := accepted()
	if row.State() != "waiting" || row.Hold != again {
		t.Errorf("after a change the list is %+v", row)
	}
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(t, scheme)
		for _, path := range []string{"/tools", fmt.Sprintf("/tools/%s/%d", project, row.Latest().At),
			"/holds/" + project + "/" + again} {
			b.open(t, path)
			if bad := b.axe(t); bad != "" {
				t.Errorf("%s, %s: %s", path, scheme, bad)
			}
		}
	}
	c := visitor(t, User{Name: "vic", Role: RoleViewer, Ceiling: beliefs.Secret})
	_, body := get(t, c, fmt.Sprintf("/tools/%s/%d", project, row.Latest().At))
	for _, want := range []string{"Differences to the accepted list", "Reads a note and &lt;b&gt;sends&lt;/b&gt; it.",
		"<pre>Reads a note.</pre>", "delete_note", "share_note takes it", ">added<", ">removed<", ">changed<",
		"review and accept it"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page of the changed list has no %q", want)
		}
	}
	other := visitor(t, User{Name: "otto", Role: RoleViewer, Projects: []string{"elsewhere"}})
	if code, _ := get(t, other, fmt.Sprintf("/tools/%s/%d", project, row.Latest().At)); code != 404 {
		t.Errorf("a user of another project gets %d", code)
	}
	if _, body := get(t, other, "/tools"); strings.Contains(body, project) {
		t.Error("a user of another project sees the server")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.foreign)+len(b.complain) > 0 {
		t.Errorf("requests to others %v, complaints %v", b.foreign, b.complain)
	}
}
