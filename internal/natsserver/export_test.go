package natsserver

import "github.com/nats-io/nats-server/v2/server"

// Varz is what the server says of itself.
func (s *Server) Varz() (*server.Varz, error) { return s.current().Varz(nil) }
