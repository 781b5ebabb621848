package natsfiles

import (
	"encoding/base64"
	"path/filepath"
	"strings"

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

// AgentContext returns the name of an agent's credential and context.
func AgentContext(project, agent string) string {
	if project == DefaultProject && agent == DefaultAgent {
		return DefaultContext
	}
	return project + "." + agent
}

// Inbox returns the inbox prefix in the permissions of a credential file of Lazaret, or "". It does not
// verify the credential: the server does.
func Inbox(file []byte) string {
	token, err := nkeys.ParseDecoratedJWT(file)
	if err != nil {
		return ""
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	b, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims struct {
		NATS struct {
			Sub struct {
				Allow []string `json:"allow"`
			} `json:"sub"`
		} `json:"nats"`
	}
	if streams.Unmarshal(b, &claims) != nil {
		return ""
	}
	for _, s := range claims.NATS.Sub.Allow {
		if p, ok := strings.CutSuffix(s, ".>"); ok && strings.HasPrefix(p, "_INBOX") {
			return p
		}
	}
	return ""
}
