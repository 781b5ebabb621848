package mcpproxy

import (
	"encoding/json"
	"maps"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"lazaret/client"
	"lazaret/streams"
)

// Since version 2026-07-28 of MCP, a server sends no requests to a client. Instead, it answers a call with
// input_required. The client then repeats the call with its answers (multi round-trip requests, SEP-2322). The proxy
// uses that to show the page of a hold to the user.

// sinceInputs is the first protocol version in which the answer to a call may be input_required.
const sinceInputs = "2026-07-28"

// approvalInput is the id, in inputRequests, of the question that the proxy asks.
const approvalInput = "lazaret-approval"

// inputs are the fields that only a repeated call has: the answers of the client, and the requestState, which the
// client returns unchanged.
type inputs struct {
	Responses json.RawMessage `json:"inputResponses,omitempty"`
	State     string          `json:"requestState,omitempty"`
}

// stateless reports whether the _meta of a request names a protocol version without initialize.
func stateless(meta map[string]json.RawMessage) bool {
	var version string
	return json.Unmarshal(meta[mcp.MetaKeyProtocolVersion], &version) == nil && version >= sinceInputs
}

// takesInput reports whether the proxy may answer a held call with input_required. For that, an approval page must be
// configured, and the client must be able to show it.
func (p *Proxy) takesInput(params json.RawMessage) bool {
	meta := metaOf(params)
	var can struct {
		Elicitation struct {
			URL *struct{} `json:"url"`
		} `json:"elicitation"`
	}
	return p.cfg.ApprovalURL != "" && stateless(meta) &&
		json.Unmarshal(meta[mcp.MetaKeyClientCapabilities], &can) == nil && can.Elicitation.URL != nil
}

// statePrefix returns the beginning of each requestState that this proxy gives to a client. It does not change when the
// proxy restarts. If there is another proxy between this one and the server, the two have different prefixes.
func (p *Proxy) statePrefix() string {
	about := append([]string{p.cfg.ApprovalURL}, p.cfg.Command...)
	return "lazaret-" + streams.Digest([]byte(strings.Join(about, "\x00"))) + "-"
}

// answeredInput reports in own whether a call answers the question of this proxy, and in shown whether the client
// showed the page.
func (p *Proxy) answeredInput(in inputs) (own, shown bool) {
	if !strings.HasPrefix(in.State, p.statePrefix()) {
		return false, false
	}
	var said map[string]struct {
		Action string `json:"action"`
	}
	return true, json.Unmarshal(in.Responses, &said) == nil && said[approvalInput].Action == "accept"
}

// askForInput returns an answer to a held call that makes the client show the page of the hold.
func (p *Proxy) askForInput(id jsonrpc.ID, a *streams.Action, rep *client.Reply) *jsonrpc.Response {
	body, err := json.Marshal(map[string]any{
		"resultType": "input_required",
		"inputRequests": map[string]any{approvalInput: map[string]any{"method": "elicitation/create",
			"params": p.pageParams(a, rep)}},
		"requestState": p.statePrefix() + rep.Entry.Hold.ID,
	})
	if err != nil {
		return fault(id, jsonrpc.CodeInternalError, "not carried out")
	}
	return &jsonrpc.Response{ID: id, Result: body}
}

// withInputs returns a copy of a request with other inputs.
func withInputs(r *jsonrpc.Request, in inputs) (*jsonrpc.Request, error) {
	var params, mine map[string]json.RawMessage
	body, err := json.Marshal(in)
	if err == nil {
		err = json.Unmarshal(body, &mine)
	}
	if err == nil {
		err = json.Unmarshal(r.Params, &params)
	}
	if err != nil {
		return nil, err
	}
	delete(params, "inputResponses")
	delete(params, "requestState")
	maps.Copy(params, mine)
	out := *r
	out.Params, err = json.Marshal(params)
	return &out, err
}
