package notify

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"lazaret/internal/ceiling"
	"lazaret/pkg/beliefs"
)

// hostile is a value that tries to form markup, mentions, links, headers, frames and structured data.
const hostile = "<!channel> <https://evil.example|Approve> [x](https://evil.example) <at>all</at> @here\r\nBcc: " +
	"eve@evil.example\n.\r\n" +
	"50 <0>1 - evil - - - - \"] [evil@1 a=\"b\x00\u202e\\"

// hostileMessage returns a message in which every field that an attacker can choose is hostile, as it
// is sent.
func hostileMessage() *Message {
	n := &Notice{
		ID:       "alert-7-0",
		Kind:     KindAlert,
		Project:  "acme",
		Time:     time.Date(2026, 11, 23, 20, 0, 0, 0, time.UTC),
		Entry:    7,
		Agent:    hostile,
		Session:  hostile,
		Tool:     hostile,
		Severity: "high",
		Rule:     hostile,
		Effect:   hostile,
		Text:     hostile,
	}
	n.redact(new(ceiling.Labels), beliefs.Internal, 7)
	n.link("https://console.example")
	return newMessage([]*Notice{n})
}

// capture is an HTTP receiver that answers with a status and stores the last request.
type capture struct {
	*httptest.Server
	status int
	header http.Header
	path   string
	body   []byte
}

func newCapture(t *testing.T) *capture {
	c := &capture{status: 200}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.header, c.path = r.Header, r.URL.Path
		c.body, _ = io.ReadAll(r.Body)
		w.Header().Set("Location", "http://127.0.0.1:1/")
		w.WriteHeader(c.status)
		fmt.Fprint(w, "said\x1b[31m of ", r.URL)
	}))
	t.Cleanup(c.Close)
	return c
}

// sent prepares a receiver, sends the message, and returns the JSON that was received.
func sent[T any](t *testing.T, r receiver, c *capture, m *Message) (v T) {
	t.Helper()
	if err := r.prepare(); err != nil {
		t.Fatal(err)
	}
	if err := r.send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(c.body, &v); err != nil {
		t.Fatalf("%v in %s", err, c.body)
	}
	return v
}

// walk calls f for each object in a JSON value.
func walk(v any, f func(map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		f(v)
		for _, x := range v {
			walk(x, f)
		}
	case []any:
		for _, x := range v {
			walk(x, f)
		}
	}
}

func TestAValueFormsNoMarkupMentionOrLinkInSlack(t *testing.T) {
	c := newCapture(t)
	got := sent[map[string]any](t, &Slack{URL: c.URL + "/services/T/B/token"}, c, hostileMessage())
	if s := got["text"].(string); strings.ContainsAny(s, "<>&@") || got["unfurl_links"] != false {
		t.Errorf("the parsed text is %q", s)
	}
	buttons := 0
	walk(got["blocks"], func(o map[string]any) {
		if o["type"] == "mrkdwn" {
			t.Errorf("a value stands in markup: %v", o)
		}
		if s, _ := o["text"].(string); strings.Contains(s, "://") {
			t.Errorf("a value has a link: %q", s)
		}
		if u, ok := o["url"].(string); ok {
			if buttons++; !strings.HasPrefix(u, "https://console.example/alerts?") {
				t.Errorf("a button leads to %q", u)
			}
		}
	})
	if buttons != 1 {
		t.Errorf("%d buttons", buttons)
	}
}

func TestAValueFormsNoMarkupMentionOrLinkInTeams(t *testing.T) {
	c := newCapture(t)
	got := sent[map[string]any](t, &Teams{URL: c.URL}, c, hostileMessage())
	links := 0
	walk(got, func(o map[string]any) {
		switch o["type"] {
		case "TextBlock":
			t.Errorf("a value stands in Markdown: %v", o)
		case "TextRun":
			if s := o["text"].(string); strings.Contains(s, "://") {
				t.Errorf("a value has a link: %q", s)
			}
		case "Action.OpenUrl":
			if links++; !strings.HasPrefix(o["url"].(string), "https://console.example/") {
				t.Errorf("a link leads to %v", o["url"])
			}
		}
		if _, ok := o["msteams"]; ok {
			t.Error("the card names mentions")
		}
	})
	if links != 1 {
		t.Errorf("%d links", links)
	}
}

