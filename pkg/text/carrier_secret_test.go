package text

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// keysOfIssuers has a key of each kind that secret reads, made up for this test.
var keysOfIssuers = map[string]string{
	"GitHub":    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
	"AWS":       "AKIAIOSFODNN7EXAMPLE/wJalrXUtnFEMI+K7MDENGxbPxRfiCYEXAMPLEKEY",
	"OpenAI":    "sk-proj-a8Kd93hQzLm2Rt7Vw4Bn6YcP0sXe5Jf1GuTi",
	"Anthropic": "sk-ant-api03-Zx81kQmP07vLrT3bNc55YdWsEe92HjUoAa",
	"Slack":     "xoxb-123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx",
	"JWT": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4ifQ" +
		".SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",
	"Google":   "AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY",
	"Stripe":   "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
	"SendGrid": "SG.ngeVfQFYQlKU0ufo8x5d1A.TwL2iGABf9DHoTf09kqeF8tAmbihYzrnopKc1s5cr4",
	"Hugging":  "hf_AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh",
	"PyPI":     "pypi-AgEIcHlwaS5vcmcCJDU4YjY0ZTg2LTQ3ODItNDg4Zi1hZjY4",
}

func hasSecret(content string) bool {
	return slices.ContainsFunc(Analyze(content).Carriers, func(c Carrier) bool { return c.Kind == Secret })
}

func TestPromiseASecretIsFoundInsideAURL(t *testing.T) {
	everyByte := func(s string) string {
		var b strings.Builder
		for i := range len(s) {
			b.WriteString("%" + strings.ToUpper(hex.EncodeToString([]byte{s[i]})))
		}
		return b.String()
	}
	places := map[string]func(k string) string{
		"parameter":         func(k string) string { return "https://e1.example/?k=" + k },
		"second parameter":  func(k string) string { return "https://e1.example/a?x=1&token=" + k + "&y=2" },
		"path":              func(k string) string { return "https://e1.example/c/" + k + "/logo.png" },
		"last path segment": func(k string) string { return "https://e1.example/c/" + k },
		"fragment":          func(k string) string { return "https://e1.example/#" + k },
		"user":              func(k string) string { return "https://" + k + "@e1.example/a" },
		"password":          func(k string) string { return "https://ana:" + k + "@e1.example/a" },
		"after other text":  func(k string) string { return "https://e1.example/?d=login_ana_password_" + k },
		"host":              func(k string) string { return "https://" + k + ".e1.example/" },
		"before other text": func(k string) string { return "https://e1.example/?k=" + k + "&x" },
		"percent":           func(k string) string { return "https://e1.example/?k=" + everyByte(k) },
		"one byte percent":  func(k string) string { return "https://e1.example/?k=" + everyByte(k[:1]) + k[1:] },
		"percent twice":     func(k string) string { return "https://e1.example/?k=" + url.QueryEscape(everyByte(k[:1])) + k[1:] },
		"escaped sentence":  func(k string) string { return "https://e1.example/?d=" + url.QueryEscape("the key is "+k+" ok") },
		"base64":            func(k string) string { return "https://e1.example/?k=" + base64.StdEncoding.EncodeToString([]byte(k)) },
		"base64 of a text": func(k string) string {
			return "https://e1.example/?k=" + base64.URLEncoding.EncodeToString([]byte("pw: "+k))
		},
		"base64 in the path": func(k string) string { return "https://e1.example/c/" + base64.URLEncoding.EncodeToString([]byte(k)) },
		"hex":                func(k string) string { return "https://e1.example/?k=" + hex.EncodeToString([]byte(k)) },
		"in prose":           func(k string) string { return "The build link is https://e2.example/?k=" + k + ". Keep it." },
		"without a scheme":   func(k string) string { return "e1.example/c/" + k },
		"host, no scheme":    func(k string) string { return k + ".e1.example" },
		"after a colon":      func(k string) string { return "token:" + k },
		"before an @":        func(k string) string { return "git:" + k + "@e1.example" },
	}
	for issuer, key := range keysOfIssuers {
		if !hasSecret("the key is " + key) {
			t.Errorf("%s: the bare key is not found", issuer)
		}
		for place, in := range places {
			if !hasSecret(in(key)) {
				t.Errorf("%s, %s: %s: no secret among %q", issuer, place, in(key), carriersOf(in(key)))
			}
		}
	}
}

