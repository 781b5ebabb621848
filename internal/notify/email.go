package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"strings"
	"time"

	"lazaret/pkg/text"
)

// Email is a mail server. The connection is encrypted by STARTTLS unless TLS says otherwise.
type Email struct {
	Server       string   `yaml:"server"` // HOST:PORT
	TLS          string   `yaml:"tls"`    // starttls (default), implicit, or none
	User         string   `yaml:"user"`
	Password     string   `yaml:"password"`
	PasswordFile string   `yaml:"password_file"`
	From         string   `yaml:"from"`
	To           []string `yaml:"to"`

	host string
	from *mail.Address
	to   []*mail.Address
}

func (e *Email) secrets() []string { return []string{e.Password} }

func (e *Email) prepare() (err error) {
	if e.host, _, err = net.SplitHostPort(e.Server); err != nil {
		return errors.New("server: want HOST:PORT")
	}
	switch e.TLS {
	case "":
		e.TLS = "starttls"
	case "starttls", "implicit", "none":
	default:
		return fmt.Errorf("tls: %q is unknown: use starttls, implicit or none", e.TLS)
	}
	if e.Password, err = secretOf("password", e.Password, e.PasswordFile); err != nil {
		return err
	}
	if e.TLS == "none" && e.Password != "" {
		return errors.New("a password needs tls: starttls or implicit")
	}
	if e.from, err = mail.ParseAddress(e.From); err != nil {
		return errors.New("from: want an address such as Lazaret <lazaret@example.org>")
	}
	if len(e.To) == 0 {
		return errors.New("to: the list of addresses is empty")
	}
	for _, s := range e.To {
		a, err := mail.ParseAddress(s)
		if err != nil {
			return fmt.Errorf("to: %q is no address", s)
		}
		e.to = append(e.to, a)
	}
	return nil
}

func (e *Email) send(ctx context.Context, m *Message) error {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	conn, err := dialer.DialContext(ctx, "tcp", e.Server)
	if err != nil {
		return err
	}
	defer conn.Close()
	if end, ok := ctx.Deadline(); ok {
		conn.SetDeadline(end)
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	conf := &tls.Config{ServerName: e.host, MinVersion: tls.VersionTLS12}
	if e.TLS == "implicit" {
		conn = tls.Client(conn, conf)
	}
	c, err := smtp.NewClient(conn, e.host)
	if err != nil {
		return unquoted("greeting", err)
	}
	if e.TLS == "starttls" {
		if err := c.StartTLS(conf); err != nil {
			return unquoted("starttls", err)
		}
	}
	if e.User != "" {
		if err := c.Auth(smtp.PlainAuth("", e.User, e.Password, e.host)); err != nil {
			return unquoted("signing in", err)
		}
	}
	if err := c.Mail(e.from.Address); err != nil {
		return unquoted("from", err)
	}
	for _, a := range e.to {
		if err := c.Rcpt(a.Address); err != nil {
			return unquoted("to", err)
		}
	}
	w, err := c.Data()
	if err != nil {
		return unquoted("data", err)
	}
	if _, err := w.Write(e.compose(m)); err != nil {
		return unquoted("data", err)
	}
	if err := w.Close(); err != nil {
		var refused *textproto.Error
		if errors.As(err, &refused) && refused.Code/100 == 5 {
			return refusal{unquoted("data", err)}
		}
		return unquoted("data", err)
	}
	_ = c.Quit() // the server has accepted the mail already
	return nil
}

// unquoted returns the error of a step of SMTP. Its message does not quote the server.
func unquoted(step string, err error) error {
	var said *textproto.Error
	if errors.As(err, &said) {
		return &answer{fmt.Sprintf("%s: the mail server answered %d", step, said.Code), text.InertLine(said.Msg, maxQuote)}
	}
	if errors.As(err, new(textproto.ProtocolError)) {
		return &answer{step + ": the answer of the mail server is not valid SMTP", text.InertLine(err.Error(), maxQuote)}
	}
	return fmt.Errorf("%s: %w", step, err)
}

// compose returns the mail. The subject is one line, encoded unless it is plain ASCII. compose splits
// each "=?" in it: a mail program would decode text after "=?", so that a value of an event could be
// disguised. The body is quoted-printable.
func (e *Email) compose(m *Message) []byte {
	var b bytes.Buffer
	var to []string
	for _, a := range e.to {
		to = append(to, a.String())
	}
	_, domain, _ := strings.Cut(e.from.Address, "@")
	for _, h := range [][2]string{{"From", e.from.String()}, {"To", strings.Join(to, ", ")},
		{"Subject", mime.QEncoding.Encode("utf-8", strings.ReplaceAll(text.InertLine(tame(m.title()), 200), "=?", "= ?"))},
		{"Date", time.Now().UTC().Format(time.RFC1123Z)},
		{"Message-ID", "<" + m.ID + "@" + domain + ">"}, {"Auto-Submitted", "auto-generated"}, {"MIME-Version", "1.0"},
		{"Content-Type", "text/plain; charset=utf-8"}, {"Content-Transfer-Encoding", "quoted-printable"}} {
		fmt.Fprintf(&b, "%s: %s\r\n", h[0], h[1])
	}
	b.WriteString("\r\n")
	w := quotedprintable.NewWriter(&b)
	for i, n := range m.Notices {
		if i == shown {
			fmt.Fprintf(w, "and %d more\r\n", len(m.Notices)-shown)
			break
		}
		fmt.Fprintf(w, "%s\r\n", tame(n.headline()))
		if n.Text != "" {
			fmt.Fprintf(w, "  %s\r\n", tame(n.Text))
		}
		if n.Link != "" {
			fmt.Fprintf(w, "  %s\r\n", n.Link)
		}
		fmt.Fprint(w, "\r\n")
	}
	w.Close()
	return b.Bytes()
}
