package console

import (
	"strings"
	"testing"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

func TestTheBlastRadiusOfAQuarantineIsShownAndNothingIsTakenOut(t *testing.T) {
	const project = "blast"
	cl := keeper(t, project)
	root, err := cl.Remember(t.Context(), beliefs.OriginUser, &streams.Memory{Head: streams.Head{ID: "m1", Session: "s"},
		Key: "office", Content: "The office moved to Basel in March"})
	if err != nil {
		t.Fatal(err)
	}
	first := beliefsOf(t, project)
	if len(first) != 1 {
		t.Fatalf("%d beliefs after %+v", len(first), root)
	}
	id := first[0].ID
	if _, err := cl.Remember(t.Context(), beliefs.OriginAgent, &streams.Memory{Head: streams.Head{ID: "m2", Session: "s"},
		Key: "letters", Content: "Letters go to Basel", DerivedFrom: []string{id}}); err != nil {
		t.Fatal(err)
	}
	all := beliefsOf(t, project)
	c := visitor(t, viewer)
	path := "/beliefs/" + project + "/" + id
	if _, body := get(t, c, path); !strings.Contains(body, path+"/quarantine") {
		t.Error("the belief's page does not lead to its blast radius")
	}
	code, body := get(t, c, path+"/quarantine")
	if code != 200 || !strings.Contains(body, "lazaret beliefs quarantine "+id+" --descendants --project "+project) {
		t.Fatalf("%d %s", code, body)
	}
	for _, b := range all {
		if !strings.Contains(body, b.ID) {
			t.Errorf("the page does not list %s: %s", b.ID, b.Content)
		}
	}
	if !strings.Contains(body, "2 beliefs of 2 would be taken out") {
		t.Errorf("%s", body)
	}
	for _, b := range beliefsOf(t, project) {
		if b.Axes.Security >= beliefs.Quarantined {
			t.Errorf("the look took %s out", b.ID)
		}
	}
	for _, p := range []string{"/beliefs/" + project + "/bnobody/quarantine", "/beliefs/elsewhere/" + id + "/quarantine"} {
		if code, _ := get(t, c, p); code != 404 {
			t.Errorf("%s: %d", p, code)
		}
	}
	other := visitor(t, User{Name: "carl", Role: RoleApprover, Projects: []string{"elsewhere"}})
	if code, _ := get(t, other, path+"/quarantine"); code != 404 {
		t.Errorf("of a project that the user may not see: %d", code)
	}
}