// The test vector is from the reference implementation of Standard Webhooks.
func TestAWebhookIsSignedAsStandardWebhooksSays(t *testing.T) {
	key, _ := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if got := sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330",
		[]byte(`{"test": 2432232314}`)); got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Errorf("the signature is %s", got)
	}
	c := newCapture(t)
	m := hostileMessage()
	got := sent[struct {
		Type string
		Data Message
	}](t, &Webhook{URL: c.URL, Secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, c, m)
	h := c.header
	if h.Get("webhook-id") != m.ID ||
		h.Get("webhook-signature") != sign(key, m.ID, h.Get("webhook-timestamp"), c.body) {
		t.Errorf("the headers are %v", h)
	}
	if got.Type != "lazaret.alert" || got.Data.Notices[0].ID != m.Notices[0].ID {
		t.Errorf("the message is %+v", got)
	}
	for _, secret := range []string{"", "whsec_c2hvcnQ=", "no base64"} {
		if err := (&Webhook{URL: c.URL, Secret: secret}).prepare(); err == nil ||
			secret != "" && strings.Contains(err.Error(), secret) {
			t.Errorf("secret %q: %v", secret, err)
		}
	}
}

func TestAlertmanagerKnowsAHoldAndItsEndByTheSameLabels(t *testing.T) {
	c := newCapture(t)
	now := time.Date(2026, 11, 23, 20, 0, 0, 0, time.UTC)
	m := &Message{Notices: []*Notice{
		{Kind: KindHold, Project: "acme", Agent: "a", Hold: "h1", Time: now, Expires: now.Add(time.Hour), Tool: "send"},
		{Kind: KindSettled, Project: "acme", Agent: "a", Hold: "h1", Time: now.Add(time.Minute), State: "approved"}}}
	got := sent[[]struct {
		Labels         map[string]string
		StartsAt, Ends time.Time
		EndsAt         time.Time
	}](t, &Alertmanager{URL: c.URL + "/am/", Token: "t0ken"}, c, m)
	if c.path != "/am/api/v2/alerts" || c.header.Get("Authorization") != "Bearer t0ken" {
		t.Errorf("asked %s with %v", c.path, c.header)
	}
	if fmt.Sprint(got[0].Labels) != fmt.Sprint(got[1].Labels) || !got[0].EndsAt.Equal(now.Add(time.Hour)) ||
		!got[1].EndsAt.Equal(now.Add(time.Minute)) {
		t.Errorf("the alerts are %+v", got)
	}
}

func TestOCSFFindingsGoToAFileOrAWebhook(t *testing.T) {
	file := filepath.Join(t.TempDir(), "findings.jsonl")
	o := &OCSF{File: file}
	if err := o.prepare(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(`{"cut":`), 0o600); err != nil { // as after a crash
		t.Fatal(err)
	}
	for range 2 {
		if err := o.send(t.Context(), hostileMessage()); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines", len(lines))
	}
	for _, l := range lines[1:] {
		var f map[string]any
		if err := json.Unmarshal([]byte(l), &f); err != nil {
			t.Fatal(err)
		}
		if f["class_uid"] != 2004.0 || f["type_uid"] != 200401.0 || f["severity_id"] != 4.0 ||
			f["finding_info"].(map[string]any)["uid"] != "alert-7-0" {
			t.Errorf("the finding is %v", f)
		}
	}
	c := newCapture(t)
	if got := sent[[]map[string]any](t, &OCSF{URL: c.URL}, c, hostileMessage()); len(got) != 1 {
		t.Errorf("%d findings", len(got))
	}
}

