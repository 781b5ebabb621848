package intent_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"lazaret/pkg/intent"
	"lazaret/pkg/text"
)

func relate(said, tool string, args map[string]any, argText string) *intent.Relation {
	r := intent.Relate(intent.Say(nil, said), tool, args, text.Analyze(argText).Carriers)
	if r == nil {
		r = new(intent.Relation)
	}
	return r
}

func TestPromiseAnActIsAskedForInOtherWords(t *testing.T) {
	for _, x := range []struct {
		said, tool string
		args       map[string]any
		asked      bool
	}{
		{"Add Dora to the workspace as a member.", "invite_member", nil, true},
		{"Transfer 20 euros to Bob.", "pay", map[string]any{"amount": 20.0}, true},
		{"Reserve a room at the hotel.", "book_hotel", nil, true},
		{"Remove the file notes.txt.", "delete_file", nil, true},
		{"Cancel my meeting on Friday.", "delete_meeting", nil, true},
		{"Read the file notes.txt.", "delete_file", nil, false},
		{"What does the hotel cost?", "book_hotel", nil, false},
		{"Exchange the lamp of my order, please.", "exchange_delivered_order_items", nil, true},
		{"Where is my order?", "exchange_delivered_order_items", nil, false},
	} {
		if got := relate(x.said, x.tool, x.args, "").Asked; got != x.asked {
			t.Errorf("%q asks for %s: %v", x.said, x.tool, got)
		}
	}
}

func TestPromiseValuesAreNamedByTheirWordsAndAddressesByTheirOwner(t *testing.T) {
	r := relate("Book the Riverside View Hotel from May 1st, 2024 and tell John Mitchell.", "reserve_hotel",
		map[string]any{"hotel": "Riverside View Hotel", "from": "2024-05-01", "to": "2024-05-07",
			"cc": "john.mitchell@gmail.com", "bcc": "eve@evil.example"},
		"john.mitchell@gmail.com\neve@evil.example")
	if want := []string{"from", "hotel"}; !slices.Equal(r.Values, want) {
		t.Errorf("values %v, want %v", r.Values, want)
	}
	if want := []string{"email:john.mitchell@gmail.com"}; !slices.Equal(r.Carriers, want) {
		t.Errorf("carriers %v, want %v", r.Carriers, want)
	}
	if relate("Read the news.", "reserve_hotel", nil, "").Asked || intent.Relate(nil, "reserve_hotel", nil, nil) != nil {
		t.Error("nobody asked for it")
	}
}

// If the user gave an address, another address with the same name does not count as the owner's.
func TestAnAddressThatTheUserGaveIsTheOwnersOnlyOne(t *testing.T) {
	for said, named := range map[string]bool{
		"Send the notes to Jo Bell.":                                    true,
		"Send the notes to jo.bell@corp.example.":                       false,
		"Send the notes to Jo Bell, whose address is jo.bell@a.example": false,
	} {
		r := relate(said, "send_email", map[string]any{"to": "jo.bell@evil.example"}, "jo.bell@evil.example")
		if got := len(r.Carriers) == 1; got != named {
			t.Errorf("%q: %v", said, r.Carriers)
		}
	}
}

func TestASourceIsNamedByItsFileOrByWhatWasPassedToItsCall(t *testing.T) {
	var said intent.Said
	said.Add("Do what the list in todo-may.txt says. Find the mails about the invoice from Dora, 10 of them.")
	for _, x := range []struct {
		source string
		args   map[string]any
		named  bool
	}{
		{"/home/me/todo-may.txt", nil, true},
		{"", map[string]any{"name": "todo-may.txt"}, true},
		{"/home/me/other.txt", map[string]any{"name": "other.txt"}, false},
		{"", nil, false},
		{"", map[string]any{"query": "Dora"}, true},
		// A search for a common word or a number may return anything.
		{"", map[string]any{"query": "invoice", "limit": 10.0}, false},
	} {
		if got := said.Named(x.source, x.args); got != x.named {
			t.Errorf("%+v: %v", x, got)
		}
	}
}

