package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"lazaret/internal/datafolder"
	"lazaret/internal/ingest"
	"lazaret/internal/natsserver"
	"lazaret/internal/query"
	"lazaret/internal/stage"
	"lazaret/internal/wire"
	"lazaret/pkg/keys"
	"lazaret/pkg/policy"
	"lazaret/pkg/rules"
	"lazaret/streams"

	shipped "lazaret/rules"
)

// activateFirst activates the shipped rules and policy if the installation has none.
func (p *Pipeline) activateFirst(ctx context.Context) error {
	nc, err := p.Server.Connect(natsserver.RoleOperator)
	if err != nil {
		return err
	}
	defer nc.Close()
	return p.unlessFailed(ctx, func(ctx context.Context) error {
		return activateFirst(ctx, nc, p.cfg, !p.cfg.ServerOnly)
	})
}

// unlessFailed calls f. It returns when f returns or a stage fails. If a stage has failed, it returns the error of the
// stage, not that of f.
func (p *Pipeline) unlessFailed(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	select {
	case err := <-done:
		if p.Err() != nil {
			return p.Err()
		}
		return err
	case <-p.failed:
		cancel()
		<-done
		return p.Err()
	}
}

// activateFirst activates keys, rules and policy in the partitions that never had any. If stages run, it waits until
// they are active.
func activateFirst(ctx context.Context, nc *nats.Conn, cfg Config, stages bool) error {
	missing, err := neverActivated(ctx, nc, stages)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		if err := activateShipped(ctx, nc, cfg, missing, stages); err != nil {
			return err
		}
		if !stages {
			return nil // no stage has written an entry yet, so the ledger may still be empty at the next start
		}
	}
	return os.WriteFile(activatedFile(cfg.Data), nil, 0o600)
}

