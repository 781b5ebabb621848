package approval

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gowebpki/jcs"
)

const digestPrefix = "sha256:"

// ActionDigest returns the digest by which a resolution names an action: the SHA-256 of the JCS form (RFC 8785) of the
// action and its agent. So a resolution counts for this action of this agent only.
func ActionDigest(project, agent, session, id, tool string, args jsontext.Value) (string, error) {
	return digest(id, struct {
		Project string         `json:"project"`
		Agent   string         `json:"agent"`
		Session string         `json:"session"`
		ID      string         `json:"id"`
		Tool    string         `json:"tool"`
		Args    jsontext.Value `json:"args"`
	}{project, agent, session, id, tool, args})
}

// MemoryDigest is like ActionDigest, for a memory write.
func MemoryDigest(project, agent, session, id, key, content string) (string, error) {
	return digest(id, struct {
		Project string `json:"project"`
		Agent   string `json:"agent"`
		Session string `json:"session"`
		ID      string `json:"id"`
		Key     string `json:"key"`
		Content string `json:"content"`
	}{project, agent, session, id, key, content})
}

func digest(id string, v any) (string, error) {
	raw, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return "", fmt.Errorf("proposal %s: %w", id, err)
	}
	canon, err := jcs.Transform(raw)
	if err != nil {
		// RFC 8785 cannot express some arguments, such as a number that does not fit a double. Such arguments are
		// hashed as they were written.
		canon = raw
	}
	sum := sha256.Sum256(canon)
	return digestPrefix + hex.EncodeToString(sum[:]), nil
}
