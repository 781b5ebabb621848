package natsserver

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/nats-io/nats-server/v2/server"
)

// Exposed says which listeners of a server admit other servers from other machines
// without a certificate. A server that joins a cluster or a super-cluster says for
// which account its messages are: it needs no credential to publish as anybody.
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
	// A leaf node signs in with a credential, which says what it may publish.
	if o.LeafNode.Port != 0 && !loopback(o.LeafNode.Host) && o.LeafNode.TLSConfig == nil {
		errs = append(errs, errors.New("leafnodes are accepted from other machines without tls"))
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
		open = "does not verify the certificate of those who connect (tls: verify)"
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

// loopback reports whether only this machine reaches a host; an empty one is all
// addresses.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// CheckConfig reads a configuration of nats-server and refuses one that Exposed
// refuses.
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
