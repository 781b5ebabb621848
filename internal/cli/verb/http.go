package verb

import (
	"crypto/tls"
	"fmt"

	"github.com/spf13/pflag"
)

// HTTPFlags are the flags of an HTTP server's address and certificate.
type HTTPFlags struct{ Listen, cert, key string }

// Bind adds the flag name for the address to listen on, and the flags of BindTLS.
func (h *HTTPFlags) Bind(f *pflag.FlagSet, name, usage string) {
	f.StringVar(&h.Listen, name, h.Listen, usage)
	h.BindTLS(f)
}

// BindTLS adds --http-cert and --http-key.
func (h *HTTPFlags) BindTLS(f *pflag.FlagSet) {
	f.StringVar(&h.cert, "http-cert", "", "certificate `FILE` (PEM): HTTP with TLS")
	f.StringVar(&h.key, "http-key", "", "key `FILE` (PEM) of the certificate")
}

// TLS loads the certificate, or returns nil if none is given.
func (h *HTTPFlags) TLS() (*tls.Config, error) {
	if h.cert == "" && h.key == "" {
		return nil, nil
	}
	c, err := tls.LoadX509KeyPair(h.cert, h.key)
	if err != nil {
		return nil, fmt.Errorf("--http-cert and --http-key: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{c}, MinVersion: tls.VersionTLS12}, nil
}
