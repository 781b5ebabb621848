package policy

import (
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lazaret/internal/proptest"
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
