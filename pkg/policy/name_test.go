package policy

import (
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lazaret/internal/proptest"
	"lazaret/pkg/beliefs"
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
