package natsserver

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// ErrNoPort says that nothing accepts connections at an address.
var ErrNoPort = errors.New("nothing accepts a connection")

// probeTime is how long one attempt may take.
const probeTime = 3 * time.Second

// ProbeRoute connects to the port of a server for other servers as an outsider: in
// the clear, over TLS without a certificate, and with a certificate of an authority
// of its own. It returns an error if one is let in, or ErrNoPort; and until when the
// server's certificate is valid.
func ProbeRoute(ctx context.Context, addr string) (expires time.Time, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return expires, fmt.Errorf("%w at %s: %w", ErrNoPort, addr, err)
	}
	// A port without TLS speaks first.
	line, err := greeting(conn, time.Second)
	conn.Close()
	if err == nil && strings.HasPrefix(line, "INFO ") {
		return expires, fmt.Errorf(
			"%s speaks to other servers without TLS: whoever reaches it may join and speak for every agent", addr)
	}
	own, err := newPair(&x509.Certificate{Subject: pkix.Name{CommonName: "outsider"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, nil, time.Hour)
	if err != nil {
		return expires, err
	}
	for _, try := range []struct {
		what  string
		certs []tls.Certificate
	}{
		{"without a certificate", nil},
		{"with a certificate of an unknown authority",
			[]tls.Certificate{{Certificate: [][]byte{own.cert.Raw}, PrivateKey: own.key}}},
	} {
		// The server is the one that is tested: whatever it shows is fine.
		c := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if try.certs == nil {
				return new(tls.Certificate), nil
			}
			return &try.certs[0], nil
		}
		d := tls.Dialer{NetDialer: &net.Dialer{Timeout: probeTime}, Config: c}
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			continue // refused within the handshake
		}
		if peers := conn.(*tls.Conn).ConnectionState().PeerCertificates; len(peers) > 0 {
			expires = peers[0].NotAfter
		}
		// With TLS 1.3 the refusal comes after the handshake.
		line, err := greeting(conn, probeTime)
		conn.Close()
		if err == nil && strings.HasPrefix(line, "INFO ") {
			return expires, fmt.Errorf("%s lets other servers in %s: whoever reaches it may join and speak for every agent",
				addr, try.what)
		}
	}
	return expires, nil
}

// greeting is the first line that a server sends.
func greeting(c net.Conn, within time.Duration) (string, error) {
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		return "", err
	}
	return bufio.NewReader(c).ReadString('\n')
}
