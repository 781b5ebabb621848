package embedded

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/datafolder"
	"lazaret/internal/natsserver"
	"lazaret/internal/wire"
	"lazaret/streams"

	shipped "lazaret/rules"
)

// Init prepares a separately run server, whose configuration natsserver.WriteConfig has written with the same data
// folder. It creates the streams, keys and credentials, and activates the first rules and policy. url is the address of
// the server for daemons. It may be several addresses, separated by commas. Init uses the fields Data, Groups, Policy,
// Rules and Storage of cfg.
//
// Init can be run again. It leaves existing streams and keys unchanged, and renews a credential if half of its validity
// is over.
func Init(ctx context.Context, cfg Config, url string) error {
	m, err := natsserver.OpenMinter(cfg.Data)
	if err != nil {
		return err
	}
	connect := func(r natsserver.Role) (*nats.Conn, error) { return connectRole(m, url, r) }
	nc, err := connect(natsserver.RoleSetup)
	if err != nil {
		return err
	}
	defer nc.Close()
	js := wire.JetStream(nc)
	if err := awaitLeader(ctx, js); err != nil {
		return err
	}
	if begun(cfg.Data) {
		// The streams were created before. If one is missing now, it must not be replaced by an empty one.
		if err := wire.Check(ctx, js); err != nil {
			return fmt.Errorf("the streams of this installation are missing or different: %w", err)
		}
	} else if err := wire.Ensure(ctx, js, cfg.Storage); err != nil {
		return err
	}
	if _, err := datafolder.Trust(cfg.Data); err != nil {
		return err
	}
	if _, err := datafolder.MasterKey(cfg.Data); err != nil {
		return err
	}
	if err := datafolder.MakeStateKey(cfg.Data); err != nil {
		return err
	}
	groups := cfg.Groups
	if groups == nil {
		groups = shipped.Groups()
	}
	if err := installCredentials(m, url, groups, natsserver.InitExpires); err != nil {
		return err
	}
	op, err := connect(natsserver.RoleOperator)
	if err != nil {
		return err
	}
	defer op.Close()
	return errors.Join(activateFirst(ctx, op, cfg, false), op.FlushWithContext(ctx))
}

// ConnectRole connects to a separately run server with a new credential for a role. It needs the signing key in the
// data folder.
func ConnectRole(data, url string, r natsserver.Role) (*nats.Conn, error) {
	m, err := natsserver.OpenMinter(data)
	if err != nil {
		return nil, err
	}
	return connectRole(m, url, r)
}

func connectRole(m *natsserver.Minter, url string, r natsserver.Role) (*nats.Conn, error) {
	creds, err := m.Role(r)
	if err != nil {
		return nil, err
	}
	nc, err := nats.Connect(url, nats.Name("lazaret "+string(r)), nats.UserCredentialBytes(creds),
		nats.CustomInboxPrefix(r.InboxPrefix()))
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w: does the server use the configuration of this data folder?",
			url, err)
	}
	return nc, nil
}

// awaitLeader waits until JetStream answers. A cluster does not answer when it was just started or when it has no
// majority.
func awaitLeader(ctx context.Context, js jetstream.JetStream) error {
	var last error
	for {
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, err := js.Stream(try, streams.LedgerStream)
		cancel()
		if err == nil || errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("JetStream does not answer: %w: does the cluster have a majority of its servers?", last)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
