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

// ErrNoPort means that no program accepts connections at an address.
var ErrNoPort = errors.New("nothing accepts a connection")

// probeTime is the timeout of one attempt.
const probeTime = 3 * time.Second

// ProbeRoute tests whether a server's port for routes refuses connections without valid credentials. It tries three:
// without encryption, over TLS without a certificate, and with a certificate of another authority. It returns an error
// if the server accepts one of them, and ErrNoPort if no server listens. expires is the expiry of the server's own
// certificate.
func ProbeRoute(ctx context.Context, addr string) (expires time.Time, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return expires, fmt.Errorf("%w at %s: %w", ErrNoPort, addr, err)
	}
	// If a port has no TLS, the server sends its first line at once.
	line, err := greeting(conn, time.Second)
	conn.Close()
	if err == nil && strings.HasPrefix(line, "INFO ") {
		return expires, fmt.Errorf(
			"%s accepts servers without TLS: anyone who can connect can join and impersonate every agent", addr)
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
		// The server's certificate is not verified, because ProbeRoute tests what the server accepts.
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
			continue // refused during the handshake
		}
		if peers := conn.(*tls.Conn).ConnectionState().PeerCertificates; len(peers) > 0 {
			expires = peers[0].NotAfter
		}
		// With TLS 1.3, the handshake succeeds first, and then the server refuses the client.
		line, err := greeting(conn, probeTime)
		conn.Close()
		if err == nil && strings.HasPrefix(line, "INFO ") {
			return expires, fmt.Errorf("%s accepts servers %s: anyone who can connect can join and "+
				"impersonate every agent", addr, try.what)
		}
	}
	return expires, nil
}

// greeting returns the first line that a server sends within the given time.
func greeting(c net.Conn, within time.Duration) (string, error) {
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		return "", err
	}
	return bufio.NewReader(c).ReadString('\n')
}
