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
	} {
		if got := relate(x.said, x.tool, x.args, "").Asked; got != x.asked {
			t.Errorf("%q asks for %s: %v", x.said, x.tool, got)
		}
	}
}

func TestPromiseValuesAreNamedByTheirWordsAndAddressesByTheirOwner(t *testing.T) {
	r := relate("Book the Riverside View Hotel from May 1st, 2024 and tell John Mitchell.", "reserve_hotel",
		map[string]any{"hotel": "Riverside View Hotel", "from": "2024-05-01", "to": "2024-05-07", "cc": "john.mitchell@gmail.com", "bcc": "eve@evil.example"},
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

func TestASourceIsNamedByItsFileOrByWhatWasPassedToItsCall(t *testing.T) {
	words := intent.Say(nil, "Do what the list in todo-may.txt says.")
	for _, x := range []struct {
		source string
		args   map[string]any
		named  bool
	}{
		{"/home/me/todo-may.txt", nil, true},
		{"", map[string]any{"name": "todo-may.txt"}, true},
		{"/home/me/other.txt", map[string]any{"name": "other.txt"}, false},
		{"", nil, false},
	} {
		if got := intent.Named(words, x.source, x.args); got != x.named {
			t.Errorf("%+v: %v", x, got)
		}
	}
}

// What is said later takes nothing back: a relation only grows with the words.
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
