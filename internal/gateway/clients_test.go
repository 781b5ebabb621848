package gateway

import (
	"bufio"
	"bytes"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"

	"lazaret/internal/natsserver"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// An agent in TypeScript must be stopped at a poisoned call, and must go on after a person has approved the call. The
// next tests do the same with agents in Python.
func TestTheTypeScriptClientIsStoppedAndGoesOnAfterApproval(t *testing.T) {
	client, err := filepath.Abs("../../clients/typescript/index.js")
	if err != nil {
		t.Fatal(err)
	}
	runAgent(t, "node", "testdata/agent.mjs", client)
}

func TestThePythonClientIsStoppedAndGoesOnAfterApproval(t *testing.T) {
	runAgent(t, "python3", "testdata/agent.py", "../../clients/python")
}

// runAgent runs a program against the pipeline. When the program prints approve, runAgent approves the
// open holds, and later ones.
func runAgent(t *testing.T, command string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(command); err != nil {
		t.Skipf("SKIPPED: %s is not installed, so its client was not tried", command)
	}
	p := newPipe(t)
	project, secret := p.agent(t, beliefs.Origins())
	nc, err := p.Server.Connect(natsserver.RoleViewer)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	held := make(chan *streams.VerdictEntry, 64)
	if _, err := nc.Subscribe("lz.live."+project+".hold.bot.*.open", func(m *nats.Msg) {
		v := new(streams.VerdictEntry)
		if streams.Unmarshal(m.Data, v) == nil {
			held <- v
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), command, append(args, p.URL(), secret)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 64)
	go func() {
		defer close(said)
		for s := bufio.NewScanner(out); s.Scan(); {
			said <- s.Text()
		}
	}()
	done, approving := false, false
	var open []*streams.VerdictEntry
	for said != nil {
		select {
		case line, ok := <-said:
			if !ok {
				said = nil
			}
			done, approving = done || line == "done", approving || line == "approve"
		case v := <-held:
			open = append(open, v)
		}
		if approving {
			for _, v := range open {
				p.approve(t, project, v)
			}
			open = nil
		}
	}
	if err := cmd.Wait(); err != nil || !done {
		t.Fatalf("%s: %v\n%s", command, err, stderr.String())
	}
}

// The adapters for agent frameworks are tested without the frameworks. testdata/contracts.py has classes with the
// interfaces of the frameworks.
func TestThePythonAdaptersAreStoppedAndGoOnAfterApproval(t *testing.T) {
	runAgent(t, "python3", "testdata/adapters.py", "../../clients/python")
}
