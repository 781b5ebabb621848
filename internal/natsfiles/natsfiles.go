package natsfiles

import (
	"encoding/base64"
	"path/filepath"
	"strings"

	"github.com/nats-io/nkeys"

	"lazaret/streams"
)

// DefaultProject and DefaultAgent are whom the credential speaks for that the
// first start leaves in the data folder, and DefaultContext is its name.
const (
	DefaultProject = "demo"
	DefaultAgent   = "agent"
	DefaultContext = "agent"
)

// Creds is the credential file of that name.
func Creds(data, name string) string { return filepath.Join(data, "creds", name+".creds") }

// Context is where the NATS context of that name is kept: where the nats CLI
// looks with XDG_CONFIG_HOME set to the data folder.
func Context(data, name string) string {
	return filepath.Join(data, "nats", "context", name+".json")
}

// AgentContext is the name of an agent's credential and context.
func AgentContext(project, agent string) string {
	if project == DefaultProject && agent == DefaultAgent {
		return DefaultContext
	}
	return project + "." + agent
}

// Inbox is the inbox prefix of one of our credential files, read off the
// permissions in it; empty if it has none. Nothing is verified: the server does.
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