// mailServer accepts one mail and returns its envelope and text.
func mailServer(t *testing.T, refuse bool) (address string, got <-chan string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	out := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		r := bufio.NewReader(c)
		var all strings.Builder
		fmt.Fprint(c, "220 test\r\n")
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			all.WriteString(line)
			switch strings.ToUpper(line[:min(4, len(line))]) {
			case "DATA":
				fmt.Fprint(c, "354 go on\r\n")
				for line != ".\r\n" {
					if line, err = r.ReadString('\n'); err != nil {
						return
					}
					all.WriteString(line)
				}
				out <- all.String()
				if refuse {
					fmt.Fprint(c, "554 no\r\n")
				} else {
					fmt.Fprint(c, "250 taken\r\n")
				}
			case "QUIT":
				fmt.Fprint(c, "221 bye\r\n")
				return
			default:
				fmt.Fprint(c, "250 ok\r\n")
			}
		}
	}()
	return l.Addr().String(), out
}

func TestAValueFormsNoHeaderOrEndOfAMail(t *testing.T) {
	address, got := mailServer(t, false)
	e := &Email{Server: address, TLS: "none", From: "Lazaret <lazaret@example.org>", To: []string{"oncall@example.org"}}
	if err := e.prepare(); err != nil {
		t.Fatal(err)
	}
	if err := e.send(t.Context(), hostileMessage()); err != nil {
		t.Fatal(err)
	}
	all := <-got
	if n := strings.Count(all, "RCPT TO"); n != 1 {
		t.Errorf("%d recipients", n)
	}
	_, data, _ := strings.Cut(all, "DATA\r\n")
	m, err := mail.ReadMessage(strings.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if m.Header.Get("Bcc") != "" || len(m.Header) != 9 {
		t.Errorf("the headers are %v", m.Header)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil || !strings.HasPrefix(subject, "Lazaret: Alert (high) in acme") {
		t.Errorf("the subject is %q, %v", subject, err)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	if err != nil || !strings.Contains(string(body), "https://console.example/alerts?") ||
		strings.Contains(string(body), "https://evil") {
		t.Errorf("the text is %q, %v", body, err)
	}
	address, _ = mailServer(t, true)
	e = &Email{Server: address, TLS: "none", From: "a@example.org", To: []string{"b@example.org"}}
	if err := e.prepare(); err != nil {
		t.Fatal(err)
	}
	if err := e.send(t.Context(), hostileMessage()); !errors.As(err, new(refusal)) {
		t.Errorf("a refused mail: %v", err)
	}
}

// frames reads octet-counted frames of syslog until the sender closes.
func frames(r io.Reader) (out []string) {
	for b := bufio.NewReader(r); ; {
		size, err := b.ReadString(' ')
		if err != nil {
			return out
		}
		n, err := strconv.Atoi(strings.TrimSuffix(size, " "))
		if err != nil {
			return append(out, "no frame: "+size)
		}
		frame := make([]byte, n)
		if _, err := io.ReadFull(b, frame); err != nil {
			return append(out, "cut")
		}
		out = append(out, string(frame))
	}
}

func TestAValueFormsNoFrameOrParameterOfSyslog(t *testing.T) {
	cert, ca := selfSigned(t)
	m := &Message{Notices: append(hostileMessage().Notices, hostileMessage().Notices...)}
	for _, network := range []string{"tcp", "tls", "udp"} {
		var got chan []string
		s := &Syslog{Network: network}
		if network == "udp" {
			p, err := net.ListenPacket("udp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			s.Address, got = p.LocalAddr().String(), make(chan []string, 1)
			go func() {
				var list []string
				for range m.Notices {
					b := make([]byte, 64<<10)
					n, _, err := p.ReadFrom(b)
					if err != nil {
						return
					}
					list = append(list, string(b[:n]))
				}
				got <- list
			}()
		} else {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if s.Address, got = l.Addr().String(), make(chan []string, 1); network == "tls" {
				l, s.CA = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}}), ca
			}
			go func() {
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				got <- frames(c)
			}()
		}
		if err := s.prepare(); err != nil {
			t.Fatal(err)
		}
		if err := s.send(t.Context(), m); err != nil {
			t.Fatalf("%s: %v", network, err)
		}
		list := <-got
		if len(list) != 2 {
			t.Fatalf("%s: %q", network, list)
		}
		for _, f := range list {
			if !strings.HasPrefix(f, "<35>1 2026-11-23T20:00:00.000000Z ") || strings.ContainsAny(f, "\r\n\x00") {
				t.Errorf("%s: %q", network, f)
			}
			// Outside quotes there is one element.
			data, quoted := "", false
			for i := 0; i < len(f); i++ {
				switch {
				case quoted && f[i] == '\\':
					i++
				case f[i] == '"':
					quoted = !quoted
				case !quoted:
					data += string(f[i])
				}
				if !quoted && f[i] == ']' {
					break
				}
			}
			head, _, _ := strings.Cut(data, "\ufeff")
			if strings.Count(head, "[") != 1 || strings.Contains(head, "evil") {
				t.Errorf("%s: %q is outside of quotes", network, head)
			}
		}
	}
}

func TestAReceiverOfSyslogThatLosesTheMessageIsNotBelieved(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err == nil {
			c.(*net.TCPConn).SetLinger(0) // closing with unread data sends a reset, like a killed process
			c.Read(make([]byte, 1))
			c.Close()
		}
	}()
	s := &Syslog{Address: l.Addr().String(), Network: "tcp"}
	if err := errors.Join(s.prepare(), s.send(t.Context(), hostileMessage())); err == nil {
		t.Error("a reset connection counts as a delivery")
	}
}

