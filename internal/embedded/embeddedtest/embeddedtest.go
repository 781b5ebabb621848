package embeddedtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"lazaret/client"
	"lazaret/internal/embedded"
	"lazaret/internal/natsserver"
	"lazaret/pkg/beliefs"
)

// Pipeline is a running pipeline and its data folder.
type Pipeline struct {
	*embedded.Pipeline
	Data string

	projects atomic.Int64
}

// Main starts a pipeline, stores it in p, runs the tests, and ends the process. The function TestMain of a package
// calls it.
func Main(m *testing.M, p *Pipeline) {
	dir, err := os.MkdirTemp("", "lazaret-test-")
	if err == nil {
		p.Data = filepath.Join(dir, "data")
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		p.Pipeline, err = embedded.Start(ctx, embedded.Config{Data: p.Data, Listen: "127.0.0.1:0", NoSync: true})
		cancel()
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	code := m.Run()
	p.Close()
	os.RemoveAll(dir)
	os.Exit(code)
}

// Agent makes an agent named bot in a new project. It returns a client of the agent, the project, and the client's
// connection.
func (p *Pipeline) Agent(t testing.TB) (c *client.Client, project string, nc *nats.Conn) {
	t.Helper()
	project = fmt.Sprintf("p%d", p.projects.Add(1))
	c, nc = Agent(t, p.Pipeline, project, "bot")
	return c, project, nc
}

// Agent returns a client of an agent with every origin, and the client's connection. The connection is closed at the
// end of the test.
func Agent(t testing.TB, p *embedded.Pipeline, project, name string) (*client.Client, *nats.Conn) {
	t.Helper()
	nc := Connect(t, p, p.Server.Minter(), project, name)
	c, err := client.New(nc, project, name)
	if err != nil {
		t.Fatal(err)
	}
	return c, nc
}

// Connect returns a connection of an agent with every origin and a credential of the minter. It is closed at the end of
// the test.
func Connect(t testing.TB, p *embedded.Pipeline, m *natsserver.Minter, project, name string) *nats.Conn {
	t.Helper()
	creds, err := m.Agent(natsserver.Agent{Project: project, Name: name, Origins: beliefs.Origins()})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(p.Server.URL(), nats.UserCredentialBytes(creds),
		nats.CustomInboxPrefix(natsserver.AgentInbox(project, name)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}
