package natsfiles

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nkeys"

	"lazaret/streams"
)

// DefaultProject and DefaultAgent are the project and agent of the credential that the first start
// creates. DefaultContext is its name.
const (
	DefaultProject = "demo"
	DefaultAgent   = "agent"
	DefaultContext = "agent"
)

// Creds returns the path of the credential with that name.
func Creds(data, name string) string { return filepath.Join(data, "creds", name+".creds") }

// Context returns the path of the NATS context with that name. The nats CLI finds it with
// XDG_CONFIG_HOME set to the data folder.
func Context(data, name string) string {
	return filepath.Join(data, "nats", "context", name+".json")
}

// NoServer is the address in the contexts of a restored data folder before its first start. No server has it: RFC 2606
// reserves the domain.
const NoServer = "nats://not-started.invalid:4222"

// AgentContext returns the name of an agent's credential and context.
func AgentContext(project, agent string) string {
	if project == DefaultProject && agent == DefaultAgent {
		return DefaultContext
	}
	return project + "." + agent
}

// claims are the claims of a credential that this package reads. It does not verify the credential: the server does.
type claims struct {
	User    string `json:"sub"` // public key
	Expires int64  `json:"exp"`
	NATS    struct {
		Sub struct {
			Allow []string `json:"allow"`
		} `json:"sub"`
	} `json:"nats"`
}

func claimsOf(file []byte) (*claims, error) {
	token, err := nkeys.ParseDecoratedJWT(file)
	if err != nil {
		return nil, err
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, errors.New("the credential is no JWT")
	}
	b, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, err
	}
	c := new(claims)
	return c, streams.Unmarshal(b, c)
}

// Inbox returns the inbox prefix in the permissions of a credential file of Lazaret, or "".
func Inbox(file []byte) string {
	c, err := claimsOf(file)
	if err != nil {
		return ""
	}
	for _, s := range c.NATS.Sub.Allow {
		if p, ok := strings.CutSuffix(s, ".>"); ok && strings.HasPrefix(p, "_INBOX") {
			return p
		}
	}
	return ""
}

// User returns the public key and the expiry in a credential file; a zero expiry means never.
func User(path string) (user string, expires time.Time, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", expires, err
	}
	c, err := claimsOf(b)
	if err != nil {
		return "", expires, err
	}
	if c.Expires > 0 {
		expires = time.Unix(c.Expires, 0)
	}
	return c.User, expires, nil
}
