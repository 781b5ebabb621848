package verb

import (
	"fmt"
	"io"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/client"
	"lazaret/internal/embedded"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// AgentContext returns the name of an agent's credential and context.
func AgentContext(project, agent string) string { return project + "." + agent }

// Speaker is the agent that a command acts as.
type Speaker struct {
	Project, Agent, Session, ID, about string
	JSON                               bool
}

// Bind adds the flags of the agent, and --id and --json.
func (s *Speaker) Bind(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.Project, "project", embedded.DefaultProject, "`PROJECT` of the agent")
	f.StringVar(&s.Agent, "agent", embedded.DefaultAgent, "`AGENT` to act as")
	f.StringVar(&s.Session, "session", "cli", "`SESSION` of the agent")
	f.StringVar(&s.about, "data-subject", "",
		"`PSEUDONYM` of the data subject whom the event concerns, by which the event can be erased")
	f.StringVar(&s.ID, "id", "", "`ID` of the event; the same id again is the same event (default a new one)")
	f.BoolVar(&s.JSON, "json", false, "print JSON")
}

// Head returns the fields that every event of the agent has.
func (s *Speaker) Head() streams.Head {
	return streams.Head{ID: s.ID, Session: s.Session, DataSubject: s.about}
}

// Client connects with the agent's credential: for the default agent the one that `lazaret up` made, for
// other agents the one that `lazaret agent add` made.
func (a *App) Client(s *Speaker) (*client.Client, func(), error) {
	c, nc, err := a.Speak(s)
	if err != nil {
		return nil, nil, err
	}
	return c, nc.Close, nil
}

// Speak returns a client and its connection, which the caller must close.
func (a *App) Speak(s *Speaker) (*client.Client, *nats.Conn, error) {
	name := "agent"
	if s.Project != embedded.DefaultProject || s.Agent != embedded.DefaultAgent {
		name = AgentContext(s.Project, s.Agent)
	}
	nc, err := a.Conn.Connect(name)
	if err != nil {
		return nil, nil, err
	}
	c, err := client.New(nc, s.Project, s.Agent)
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return c, nc, nil
}

// Content returns the argument, or standard input if the argument is "-" or missing.
func Content(cmd *cobra.Command, args []string) (string, error) {
	if len(args) == 1 && args[0] != "-" {
		return args[0], nil
	}
	b, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), streams.DefaultMaxEvent+1))
	return string(b), err
}

// Origin parses an origin.
func Origin(s string) (beliefs.Origin, error) {
	o := beliefs.Origin(s)
	if !o.Valid() {
		return "", fmt.Errorf("unknown origin %q: use one of %v", s, beliefs.Origins())
	}
	return o, nil
}
