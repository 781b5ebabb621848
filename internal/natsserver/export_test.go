package natsserver

import "github.com/nats-io/nats-server/v2/server"

// Varz returns the server's monitoring data.
func (s *Server) Varz() (*server.Varz, error) { return s.current().Varz(nil) }
