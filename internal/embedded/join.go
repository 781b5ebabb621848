package embedded

import (
	"context"
	"slices"

	"github.com/nats-io/nats.go"

	"lazaret/internal/datafolder"
	"lazaret/internal/natsconn"
	"lazaret/internal/natsserver"
)

// Join runs all stages in this process, and connects them to the server of another process. cfg.Data is a folder with
// copies of the keys and contexts in that server's data folder. The operator's context in it has the address of the
// server. Two processes may join the same server, one of them with Standby. The one with Standby takes over if the
// other makes no progress. Join is for tests of stages that decide jointly.
func Join(ctx context.Context, cfg Config) (_ *Pipeline, err error) {
	m, err := natsserver.OpenMinter(cfg.Data)
	if err != nil {
		return nil, err
	}
	url, err := natsserver.ContextURL(cfg.Data, string(natsserver.RoleOperator))
	if err != nil {
		return nil, err
	}
	run, cancel := context.WithCancel(context.Background())
	p := &Pipeline{cfg: cfg, cancel: cancel, failed: make(chan struct{}),
		open: func(r natsserver.Role) (*nats.Conn, error) {
			creds, err := m.Role(r)
			if err != nil {
				return nil, err
			}
			return nats.Connect(url, slices.Concat(natsconn.Daemon(cfg.Log), []nats.Option{nats.UserCredentialBytes(creds),
				nats.Name("lazaret " + string(r)), nats.CustomInboxPrefix(r.InboxPrefix())})...)
		}}
	trust, err := datafolder.Trust(cfg.Data)
	if err == nil {
		err = p.stages(ctx, run, trust)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}
