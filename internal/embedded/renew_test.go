package embedded_test

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
	"os"

	"lazaret/internal/embedded"
	"lazaret/internal/ingest"
	"lazaret/internal/natsconn"
	"lazaret/internal/natsserver"
	"lazaret/internal/natstest"
	"lazaret/internal/query"
)

// The credentials of this installation are valid for four seconds. The installation must work for several times as
// long. A client that reads its credential from a file must reconnect with the renewed one. Connections inside the
// process must not be interrupted.
func TestPromiseA12CredentialsAreRenewedBeforeTheyExpireWithoutAnOutage(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for credentials to expire: make ci runs it")
	}
	data := t.TempDir()
	const lasts = 8 * time.Second
	p, err := embedded.Start(t.Context(), embedded.Config{Data: data, Listen: "127.0.0.1:0", NoSync: true, Expires: lasts})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	f := natsconn.Flags{Data: data}
	nc, err := f.Connect("operator", natsconn.Daemon(slog.New(slog.NewTextHandler(io.Discard, nil)))...)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	expires := func(name string) time.Time {
		t.Helper()
		b, err := os.ReadFile(natsserver.CredsFile(data, name))
		if err != nil {
			t.Fatal(err)
		}
		token, err := nkeys.ParseDecoratedJWT(b)
		if err != nil {
			t.Fatal(err)
		}
		c, err := jwt.DecodeUserClaims(token)
		if err != nil {
			t.Fatal(err)
		}
		return time.Unix(c.Expires, 0)
	}
	first := expires("operator")
	asked := 0
	natstest.Eventually(t, time.Minute, "three lives of a credential", func() bool {
		for _, name := range []string{"operator", "ingest", "agent"} {
			if now := time.Now(); expires(name).Before(now) {
				t.Fatalf("the credential %s has expired at %v and was not renewed", name, expires(name))
			}
		}
		if nc.IsClosed() {
			t.Fatal("the connection was closed for good:", nc.LastError())
		}
		var ans ingest.ActiveAnswer
		if err := query.Ask(t.Context(), nc, ingest.AskActive, 0, struct{}{}, &ans); err == nil {
			asked++
		}
		time.Sleep(20 * time.Millisecond) // the pace of a client
		return nc.Stats().Reconnects >= 3 && time.Since(first) > 2*lasts
	})
	if asked == 0 {
		t.Error("nothing was answered")
	}
	t.Logf("%d reconnects, %d answers", nc.Stats().Reconnects, asked)
}
