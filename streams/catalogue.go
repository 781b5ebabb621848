package streams

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// ApproveTools is the action by which a host asks a person to accept the tools of a server. Its arguments are
// ApproveToolsArgs. Once the action is allowed, later catalogues of the server are compared with the accepted one, so
// that a changed tool is noticed.
const ApproveTools = "mcp.approve_tools"

// ApproveToolsArgs are the arguments of ApproveTools.
type ApproveToolsArgs struct {
	Server string `json:"server"`
	// Digest is the CatalogueDigest of the server's latest tools event.
	Digest string         `json:"digest"`
	Tools  []ApprovedTool `json:"tools"`
	// Instructions are the server's instructions on its tools, clipped if they are long. Digest covers the whole
	// instructions.
	Instructions string `json:"instructions,omitzero"`
	// Command is the program and arguments that the host started the server with, with secrets masked. A server with
	// the same name and another command is a different server.
	Command []string `json:"command,omitzero"`
}

// Binding identifies the catalogue together with the command that starts its server. A person accepts the levels of
// tools for a binding. An action names the binding in its field Catalogue.
func (a *ApproveToolsArgs) Binding() string {
	if len(a.Command) == 0 {
		return a.Digest
	}
	return Digest([]byte(a.Digest + "\x00" + strings.Join(a.Command, "\x00")))
}

// ApprovedTool is the part of a tool that a person is shown before accepting the tool.
type ApprovedTool struct {
	Name        string `json:"name"`
	Description string `json:"description,omitzero"`
	Digest      string `json:"digest"` // Tool.Digest of this tool
}

// Digest returns the digest of the whole tool, including its schema and annotations. These are in
// canonical form (RFC 8785), so the order of their JSON keys does not change the digest.
func (t Tool) Digest() string {
	t.InputSchema, t.Annotations = canonical(t.InputSchema), canonical(t.Annotations)
	b, err := Marshal(t)
	if err != nil { // cannot happen: the schemas of parsed tools are valid JSON
		b = []byte(t.Name + "\x00" + t.Description + "\x00" + string(t.InputSchema) + "\x00" + string(t.Annotations))
	}
	return Digest(b)
}

func canonical(v jsontext.Value) jsontext.Value {
	c := v.Clone()
	if len(c) == 0 || c.Canonicalize() != nil {
		return v
	}
	return c
}

// CatalogueDigest returns the digest of all tools that a server offers and of its instructions, if
// any. The order of the tools does not change the digest.
func CatalogueDigest(server, instructions string, tools []Tool) string {
	lines := make([]string, len(tools))
	for i, t := range tools {
		lines[i] = t.Name + "\x00" + t.Digest()
	}
	slices.Sort(lines)
	digest := Digest([]byte(server + "\x01" + strings.Join(lines, "\x01")))
	if instructions == "" {
		return digest
	}
	return Digest([]byte(digest + "\x00" + instructions))
}
