package policy

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lazaret/internal/proptest"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/intent"
)

func TestNamesAreCutIntoWords(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"send_email", "send.email"},
		{"sendEmail", "send.email"},
		{"SendEmail", "send.email"},
		{"send-email", "send.email"},
		{"mail.send", "mail.send"},
		{"HTTPGet", "http.get"},
		{"getHTTPURL", "get.httpurl"},
		{"EpicFHIRDownloadFiles", "epic.fhir.download.files"},
		{"The23andMeGetData", "the.23.and.me.get.data"},
		{"delete2", "delete.2"},
		{"s3.get", "s.3.get"},
		{"mcp__files__read", "mcp.files.read"},
		{"__a//b..", "a.b"},
		{"", ""},
		{"---", ""},
		{"gеt", "gеt"},
		{"a\x00b\x7fc", "a.b.c"},
		{"A", "a"},
	} {
		if n := parseName(c.name, nil, nil); string(n.norm) != c.want {
			t.Errorf("%q became %q, want %q", c.name, n.norm, c.want)
		}
	}
}

func TestAReadingVerbAtTheEndMakesNounsOfTheWordsBefore(t *testing.T) {
	p, err := Compile(DefaultName, Default)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]beliefs.Level{
		"email.search": beliefs.L1, "email/read": beliefs.L1, "mcp__mail__list_threads": beliefs.L1, "note.get": beliefs.L1,
		"email_search": beliefs.L1, "postGet": beliefs.L1, "drive.extract_text": beliefs.L1,
		// The word at the end may be a noun, or there is more to do.
		"email_list": beliefs.L4, "post_check": beliefs.L4, "post_and_get": beliefs.L4, "mail.post_and_read": beliefs.L4,
		"email.list_and_post": beliefs.L4,
		// Other words for sending, deleting and paying count wherever they stand.
		"send.read": beliefs.L4, "delete_get": beliefs.L4, "mail.send": beliefs.L4, "pay/search": beliefs.L4, "get.email": beliefs.L1, "email.read_receipt_send": beliefs.L4,
	} {
		if c := p.Classify(name, nil, "p", "a"); c.Level != want {
			t.Errorf("%s is %s by %s, want %s", name, c.Level, c.Entry, want)
		}
	}
}

func TestTheActOfANameMayComeLast(t *testing.T) {
	p := shipped(t)
	for level, names := range map[beliefs.Level]string{
		beliefs.L1: `shopdb.order_show mcp__shop__invoice_view loan_describe bid_list shopdb.price_history order_status
			billing.account_balance ticket.status parts_for diary.slots_for_day orders_by_customer`,
		beliefs.L3: `fulfil.return_label_create job_template_update desk.ticket_tag desk.ticket_note page-bookmark
			file_archive desk.ticket_escalate escalate_case forge.comment forge.pull.comment
			token_history`, // as get_token
		// The word at the end is what the act is done to, the act is a word for sending or paying, or a word is unknown.
		beliefs.L4: `email_list message_list contact_list book_show rate_show follow_show host_show request_check
			report_status post_status order_for order_and_show clear_history ticket.clear_history scramble_history
			cook.history alter_status email_parts_for payment_release order_place return_item return_label
			return_label_and_create call_customer_create charge_card_create message_template_send ticket_pay ticket_order
			scramble_note medical_record account_lock parts_for_pay escalate_privileges ticket_access_escalate escalate
			forge forge_document document.forge forgeSignature forge.merge forge_pull_comment`,
	} {
		for name := range strings.FieldsSeq(names) {
			if c := p.Classify(name, nil, "p", "a"); c.Level != level {
				t.Errorf("%s is %s by %s, want %s", name, c.Level, c.Entry, level)
			}
		}
	}
	if c := p.Classify("forge_document", nil, "p", "a"); !c.insists {
		t.Errorf("forge_document can be delegated")
	}
}

// TestNounsOfNamesAreNoVerbsOfTheShippedPolicy: a noun that the policy knows as a verb would hide this verb.
func TestNounsOfNamesAreNoVerbsOfTheShippedPolicy(t *testing.T) {
	p := shipped(t)
	words := slices.AppendSeq(slices.Collect(maps.Keys(p.index.verbs)), maps.Keys(p.index.ambiguous))
	for _, w := range words {
		if intent.States("", []string{w, "for"}) {
			t.Errorf("%s is a verb", w)
		}
	}
}

func TestPatternsMatchLikeTheShellsWithoutItsSeparators(t *testing.T) {
	alphabet := rapid.StringOfN(rapid.RuneFrom([]rune("ab.")), 0, 8, -1)
	patterns := rapid.StringOfN(rapid.RuneFrom([]rune("ab.*?")), 0, 8, -1)
	proptest.CheckLess(t, func(t *rapid.T) {
		name, pattern := alphabet.Draw(t, "name"), patterns.Draw(t, "pattern")
		want, err := path.Match(pattern, name)
		if err != nil {
			t.Fatal(err)
		}
		if got := matchPattern(pattern, []byte(name)); got != want {
			t.Fatalf("%q against %q: %v, want %v", name, pattern, got, want)
		}
	})
}

func TestAHostilePatternIsNotSlow(t *testing.T) {
	pattern := strings.Repeat("a*", 100) + "b"
	if matchPattern(pattern, []byte(strings.Repeat("a", MaxTool))) {
		t.Error("it matched")
	}
}
