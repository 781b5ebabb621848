package embedded

import (
	"context"
	"testing"
	"time"

	"lazaret/internal/natsserver"
	"lazaret/pkg/keys"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// A policy that somebody activates while the first start waits for its own does not make the start wait in vain.
func TestPromiseC23APolicyActivatedDuringTheFirstStartDoesNotEndIt(t *testing.T) {
	data := t.TempDir()
	cfg := Config{Data: data, NoSync: true}
	p, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	nc, err := p.Server.Connect(natsserver.RoleOperator)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	signer, err := keys.LoadSigner(OperatorKey(data))
	if err != nil {
		t.Fatal(err)
	}
	text := append([]byte("# of our own\n"), policy.Default...)
	if err := Activate(t.Context(), nc, signer, streams.DoActivatePolicy, text); err != nil {
		t.Fatal(err)
	}
	if err := AwaitActive(t.Context(), nc, "", streams.Digest(text)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := awaitFirst(ctx, nc); err != nil {
		t.Fatal(err)
	}
}
