package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"lazaret/internal/natstest"
)

// inspections are requests that the command line of the MCP inspector can send to the official server-everything.
var inspections = map[string]string{
	"list of tools":       "tools/list",
	"echo":                "tools/call --tool-name echo --tool-arg message=hello",
	"structured content":  "tools/call --tool-name get-structured-content --tool-arg location=Chicago",
	"unknown tool":        "tools/call --tool-name no-such-tool",
	"list of resources":   "resources/list",
	"list of templates":   "resources/templates/list",
	"resource":            "resources/read --uri demo://resource/dynamic/text/1",
	"unknown resource":    "resources/read --uri demo://nothing",
	"list of prompts":     "prompts/list",
	"prompt with values":  "prompts/get --prompt-name args-prompt --prompt-args city=Rome",
	"level of the server": "logging/setLevel --log-level debug",
}

// Times differ between runs.
var changing = regexp.MustCompile(`\d{1,2}:\d\d:\d\d [AP]M`)

func TestTheStockInspectorFindsTheSameFeaturesDirectAndProxied(t *testing.T) {
	long(t)
	t.Parallel()
	dir := stockNode(t, "inspector")
	data, addr, far, listen := t.TempDir(), freePort(t), freePort(t), freePort(t)
	up := start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", addr, "--http", "off")
	defer up.interrupt()
	key := filepath.Join(t.TempDir(), "alice.key")
	must(t, data, "key", "gen", "alice", key, "--pin", "approver")
	must(t, data, "key", "activate")
	stock := filepath.Join(dir, "node_modules/@modelcontextprotocol/server-everything/dist/index.js")
	port := far[strings.LastIndex(far, ":")+1:]
	server := exec.Command("node", stock, "streamableHttp")
	server.Env = append(os.Environ(), "PORT="+port)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { server.Process.Kill(); server.Wait() }()
	natstest.Eventually(t, time.Minute, "the stock server listens", func() bool { return reachable(far) })
	servers := filepath.Join(dir, "servers.json")
	write := func(file, format string, args ...any) {
		if err := os.WriteFile(file, fmt.Appendf(nil, format, args...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(servers, `{"mcpServers":{"far":{"url":"http://localhost:%s/mcp"}}}`, port)
	serve := start(t, "MCP at", "lazaret", "mcp", "serve", "--data", data, "--config", servers, "--listen", listen,
		"--wait", "1s")
	defer serve.interrupt()
	write(filepath.Join(dir, "hosts.json"), `{"mcpServers":{
		"direct":{"command":"node","args":[%[1]q,"stdio"]},
		"direct over HTTP":{"type":"streamable-http","url":"http://localhost:%[2]s/mcp"},
		"proxied":{"command":%[3]q,"args":["mcp","--data",%[4]q,"--","node",%[1]q,"stdio"]},
		"proxied over HTTP":{"type":"streamable-http","url":"http://%[5]s/far/mcp"}}}`,
		stock, port, filepath.Join(bin, "lazaret"), data, listen)
	ask := func(host, what string) string {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		c := exec.CommandContext(ctx, "node", append([]string{"node_modules/.bin/mcp-inspector", "--cli",
			"--config", "hosts.json", "--server", host, "--method"}, strings.Fields(what)...)...)
		var out, errs bytes.Buffer
		c.Dir, c.Stdout, c.Stderr = dir, &out, &errs
		if err := c.Run(); err != nil {
			lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
			return err.Error() + " " + changing.ReplaceAllString(lines[len(lines)-1], "…")
		}
		return changing.ReplaceAllString(out.String(), "…")
	}
	levels := []string{"--key", key}
	for _, what := range inspections {
		if words := strings.Fields(what); words[0] == "tools/call" && words[2] != "no-such-tool" {
			levels = append(levels, "--level", words[2]+"=L1")
		}
	}
	for _, host := range []string{"proxied", "proxied over HTTP"} {
		if got := ask(host, "tools/list"); !strings.Contains(got, `"tools": []`) {
			t.Errorf("%s: before a person accepted the tools the list is %.300s", host, got)
		}
		natstest.Eventually(t, time.Minute, "a list of tools waits", func() bool {
			var open []json.RawMessage
			decode(t, must(t, data, "holds", "ls", "--json"), &open)
			return len(open) > 0
		})
		review(t, data, levels...)
	}
	hosts := []string{"direct", "direct over HTTP", "proxied", "proxied over HTTP"}
	answers := map[string]map[string]string{}
	for _, host := range hosts {
		answers[host] = map[string]string{}
	}
	var mu sync.Mutex // guards answers
	var wg errgroup.Group
	wg.SetLimit(4)
	for _, host := range hosts {
		for name, what := range inspections {
			wg.Go(func() error {
				got := ask(host, what)
				mu.Lock()
				defer mu.Unlock()
				answers[host][name] = got
				return nil
			})
		}
	}
	wg.Wait()
	for host, got := range answers {
		for name := range inspections {
			want := answers["direct"][name]
			if strings.Contains(want, "exit status") != strings.HasPrefix(name, "unknown") {
				t.Errorf("direct the %s is %s", name, want)
			}
			if got[name] != want {
				t.Errorf("%s: the %s is\n%.600s\ndirect it is\n%.600s", host, name, got[name], want)
			}
		}
	}
}