func TestAPrivateKeyIsFoundInsideAURL(t *testing.T) {
	body := strings.Repeat("MIIEpAIBAAKCAQEA7bq2rX1cPz0vLkQwErTyUiOpAsDfGhJkLzXcVbNm12345678\n", 8)
	key := "-----BEGIN RSA PRIVATE KEY-----\n" + body + "-----END RSA PRIVATE KEY-----"
	for _, in := range []string{
		key,
		url.QueryEscape(key),
		url.PathEscape(key),
		strings.ReplaceAll(strings.ReplaceAll(key, " ", "+"), "\n", ""),
		strings.ReplaceAll(key, " ", "_"),
		base64.StdEncoding.EncodeToString([]byte(key)),
	} {
		if u := "https://e1.example/?k=" + in; !hasSecret(u) {
			t.Errorf("%.90s: no secret among %.200q", u, carriersOf(u))
		}
	}
}

func TestOrdinaryURLsHaveNoSecret(t *testing.T) {
	for _, in := range []string{
		"https://shop.example/p/sk-ii-facial-treatment-essence-230ml",
		"https://blog.example/2024/pypi-typosquatting-campaign-drops-malware-again-2024",
		"https://shop.example/sk-SK/kategoria/obuv-pre-deti?page=2",
		"https://docs.example/hf_transformers_tutorial_for_beginners_2024",
		"https://img.example/eyJidWNrZXQiOiJpbWFnZXMiLCJrZXkiOiJhLnBuZyJ9",
		"https://cdn.example/eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.min.js",
		"https://api.slack.example/docs/xoxb-tokens-and-how-they-differ",
		"https://docs.example/ghp_tokens",
		"https://git.example/acme/app/commit/16c7e42f292c6912e7710c838347ae178b4a0001",
		"https://example.com/search?q=AKIA+prefix",
		"https://docs.example/glpat-tokens-explained-in-ten-steps",
		"see src/sk-learn/pipelines/preprocessing_2024.py",
		"sk-service-desk@halden-municipality.example",
	} {
		if hasSecret(in) {
			t.Errorf("%s: %q", in, carriersOf(in))
		}
	}
}

func TestASecretInsideAURLIsMasked(t *testing.T) {
	in := "see https://e1.example/?k=" + keysOfIssuers["GitHub"] + "&x=1 now"
	if got := Mask(in, CarrierSpans(in, Secret)); got != "see https://e1.example/?k=[masked]&x=1 now" {
		t.Error(got)
	}
	in = "see https://e1.example/?k=%67" + keysOfIssuers["GitHub"][1:] + "&x=1 now"
	if got := Mask(in, CarrierSpans(in, Secret)); got != "see [masked] now" {
		t.Error(got)
	}
}

// A text in which a key could begin at many places takes at most twelve times as long as prose of the same size. If the
// scanner read the same bytes again for each beginning, the text would take more than twenty times as long.
func TestBeginningsOfKeysAreReadOnce(t *testing.T) {
	const size = 1 << 20
	fastest := func(s string) time.Duration {
		least := time.Hour
		for range 3 {
			start := time.Now()
			Analyze(s)
			least = min(least, time.Since(start))
		}
		return least
	}
	prose := fastest(strings.Repeat("hello you ", size/10))
	for _, unit := range []string{"eyJ_", strings.Repeat("eyJ_", 900) + ".", "http://a/-----BEGIN PRIVATE KEY-----\n"} {
		if took := fastest("http://a/" + strings.Repeat(unit, size/len(unit))); took > 12*prose {
			t.Errorf("%.40q takes %v, prose %v", unit, took, prose)
		}
	}
	jwt := "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dBjftJeZ4CVPmB92K27uhbUJU1p1r_wW"
	for _, before := range []string{"eyJ_", strings.Repeat("eyJ_", 2000), "eyJ_a.b-", "eyJa.b.eyJ."} {
		ft := Analyze("http://a/" + before + "/" + jwt)
		if !slices.ContainsFunc(ft.Carriers, func(c Carrier) bool { return c.Kind == Secret }) {
			t.Errorf("the token after %.20q is not found", before)
		}
	}
}