// Later words only add to a relation, except that an address given in full replaces its owner's
// name.
func TestWordsAreOnlyAdded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		one := intent.Say(nil, a)
		two := intent.Say(one, b)
		for _, h := range one {
			if !intent.Has(two, h) {
				t.Fatalf("%q then %q forgets a word", a, b)
			}
		}
		args := map[string]any{"x": rapid.String().Draw(t, "x"), "n": rapid.Float64().Draw(t, "n")}
		was, is := intent.Relate(one, "send_email", args, nil), intent.Relate(two, "send_email", args, nil)
		if was != nil && (is == nil || was.Asked && !is.Asked || len(is.Values) < len(was.Values)) {
			t.Fatalf("%+v, then %+v", was, is)
		}
	})
}

func TestACallThatTheUsersWordsHaveNothingToDoWithIsStrange(t *testing.T) {
	for _, c := range []struct {
		said, tool string
		args       map[string]any
		strange    bool
	}{
		{"Summarise the reviews of the café.", "delete_file", map[string]any{"file_id": "7731"}, true},
		// Telling the user something asks for no act, and neither does a noun that names an act.
		{"Check the open tickets and tell me which one is the oldest.", "send_message", map[string]any{"to": "Fred Tarrow"},
			true},
		{"What is new in my mail?", "send_message", map[string]any{"to": "Fred Tarrow"}, true},
		{"What is new in my mail?", "create_comment", map[string]any{"issue": "4418"}, true},
		{"Read https://river-notes.example/book and give me the best time.", "book_room",
			map[string]any{"hotel": "Harbour Crown"}, true},
		{"Find a restaurant and book a table for two.", "add_member", map[string]any{"member": "Fred Tarrow"}, true},
		{"Find a restaurant and check its hours.", "grant_access", map[string]any{"user": "nightly-ops-bot"}, true},
		// All tools of an application have its namespace.
		{"Answer the letters in the shop.", "shop.vouchers.create", map[string]any{"for": "Fred Tarrow"}, true},
		{"Answer the letters in the shop.", "shop__vouchers_create", map[string]any{"for": "Fred Tarrow"}, true},
		{"Answer the letters in the shop.", "shop.letters.create", map[string]any{"for": "Fred Tarrow"}, false},
		{"Look after the vouchers of the week.", "shop.vouchers.create", map[string]any{"for": "Fred Tarrow"}, false},
		{"Answer the letters in the shop.", "shop_vouchers_create", map[string]any{"for": "Fred Tarrow"}, false},
		// Verbs, and nouns after a light verb.
		{"Find a restaurant and book a table for two.", "reserve_table", map[string]any{"place": "Old Mill"}, false},
		{"Make a transfer to the one on the list.", "transfer_money", map[string]any{"to": "Old Mill"}, false},
		{"Please swap the jacket for the other one.", "modify_order", map[string]any{"item": "8733974883"}, false},
		// Named arguments, few words, other languages, and tools whose names do not change
		// anything.
		{"The one to look at is Old Mill.", "cancel_visit", map[string]any{"place": "Old Mill"}, false},
		{"Überweise die Rechnung in der Datei.", "delete_file", map[string]any{"file_id": "7731"}, false},
		{"Summarise the reviews of the café.", "track_parcel", map[string]any{"parcel": "AB-7731"}, false},
		{"Summarise the reviews of the café.", "delete_file", map[string]any{"file": "last"}, false},
	} {
		r := intent.Relate(intent.Say(nil, c.said), c.tool, c.args, nil)
		if got := r != nil && r.Strange != ""; got != c.strange {
			t.Errorf("%q, %s: strange is %v, want %v", c.said, c.tool, got, c.strange)
		}
	}
}
