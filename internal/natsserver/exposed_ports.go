package natsserver

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/nats-io/nats-server/v2/server"
)

// Exposed returns an error if other servers can connect from other machines without a certificate. The error names the
// ports. A server that joins a cluster or super-cluster states the account of its messages itself. So without a
// certificate, anyone could publish in any account without a credential.
func Exposed(o *server.Options) error {
	var errs []error
	if o.Cluster.Port != 0 {
		errs = append(errs, exposed("cluster", o.Cluster.Host, o.Cluster.TLSConfig, o.Cluster.Username != "" ||
			o.Cluster.TLSMap))
	}
	if o.Gateway.Port != 0 {
		errs = append(errs, exposed("gateway", o.Gateway.Host, o.Gateway.TLSConfig, o.Gateway.Username != "" ||
			o.Gateway.TLSMap))
	}
	// A leaf node has a credential, which limits the subjects to which it may publish.
	if o.LeafNode.Port != 0 && !loopback(o.LeafNode.Host) && o.LeafNode.TLSConfig == nil {
		errs = append(errs, errors.New("leafnodes are accepted from other machines without tls: add tls to the "+
			"leafnodes, or let them listen on 127.0.0.1"))
	}
	return errors.Join(errs...)
}

func exposed(what, host string, c *tls.Config, authorized bool) error {
	if loopback(host) {
		return nil
	}
	open := ""
	switch {
	case c == nil:
		open = "has no tls"
	case c.ClientAuth != tls.RequireAndVerifyClientCert || c.InsecureSkipVerify:
		open = "does not verify client certificates (tls: verify)"
	case c.ClientCAs == nil:
		open = "trusts every public authority (tls: ca_file)"
	case !authorized:
		open = "has no authorization"
	default:
		return nil
	}
	return fmt.Errorf("%s listens on %q, which other machines reach, and %s: write the configuration with lazaret "+
		"server config, or listen on 127.0.0.1", what, host, open)
}

// loopback reports whether a listener on this host address can be reached only from this machine. An empty host means
// all addresses.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// CheckConfig parses a configuration file of nats-server. It returns an error if Exposed returns one for it.
func CheckConfig(file string) error {
	o, err := server.ProcessConfigFile(file)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := Exposed(o); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
