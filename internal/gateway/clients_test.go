package gateway

import (
	"bufio"
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"lazaret/internal/natsserver"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Each program is an agent that is stopped at a poisoned call and goes on once a
// person has approved it.
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

// runAgent runs a program against the pipeline, and approves what is held from when it
// prints approve.
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
	var approving atomic.Bool
	held := make(chan *streams.VerdictEntry, 16)
	if _, err := nc.Subscribe("lz.live."+project+".hold.bot.*.open", func(m *nats.Msg) {
		v := new(streams.VerdictEntry)
		if streams.Unmarshal(m.Data, v) == nil && approving.Load() {
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
			if strings.TrimSpace(s.Text()) == "approve" {
				approving.Store(true)
			}
			said <- s.Text()
		}
	}()
	done := false
	for said != nil {
		select {
		case line, ok := <-said:
			if !ok {
				said = nil
			}
			done = done || line == "done"
		case v := <-held:
			p.approve(t, project, v)
		}
	}
	if err := cmd.Wait(); err != nil || !done {
		t.Fatalf("%s: %v\n%s", command, err, stderr.String())
	}
}
