package mcpproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"lazaret/internal/content"
	"lazaret/internal/mcpwire"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// A message is passed on only if every reader understands it in the way in which it was recorded. JSON does not define
// what repeated names mean, and some readers ignore the letter case of names. So the proxy refuses messages with
// repeated names, and with names that differ from a known one in letter case. It does so in both directions.

// maxNesting is the maximum depth of objects and lists inside each other in a message.
const maxNesting = 256

// known are the field names that the protocol defines.
var known = text.Set(`_meta action annotations argument arguments audience blob capabilities clientInfo completion
	content contents context costPriority cursor data default description destructiveHint error execution extensions
	hasMore hints icons id idempotentHint includeContext input inputRequests inputResponses inputSchema instructions
	intelligencePriority isError lastModified level listChanged logger maxTokens message messages metadata method mimeType
	mode model notifications modelPreferences name nextCursor openWorldHint outputSchema params priority progress
	progressToken prompt prompts promptsListChanged protocolVersion readOnlyHint reason ref requestId requestState
	requestedSchema resource resourceSubscriptions resourceTemplates resources resourcesListChanged resultType role roots
	sampling server serverInfo size sizes speedPriority src status statusMessage stopReason stopSequences structuredContent
	subscribe supportedVersions systemPrompt task taskId taskSupport temperature text theme title toolChoice toolUseId
	tools toolsListChanged total ttlMs type uri uriTemplate url value values version websiteUrl`)

// free are those known fields whose values may be anything, according to the protocol.
var free = text.Set("_meta annotations arguments data default experimental extensions input inputResponses " +
	"inputSchema metadata outputSchema requestState requestedSchema structuredContent")

// folded are the case-folded known names.
var folded = func() map[string]bool {
	m := make(map[string]bool)
	for n := range known {
		m[mcpwire.Fold(n)] = true
	}
	return m
}()

// undefined reports whether the protocol does not define a field name.
func undefined(name string) bool { return !known[name] }

// ownMeta is the beginning of those names in a _meta that only the proxy may use.
const ownMeta = "lazaret/"

// vet returns an error if two readers could understand a part of a message differently. It also returns an error if the
// part has a name that only the proxy may use.
func vet(raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	var v any
	if err := jsonv2.Unmarshal(raw, &v); err != nil {
		return fmt.Errorf("its JSON is ambiguous: %s", streams.Clip(err.Error(), 200))
	}
	return vetNames(v, 0)
}

// vetRequest returns an error if two readers could understand a request or a notification differently. This includes
// the outermost object of the message. It also returns an error if the params have a name that only the proxy may use.
func vetRequest(m *jsonrpc.Request) error {
	if err, ok := m.Extra.(error); ok {
		return err
	}
	return vet(m.Params)
}

func vetNames(v any, depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("its JSON is nested deeper than %d", maxNesting)
	}
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			if err := vetNames(x, depth+1); err != nil {
				return err
			}
		}
	case map[string]any:
		for k, x := range v {
			if !known[k] && folded[mcpwire.Fold(k)] {
				return fmt.Errorf("the name %q differs from a name of the protocol only in letter case", streams.Clip(k, 60))
			}
			if k == "_meta" {
				if err := vetMeta(x); err != nil {
					return err
				}
			}
			if known[k] && !free[k] {
				if err := vetNames(x, depth+1); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// vetMeta returns an error if a _meta has a name that only the proxy may use.
func vetMeta(meta any) error {
	names, _ := meta.(map[string]any)
	for k := range names {
		if strings.HasPrefix(mcpwire.Fold(k), ownMeta) {
			return fmt.Errorf("its _meta has the name %q, which only the proxy may use", streams.Clip(k, 60))
		}
	}
	return nil
}

// vetAnnotations checks the names in the annotations of a tool. vet does not do that, because it does not look into the
// fields in free.
func vetAnnotations(raw json.RawMessage) error {
	var v any
	if len(raw) == 0 || json.Unmarshal(raw, &v) != nil {
		return nil
	}
	return vetNames(v, 0)
}

// vetResponse returns an error if two readers could understand a response differently, or if the response has a name
// that only the proxy may use. A response must have either a result, which must be an object, or an error.
func vetResponse(m *jsonrpc.Response) error {
	if err, ok := m.Extra.(error); ok {
		return err
	}
	if m.Error != nil {
		if len(m.Result) > 0 && jsontext.Value(m.Result).Kind() != 'n' {
			return errors.New("it has both a result and an error")
		}
		return vet(errorData(m.Error))
	}
	if err := vet(m.Result); err != nil {
		return err
	}
	var r struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	if kind := jsontext.Value(m.Result).Kind(); kind != '{' {
		return errors.New("it has no error, and its result is not an object")
	}
	if json.Unmarshal(m.Result, &r) != nil {
		return errors.New("its _meta is not an object")
	}
	return nil
}

// errorData returns the data of a JSON-RPC error. It returns nil if there is none.
func errorData(err error) json.RawMessage {
	var wire *jsonrpc.Error
	if errors.As(err, &wire) {
		return wire.Data
	}
	return nil
}

// errorText returns the message of an error and all text in its data.
func errorText(err error) string {
	return strings.Join(append([]string{err.Error()}, content.All(errorData(err))...), "\n")
}

// refused records that a message of the server was not passed on. It returns the error that the receiver gets instead.
func (p *Proxy) refused(ctx context.Context, method, call string, why error) error {
	err := fmt.Errorf("the server's message was refused: %w", why)
	p.cfg.Log.Warn("a message of the server was refused", "method", method, "err", why)
	if e := p.observe(ctx, method, call, "", []string{"Withheld: " + err.Error()}); e != nil {
		p.cfg.Log.Warn("a refusal was not recorded", "method", method, "err", e)
	}
	return err
}
