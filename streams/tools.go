package streams

import (
	"github.com/go-json-experiment/json/jsontext"
)

// KindTools is the kind of an event with a tool catalogue and its schemas. TypeTools is the type of the entries for
// such events.
const (
	KindTools Kind = "tools"
	TypeTools Type = "tools"
)

func init() {
	register[Tools](EventKind{
		Kind: KindTools, Type: TypeTools, Order: 4,
		Required: []string{"tools"},
		Title:    "a catalogue",
		Fields: "`server`, `tools` (`[{name, description, inputSchema, annotations}]`), `instructions` of the " +
			"server; annotations raise the levels of calls of the tools and never lower them",
	})
}

// Tools (kind tools) is a tool catalogue as a server offered it.
type Tools struct {
	Head
	Server       string `json:"server,omitzero"`
	Instructions string `json:"instructions,omitzero"` // the server's instructions to a model on its tools
	Tools        []Tool `json:"tools"`
}

// Tool is one entry of a tool catalogue, with the field names of MCP.
type Tool struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	InputSchema jsontext.Value `json:"inputSchema,omitzero"`
	Annotations jsontext.Value `json:"annotations,omitzero"`
}

func (e *Tools) check(Address) error {
	if e.Tools == nil {
		return rejectf(CodeInvalid, "tools is missing: send a list, which may be empty")
	}
	for i, t := range e.Tools {
		if t.Name == "" {
			return rejectf(CodeInvalid, "tool %d has no name", i)
		}
		if err := names(t.Name, "tool name"); err != nil {
			return err
		}
	}
	return names(e.Server, "server")
}

// ToolsEntry is the body of a tool catalogue.
type ToolsEntry struct {
	EntryHead
	Server       string `json:"server,omitzero"`
	Instructions string `json:"instructions,omitzero"`
	Tools        []Tool `json:"tools"`
}
