package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lazaret/internal/embedded"
	"lazaret/internal/natsserver"
	"lazaret/pkg/keys"
)

// TestTheExampleHostsWaitForAPersonAndActOnce runs each example host, which uses only the standard library of its
// language. It approves the held call. The host must then carry out the call, and only once.
func TestTheExampleHostsWaitForAPersonAndActOnce(t *testing.T) {
	long(t)
	t.Parallel()
	p := newApproving(t, embedded.Config{})
	alice := p.key("alice", "", keys.RoleApprover)
	p.activateTrust()
	host := func(t *testing.T, c *exec.Cmd) {
		t.Helper()
		c.Env = append(os.Environ(), "NATS_URL="+p.agent.ConnectedUrl(), "NATS_CREDS="+natsserver.CredsFile(p.data, "agent"),
			"NATS_INBOX_PREFIX="+natsserver.AgentInbox("demo", "agent"), "LAZARET_PROJECT=demo", "LAZARET_AGENT=agent")
		var errs strings.Builder
		c.Stderr = &errs
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer c.Process.Kill()
		var said []string
		for lines := bufio.NewScanner(out); lines.Scan(); {
			said = append(said, lines.Text())
			if hold, ok := strings.CutPrefix(lines.Text(), "held "); ok {
				h := p.hold(hold)
				if rep := p.resolve(hold, signed(t, statementOn(&h.Verdict), alice)); rep.Error != nil {
					t.Errorf("%+v", rep)
				}
			}
		}
		if err := c.Wait(); err != nil {
			t.Fatalf("%v: %v\n%s", err, said, errs.String())
		}
		if got := strings.Join(said, ", "); !strings.HasPrefix(got, "observed ") ||
			!strings.HasSuffix(got, ", verdict allow, reported") || len(said) != 4 {
			t.Errorf("it said %s", got)
		}
	}
	t.Run("go", func(t *testing.T) {
		host(t, exec.Command(filepath.Join(bin, "go")))
	})
	t.Run("typescript", func(t *testing.T) {
		dir := stockNode(t, "../../examples/clients/typescript", "host.ts", "tsconfig.json")
		tsc := exec.Command("node", "node_modules/typescript/bin/tsc")
		tsc.Dir = dir
		if out, err := tsc.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		c := exec.Command("node", "host.js")
		c.Dir = dir
		host(t, c)
	})
	t.Run("python", func(t *testing.T) {
		if out, err := exec.Command("python3", "-c", "import ast, sys; ast.parse(open(sys.argv[1]).read())",
			"../../examples/clients/python/host.py").CombinedOutput(); err != nil {
			t.Errorf("host.py is no Python, or there is none here: %v %s", err, out)
		}
		if out, err := exec.Command("python3", "-c", "import nats, nkeys").CombinedOutput(); err != nil {
			t.Skipf("SKIPPED, NOT TRIED: examples/clients/python/host.py. Python's stock NATS client is not installed here "+
				"(pip install 'nats-py[nkeys]'; "+
				"Debian has no package of it), so nothing is known of whether this example works: %v %s", err, out)
		}
		host(t, exec.Command("python3", "../../examples/clients/python/host.py"))
	})
}
