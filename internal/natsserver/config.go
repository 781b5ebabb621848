package natsserver

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"text/template"

	"lazaret/pkg/files"
)

// ServerConfig configures a separately operated nats-server, alone or in a cluster.
type ServerConfig struct {
	Name        string   // unique within the cluster
	Listen      string   // HOST:PORT for clients
	HTTP        string   // HOST:PORT of the monitoring endpoint; empty: none
	Store       string   // folder of the streams
	ClusterName string   // empty: not clustered
	Cluster     string   // HOST:PORT for routes
	Routes      []string // nats://HOST:PORT of all servers
	// path of the folder ServerCertDir on the server's machine, absolute; empty: the same path as on this machine
	CertDir string
	NoSync  bool // do not sync each write; the operating system decides when, as with Config.NoSync
	// path of StorageKeyFile, relative to the folder of the configuration; empty: it is in that folder
	KeyFile string
	TLSCert string // files; empty: no TLS
	TLSKey  string
	TLSCA   string
}

// StorageKeyFile returns the path of a file that is included in the configurations of separately run servers. It has
// one line, which sets the key that encrypts the streams.
func StorageKeyFile(data string) string { return filepath.Join(KeysDir(data), "jetstream.conf") }

var plain = regexp.MustCompile(`^[^"\\\x00-\x1f]*$`)

var configTemplate = template.Must(template.New("").Parse(`# nats-server of Lazaret, made by "lazaret server config".
#
# The credentials say which subjects their holders may publish and subscribe to. They
# are signed by the account's key in DATA/keys. This file has no secret; the files that
# it includes have some.

server_name: "{{.C.Name}}"
listen: "{{.C.Listen}}"
{{- if .C.HTTP}}
http: "{{.C.HTTP}}"
{{- end}}
max_payload: {{.MaxPayload}}
max_pending: {{.MaxPending}}
max_control_line: {{.MaxControlLine}}

jetstream {
  store_dir: "{{.C.Store}}"
  {{- if .C.NoSync}}
  # An acknowledged message may not be on disk yet. A machine that loses power loses
  # up to two minutes of them. Other replicas have them, unless they lose power too.
  sync_interval: "2m"
  {{- else}}
  # An acknowledgement means that the message is on disk.
  sync_interval: always
  {{- end}}
  cipher: aes
  include "{{.C.KeyFile}}" # key: encrypts the streams
}
{{- if .C.TLSCert}}

tls {
  cert_file: "{{.C.TLSCert}}"
  key_file: "{{.C.TLSKey}}"
  {{- if .C.TLSCA}}
  ca_file: "{{.C.TLSCA}}"
  {{- end}}
}
{{- end}}
{{- if .C.ClusterName}}

cluster {
  name: "{{.C.ClusterName}}"
  listen: "{{.C.Cluster}}"
  # A server of the cluster can publish in the name of every agent. So each needs
  # a certificate of the cluster's own authority, and the password.
  tls {
    cert_file: "{{.C.CertDir}}/cert.pem"
    key_file: "{{.C.CertDir}}/key.pem"
    ca_file: "{{.C.CertDir}}/ca.pem"
    verify: true
    timeout: 5
  }
  include "{{.ClusterFile}}" # authorization, routes
}
{{- end}}

# Whom the server trusts, and which credentials are revoked. Reload after a change.
include "{{.AccountsFile}}"
`))

// WriteConfig writes the configuration of a server that uses the accounts of a data folder. It creates
// the accounts if they are missing. All servers of a cluster must use the accounts of the same data folder.
func WriteConfig(w io.Writer, data string, c ServerConfig) error {
	for _, s := range append([]string{c.Name, c.Listen, c.HTTP, c.Store, c.ClusterName, c.Cluster, c.KeyFile, c.CertDir,
		c.TLSCert, c.TLSKey, c.TLSCA}, c.Routes...) {
		if !plain.MatchString(s) {
			return fmt.Errorf("%q cannot be used in a server's configuration: it has quotes, backslashes or control "+
				"characters", s)
		}
	}
	switch {
	case c.Name == "" || c.Listen == "" || c.Store == "":
		return errors.New("--name, --listen and --store must not be empty")
	case c.ClusterName != "" && (c.Cluster == "" || len(c.Routes) == 0):
		return errors.New("a server of a cluster needs --cluster-listen, its address for the others, and --routes, " +
			"their URLs")
	case c.TLSCert != "" && c.TLSKey == "":
		return errors.New("--tls-cert needs --tls-key, the file of its key")
	}
	keys, err := openKeyring(data)
	if err != nil {
		return err
	}
	if err := writeStorageKey(StorageKeyFile(data), keys.storage); err != nil {
		return err
	}
	if c.KeyFile == "" {
		c.KeyFile = filepath.Base(StorageKeyFile(data))
	}
	if c.ClusterName != "" {
		if err := secureCluster(data, c); err != nil {
			return err
		}
		if c.CertDir == "" {
			if c.CertDir, err = filepath.Abs(ServerCertDir(data, c.Name)); err != nil {
				return err
			}
		}
	}
	if err := keys.writeAccounts(); err != nil {
		return err
	}
	beside := func(file string) string { return filepath.Join(filepath.Dir(c.KeyFile), filepath.Base(file)) }
	return configTemplate.Execute(w, map[string]any{
		"C": c, "ClusterFile": beside(ClusterFile(data)), "AccountsFile": beside(AccountsFile(data)),
		"MaxPayload": MaxPayload, "MaxPending": MaxPending, "MaxControlLine": MaxControlLine,
	})
}

// writeStorageKey writes the key that encrypts the streams to a file that the configuration of a server includes. If
// the file has another key already, writeStorageKey changes nothing and returns an error: the file may be the only copy
// of that key.
func writeStorageKey(path, key string) error {
	text := fmt.Appendf(nil, "key: %q\n", key)
	err := files.Create(path, text, 0o600)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	had, err := os.ReadFile(path)
	if err == nil && !bytes.Contains(had, bytes.TrimSpace(text)) {
		err = fmt.Errorf("%[1]s has another key than %[2]s beside it: put the key that encrypts the streams into both; "+
			"if there are no streams, move %[1]s away", path, storageKey)
	}
	return err
}
