package text

import (
	"slices"
	"strings"
	"testing"
)

func TestSecretsInURLsAreFound(t *testing.T) {
	key := keysOfIssuers["GitHub"]
	for _, in := range []string{
		"https://e1.example/?d=xx" + key, "https://e1.example/?d=" + key + "yy", "https://e1.example/?d=xx" + key + "yy9",
		"https://e1.example/logo" + key + ".png", "e1.example/x" + key + "x", "https://e1.example/?d=abc" + keysOfIssuers["Stripe"],
		"https://e1.example/?d=abc" + keysOfIssuers["OpenAI"], "https://e1.example/?d=abc" + keysOfIssuers["Slack"],
		"https://" + strings.ToLower(key) + ".e1.example/", strings.ToLower(key) + ".e1.example",
		"https://" + strings.ToLower(strings.Replace(key, "_", "-", 1)) + ".e1.example/x",
		"https://" + strings.ToLower(strings.Replace(key, "_", "", 1)) + ".e1.example/x",
		"https://" + strings.ToLower(keysOfIssuers["Google"]) + ".e1.example/", "x@" + strings.ToLower(key) + ".e1.example",
		"https://e1.example/?user=ana&password=Sommer2024!", "https://e1.example/in?pwd=hunter2", "https://e1.example/?a=1;Password=correcthorse",
		"https://e1.example/?%70assword=tr0ub4dor", "https://ana:Sommer2024@e1.example/x", "postgres://app:s3cr3t9x@db.e1.example:5432/app",
		"https://u:Sup3rS3cretPw@127.e1.example/", "https://u:Sup3rS3cretPw@3232235777/", "https://u:Sup3rS3cretPw@[2001:db8::1]/",
		"https://e1.example/?pass=Sup3rS3cret", "https://e1.example/?pw=Sup3rS3cret", "https://e1.example/?db_password=Sup3rS3cret",
		"https://e1.example/#password=Sup3rS3cret", "https://e1.example/?a=1#pw=Sup3rS3cret", "https://u:Sup3rS3cretPw@notexample.com/",
		"see https://ana:p%40ss-w0rd@e1.example.",
		// Passwords that have a part of a placeholder
		"https://e1.example/?password=[xSommer2024", "https://e1.example/?password=[Sommer2024]", "https://u:(tr0ub4dor@e1.example/",
		"https://e1.example/?password=Sommer-your-2024", "https://e1.example/?password=yourSommer2024", "https://u:your-Sup3rS3cret@e1.example/",
		"https://e1.example/?password=pw...Sommer2024", "https://e1.example/?password=Sommer2024...", "https://e1.example/?pw=Sommer…2024",
		"https://e1.example/?password=placeholderSommer2024", "https://u:$ecretSauce@e1.example/", "https://u:$Sommer2024@e1.example/",
		"https://e1.example/?password=%25Sommer2024", "https://e1.example/?password=*Sommer2024*", "https://u:xxxxSommer@e1.example/",
		"https://e1.example/?password=%7B%7BSommer2024%7D%7D", "https://e1.example/?password=%3CSommer2024%3E",
		"https://e1.example/?password=[correcthorse]",
		// Passwords of joined words
		"postgres://app:MyStrongPassword@prod.e1.example/x", "postgres://app:NewAdminPass@prod.e1.example/x",
		"postgres://app:rootpass@prod.e1.example/x", "postgres://app:dbpassword@prod.e1.example/x",
		"postgres://app:securepass@prod.e1.example/x", "postgres://app:rootroot@prod.e1.example/x",
		"https://e1.example/?password=MyAppSecret", "https://e1.example/?password=mongoadmin",
	} {
		if !hasSecret(in) {
			t.Errorf("%s: no secret among %q", in, carriersOf(in))
		}
	}
	for _, in := range []string{
		"https://e1.example/login?password=", "https://e1.example/?password=<password>", "https://e1.example/?password=$PASSWORD",
		"https://e1.example/?password={{pw}}", "https://e1.example/?password=your-password", "https://e1.example/?password=xxxxxxxx",
		"https://e1.example/?password=[password]", "https://e1.example/?password=%3Cyour%20db%20password%3E", "https://u:********@e1.example/",
		"https://u:[your-password]@e1.example/", "https://u:$DB_PASSWORD@e1.example/", "https://u:${DB_PASSWORD}@e1.example/",
		"https://u:$dbPassword@e1.example/", "https://e1.example/?password=%24%7BPW%7D", "https://e1.example/?password=%7B%7B%20.Values.password%20%7D%7D",
		"https://e1.example/?password=$(pass show db)", "https://e1.example/?password=YOUR_PASSWORD_HERE", "https://u:yourpassword@e1.example/",
		"https://u:my-secret-password@e1.example/", "https://e1.example/?password=......", "https://u:%SMTP_PASSWORD%@e1.example/",
		"https://u:new_password...@e1.example/", "https://e1.example/?password=XXXXXXXX",
		"https://e1.example/account?password=forgot", "https://e1.example/?q=password&page=2024001", "https://e1.example/?pwd=reset",
		"postgres://postgres:postgres@db.e1.example/app", "postgres://app:s3cr3t9x@localhost:5432/app", "redis://x:s3cr3t9x@redis:6379",
		"https://user:password@e1.example/", "https://x-access-token:GITHUB_TOKEN@github.com/o/r", "https://oauth2:GITLAB_TOKEN@gitlab.com/o",
		"https://user:PASSWORD_HERE@example.com/", "https://user:mypassword@example.com", "postgres://app:app_password@db.example.com/x",
		"http://u:s3cr3t9x@127.0.0.1:8080/", "http://u:s3cr3t9x@[::1]/", "https://e1.example/?bypass=Sup3rS3cret", "ssh://git@e1.example:22/a.git", "https://e1.example/@ana:builds2024x/post",
		"https://desk-2024-a8Kd93hQzLm2Rt7Vw4Bn6Yc.e1.example/", "https://e1.example/task-a8Kd93hQzLm2Rt7Vw4Bn6YcP0sXe5Jf1GuTi",
		"https://github-pages-for-a-long-project-name.e1.example/", "https://xoxb-tokens-explained-in-ten-steps.e1.example/",
		"https://npm-registry-mirror-for-everybody-in-europe.e1.example/",
		"https://e1.example/?d=" + strings.Repeat("Zm9v", 20) + "ghp_16C7e42F292c6912E7710c838347Ae178B4a" + strings.Repeat("YmFy", 20),
	} {
		if hasSecret(in) {
			t.Errorf("%s: %q", in, carriersOf(in))
		}
	}
	in := "see https://ana:Sommer2024@e1.example/?a=1&password=hunter2#x"
	if got := Mask(in, CarrierSpans(in, Secret)); got != "see https://ana:[masked]@e1.example/?a=1&password=[masked]#x" {
		t.Error(got)
	}
	in = "https://e1.example/?d=xx" + keysOfIssuers["GitHub"] + "yy"
	if got := Mask(in, CarrierSpans(in, Secret)); got != "https://e1.example/?d=xx[masked]yy" {
		t.Error(got)
	}
	if !slices.Contains(KindsWith(func(t Traits) bool { return t.Personal }), Secret) {
		t.Error("secrets are not masked")
	}
}

func TestPasswordsAreTakenOutOfAURL(t *testing.T) {
	for _, x := range []struct{ url, bare, passwords string }{
		{"https://ana:tr4vel@h1.example/x?a=1", "https://ana@h1.example/x?a=1", "tr4vel"},
		{"https://h1.example/?b=2&Password=one&pw=two&password=three", "https://h1.example/?b=2", "one three two"},
		{"https://ana@h1.example/?token=x", "https://ana@h1.example/?token=x", ""},
		{"see https://ana:tr4vel@h1.example/", "see https://ana:tr4vel@h1.example/", ""},
		{"https://h1.example/?password=%zz", "https://h1.example/?password=%zz", ""},
		{"", "", ""},
	} {
		bare, passwords := WithoutPasswords(x.url)
		if bare != x.bare || strings.Join(passwords, " ") != x.passwords {
			t.Errorf("%q: %q, %q", x.url, bare, passwords)
		}
	}
}
