package natsserver_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"lazaret/internal/natstest"
)

// A client inside the server's process is refused. It must get the server's refusal, not an error of the pipe between
// the two.
func TestAClientInProcessLearnsThatItsCredentialIsRefused(t *testing.T) {
	data := t.TempDir()
	s := startServer(t, data)
	install(t, s.Minter(), bot("revoked", time.Hour))
	install(t, s.Minter(), bot("expired", 2*time.Second))
	install(t, s.Minter(), bot("good", time.Hour))
	if _, err := s.Minter().Revoke("acme.revoked", false); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"acme.revoked", "acme.expired"} {
		// A client may still be accepted before the server has reloaded the register, and in the second in which the
		// credential expires.
		natstest.Eventually(t, 10*time.Second, "refusal of "+name, func() bool {
			nc, err := s.Dial(name)
			if err == nil {
				nc.Close()
			}
			return errors.Is(err, nats.ErrAuthorization)
		})
		for range 20 {
			if _, err := s.Dial(name); !errors.Is(err, nats.ErrAuthorization) {
				t.Fatalf("%s: the refusal reaches the client as %v", name, err)
			}
		}
	}
	nc, err := s.Dial("acme.good")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	sub, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(nc.Flush(), nc.LastError()); err != nil || !sub.IsValid() ||
		!strings.HasPrefix(sub.Subject, "_INBOX.acme.good.") {
		t.Errorf("the good credential: %v, inbox %s", err, sub.Subject)
	}
}