func selfSigned(t *testing.T) (tls.Certificate, string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	x := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotAfter:              time.Now().Add(time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, x, x, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

func TestErrorsOfReceiversHoldNoSecretAndNoRedirectIsFollowed(t *testing.T) {
	c := newCapture(t)
	route := func(url string) *Route {
		r := &Route{Name: "r", To: To{Slack: &Slack{URL: url}}}
		if err := r.check(); err != nil {
			t.Fatal(err)
		}
		return r
	}
	for status, is := range map[int]string{302: "retry", 403: "retry", 404: "retry", 429: "retry", 500: "retry",
		400: "refused", 413: "refused"} {
		c.status = status
		err := route(c.URL+"/services/T0/B0/t0ken").Test(t.Context(), "")
		if err == nil || strings.ContainsAny(err.Error(), "\x1b") || strings.Contains(err.Error(), "t0ken") {
			t.Errorf("%d: %v", status, err)
		}
		if status != 302 && !strings.Contains(err.Error(), "said") {
			t.Errorf("%d: a test does not quote the receiver: %v", status, err)
		}
		if refused := errors.As(err, new(refusal)); refused != (is == "refused") {
			t.Errorf("%d: refused %v", status, refused)
		}
	}
	for _, url := range []string{"http://127.0.0.1:1/services/T0/B0/t0ken", "http://169.254.169.254/latest/t0ken",
		"http://[fe80::1%25lo]/t0ken", "http://0.0.0.0/t0ken"} {
		if err := route(url).Test(t.Context(), ""); err == nil || strings.Contains(err.Error(), "t0ken") {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{"ftp://t0ken", "t0ken", "http://user:t0ken@host/", "http://t0ken\n"} {
		if err := (&Route{Name: "r", To: To{Slack: &Slack{URL: url}}}).check(); err == nil ||
			strings.Contains(err.Error(), "t0ken") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestTheConfigurationIsStrictAndItsErrorsHoldNoSecret(t *testing.T) {
	good := `
console: https://lazaret.example.org:4281/
routes:
  - name: oncall
    projects: [acme]
    severity: high
    on: [hold, alert, settled]
    group: 30s
    repeat: 1h
    to:
      slack: {url: "https://hooks.slack.com/services/T0/B0/t0ken"}
`
	c, err := parse([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if r := c.Routes[0]; r.Group != 30*time.Second || r.Times != defaultTimes || r.Kind() != "slack" ||
		c.Console != "https://lazaret.example.org:4281" {
		t.Errorf("the route is %+v", r)
	}
	for _, x := range []struct{ old, new, want string }{
		{"severity", "severty", "line 6"},
		{"severity: high", "severity: loud", "route oncall: severity \"loud\" is unknown"},
		{"30s", "many", "a duration cannot be read"},
		{"30s", "24h", "group: 24h0m0s is not between"},
		{"1h", "1s", "repeat"},
		{"[hold, alert, settled]", "[holds]", "use hold, alert or settled"},
		{"slack:", "slak:", "line 11"},
		{"slack: {url:", "slack: {uri:", "line 11"},
		{"https://hooks", "hooks", "url: want an address"},
		{"[acme]", "[a.b]", "projects"},
		{"oncall", "on call", "routes[0]"},
		{"https://lazaret", "lazaret", "console"},
		{"slack:", "webhook: {url: https://t0ken.example, secret: t0ken}\n      slack:", "two receivers"},
		{"t0ken\"}", "t0ken\", url: [x]}", "line 11"},
		{"routes:", "routs:", "line 3"},
	} {
		_, err := parse([]byte(strings.Replace(good, x.old, x.new, 1)))
		if err == nil || !strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), "t0ken") {
			t.Errorf("%s: %v", x.new, err)
		}
	}
	for _, s := range []string{"", "routes: []", "routes: [null]", "\x00", "a: &a [*a]", "- 1", "routes: t0ken"} {
		if _, err := parse([]byte(s)); err == nil || strings.Contains(err.Error(), "t0ken") {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestATextAboveTheCeilingIsRedacted(t *testing.T) {
	labels := new(ceiling.Labels)
	labels.Scan(
		ceiling.Entry{
			Project: "acme",
			Seq:     3,
			Ingest:  true,
			Body:    []byte(`{"id":"m1","content":"the vault opens with 8812-KX","sensitivity":"secret"}`),
		},
	)
	n := &Notice{
		Kind:    KindAlert,
		Project: "acme",
		Rule:    "r",
		Tool:    "8812-KX",
		Text:    "'the vault opens with 8812-KX' goes to eve",
	}
	n.redact(labels, beliefs.Internal, 9)
	if strings.Contains(n.Text, "8812") || !strings.Contains(n.Text, "redacted: secret") {
		t.Errorf("the text is %q", n.Text)
	}
	n.Rule = "the vault opens with 8812-KX"
	n.redact(labels, beliefs.Internal, 9)
	if n.link("https://console.example"); n.Link != "https://console.example/alerts?project=acme" {
		t.Errorf("the link is %q", n.Link)
	}
	n = &Notice{Kind: KindAlert, Project: "acme", Text: "'the vault opens with 8812-KX' goes to eve"}
	n.redact(labels, beliefs.Secret, 9)
	if !strings.Contains(n.Text, "8812") {
		t.Errorf("under the ceiling secret the text is %q", n.Text)
	}
	if b := new(bytes.Buffer); json.NewEncoder(b).Encode(n) != nil {
		t.Error("a notice is no JSON")
	}
}

func TestNoValueIsDecodedInTheSubjectOfAMail(t *testing.T) {
	e := &Email{Server: "localhost:25", TLS: "none", From: "lazaret@example.org", To: []string{"oncall@example.org"}}
	if err := e.prepare(); err != nil {
		t.Fatal(err)
	}
	const word = "=?utf-8?q?approve_at_evil.example?="
	m, err := mail.ReadMessage(bytes.NewReader(e.compose(&Message{ID: "1", Notices: []*Notice{{Kind: KindAlert,
		Project: "acme", Severity: "high", Rule: word, Tool: word, Text: word}}})))
	if err != nil {
		t.Fatal(err)
	}
	raw := m.Header.Get("Subject")
	if read, err := new(mime.WordDecoder).DecodeHeader(raw); err != nil || read != raw || !strings.Contains(raw, "evil") {
		t.Errorf("the subject %q is read as %q, %v", raw, read, err)
	}
}
