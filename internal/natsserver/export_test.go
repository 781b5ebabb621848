package natsserver

import (
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Varz returns the server's monitoring data.
func (s *Server) Varz() (*server.Varz, error) { return s.current().Varz(nil) }

// Data returns the data folder.
func (s *Server) Data() string { return s.cfg.Data }

// WithSyncInterval sets how often nats-server compacts blocks.
func (c Config) WithSyncInterval(d time.Duration) Config {
	c.syncInterval = d
	return c
}
