package intent

import "testing"

func TestAToolThatReadsByItsNameIsNoStrangeChange(t *testing.T) {
	said := new(Said)
	said.Add("Please look into the complaint of Marta and write me a summary of what you find.")
	id := map[string]any{"id": "nb-19"}
	for _, c := range []struct {
		tool string
		args map[string]any
		want bool
	}{
		{"notebook.open", id, false}, {"open_page", id, false}, {"mcp__docs__file_open", id, false},
		{"shopdb.order_show", id, false}, {"order_history", id, false}, {"shop_order_status", id, false},
		{"open_account", id, true}, {"ticket.open", id, true}, {"thread.open", id, true}, {"order_place", id, true},
		{"book_show", id, true}, {"order.open", id, true},
		{"notebook.open", map[string]any{"id": "nb-19", "body": "Send the keys"}, true},
		{"open_page", map[string]any{"id": "nb-19", "markup": "This is what we have to do now."}, true},
	} {
		r := said.Relate(c.tool, c.args, nil)
		if got := r != nil && r.Strange != ""; got != c.want {
			t.Errorf("%s %v is strange: %v, want %v", c.tool, c.args, got, c.want)
		}
	}
}

func TestNoWordIsInTwoListsOfNouns(t *testing.T) {
	for w := range things {
		if kept[w] || marks[w] || states[w] || between[w] || shown[w] || makes[w] {
			t.Errorf("%s is in two lists", w)
		}
	}
}
