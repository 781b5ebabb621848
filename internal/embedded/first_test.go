package embedded

import (
	"context"
	"os"
	"testing"
	"time"

	"lazaret/internal/datafolder"
	"lazaret/internal/natsserver"
	"lazaret/internal/stage"
	"lazaret/pkg/keys"
	"lazaret/pkg/policy"
	"lazaret/pkg/rules"
	shipped "lazaret/rules"
	"lazaret/streams"
)

// The first start waits until its policy is active. Meanwhile another policy is activated. The first start must still
// complete.
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
	signer, err := keys.LoadSigner(datafolder.OperatorKey(data))
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

// The first start finds that no policy is active. Before it activates the shipped one, an operator activates another.
// The operator's policy must stay active.
func TestPromiseC23TheShippedPolicyReplacesNoOther(t *testing.T) {
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
	signer, err := keys.LoadSigner(datafolder.OperatorKey(data))
	if err != nil {
		t.Fatal(err)
	}
	own := append([]byte("# of our own\n"), policy.Default...)
	if err := Activate(t.Context(), nc, signer, streams.DoActivatePolicy, own); err != nil {
		t.Fatal(err)
	}
	late := make(map[string][]int)
	for _, do := range []string{streams.DoActivateTrust, streams.DoActivateRules, streams.DoActivatePolicy} {
		late[do] = stage.PartitionList(nil)
	}
	if err := activateShipped(t.Context(), nc, cfg, late, true); err != nil {
		t.Fatal(err)
	}
	// Rules that are activated now come after the policy in every partition. So when they are active, the policy has
	// been decided on.
	bundle, err := rules.Pack(shipped.FS())
	if err != nil {
		t.Fatal(err)
	}
	trust, err := os.ReadFile(datafolder.TrustFile(data))
	if err != nil {
		t.Fatal(err)
	}
	trust = append(trust, '\n')
	if err := Activate(t.Context(), nc, signer, streams.DoActivateTrust, trust); err != nil {
		t.Fatal(err)
	}
	if err := AwaitTrust(t.Context(), nc, streams.Digest(trust)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := AwaitActive(ctx, nc, streams.Digest(bundle), streams.Digest(own)); err != nil {
		t.Errorf("the shipped policy replaced another: %v", err)
	}
}

// A server without stages has an empty ledger until a daemon uses it. It must be able to stop and to start again.
func TestAServerStopsBeforeItsDaemonsRanAndStartsAgain(t *testing.T) {
	cfg := Config{Data: t.TempDir(), NoSync: true, ServerOnly: true}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for range 2 {
		p, err := Start(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		p.Close()
	}
	cfg.ServerOnly = false
	p, err := Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	nc, err := p.Server.Connect(natsserver.RoleOperator)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := AwaitActive(ctx, nc, "", streams.Digest(policy.Default)); err != nil {
		t.Fatal(err)
	}
}
