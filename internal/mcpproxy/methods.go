package mcpproxy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"lazaret/pkg/text"
	"lazaret/streams"
)

// unjudged are those requests of the protocol that are passed on to the server without a verdict. Two others are not: a
// tools/call is proposed, and the tools of a tools/list must be accepted.
var unjudged = text.Set(`completion/complete initialize logging/setLevel ping prompts/get prompts/list resources/list
	resources/read resources/subscribe resources/templates/list resources/unsubscribe server/discover
	subscriptions/listen tasks/cancel tasks/get tasks/list tasks/result tasks/update`)

// notified are those notifications of the protocol that a client may send. They are passed on.
var notified = text.Set(`notifications/cancelled notifications/initialized notifications/progress
	notifications/roots/list_changed notifications/tasks/status`)

// notifies reports whether a message of the client that has no id is passed on. The methods of notifications are, also
// those that --pass names. If --pass names the method of a request, a message with this method and without an id is not
// passed on, because the server might carry it out as a request.
func (p *Proxy) notifies(method string) bool {
	return notified[method] || strings.HasPrefix(method, "notifications/") && slices.Contains(p.cfg.Pass, method)
}

// vetMethod returns an error if a request has a method that must not be passed on without a verdict. A method that is
// not known may be another spelling of a call: a server may read Tools/call or tools//call as tools/call.
func (p *Proxy) vetMethod(method string) *jsonrpc.Error {
	if unjudged[method] || slices.Contains(p.cfg.Pass, method) {
		return nil
	}
	p.cfg.Log.Warn("a request of the client was refused: its method is not one of MCP, and --pass does not name it",
		"method", streams.Clip(method, 100))
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: fmt.Sprintf("lazaret: the request was refused: %q "+
		"is not a method of MCP that the proxy knows. The proxy's option --pass names methods of extensions",
		streams.Clip(method, 100))}
}
