package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// MCPTool is the tool of ServeNotes.
const MCPTool = "read_note"

// noteArgs are the arguments of MCPTool.
type noteArgs struct {
	Number int `json:"number"`
}

// ServeNotes runs an MCP server on standard input and output. Its tool returns a different text of 1
// KiB for each call.
func ServeNotes(ctx context.Context) error {
	s := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1"}, nil)
	corpus := newCorpus(91)
	mcp.AddTool(s, &mcp.Tool{Name: MCPTool, Description: "Read a note."},
		func(context.Context, *mcp.CallToolRequest, noteArgs) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: prose(corpus, eventSize)}}}, nil, nil
		})
	return s.Run(ctx, &mcp.StdioTransport{})
}

// MCPReport compares calls of an MCP server through the proxy with direct calls.
type MCPReport struct {
	SyncAlways bool      `json:"sync_always"`
	Direct     Latencies `json:"direct"`
	Proxied    Latencies `json:"proxied"`
	// Added is the p50 of proxied calls minus that of direct calls, in microseconds.
	Added int64 `json:"added_p50_us"`
	// First and Last are like Added, for the first and the last Window calls.
	Window int     `json:"window"`
	First  int64   `json:"added_p50_first_us"`
	Last   int64   `json:"added_p50_last_us"`
	Ratio  float64 `json:"last_to_first"` // Last divided by First
}

// CallMCP calls the tool of ServeNotes alternately over two sessions, and compares them. The first warm
// calls are not measured.
func CallMCP(ctx context.Context, direct, proxied *mcp.ClientSession, warm, calls int) (*MCPReport, error) {
	var took [2][]time.Duration
	for i := range warm + calls {
		for k, c := range []*mcp.ClientSession{direct, proxied} {
			began := time.Now()
			r, err := c.CallTool(ctx, &mcp.CallToolParams{Name: MCPTool, Arguments: noteArgs{i}})
			d := time.Since(began)
			if err == nil && r.IsError {
				err = errors.New("the tool returned an error")
			}
			if err != nil {
				return nil, fmt.Errorf("call %d: %w", i, err)
			}
			if i >= warm {
				took[k] = append(took[k], d)
			}
		}
	}
	r := &MCPReport{Window: max(calls/10, 1)}
	added := func(from, to int) int64 {
		var l [2]Latencies
		for k := range l {
			l[k].measure(append([]time.Duration(nil), took[k][from:to]...))
		}
		return l[1].P50 - l[0].P50
	}
	r.First, r.Last, r.Added = added(0, r.Window), added(calls-r.Window, calls), added(0, calls)
	r.Ratio = float64(r.Last) / float64(max(r.First, 1))
	r.Direct.measure(took[0])
	r.Proxied.measure(took[1])
	return r, nil
}

// Lines returns the figures with their budgets.
func (r *MCPReport) Lines() []Line {
	ms := func(what string, us int64) Line { return Line{What: what, Value: float64(us) / 1000, Unit: "ms"} }
	most, sync := 3.0, "off"
	if r.SyncAlways {
		most, sync = 4, "always"
	}
	added := ms(fmt.Sprintf("an MCP call, sync %s, added by the proxy at p50", sync), r.Added)
	added.Budget, added.Pass = fmt.Sprintf("<= %g ms", most), added.Value <= most
	return []Line{added, ms("  direct, p50", r.Direct.P50), ms("  direct, p99", r.Direct.P99),
		ms("  proxied, p50", r.Proxied.P50), ms("  proxied, p99", r.Proxied.P99),
		ms(fmt.Sprintf("  added, the first %d calls", r.Window), r.First),
		ms(fmt.Sprintf("  added, the last %d of %d", r.Window, r.Direct.Requests), r.Last),
		{What: "  ratio of the last to the first calls", Value: r.Ratio, Unit: "x", Budget: "<= 1.1 x", Pass: r.Ratio <= 1.1}}
}
