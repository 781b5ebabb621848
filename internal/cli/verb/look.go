package verb

import (
	"context"
	"fmt"
	"os/user"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"lazaret/internal/wire"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// person returns the operating system's user name, for the log.
func person() string {
	u, err := user.Current()
	if err != nil {
		return "unknown"
	}
	return u.Username
}

// Looked records in the ledger that a command prints texts of a project with a sensitivity above internal. what says
// which texts, and most is the highest sensitivity that the command prints. If most is internal or lower, Looked
// records nothing.
func (a *App) Looked(ctx context.Context, project, command, what string, most beliefs.Sensitivity) error {
	if most.Within(beliefs.Internal) {
		return nil
	}
	l := &streams.Look{By: person(), Page: command, Path: streams.Clip(what, streams.MaxLookText-4), Ceiling: most}
	body, err := streams.Marshal(streams.Control{ID: nuid.Next(), Project: project, Look: l})
	if err != nil {
		return err
	}
	err = a.Operator(ctx, func(ctx context.Context, nc *nats.Conn) error {
		_, err := wire.JetStream(nc).Publish(ctx, streams.ControlSubject(streams.PartitionOf(project)), body)
		return err
	})
	if err != nil {
		return fmt.Errorf("texts above %s are not shown, because the ledger cannot record that you read them: %w: start "+
			"the pipeline, or leave out --ceiling %s", beliefs.Internal, err, most)
	}
	return nil
}
