package auditor

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"lazaret/pkg/chain"
	"lazaret/pkg/chain/witness"
)

// cosigner asks witnesses to cosign the log's last checkpoint. It runs in its own goroutine, so the
// auditor does not wait for it.
type cosigner struct {
	file string
	log  *chain.Log
	out  *slog.Logger
	wake chan struct{}
	ask  chan chan struct{} // each channel is closed when the last checkpoint was submitted

	// The cosigner's goroutine owns these fields.
	client  witness.Client
	policy  *witness.Policy
	changed time.Time
	failed  string // the last logged error
	since   int64  // time of the first failure in Unix nanoseconds, or 0 after a success
	report  func(since int64)
}

// witnessRetry is the time until the auditor asks a failed witness again or looks for a missing
// policy again.
const witnessRetry = 5 * time.Second

func newCosigner(file string, log *chain.Log, out *slog.Logger, report func(since int64)) *cosigner {
	return &cosigner{file: file, log: log, out: out, wake: make(chan struct{}, 1), ask: make(chan chan struct{}),
		report: report}
}

// submit asks for the last checkpoint to be cosigned soon, and returns at once.
func (c *cosigner) submit() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// wait returns when the witnesses were asked to cosign the last checkpoint, or when ctx ends.
func (c *cosigner) wait(ctx context.Context) {
	done := make(chan struct{})
	select {
	case c.ask <- done:
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// start runs the cosigner until the returned function is called.
func (c *cosigner) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(witnessRetry)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.wake:
			case <-tick.C:
			case done := <-c.ask:
				c.cosign(ctx)
				close(done)
				continue
			}
			c.cosign(ctx)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// load reads the policy if it has changed.
func (c *cosigner) load() error {
	info, err := os.Stat(c.file)
	if errors.Is(err, fs.ErrNotExist) {
		c.policy = nil
		return nil
	}
	if err != nil {
		return err
	}
	if c.policy != nil && info.ModTime().Equal(c.changed) {
		return nil
	}
	b, err := os.ReadFile(c.file)
	if err != nil {
		return err
	}
	p, err := witness.ParsePolicy(b)
	if err != nil {
		return err
	}
	c.policy, c.changed = p, info.ModTime()
	return nil
}

func (c *cosigner) cosign(ctx context.Context) {
	err := c.load()
	cp := c.log.Head().Checkpoint
	if err == nil && c.policy != nil && cp != nil && len(c.policy.Cosigned(cp)) < len(c.policy.Witnesses) {
		var signed []byte
		if signed, err = c.client.Cosign(ctx, c.policy, c.log, cp); len(signed) > len(cp) {
			err = errors.Join(err, c.log.Cosigned(signed))
		}
	}
	if ctx.Err() != nil {
		return
	}
	// Log an error once, not at every retry.
	text := ""
	switch {
	case err == nil:
		c.since = 0
	case c.since == 0:
		c.since = time.Now().UnixNano()
	}
	if err != nil {
		if text = err.Error(); text != c.failed {
			c.out.Error("witnesses did not cosign", "err", err)
		}
	}
	c.failed = text
	c.report(c.since)
}
