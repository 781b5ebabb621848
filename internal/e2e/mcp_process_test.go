package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

	"lazaret/internal/bench"
	"lazaret/internal/natstest"
	"lazaret/streams"
)

// mcpServerName is a name under which this test binary can be started. Then it is an MCP server over standard input and
// output.
const mcpServerName = "test-mcp-server"

const greatEnd = "THE END"

type sizeArgs struct {
	Bytes int    `json:"bytes"`
	File  string `json:"file"`
}

// serveMCP runs the test's MCP server.
func serveMCP() {
	s := mcp.NewServer(&mcp.Implementation{Name: "tester", Version: "1"}, nil)
	text := func(s string) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}, nil, nil
	}
	add := func(name string, f func(context.Context, sizeArgs) (*mcp.CallToolResult, any, error)) {
		mcp.AddTool(s, &mcp.Tool{Name: name, Description: "A tool of the tests."},
			func(ctx context.Context, _ *mcp.CallToolRequest, in sizeArgs) (*mcp.CallToolResult, any, error) {
				return f(ctx, in)
			})
	}
	add("read_note", func(context.Context, sizeArgs) (*mcp.CallToolResult, any, error) { return text("a note") })
	add("read_great", func(_ context.Context, in sizeArgs) (*mcp.CallToolResult, any, error) {
		line := "The minutes of a long meeting. "
		return text(strings.Repeat(line, in.Bytes/len(line)) + greatEnd)
	})
	add("read_garbled", func(context.Context, sizeArgs) (*mcp.CallToolResult, any, error) {
		os.Stdout.WriteString("loading the model: 40%\n{\"jsonrpc\":\n\xff\xfe\x00\n")
		return text("a note after garbage")
	})
	add("read_then_crash", func(context.Context, sizeArgs) (*mcp.CallToolResult, any, error) {
		os.Exit(3)
		return nil, nil, nil
	})
	add("send_email", func(context.Context, sizeArgs) (*mcp.CallToolResult, any, error) { return text("sent") })
	_ = s.Run(context.Background(), &mcp.StdioTransport{})
	os.Exit(0)
}

// mcpCommand returns the command that starts this test binary as an MCP server.
func mcpCommand(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(bin, mcpServerName)
	if err := os.Symlink(self, name); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	return name
}

// doors is a process of `lazaret up`, and one MCP client for each transport of the proxy (its doors).
type doors struct {
	t        *testing.T
	data     string
	up       *process
	sessions map[string]*mcp.ClientSession
	logs     map[string]*process // of the proxies that are separate processes
}

// bothDoors starts a pipeline and two proxies: one over standard input and output, and one over HTTP. The server's
// tools are accepted.
func bothDoors(t *testing.T, flags ...string) *doors {
	t.Helper()
	d := &doors{t: t, data: t.TempDir(), sessions: make(map[string]*mcp.ClientSession), logs: make(map[string]*process)}
	d.up = start(t, "lazaret is up", "lazaret", "up", "--data", d.data, "--listen", freePort(t), "--http", "off")
	key := filepath.Join(t.TempDir(), "alice.key")
	must(t, d.data, "key", "gen", "alice", key, "--pin", "approver")
	must(t, d.data, "key", "activate")
	listen := freePort(t)
	stdio := slices.Concat([]string{"mcp", "--data", d.data}, flags, []string{"--", mcpCommand(t)})
	over := slices.Concat([]string{"mcp", "serve", "--data", d.data, "--listen", listen, "--name", "tester"}, flags,
		[]string{"--", mcpCommand(t)})
	d.logs["HTTP"] = start(t, "MCP at", "lazaret", over...)
	command := exec.Command(filepath.Join(bin, "lazaret"), stdio...)
	d.logs["stdio"] = &process{t: t, cmd: command}
	command.Stderr = d.logs["stdio"]
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { command.Wait() })
	for door, transport := range map[string]mcp.Transport{
		// By default, this transport of the SDK limits a line to 16 MiB.
		"stdio": &mcp.IOTransport{Reader: out, Writer: in, MaxLineLength: -1},
		"HTTP":  &mcp.StreamableClientTransport{Endpoint: "http://" + listen + "/tester/mcp"},
	} {
		c, err := mcp.NewClient(&mcp.Implementation{Name: "stock", Version: "1"}, nil).Connect(t.Context(), transport, nil)
		if err != nil {
			t.Fatalf("%s: %v", door, err)
		}
		t.Cleanup(func() { c.Close() })
		d.sessions[door] = c
		if _, err := c.ListTools(t.Context(), nil); err != nil {
			t.Fatalf("%s: %v", door, err)
		}
		if door == "stdio" || len(d.sessions) == 1 {
			d.accept(key)
		}
		natstest.Eventually(t, time.Minute, "the tools are offered", func() bool {
			l, err := c.ListTools(t.Context(), nil)
			return err == nil && len(l.Tools) > 0
		})
	}
	return d
}

// accept accepts the list of tools that waits for approval, if there is one.
func (d *doors) accept(key string) {
	d.t.Helper()
	var open []struct{ ID string }
	decode(d.t, must(d.t, d.data, "holds", "ls", "--json"), &open)
	if len(open) > 0 {
		review(d.t, d.data, "--key", key, "--level", "read_note=L1", "--level", "read_great=L1",
			"--level", "read_garbled=L1", "--level", "read_then_crash=L1")
	}
}

// review runs the command that shows the waiting list of tools. Then it runs the command that this output names, which
// signs the acceptance of the list.
func review(t *testing.T, data string, args ...string) string {
	t.Helper()
	_, sign, ok := strings.Cut(must(t, data, "mcp", "review"), "nothing was signed; to sign: lazaret ")
	if !ok {
		t.Fatal("a look at the tools names no command that signs")
	}
	return must(t, data, append(strings.Fields(sign), args...)...)
}

