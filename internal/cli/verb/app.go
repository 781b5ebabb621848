package verb

import (
	"context"

	"github.com/nats-io/nats.go"

	"lazaret/internal/natsconn"
)

// Timeout returns a context that ends after the duration of --timeout.
func (a *App) Timeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, a.Conn.Timeout)
}

// App holds the state that all commands share.
type App struct {
	Conn natsconn.Flags
}

// Operator calls f with an operator's connection and a context that ends after --timeout.
func (a *App) Operator(ctx context.Context, f func(ctx context.Context, nc *nats.Conn) error) error {
	nc, err := a.Conn.Connect("operator")
	if err != nil {
		return err
	}
	defer nc.Close()
	ctx, cancel := a.Timeout(ctx)
	defer cancel()
	return f(ctx, nc)
}
