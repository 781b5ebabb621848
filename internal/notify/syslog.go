package notify

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"
)

// Syslog is a receiver of RFC 5424 messages over UDP (RFC 5426), TCP with octet counting (RFC 6587) or
// TLS (RFC 5425). The protocol has no acknowledgment. Over TCP and TLS, the sender closes its side of the
// connection after a message, and the message counts as accepted when the receiver closes the connection too.
// Over UDP, a message counts as accepted when it is sent.
type Syslog struct {
	Address string `yaml:"address"` // HOST:PORT
	Network string `yaml:"network"` // tls (default), tcp or udp
	CA      string `yaml:"ca"`      // PEM file of authorities; default the system's

	tls *tls.Config
}

func (s *Syslog) secrets() []string { return nil }

func (s *Syslog) prepare() error {
	host, _, err := net.SplitHostPort(s.Address)
	if err != nil {
		return errors.New("address: want HOST:PORT")
	}
	switch s.Network {
	case "", "tls":
		s.Network = "tls"
		s.tls = &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	case "tcp", "udp":
	default:
		return fmt.Errorf("network: %q is unknown: use tls, tcp or udp", s.Network)
	}
	if s.CA == "" {
		return nil
	}
	if s.tls == nil {
		return errors.New("ca needs network: tls")
	}
	b, err := os.ReadFile(s.CA)
	if err != nil {
		return fmt.Errorf("ca: %w", err)
	}
	s.tls.RootCAs = x509.NewCertPool()
	if !s.tls.RootCAs.AppendCertsFromPEM(b) {
		return errors.New("ca: the file has no certificate")
	}
	return nil
}

// hangUp is how long the receiver may take to close the connection.
const hangUp = 5 * time.Second

func (s *Syslog) send(ctx context.Context, m *Message) error {
	network := s.Network
	if network == "tls" {
		network = "tcp"
	}
	conn, err := dialer.DialContext(ctx, network, s.Address)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(sendTime))
	if s.tls != nil {
		t := tls.Client(conn, s.tls)
		if err := t.HandshakeContext(ctx); err != nil {
			return err
		}
		conn = t
	}
	for _, n := range m.Notices {
		frame := s.format(n)
		if s.Network != "udp" {
			frame = fmt.Sprintf("%d %s", len(frame), frame)
		}
		if _, err := io.WriteString(conn, frame); err != nil {
			return err
		}
	}
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok || s.Network == "udp" {
		return nil
	}
	if err := half.CloseWrite(); err != nil {
		return err
	}
	conn.SetReadDeadline(time.Now().Add(hangUp))
	_, err = io.Copy(io.Discard, io.LimitReader(conn, 4096))
	if err != nil {
		return fmt.Errorf("the receiver did not close the connection, and may have lost the message: %w", err)
	}
	return nil
}

// format returns one message with facility 4 (security). Its structured data uses the enterprise number
// reserved for examples.
func (s *Syslog) format(n *Notice) string {
	level := []int{6, 5, 4, 3, 2}[max(0, slices.Index(severities, n.Severity))]
	host, err := os.Hostname()
	if err != nil || host == "" || strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' }) {
		host = "-"
	}
	var data strings.Builder
	for _, p := range [][2]string{{"id", n.ID}, {"kind", string(n.Kind)}, {"project", n.Project}, {"agent", n.Agent},
		{"session", n.Session},
		{"tool", n.Tool}, {"rule", n.Rule}, {"severity", n.Severity}, {"effect", n.Effect}, {"hold", n.Hold},
		{"state", n.State}, {"link", n.Link}} {
		if p[1] != "" {
			fmt.Fprintf(&data, ` %s="%s"`, p[0], strings.NewReplacer(`\`, `\\`, `"`, `\"`, `]`, `\]`).Replace(p[1]))
		}
	}
	msg := n.headline()
	if n.Text != "" {
		msg += ": " + n.Text
	}
	return fmt.Sprintf("<%d>1 %s %s lazaret - %s [lazaret@32473%s] \ufeff%s", 4*8+level,
		n.Time.UTC().Format("2006-01-02T15:04:05.000000Z07:00"), host, n.Kind, data.String(), msg)
}