// neverActivated returns, for each command that activates something, the partitions in which it never had an effect. If
// stages run, it asks ingest, whose state has all activations. Otherwise it looks only whether the ledger has an entry.
// If it has, everything counts as activated, because a ledger that was trimmed does not show what was activated before.
func neverActivated(ctx context.Context, nc *nats.Conn, stages bool) (map[string][]int, error) {
	js := wire.JetStream(nc)
	missing := make(map[string][]int)
	if !stages {
		last, err := stage.Tail(nc, nil)(ctx)
		if err != nil || last > 0 {
			return nil, err
		}
		for p := range streams.Partitions {
			for _, do := range []string{streams.DoActivateTrust, streams.DoActivateRules, streams.DoActivatePolicy} {
				missing[do] = append(missing[do], p)
			}
		}
		return missing, nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	// Ask about all partitions at once. If many messages wait, ingest seldom answers, but then it answers all requests
	// that wait.
	var active [streams.Partitions]ingest.ActiveAnswer
	var errs [streams.Partitions]error
	var wg sync.WaitGroup
	for p := range streams.Partitions {
		wg.Go(func() { active[p], errs[p] = askActive(ctx, nc, p) })
	}
	wg.Wait()
	for p, a := range active {
		if errs[p] != nil {
			return nil, fmt.Errorf("what is in force in partition %d: %w", p, errs[p])
		}
		for do, digest := range map[string]string{streams.DoActivateTrust: a.Trust, streams.DoActivateRules: a.Rules,
			streams.DoActivatePolicy: a.Policy} {
			if digest == "" {
				missing[do] = append(missing[do], p)
			}
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	trimmed, err := stage.Trimmed(ctx, js)
	if err == nil && trimmed > 0 {
		err = fmt.Errorf("the ledger was trimmed up to %d, so the keys, rules and policy that were active are "+
			"unknown: restore ingest's state from a snapshot (lazaret state restore ingest), or "+
			"activate them yourself", trimmed)
	}
	return missing, err
}

// activateShipped activates the first keys, rules and policy.
func activateShipped(ctx context.Context, nc *nats.Conn, cfg Config, missing map[string][]int, wait bool) error {
	signer, err := keys.LoadSigner(datafolder.OperatorKey(cfg.Data))
	if err != nil {
		return err
	}
	ruleBundle, policyText := cfg.Rules, cfg.Policy
	if ruleBundle == nil {
		if ruleBundle, err = rules.Pack(shipped.FS()); err != nil {
			return err
		}
	}
	if policyText == nil {
		policyText = policy.Default
	}
	// Check both here. Ingest would reject an invalid one too, but this process would not be told.
	if _, err := policy.Compile(policy.DefaultName, policyText); err != nil {
		return err
	}
	if _, err := rules.CompileBundle(ruleBundle); err != nil {
		return err
	}
	trustText, err := os.ReadFile(datafolder.TrustFile(cfg.Data))
	if err != nil {
		return err
	}
	for _, b := range []struct {
		do     string
		bundle []byte
	}{{streams.DoActivateTrust, trustText}, {streams.DoActivateRules, ruleBundle},
		{streams.DoActivatePolicy, policyText}} {
		if _, err := activateIn(ctx, nc, signer, b.do, b.bundle, missing[b.do], true); err != nil {
			return err
		}
	}
	if !wait {
		return nil
	}
	return awaitFirst(ctx, nc)
}

// AwaitShipped waits until the shipped rules and policy are active in every partition.
func AwaitShipped(ctx context.Context, nc *nats.Conn) error {
	b, err := rules.Pack(shipped.FS())
	if err != nil {
		return err
	}
	return AwaitActive(ctx, nc, streams.Digest(b), streams.Digest(policy.Default))
}

// AwaitActive waits until the rule set and the policy with these digests are active in every partition. An empty digest
// means any.
func AwaitActive(ctx context.Context, nc *nats.Conn, rules, policy string) error {
	return await(ctx, nc, ingest.ActiveAnswer{Rules: rules, Policy: policy})
}

// AwaitTrust waits until the trust file with this digest is active in every partition.
func AwaitTrust(ctx context.Context, nc *nats.Conn, trust string) error {
	return await(ctx, nc, ingest.ActiveAnswer{Trust: trust})
}

// startTime is the time limit for an activation at the start. On a busy machine, it takes long until every one of the
// sixteen partitions has compiled the rule set.
const startTime = 2 * time.Minute

// awaitFirst waits until some rule set and some policy are active in every partition. They need not be the shipped
// ones, because another operator may have activated others meanwhile.
func awaitFirst(ctx context.Context, nc *nats.Conn) error {
	return await(ctx, nc, ingest.ActiveAnswer{Rules: anyDigest, Policy: anyDigest})
}

// anyDigest matches any active digest.
const anyDigest = "any"

// askActive asks ingest which rules, policy and keys are active in a partition. Ingest may answer too late while many
// observations wait. So askActive asks again until ctx ends.
func askActive(ctx context.Context, nc *nats.Conn, p int) (a ingest.ActiveAnswer, err error) {
	for {
		one, cancel := context.WithTimeout(ctx, query.Timeout)
		err = query.Ask(one, nc, ingest.AskActive, p, struct{}{}, &a)
		cancel()
		if err == nil || ctx.Err() != nil || errors.Is(err, query.ErrNobody) {
			return a, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func await(ctx context.Context, nc *nats.Conn, want ingest.ActiveAnswer) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	is := func(want, have string) bool { return want == "" || want == have || want == anyDigest && have != "" }
	for p := range streams.Partitions {
		for {
			a, err := askActive(ctx, nc, p)
			if errors.Is(err, query.ErrNobody) {
				return err
			}
			if err == nil && is(want.Rules, a.Rules) && is(want.Policy, a.Policy) && is(want.Trust, a.Trust) {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("the rules, policy and keys are not in force yet: partition %d has rules %q, policy %q "+
					"and keys %q: %w", p, a.Rules, a.Policy, a.Trust, errors.Join(err, ctx.Err()))
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	return nil
}