// each runs f once for each transport, with the client of that transport.
func (d *doors) each(f func(t *testing.T, c *mcp.ClientSession)) {
	for door, c := range d.sessions {
		d.t.Run(door, func(t *testing.T) { f(t, c) })
	}
}

func callOf(t *testing.T, c *mcp.ClientSession, tool string, args sizeArgs) (string, error) {
	t.Helper()
	r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return "", err
	}
	var out []string
	for _, b := range r.Content {
		if b, ok := b.(*mcp.TextContent); ok {
			out = append(out, b.Text)
		}
	}
	return strings.Join(out, "\n"), nil
}

// TestADeadPipelineIsSaidWithinASecond kills the pipeline while a call is held, and calls again after that. Both calls
// must fail within a second, with a message that says why.
func TestADeadPipelineIsSaidWithinASecond(t *testing.T) {
	long(t)
	d := bothDoors(t, "--wait", "1m")
	type answer struct {
		door, text string
		err        error
		at         time.Time
	}
	answers := make(chan answer, 2)
	for door, c := range d.sessions {
		if said, err := callOf(t, c, "read_note", sizeArgs{}); err != nil || said != "a note" {
			t.Fatalf("%s: before the kill the tool says %q, %v", door, said, err)
		}
		go func() {
			said, err := callOf(t, c, "send_email", sizeArgs{})
			answers <- answer{door, said, err, time.Now()}
		}()
	}
	natstest.Eventually(t, time.Minute, "both calls are held", func() bool {
		var open []struct{ ID string }
		decode(t, must(t, d.data, "holds", "ls", "--json"), &open)
		return len(open) == 2
	})
	d.up.kill()
	killed := time.Now()
	check := func(door, text string, err error, took time.Duration) {
		if err != nil || !strings.Contains(text, "HELD") || !strings.Contains(text, "pipeline") || took > time.Second {
			t.Errorf("%s: after %v the client hears %q, %v", door, took, text, err)
		}
		t.Logf("%s: said after %v", door, took)
	}
	for range d.sessions {
		a := <-answers
		check(a.door, a.text, a.err, a.at.Sub(killed))
	}
	d.each(func(t *testing.T, c *mcp.ClientSession) {
		before := time.Now()
		said, err := callOf(t, c, "read_note", sizeArgs{})
		check("a new call", said, err, time.Since(before))
	})
}

// TestGarbageOfAServerIsSkippedAndItsCrashIsSaid runs a server that writes lines that are not messages. The proxy must
// skip them. Then the server ends during a call, and the caller must be told.
func TestGarbageOfAServerIsSkippedAndItsCrashIsSaid(t *testing.T) {
	long(t)
	t.Parallel()
	d := bothDoors(t)
	d.each(func(t *testing.T, c *mcp.ClientSession) {
		if said, err := callOf(t, c, "read_garbled", sizeArgs{}); err != nil || said != "a note after garbage" {
			t.Errorf("after garbage the tool says %q, %v", said, err)
		}
		_, err := callOf(t, c, "read_then_crash", sizeArgs{})
		if err == nil || !strings.Contains(err.Error(), "exit status 3") {
			t.Errorf("of a crash the client hears %v", err)
		}
	})
	for door, log := range d.logs {
		if n := strings.Count(log.output(), "a line of the server's output was skipped"); n != 3 {
			t.Errorf("%s: %d lines were said to be skipped:\n%s", door, n, log.output())
		}
	}
	natstest.Eventually(t, time.Minute, "both crashes are outcomes", func() bool {
		out := must(t, d.data, "audit", "ls", "--last", "0", "--json", "--where",
			`type == "outcome" && body.status == "error"`)
		return strings.Count(out, `"status": "error"`) == 2
	})
}

// TestGreatResultsComeThroughInBoundedMemory reads results of 20 MB over each transport, several at the same time. The
// memory of the proxies must stay below a limit.
func TestGreatResultsComeThroughInBoundedMemory(t *testing.T) {
	long(t)
	t.Parallel()
	d := bothDoors(t)
	const size, calls, most = 20 << 20, 2, 600 << 20
	for door, c := range d.sessions {
		var all errgroup.Group
		for range calls {
			all.Go(func() error {
				said, err := callOf(t, c, "read_great", sizeArgs{Bytes: size})
				if err != nil || len(said) < size-100 || !strings.HasSuffix(said, greatEnd) {
					return fmt.Errorf("it says %d bytes, %q, %w", len(said), streams.Clip(said, 300), err)
				}
				return nil
			})
		}
		if err := all.Wait(); err != nil {
			t.Errorf("%s: %v", door, err)
		}
		now, peak := bench.ResidentOf(d.logs[door].cmd.Process.Pid)
		t.Logf("%s: %d MiB resident, %d at most", door, now>>20, peak>>20)
		if peak > most {
			t.Errorf("%s: %d MiB were resident", door, peak>>20)
		}
	}
	var recorded struct{ Entries, Bytes int }
	tally, _, _ := strings.Cut(must(t, d.data, "audit", "ls", "--last", "0", "--where",
		`type == "observation" && body.tool == "read_great"`, "--tally",
		`{"entries": len(entries), "bytes": sum(map(entries, .bytes))}`), "checked what was read")
	decode(t, tally, &recorded)
	if want := len(d.sessions) * calls; recorded.Entries < want*size/(128<<10) || recorded.Bytes < want*size {
		t.Errorf("%d bytes are recorded in %d parts", recorded.Bytes, recorded.Entries)
	}
}
